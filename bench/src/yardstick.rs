//! What the engine is measured against: programs written by hand for one job, the sum per key of
//! `keyed-count`.
//!
//! Two workers, each pinned to a core, make records `(key, 1)` of 16 bytes with keys drawn at
//! random, exchange them by key and add them up in a hash table of their own. What the loops do
//! with a record is not to be improved, nor made to look alike: each is the form in which its
//! figures were first taken. Only the switch is new, by which they stand still, parked, while
//! another program is measured.
//!
//! * `ring_limit`: batches through rings, as anyone would write it.
//! * `tuned`: the same at its best: unchecked writes, records read in place, partition by range.
//! * `timely_limit`: plain timely dataflow, with its own exchange.

mod mesh;
pub mod ring_limit;
mod switch;
pub mod timely_limit;
pub mod tuned;

use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use self::switch::Switch;
use crate::paired::Side;
use crate::statistics::median;

/// Workers of a yardstick, one a core.
const WORKERS: usize = 2;

/// Rounds of the loop between two looks at the switch.
const ROUNDS: usize = 100;

/// The batches among which a yardstick finds its best.
const BATCHES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];

/// Each batch is tried so often, in turn, for so long; the first time fills the tables.
const TRIES: usize = 4;
const TRY: Duration = Duration::from_millis(200);

/// A yardstick at work, paused at first. Dropping it ends its threads.
pub struct Yardstick {
    switch: Switch,
    threads: Vec<JoinHandle<()>>,
}

impl Side for Yardstick {
    fn resume(&self) {
        self.switch.resume();
    }

    fn pause(&self) {
        self.switch.pause();
    }

    fn processed(&self) -> u64 {
        self.switch.processed()
    }
}

impl Drop for Yardstick {
    fn drop(&mut self) {
        self.switch.end();
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so; its figures ended with it.
            let _ = thread.join();
        }
    }
}

/// Of the batches from 256 to 8192 records, the one at which the yardstick that `start` makes of it
/// is fastest.
pub fn best_batch(start: impl Fn(usize) -> Yardstick) -> usize {
    let sides = BATCHES.map(start);
    let mut counts = BATCHES.map(|_| Vec::with_capacity(TRIES));
    for _ in 0..TRIES {
        for (side, counts) in sides.iter().zip(&mut counts) {
            let before = side.processed();
            side.resume();
            sleep(TRY);
            side.pause();
            counts.push((side.processed() - before) as f64);
        }
    }
    let speed = |index: &usize| median(&counts[*index][1..]).unwrap_or_default();
    let fastest = (0..BATCHES.len()).max_by(|a, b| speed(a).total_cmp(&speed(b)));
    BATCHES[fastest.expect("there are batches to try")]
}

#[cfg(test)]
mod tests;
