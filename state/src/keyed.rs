//! Keyed tables, as operators read and write them: a [`Value`], a [`List`] or a [`Map`] per key.
//!
//! A handle is cheap to clone, and all clones mean the same table of one task on one worker. What a
//! closure is given is borrowed from the table: calling the same table from within it panics.
//!
//! Made by [`States`](crate::States), which also freezes and restores them.

mod list;
mod map;
mod value;

use std::cell::RefCell;
use std::rc::Rc;

pub use list::List;
pub use map::Map;
pub use value::Value;

use crate::table::Table;

/// A table that its handles and the registry of its task share.
pub(crate) type Shared<K, V> = Rc<RefCell<Table<K, V>>>;
