//! One value per key.

use std::rc::Rc;

use super::Shared;
use crate::data::{Data, Key};

/// A keyed table with one value per key.
///
/// ```
/// use overtake_state::{RestoreError, States, Value};
///
/// let mut states = States::new("departures", 0, 1, None);
/// let flights: Value<u64, u32> = states.value("flights")?;
/// flights.update(&7, |count| *count += 1);
/// flights.update_each(&[7, 8], |carrier| *carrier, |_, count, _| *count += 1);
/// assert_eq!(flights.get(&7), Some(2));
/// assert_eq!(flights.get(&9), None);
/// # Ok::<(), RestoreError>(())
/// ```
pub struct Value<K, V>(pub(crate) Shared<K, V>);

impl<K: Key, V: Data> Value<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<V> {
        self.0.borrow().get(key).cloned()
    }

    /// Shows the value of a key.
    pub fn with<T>(&self, key: &K, show: impl FnOnce(Option<&V>) -> T) -> T {
        show(self.0.borrow().get(key))
    }

    /// Changes the value of a key, which is the default if it had none.
    #[inline]
    pub fn update<T>(&self, key: &K, change: impl FnOnce(&mut V) -> T) -> T
    where
        V: Default,
    {
        change(self.0.borrow_mut().get_or_default(key))
    }

    /// Changes the value of the key of each record, in order: the fastest path for a batch.
    #[inline]
    pub fn update_each<R>(
        &self,
        records: &[R],
        key: impl Fn(&R) -> K,
        change: impl FnMut(&K, &mut V, &R),
    ) where
        V: Default,
    {
        self.0.borrow_mut().update_each(records, key, change);
    }

    /// Sets the value of a key, and gives the one it had.
    pub fn set(&self, key: &K, value: V) -> Option<V> {
        self.0.borrow_mut().insert(key, value)
    }

    /// Removes a key, and gives its value.
    pub fn remove(&self, key: &K) -> Option<V> {
        self.0.borrow_mut().remove(key)
    }

    /// How many keys there are on this worker.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Is there no key on this worker?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, V> Clone for Value<K, V> {
    fn clone(&self) -> Self {
        Value(Rc::clone(&self.0))
    }
}
