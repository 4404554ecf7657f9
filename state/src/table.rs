//! A hash table addressed by the stored [hash](crate::hash()): one worker's rows of one keyed
//! table.
//!
//! The later, paged table replaces the inside of this file; nothing of it is public.
//!
//! # Invariants
//!
//! * **T1**: the same operations in the same order give the same order of rows: no other hash and
//!   no random state takes part.
//! * **T2**: every bucket below `first` is empty, so that asking for any key again and again, and
//!   removing it each time, reads the table once.

use hashbrown::HashTable;

use crate::data::Key;
use crate::hash::hash;

/// The table proper. Its hash is the stored one, turned by half: the upper bits, which are equal in
/// all rows of a worker, would make poor tags.
pub(crate) struct Table<K, V> {
    rows: HashTable<(K, V)>,
    first: usize,
}

/// How many records [`Table::update_each`] looks ahead.
const AHEAD: usize = 16;

/// A table up to this size is in a cache anyway, and looking ahead costs more than it gives.
const CACHED_BYTES: usize = 1 << 20;

impl<K: Key, V> Table<K, V> {
    pub(crate) fn new() -> Table<K, V> {
        Table { rows: HashTable::new(), first: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of memory of the rows and of what finds them.
    pub(crate) fn allocation_size(&self) -> usize {
        self.rows.allocation_size()
    }

    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.find(address(key), |row| row.0 == *key).map(|row| &row.1)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.rows.find_mut(address(key), |row| row.0 == *key).map(|row| &mut row.1)
    }

    /// The value of a key; a key that is not there gets the default.
    #[inline]
    pub(crate) fn get_or_default(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        self.at_or_default(address(key), key)
    }

    #[inline]
    fn at_or_default(&mut self, address: u64, key: &K) -> &mut V
    where
        V: Default,
    {
        let index = match self.rows.find_bucket_index(address, |row| row.0 == *key) {
            Some(index) => index,
            None => self.insert_new(address, key.clone(), V::default()),
        };
        // SAFETY: the row was found or inserted there just now.
        unsafe { &mut self.rows.get_bucket_unchecked_mut(index).1 }
    }

    /// Sets the value of a key, and gives the one it had.
    pub(crate) fn insert(&mut self, key: &K, value: V) -> Option<V> {
        match self.get_mut(key) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.insert_new(address(key), key.clone(), value);
                None
            }
        }
    }

    /// Inserts a key that is not there, and tells its bucket.
    #[cold]
    fn insert_new(&mut self, at: u64, key: K, value: V) -> usize {
        // T2: a full table is rebuilt by the insertion, and rows move.
        if self.rows.len() == self.rows.capacity() {
            self.first = 0;
        }
        let index = self.rows.insert_unique(at, (key, value), |row| address(&row.0)).bucket_index();
        self.first = self.first.min(index);
        index
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.rows.find_entry(address(key), |row| row.0 == *key).ok()?;
        Some(entry.remove().0.1)
    }

    /// A key, if there is one: the first in the order of the buckets (T1).
    pub(crate) fn any_key(&mut self) -> Option<&K> {
        if self.rows.is_empty() {
            return None;
        }
        while self.rows.get_bucket(self.first).is_none() {
            self.first += 1;
        }
        self.rows.get_bucket(self.first).map(|row| &row.0)
    }

    /// A copy of all rows, as columns: a column of plain values is then written as it lies there.
    pub(crate) fn columns(&self) -> (Vec<K>, Vec<V>)
    where
        V: Clone,
    {
        let mut columns = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        for (key, value) in &self.rows {
            columns.0.push(key.clone());
            columns.1.push(value.clone());
        }
        columns
    }

    /// Updates the value of each record's key, in order. A table that is larger than the caches is
    /// touched ahead, so that the misses of many records overlap.
    #[inline]
    pub(crate) fn update_each<R>(
        &mut self,
        records: &[R],
        key: impl Fn(&R) -> K,
        mut update: impl FnMut(&K, &mut V, &R),
    ) where
        V: Default,
    {
        if self.rows.allocation_size() <= CACHED_BYTES {
            for record in records {
                let key = key(record);
                update(&key, self.get_or_default(&key), record);
            }
            return;
        }
        let shape = Shape::of(&self.rows);
        let mut ahead = [0; AHEAD];
        for (i, record) in records.iter().take(AHEAD).enumerate() {
            ahead[i] = address(&key(record));
            shape.prefetch(ahead[i]);
        }
        for (i, record) in records.iter().enumerate() {
            let at = ahead[i % AHEAD];
            if let Some(later) = records.get(i + AHEAD) {
                ahead[i % AHEAD] = address(&key(later));
                shape.prefetch(ahead[i % AHEAD]);
            }
            let key = key(record);
            update(&key, self.at_or_default(at, &key), record);
        }
    }
}

