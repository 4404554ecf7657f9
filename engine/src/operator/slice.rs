//! How long a task keeps its worker, and how much it does before it looks up again.
//!
//! A record takes 5 ns or 5 ms. So that the control word is seen within about 50 µs of work, or one
//! record, the chunk between two looks is learned by the clock, and distrusted when the cost of a
//! record jumps.

use std::cell::Cell;
use std::time::Duration;

use crate::checkpoint::control::Control;
use crate::checkpoint::gate::Gate;

/// Records between two looks at the control word within a chunk: so many that looking is free.
pub(crate) const LOOK_EVERY: usize = 64;

/// Records between two looks at the clock, at most: their outputs fit into a batch or two.
const CHUNK_MAX: usize = 2048;

/// A chunk of work: what a chain is asked to do before it returns.
pub struct Turn<'a> {
    /// Records at most.
    pub(crate) limit: usize,
    /// The time of the job's clock at its beginning.
    pub(crate) now: Duration,
    pub(crate) gate: &'a Gate,
    pub(crate) control: &'a Control,
    /// The version of the control word that the task has seen.
    pub(crate) version: u64,
    /// How far the chunk is, for whoever asks after it has failed, see [`Done`].
    pub(crate) done: &'a Cell<usize>,
}

impl Turn<'_> {
    /// After so many records of the chunk: has something been raised that the task has not seen?
    #[inline]
    pub(crate) fn is_interrupted(&self, done: usize) -> bool {
        done.is_multiple_of(LOOK_EVERY) && self.control.version() != self.version
    }

    /// Begins to count the records of the chunk.
    #[inline]
    pub(crate) fn count(&self) -> Done<'_> {
        Done { records: Cell::new(0), told: self.done }
    }
}

/// Counts the records of a chunk, and tells the count however the chunk ends: also by a panic, so
/// that the record can be named. It stays in a register until then.
pub struct Done<'a> {
    records: Cell<usize>,
    told: &'a Cell<usize>,
}

impl Done<'_> {
    #[inline]
    pub(crate) fn add(&self, records: usize) {
        self.records.set(self.records.get() + records);
    }

    #[inline]
    pub(crate) fn records(&self) -> usize {
        self.records.get()
    }

    /// Works on one of some records that are counted together. If that panics, those before it are
    /// counted; if not, this costs nothing.
    #[inline]
    pub(crate) fn within<R>(&self, records: &[R], record: &R, work: impl FnOnce()) {
        struct Failed<'a, R>(&'a Done<'a>, &'a [R], &'a R);
        impl<R> Drop for Failed<'_, R> {
            #[cold]
            fn drop(&mut self) {
                let before = (self.2 as *const R).addr() - self.1.as_ptr().addr();
                self.0.add(before / size_of::<R>().max(1));
            }
        }
        let failed = Failed(self, records, record);
        work();
        std::mem::forget(failed);
    }
}

impl Drop for Done<'_> {
    #[inline]
    fn drop(&mut self) {
        self.told.set(self.records.get());
    }
}

/// How many records make a chunk: learned, since nobody knows what a record costs.
#[derive(Debug)]
pub(crate) struct Chunk {
    records: usize,
}

impl Chunk {
    pub(crate) fn new() -> Chunk {
        Chunk { records: 16 }
    }

    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// A chunk of `done` records took so long, of a slice of `budget`.
    fn learn(&mut self, done: usize, took: Duration, budget: Duration) {
        if took > budget / 4 {
            self.records = (done / 2).max(1);
        } else if took < budget / 8 && done == self.records {
            self.records = (self.records * 2).min(CHUNK_MAX);
        }
    }
}

/// The time for which a task keeps its worker.
#[derive(Debug)]
pub(crate) struct Slice {
    started: Duration,
    last: Duration,
    budget: Duration,
}

impl Slice {
    pub(crate) fn start(now: Duration, budget: Duration) -> Slice {
        Slice { started: now, last: now, budget }
    }

    /// After a chunk of `done` records: is the slice over?
    pub(crate) fn is_over(&mut self, now: Duration, done: usize, chunk: &mut Chunk) -> bool {
        chunk.learn(done, now - self.last, self.budget);
        self.last = now;
        now - self.started >= self.budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_micros(50);

    #[test]
    fn a_chunk_grows_while_records_are_cheap_and_shrinks_at_once_when_they_are_not() {
        let mut chunk = Chunk::new();
        for _ in 0..10 {
            let done = chunk.records();
            chunk.learn(done, Duration::from_nanos(5 * done as u64), BUDGET);
        }
        assert_eq!(chunk.records(), CHUNK_MAX);
        for _ in 0..11 {
            let done = chunk.records();
            chunk.learn(done, Duration::from_micros(20 * done as u64), BUDGET);
        }
        assert_eq!(chunk.records(), 1);
    }

    #[test]
    fn a_chunk_that_panics_tells_how_far_it_was() {
        let told = Cell::new(0);
        let records = [10, 11, 12, 13];
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let done = Done { records: Cell::new(0), told: &told };
            done.add(100);
            for record in &records {
                done.within(&records, record, || assert!(*record < 12, "this one"));
            }
        }));
        assert!(panicked.is_err());
        assert_eq!(told.get(), 102);
    }

    #[test]
    fn a_slice_ends_when_its_time_is_over() {
        let (mut chunk, at) = (Chunk::new(), Duration::from_micros);
        let mut slice = Slice::start(at(100), BUDGET);
        assert!(!slice.is_over(at(149), 16, &mut chunk));
        assert!(slice.is_over(at(150), 16, &mut chunk));
    }
}
