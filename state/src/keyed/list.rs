//! A list per key: records that wait, in order.

use std::collections::VecDeque;
use std::rc::Rc;

use super::Shared;
use crate::data::{Data, Key};

/// A keyed table with a list per key. A key whose list becomes empty is gone.
///
/// ```
/// use overtake_state::{List, RestoreError, States};
///
/// let mut states = States::new("seats", 0, 1, None);
/// let held: List<u64, String> = states.list("held")?;
/// held.push(&7, "first".into());
/// held.push(&7, "second".into());
/// assert_eq!(held.pop_front(&7), Some("first".into()));
/// while let Some(key) = held.any_key() {
///     assert_eq!(held.take(&key), ["second"]);
/// }
/// assert!(held.is_empty());
/// # Ok::<(), RestoreError>(())
/// ```
pub struct List<K, V>(pub(crate) Shared<K, VecDeque<V>>);

impl<K: Key, V: Data> List<K, V> {
    /// Appends to the list of a key.
    pub fn push(&self, key: &K, value: V) {
        self.0.borrow_mut().get_or_default(key).push_back(value);
    }

    /// Takes the first of the list of a key.
    pub fn pop_front(&self, key: &K) -> Option<V> {
        let mut table = self.0.borrow_mut();
        let list = table.get_mut(key)?;
        let first = list.pop_front();
        if list.is_empty() {
            table.remove(key);
        }
        first
    }

    /// Shows the list of a key; that of a key that is not there is empty.
    pub fn with<T>(&self, key: &K, show: impl FnOnce(&VecDeque<V>) -> T) -> T {
        show(self.0.borrow().get(key).unwrap_or(&VecDeque::new()))
    }

    /// Takes the whole list of a key.
    pub fn take(&self, key: &K) -> VecDeque<V> {
        self.0.borrow_mut().remove(key).unwrap_or_default()
    }

    /// Has a key a list?
    pub fn contains(&self, key: &K) -> bool {
        self.0.borrow().get(key).is_some()
    }

    /// A key that has a list. Which one is determined by what was done to the table before; asking
    /// for one after another and taking it reads the table once.
    pub fn any_key(&self) -> Option<K> {
        self.0.borrow_mut().any_key().cloned()
    }

    /// How many keys have a list on this worker.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Has no key a list on this worker?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, V> Clone for List<K, V> {
    fn clone(&self) -> Self {
        List(Rc::clone(&self.0))
    }
}
