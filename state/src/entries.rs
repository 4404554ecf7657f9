//! Operator state: named entries, each owned by one worker.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{Data, Layout, decode, encode, layout};
use crate::error::{Damage, RestoreError};

/// The entries of one operator's table on one worker, in the order of their ids. Clones are the
/// same table.
///
/// ```
/// use overtake_state::{Entries, RestoreError, States};
///
/// let mut states = States::new("flights", 0, 1, None);
/// let positions: Entries = states.entries("positions")?;
/// positions.set("flights.csv", &1024u64);
/// assert_eq!(positions.get::<u64>("flights.csv")?, Some(1024));
/// assert_eq!(positions.get::<u64>("trains.csv")?, None);
/// assert!(positions.get::<String>("flights.csv").is_err());
/// # Ok::<(), RestoreError>(())
/// ```
#[derive(Clone)]
pub struct Entries {
    operator: String,
    table: String,
    pub(crate) rows: Rc<RefCell<Rows>>,
}

/// Entries by their ids, and how many bytes both are: asked after every pass of a task.
#[derive(Default)]
pub(crate) struct Rows {
    by_id: BTreeMap<String, Entry>,
    bytes: usize,
}

impl Rows {
    pub(crate) fn insert(&mut self, id: String, entry: Entry) {
        self.remove(&id);
        self.bytes += id.len() + entry.bytes.len();
        self.by_id.insert(id, entry);
    }

    fn remove(&mut self, id: &str) -> bool {
        let removed = self.by_id.remove_entry(id);
        self.bytes -= removed.as_ref().map_or(0, |(id, entry)| id.len() + entry.bytes.len());
        removed.is_some()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A copy of all, in the order of their ids.
    pub(crate) fn to_vec(&self) -> Vec<(String, Entry)> {
        self.by_id.iter().map(|(id, entry)| (id.clone(), entry.clone())).collect()
    }
}

/// What is stored of an entry, beside its id.
#[derive(Clone, Archive, Serialize, Deserialize)]
pub(crate) struct Entry {
    layout: Layout,
    bytes: Vec<u8>,
}

impl Entries {
    pub(crate) fn new(operator: &str, table: &str) -> Entries {
        Entries { operator: operator.into(), table: table.into(), rows: Rc::default() }
    }

    /// The entry of an id.
    ///
    /// # Errors
    ///
    /// If it is of another type.
    pub fn get<T: Data>(&self, id: &str) -> Result<Option<T>, RestoreError> {
        let rows = self.rows.borrow();
        let Some(entry) = rows.by_id.get(id) else { return Ok(None) };
        let declared = layout::<T>();
        if entry.layout != declared {
            return Err(RestoreError::TypeChanged {
                operator: self.operator.clone(),
                table: self.table.clone(),
                part: "entry",
                stored: Box::new(entry.layout.clone()),
                declared: Box::new(declared),
            });
        }
        let malformed = |why: crate::Malformed| Damage::Malformed {
            file: format!("{}: {}: {id}", self.operator, self.table),
            why: why.to_string(),
        };
        Ok(Some(decode(&entry.bytes).map_err(malformed)?))
    }

    /// Sets the entry of an id.
    pub fn set<T: Data>(&self, id: &str, value: &T) {
        let mut rows = self.rows.borrow_mut();
        let rows = &mut *rows;
        if let Some(entry) = rows.by_id.get_mut(id) {
            rows.bytes -= entry.bytes.len();
            entry.bytes.clear();
            encode(value, &mut entry.bytes);
            rows.bytes += entry.bytes.len();
            entry.layout = layout::<T>();
        } else {
            let mut bytes = vec![];
            encode(value, &mut bytes);
            rows.insert(id.into(), Entry { layout: layout::<T>(), bytes });
        }
    }

    /// Removes the entry of an id; tells whether there was one.
    pub fn remove(&self, id: &str) -> bool {
        self.rows.borrow_mut().remove(id)
    }

    /// The ids on this worker, in their order.
    pub fn ids(&self) -> Vec<String> {
        self.rows.borrow().by_id.keys().cloned().collect()
    }
}
