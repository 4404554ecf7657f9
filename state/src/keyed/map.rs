//! An ordered map per key.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Shared;
use crate::data::{Data, Key};

/// A keyed table with a map per key, in the order of the map's own keys. A key whose map becomes
/// empty is gone.
///
/// ```
/// use overtake_state::{Map, RestoreError, States};
///
/// let mut states = States::new("fares", 0, 1, None);
/// let fares: Map<u64, u32, i64> = states.map("by class")?;
/// fares.insert(&7, 2, 120);
/// fares.insert(&7, 1, 480);
/// let mut seen = vec![];
/// fares.for_each(&7, |class, cents| seen.push((*class, *cents)));
/// assert_eq!(seen, [(1, 480), (2, 120)]);
/// # Ok::<(), RestoreError>(())
/// ```
pub struct Map<K, M, V>(pub(crate) Shared<K, BTreeMap<M, V>>);

impl<K: Key, M: Key + Ord, V: Data> Map<K, M, V> {
    /// A value in the map of a key.
    pub fn get(&self, key: &K, entry: &M) -> Option<V> {
        self.0.borrow().get(key)?.get(entry).cloned()
    }

    /// Sets a value in the map of a key, and gives the one that was there.
    pub fn insert(&self, key: &K, entry: M, value: V) -> Option<V> {
        self.0.borrow_mut().get_or_default(key).insert(entry, value)
    }

    /// Removes a value from the map of a key.
    pub fn remove(&self, key: &K, entry: &M) -> Option<V> {
        let mut table = self.0.borrow_mut();
        let map = table.get_mut(key)?;
        let old = map.remove(entry);
        if map.is_empty() {
            table.remove(key);
        }
        old
    }

    /// Shows the map of a key, entry by entry, in order.
    pub fn for_each(&self, key: &K, mut show: impl FnMut(&M, &V)) {
        for (entry, value) in self.0.borrow().get(key).into_iter().flatten() {
            show(entry, value);
        }
    }

    /// Has the map of a key this entry?
    pub fn contains(&self, key: &K, entry: &M) -> bool {
        self.0.borrow().get(key).is_some_and(|map| map.contains_key(entry))
    }

    /// How many keys have a map on this worker.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Has no key a map on this worker?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, M, V> Clone for Map<K, M, V> {
    fn clone(&self) -> Self {
        Map(Rc::clone(&self.0))
    }
}
