//! `ring_limit` at its best: unchecked writes into the open batches, records read in place,
//! partition by range.
//!
//! # Invariants
//!
//! * **T1**: an open batch has a capacity of at least `batch` and, between two records, fewer than
//!   `batch` records.

use hashbrown::HashMap;

use super::mesh::{self, Batch, Ends};
use super::switch::Switch;
use super::{ROUNDS, WORKERS, Yardstick};

/// Starts it, paused, with keys below `keys` and batches of `batch` records.
pub fn start(keys: u64, batch: usize) -> Yardstick {
    assert!(batch > 0, "a batch of no records");
    // The compiler shall not know the number of workers, as it does not in the engine.
    let workers = std::hint::black_box(WORKERS);
    mesh::start(move |worker, ends, switch| work(keys, batch, workers, worker, ends, switch))
}

#[inline]
fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[inline]
fn target(hash: u64, workers: usize) -> usize {
    ((u128::from(hash) * workers as u128) >> 64) as usize
}

fn work(keys: u64, batch: usize, workers: usize, worker: usize, mut ends: Ends, switch: Switch) {
    let mut sums: HashMap<u64, u64, foldhash::fast::FixedState> = HashMap::default();
    let mut x = worker as u64 * 7919 + 1;
    let mut total = 0;
    let mut open: Vec<Batch> = (0..workers).map(|_| Vec::with_capacity(batch)).collect();
    let mut updates = Vec::with_capacity(batch);
    while switch.goes_on() {
        for _ in 0..ROUNDS {
            // The source makes nothing while a ring is nearly full.
            if ends.send.iter().all(|ring| ring.slots() >= 4) {
                for _ in 0..batch {
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                    let key = x % keys;
                    let target = target(hash(key), workers);
                    let records = &mut open[target];
                    let len = records.len();
                    // SAFETY: by T1 there is room for one more record, and it is written before the
                    // length says so.
                    unsafe {
                        records.as_mut_ptr().add(len).write((key, 1));
                        records.set_len(len + 1);
                    }
                    if records.len() == batch {
                        let spare = ends.spares[target].pop();
                        let spare = spare.unwrap_or_else(|_| Vec::with_capacity(batch));
                        let full = std::mem::replace(records, spare);
                        ends.send[target].push(full).expect("the ring had four slots");
                    }
                }
            }
            for sender in 0..workers {
                while let Ok(mut records) = ends.receive[sender].pop() {
                    for &(key, value) in &records {
                        let sum = sums.entry(key).or_insert(0);
                        *sum += value;
                        updates.push((key, *sum));
                    }
                    total += updates.len() as u64;
                    updates.clear();
                    // T1: only batches that were full, and so have the capacity, come back, and
                    // come back empty.
                    records.clear();
                    let _ = ends.give_back[sender].push(records);
                }
            }
        }
        switch.count(worker, total);
    }
}
