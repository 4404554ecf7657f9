//! What survives a crash: what was committed, what was prepared, which checkpoints exist; and what
//! the test knows: the dice, the trace, the verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overtake::CheckpointId;

use super::dice::Dice;
use super::plan::Faults;
use super::rows::Row;

/// Names a transaction: sink, generation, epoch, worker.
pub(super) type Handle = (String, u64, u64, u32);

/// See the [module](self).
pub(super) struct Outside {
    /// Everything is drawn from here.
    pub(super) dice: Dice,
    /// What may fail now.
    pub(super) faults: Faults,
    /// What a dead process had asked for arrives: nothing fails then, and nobody hears of it.
    pub(super) is_late: bool,
    /// Rows that can be committed.
    pub(super) prepared: BTreeMap<Handle, Vec<Row>>,
    /// Rows that everybody sees.
    pub(super) committed: BTreeMap<Handle, Vec<Row>>,
    /// Checkpoints whose manifest has been in the store.
    pub(super) complete: BTreeSet<CheckpointId>,
    /// Those of which the oracle has not looked at yet.
    pub(super) fresh: Vec<CheckpointId>,
    /// Puts that hang and may land at any time, also after the death of their process.
    pub(super) puts: Vec<(String, Vec<u8>)>,
    /// Objects that cannot be read for now.
    pub(super) unreadable: BTreeSet<String>,
    /// Operations of the store and the target that were made to fail.
    pub(super) injected: u64,
    /// Segments begun since the last look at them.
    pub(super) begun: Vec<CheckpointId>,
    /// Records processed.
    pub(super) processed: u64,
    /// Rows that the sources of this life have not read yet.
    pub(super) left: u64,
    /// Cuts taken, checkpoints completed and announced.
    pub(super) stepped: u64,
    /// What went wrong.
    pub(super) wrong: Vec<String>,
    /// How often things happened.
    pub(super) seen: BTreeMap<&'static str, u64>,
    /// Of everything that happened, in order.
    pub(super) hash: u64,
    /// The same for people, if they asked for it.
    pub(super) log: Option<Vec<String>>,
}

impl Outside {
    /// Something happened: it is part of what must repeat with the seed.
    pub(super) fn note(&mut self, what: &'static str, numbers: [u64; 3]) {
        for number in numbers.into_iter().chain([what.len() as u64]) {
            self.hash = (self.hash.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        if let Some(log) = &mut self.log {
            log.push(format!("{what} {numbers:?}"));
        }
    }

    /// Explains what happened, where that is more than numbers.
    pub(super) fn tell(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(text());
        }
    }

    /// Counts how often something happened.
    pub(super) fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// A fault of the outside world, once in so many times, unless it is late.
    pub(super) fn fails(
        &mut self,
        one_in: impl FnOnce(&Faults) -> u64,
        what: &'static str,
    ) -> bool {
        let fails = !self.is_late && {
            let one_in = one_in(&self.faults);
            self.dice.one_in(one_in)
        };
        if fails {
            self.injected += 1;
            self.count(what);
        }
        fails
    }

    /// A verdict.
    pub(super) fn wrong(&mut self, what: String) {
        self.tell(|| format!("WRONG: {what}"));
        self.wrong.push(what);
    }
}

/// The outside, as many hands reach for it. All are on one thread: nobody waits for the lock.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Outside>>);

impl Shared {
    /// An empty outside.
    pub(super) fn new(dice: Dice, has_log: bool) -> Shared {
        Shared(Arc::new(Mutex::new(Outside {
            dice,
            faults: Faults::default(),
            is_late: false,
            prepared: BTreeMap::new(),
            committed: BTreeMap::new(),
            complete: BTreeSet::new(),
            fresh: Vec::new(),
            puts: Vec::new(),
            unreadable: BTreeSet::new(),
            injected: 0,
            begun: Vec::new(),
            processed: 0,
            left: 0,
            stepped: 0,
            wrong: Vec::new(),
            seen: BTreeMap::new(),
            hash: 0,
            log: has_log.then(Vec::new),
        })))
    }

    /// Reaches for it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Outside> {
        // A crash never happens under the lock; a panic that is a verdict may.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
