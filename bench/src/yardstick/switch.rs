//! Lets the workers of a yardstick run, stand still and end, and counts what they have done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::{self, Thread};

use super::WORKERS;

/// One switch for all workers; a clone is another hand on it.
#[derive(Clone)]
pub(super) struct Switch(Arc<State>);

struct State {
    is_on: AtomicBool,
    has_ended: AtomicBool,
    counts: [Count; WORKERS],
    workers: Mutex<Vec<Thread>>,
    all_here: Barrier,
}

/// What one worker has processed, on a cache line that only this worker writes.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

impl Switch {
    pub(super) fn new() -> Switch {
        Switch(Arc::new(State {
            is_on: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            counts: Default::default(),
            workers: Mutex::default(),
            // The workers, and the thread that starts them.
            all_here: Barrier::new(WORKERS + 1),
        }))
    }

    /// Called by each worker first: from now on the switch wakes it. Waits for the others.
    pub(super) fn enter(&self) {
        self.workers().push(thread::current());
        self.0.all_here.wait();
    }

    /// Waits until all workers have entered.
    pub(super) fn wait_for_all(&self) {
        self.0.all_here.wait();
    }

    /// Called by a worker between rounds: waits, parked, while the switch is off. False when it is
    /// to end.
    pub(super) fn goes_on(&self) -> bool {
        // Acquire: pairs with the releases below, so that a worker that was woken to end sees that
        // it is to end.
        while !self.0.is_on.load(Acquire) {
            thread::park();
        }
        !self.0.has_ended.load(Acquire)
    }

    /// Called by a worker between rounds: `total` is what it has processed since it began.
    pub(super) fn count(&self, worker: usize, total: u64) {
        self.0.counts[worker].0.store(total, Relaxed);
    }

    pub(super) fn processed(&self) -> u64 {
        self.0.counts.iter().map(|count| count.0.load(Relaxed)).sum()
    }

    pub(super) fn resume(&self) {
        self.0.is_on.store(true, Release);
        for worker in self.workers().iter() {
            worker.unpark();
        }
    }

    pub(super) fn pause(&self) {
        self.0.is_on.store(false, Release);
    }

    pub(super) fn end(&self) {
        self.0.has_ended.store(true, Release);
        self.resume();
    }

    fn workers(&self) -> std::sync::MutexGuard<'_, Vec<Thread>> {
        self.0.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
