//! The control word: the atomics by which the coordinator tells every task what it wants.
//!
//! The version is raised last and read first; requests (overtake, trigger) are read before verdicts
//! (aborted, completed). So whoever sees a request sees every verdict that preceded it, and never
//! builds on a cut that was aborted.
//!
//! # Invariants
//!
//! * **W1**: every part only grows.
//! * **W2**: a view that is at least as new as `version` has seen everything raised before it.

use crate::checkpoint::time::Epoch;
use crate::sync::{self, AtomicBool, AtomicU64, Fault, Ordering, fault};

/// Shared by all tasks of a life. Written by the coordinator alone.
pub(crate) struct Control {
    version: AtomicU64,
    overtake: AtomicU64,
    trigger: AtomicU64,
    aborted: AtomicU64,
    completed: AtomicU64,
    drain: AtomicBool,
    stop: AtomicBool,
}

/// What a task has read of the control word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) version: u64,
    /// The newest epoch for which nobody shall wait.
    pub(crate) overtake: Epoch,
    /// The newest epoch that shall end.
    pub(crate) trigger: Epoch,
    /// The newest epoch whose checkpoint was aborted.
    pub(crate) aborted: Epoch,
    /// The newest epoch whose checkpoint is complete.
    pub(crate) completed: Epoch,
}

/// What the coordinator raises.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raise {
    Overtake(Epoch),
    Trigger(Epoch),
    Aborted(Epoch),
    Completed(Epoch),
    Drain,
    Stop,
}

impl Control {
    /// Nothing is asked of a life that starts in the epoch after `restored`.
    pub(crate) fn new(restored: Epoch) -> Control {
        let part = || AtomicU64::new(restored.0);
        Control {
            version: AtomicU64::new(0),
            overtake: part(),
            trigger: part(),
            aborted: part(),
            completed: part(),
            drain: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// Raises one part and the version (W1, W2). The caller wakes all tasks afterwards.
    pub(crate) fn raise(&self, raise: Raise) {
        let epoch = |part: &AtomicU64, epoch: Epoch| _ = part.fetch_max(epoch.0, Ordering::Release);
        match raise {
            Raise::Overtake(to) => epoch(&self.overtake, to),
            Raise::Trigger(to) => epoch(&self.trigger, to),
            Raise::Aborted(to) => epoch(&self.aborted, to),
            Raise::Completed(to) => epoch(&self.completed, to),
            Raise::Drain => self.drain.store(true, Ordering::Release),
            Raise::Stop => self.stop.store(true, Ordering::Release),
        }
        // Release: a task that reads this version with acquire reads the part above too (W2).
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The version alone: has anything been raised since a view was taken?
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Shall sources read no further?
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Reads all parts anew, in the order that makes a view safe to act on.
    pub(crate) fn look(&self, view: &mut View) {
        let epoch = |part: &AtomicU64| Epoch(part.load(Ordering::Acquire));
        let mut steps: [&dyn Fn(&mut View); 5] = [
            &|view| view.version = self.version.load(Ordering::Acquire),
            &|view| view.overtake = epoch(&self.overtake),
            &|view| view.trigger = epoch(&self.trigger),
            &|view| view.aborted = epoch(&self.aborted),
            &|view| view.completed = epoch(&self.completed),
        ];
        if fault(Fault::ReadOrder) {
            steps[1..].rotate_left(2);
        }
        // A stale look: the first loads happened before what is there now was raised.
        let old = if sync::stale() { sync::draw(steps.len() + 1) } else { 0 };
        for step in &steps[old..] {
            step(view);
            sync::yield_point();
        }
    }
}

impl View {
    /// The view of a task that has not looked yet, in a life restored from `restored`.
    pub(crate) fn new(restored: Epoch) -> View {
        View {
            version: 0,
            overtake: restored,
            trigger: restored,
            aborted: restored,
            completed: restored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_only_grow_and_a_new_version_tells_of_each_raise() {
        let control = Control::new(Epoch(7));
        let mut view = View::new(Epoch(7));
        control.raise(Raise::Trigger(Epoch(9)));
        control.raise(Raise::Trigger(Epoch(8)));
        assert_eq!(control.version(), 2);
        control.look(&mut view);
        assert_eq!((view.trigger, view.overtake), (Epoch(9), Epoch(7)));
        control.raise(Raise::Stop);
        assert!(control.is_stopping() && control.version() == 3);
    }
}
