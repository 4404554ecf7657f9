//! The program that one would write by hand: batches through rings, a hash map.

use hashbrown::HashMap;

use super::mesh::{self, Batch, Ends};
use super::switch::Switch;
use super::{ROUNDS, WORKERS, Yardstick};

/// Starts it, paused, with keys below `keys` and batches of `batch` records.
pub fn start(keys: u64, batch: usize) -> Yardstick {
    mesh::start(move |worker, ends, switch| work(keys, batch, worker, ends, switch))
}

#[inline]
fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn work(keys: u64, batch: usize, worker: usize, mut ends: Ends, switch: Switch) {
    let mut sums: HashMap<u64, u64, foldhash::fast::FixedState> = HashMap::default();
    let mut x = worker as u64 * 7919 + 1;
    let mut total = 0;
    let mut open: Vec<Batch> = (0..WORKERS).map(|_| Vec::with_capacity(batch)).collect();
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
                    let target = ((hash(key) >> 33) % WORKERS as u64) as usize;
                    let records = &mut open[target];
                    records.push((key, 1));
                    if records.len() == batch {
                        let spare = ends.spares[target].pop();
                        let spare = spare.unwrap_or_else(|_| Vec::with_capacity(batch));
                        let full = std::mem::replace(records, spare);
                        ends.send[target].push(full).expect("the ring had four slots");
                    }
                }
            }
            for sender in 0..WORKERS {
                while let Ok(mut records) = ends.receive[sender].pop() {
                    for (key, value) in records.drain(..) {
                        let sum = sums.entry(key).or_insert(0);
                        *sum += value;
                        updates.push((key, *sum));
                    }
                    total += updates.len() as u64;
                    updates.clear();
                    let _ = ends.give_back[sender].push(records);
                }
            }
        }
        switch.count(worker, total);
    }
}
