//! The capture: which batches belong to an overtaking snapshot, and when it has them all.
//!
//! # Invariants
//!
//! * **E4**: in flight of *e* is every batch of epoch ≤ *e* that was unprocessed at the snapshot
//!   or arrives after it. The colour of a message is its epoch (Lai and Yang, 1987), so the cut
//!   needs no order between channels.
//! * **C1**: when nothing of an epoch ≤ *e* can arrive any more, the capture of *e* is complete;
//!   nobody counts barriers.

use super::time::Epoch;

/// An overtaking snapshot that waits for its frontier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capture {
    epoch: Epoch,
}

impl Capture {
    /// The capture that follows the overtaking cut `epoch`.
    pub fn new(epoch: Epoch) -> Capture {
        Capture { epoch }
    }

    /// The cut whose in-flight data this is.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Does a batch of this epoch, unprocessed or just arrived, belong to it (E4)?
    #[inline]
    pub fn holds(&self, batch: Epoch) -> bool {
        batch <= self.epoch
    }

    /// Is it complete, when `arriving` is the least epoch that can still arrive (C1)?
    pub fn is_complete(&self, arriving: Epoch) -> bool {
        arriving > self.epoch
    }

    /// Was its checkpoint aborted, when `aborted` is the newest aborted epoch?
    pub fn is_aborted(&self, aborted: Epoch) -> bool {
        self.epoch <= aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_holds_what_precedes_its_barrier_until_the_frontier_has_passed() {
        let capture = Capture::new(Epoch(3));
        assert!(capture.holds(Epoch(1)) && capture.holds(Epoch(3)) && !capture.holds(Epoch(4)));
        assert!(!capture.is_complete(Epoch(3)));
        assert!(capture.is_complete(Epoch(4)) && capture.is_complete(Epoch::MAX));
        assert!(!capture.is_aborted(Epoch(2)) && capture.is_aborted(Epoch(3)));
    }
}
