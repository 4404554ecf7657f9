//! The gate: which batches an operator may process, and when it takes its snapshot.
//!
//! ```text
//!             epoch ≤ own: open                    epoch > own: closed until the cut
//!   inbox  ──▶ 4 4 4 │ 5 5 …      aligned: wait until no 4 is left or can arrive, then cut 4
//!                                 unaligned: cut 4 at once; the three 4s are in flight
//! ```
//!
//! The gate decides, the task obeys: a decision is a pure function of the gate and of what the
//! task has seen. Stale requests are legal and ignored.
//!
//! # Invariants
//!
//! * **E1**: an operator is in exactly one epoch, and epochs only grow.
//! * **E2**: before a batch of epoch *e + 1* is processed, the cut *e* was taken.
//! * **E3**: an aligned cut *e* finds all batches of epochs ≤ *e* processed and all outputs sent.
//! * **E4**: an overtaking cut does not wait; what is unprocessed is in flight.
//! * **G1**: between two cuts a task works at least one slice if it has one, so that no cadence of
//!   triggers or aborts starves it.
//!
//! Not here: what is done with batches that are in flight, see [`capture`](super::capture).

use super::time::Epoch;
use crate::sync::{Fault, fault};

/// Why a snapshot is taken where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Everything of the epoch was processed and sent.
    Aligned,
    /// The control word said not to wait.
    Overtaken,
    /// A sink without a free transaction cuts at once, since it takes no input.
    Dry,
}

/// What the task sees when it asks: requests of the control word, then its own ports.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The newest epoch that the coordinator wants ended.
    pub trigger: Epoch,
    /// The newest epoch for which nobody shall wait.
    pub overtake: Epoch,
    /// The least epoch that can still arrive; [`Epoch::MAX`] when nothing can. A source has no
    /// input: for it the trigger is the barrier.
    pub arriving: Epoch,
    /// There is a record that may be processed now.
    pub is_ready: bool,
    /// Nothing of an epoch up to the own one is unprocessed or unsent.
    pub is_drained: bool,
    /// A full batch waits for credit.
    pub is_blocked: bool,
    /// A sink whose transactions all await their commit.
    pub is_dry: bool,
}

/// The epoch of a task, and its right to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    epoch: Epoch,
    has_worked: bool,
}

impl Gate {
    /// A gate of a task that starts in `epoch`.
    pub fn new(epoch: Epoch) -> Gate {
        Gate { epoch, has_worked: false }
    }

    /// The epoch in which the task is (E1).
    #[inline]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// May a batch of `epoch` be processed (E2)?
    #[inline]
    pub fn is_open_for(&self, epoch: Epoch) -> bool {
        epoch <= self.epoch || fault(Fault::NoGate)
    }

    /// The task has processed something since the last cut (G1).
    #[inline]
    pub fn worked(&mut self) {
        self.has_worked = true;
    }

    /// May the task cut now, or does it owe a slice of work first (G1)?
    pub fn may_cut(&self, seen: &Seen) -> bool {
        self.has_worked || !seen.is_ready || seen.is_blocked || fault(Fault::Unfair)
    }

    /// Asked before the task works: must it cut at once, and which epoch?
    pub fn before_work(&self, seen: &Seen) -> Option<(Epoch, Cut)> {
        if seen.overtake >= self.epoch && self.may_cut(seen) {
            return Some((seen.overtake, Cut::Overtaken));
        }
        // Upstream cannot align: a dry sink returns no credit.
        let must_cut = seen.is_dry && !fault(Fault::DryWaits);
        (must_cut && seen.trigger >= self.epoch).then_some((seen.trigger, Cut::Dry))
    }

    /// Asked after the task has worked and sent: is this the aligned cut?
    pub fn after_work(&self, seen: &Seen) -> Option<(Epoch, Cut)> {
        let is_asked = self.epoch <= seen.trigger;
        let is_aligned = seen.arriving > self.epoch && seen.is_drained;
        (is_asked && is_aligned && self.may_cut(seen)).then_some((self.epoch, Cut::Aligned))
    }

    /// The cut `epoch` is taken: the task is in the next one.
    ///
    /// # Panics
    ///
    /// If the epoch is over already, which would be a fault of the task (E1).
    pub fn passed(&mut self, epoch: Epoch) {
        assert!(epoch >= self.epoch, "E1: cut {epoch} in epoch {}", self.epoch);
        *self = Gate::new(epoch.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle() -> Seen {
        Seen {
            trigger: Epoch(0),
            overtake: Epoch(0),
            arriving: Epoch(1),
            is_ready: false,
            is_drained: true,
            is_blocked: false,
            is_dry: false,
        }
    }

    #[test]
    fn nothing_is_cut_unasked() {
        let gate = Gate::new(Epoch(1));
        assert_eq!(gate.before_work(&idle()), None);
        assert_eq!(gate.after_work(&Seen { arriving: Epoch(2), ..idle() }), None);
    }

    #[test]
    fn an_aligned_cut_waits_for_the_frontier_and_for_what_is_unprocessed() {
        let gate = Gate::new(Epoch(1));
        let asked = Seen { trigger: Epoch(1), ..idle() };
        assert_eq!(gate.after_work(&asked), None);
        let passed = Seen { arriving: Epoch(2), ..asked };
        assert_eq!(gate.after_work(&Seen { is_drained: false, ..passed }), None);
        assert_eq!(gate.after_work(&passed), Some((Epoch(1), Cut::Aligned)));
    }

    #[test]
    fn overtaking_does_not_wait_but_owes_one_slice() {
        let mut gate = Gate::new(Epoch(1));
        let seen = Seen { overtake: Epoch(1), is_ready: true, is_drained: false, ..idle() };
        assert_eq!(gate.before_work(&seen), None, "G1");
        assert_eq!(
            gate.before_work(&Seen { is_blocked: true, ..seen }),
            Some((Epoch(1), Cut::Overtaken))
        );
        gate.worked();
        assert_eq!(gate.before_work(&seen), Some((Epoch(1), Cut::Overtaken)));
    }

    #[test]
    fn an_overtaking_cut_passes_over_epochs_that_were_aborted() {
        let mut gate = Gate::new(Epoch(2));
        let seen = Seen { overtake: Epoch(4), trigger: Epoch(4), ..idle() };
        assert_eq!(gate.before_work(&seen), Some((Epoch(4), Cut::Overtaken)));
        gate.passed(Epoch(4));
        assert_eq!(gate.epoch(), Epoch(5));
        assert!(gate.is_open_for(Epoch(5)) && !gate.is_open_for(Epoch(6)));
        assert_eq!(gate.before_work(&seen), None, "stale requests are ignored");
    }

    #[test]
    fn a_dry_sink_cuts_at_the_trigger() {
        let gate = Gate::new(Epoch(3));
        let seen = Seen { trigger: Epoch(3), is_dry: true, ..idle() };
        assert_eq!(gate.before_work(&seen), Some((Epoch(3), Cut::Dry)));
    }
}