/// Where a table would look for a key.
#[inline]
fn address<K: Key>(key: &K) -> u64 {
    hash(key).rotate_left(32)
}

/// Where the buckets of a table lie, as far as a hint needs to know: hashbrown keeps row *i* just
/// before row *i-1*, and all of them before the tags. Were that to change, or the table to grow
/// meanwhile, only time would be lost.
struct Shape<T> {
    tags: *const u8,
    mask: usize,
    rows: std::marker::PhantomData<T>,
}

impl<T> Shape<T> {
    fn of(rows: &HashTable<T>) -> Shape<T> {
        let first = rows.iter_buckets().next();
        let tags = first.and_then(|bucket| {
            let row: *const T = rows.get_bucket(bucket)?;
            Some(row.wrapping_add(bucket + 1).cast())
        });
        Shape {
            tags: tags.unwrap_or(std::ptr::null()),
            mask: rows.num_buckets().wrapping_sub(1),
            rows: std::marker::PhantomData,
        }
    }

    /// Asks for the tags of an address, and for the lines in which its row probably lies.
    #[inline]
    fn prefetch(&self, address: u64) {
        let bucket = address as usize & self.mask;
        let row = self.tags.cast::<T>().wrapping_sub(bucket + 1);
        prefetch(self.tags.wrapping_add(bucket));
        prefetch(row.cast());
        prefetch(row.wrapping_sub(3).cast());
    }
}

#[inline]
fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and faults on no address; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u32),
        Remove(u16),
        UpdateEach(Vec<u16>),
        TakeAny,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0u16..300, any::<u32>()).prop_map(|(k, v)| Step::Insert(k, v)),
            2 => (0u16..300).prop_map(Step::Remove),
            1 => prop::collection::vec(0u16..300, 0..50).prop_map(Step::UpdateEach),
            2 => Just(Step::TakeAny),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn a_table_is_a_map_and_t1_its_order_is_that_of_the_operations(steps in steps()) {
            let (mut table, mut twin) = (Table::new(), Table::new());
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        prop_assert_eq!(table.insert(&key, value), model.insert(key, value));
                        twin.insert(&key, value);
                    }
                    Step::Remove(key) => {
                        prop_assert_eq!(table.remove(&key), model.remove(&key));
                        twin.remove(&key);
                    }
                    Step::UpdateEach(keys) => {
                        let add = |key: &u16, sum: &mut u32, _: &u16| {
                            *sum = sum.wrapping_mul(3).wrapping_add(u32::from(*key));
                        };
                        table.update_each(&keys, |key| *key, add);
                        twin.update_each(&keys, |key| *key, add);
                        for key in keys {
                            add(&key, model.entry(key).or_default(), &key);
                        }
                    }
                    Step::TakeAny => {
                        let key = table.any_key().copied();
                        prop_assert_eq!(key, twin.any_key().copied());
                        prop_assert_eq!(key.is_none(), model.is_empty());
                        if let Some(key) = key {
                            prop_assert_eq!(table.remove(&key), model.remove(&key));
                            twin.remove(&key);
                        }
                    }
                }
                // T2
                prop_assert!((0..table.first).all(|b| table.rows.get_bucket(b).is_none()));
            }
            prop_assert_eq!(table.len(), model.len());
            prop_assert_eq!(table.columns(), twin.columns());
            let (keys, values) = table.columns();
            prop_assert_eq!(keys.into_iter().zip(values).collect::<BTreeMap<_, _>>(), model);
        }
    }

    #[test]
    fn a_table_larger_than_the_caches_counts_right_while_it_grows() {
        let (mut table, mut model) = (Table::<u64, u64>::new(), BTreeMap::new());
        let records: Vec<u64> = (0..400_000u64).map(|i| i * i % 150_001).collect();
        for batch in records.chunks(2048) {
            table.update_each(batch, |record| *record, |_, count, _| *count += 1);
        }
        assert!(table.rows.allocation_size() > CACHED_BYTES, "looking ahead was tried");
        for record in records {
            *model.entry(record).or_insert(0) += 1;
        }
        let (keys, values) = table.columns();
        assert_eq!(keys.into_iter().zip(values).collect::<BTreeMap<_, _>>(), model);
    }
}
