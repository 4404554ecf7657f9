//! The state of a broadcast input: a table of which every worker has a copy, written by each from
//! the same records.

use std::rc::Rc;

use crate::data::{Data, Key};
use crate::keyed::Shared;

/// A table of which every worker has a copy. Clones are the same table.
///
/// ```
/// use overtake_state::{Broadcast, RestoreError, States};
///
/// let mut states = States::new("seats", 0, 4, None);
/// let planes: Broadcast<String, u16> = states.broadcast("planes")?;
/// planes.insert(&"N14228".into(), 149);
/// assert_eq!(planes.get(&"N14228".into()), Some(149));
/// # Ok::<(), RestoreError>(())
/// ```
pub struct Broadcast<K, V>(pub(crate) Shared<K, V>);

impl<K: Key, V: Data> Broadcast<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<V> {
        self.0.borrow().get(key).cloned()
    }

    /// Shows the value of a key.
    pub fn with<T>(&self, key: &K, show: impl FnOnce(Option<&V>) -> T) -> T {
        show(self.0.borrow().get(key))
    }

    /// Sets the value of a key, and gives the one it had.
    pub fn insert(&self, key: &K, value: V) -> Option<V> {
        self.0.borrow_mut().insert(key, value)
    }

    /// Removes a key, and gives its value.
    pub fn remove(&self, key: &K) -> Option<V> {
        self.0.borrow_mut().remove(key)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Is there no key?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, V> Clone for Broadcast<K, V> {
    fn clone(&self) -> Self {
        Broadcast(Rc::clone(&self.0))
    }
}
