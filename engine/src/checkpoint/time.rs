//! The timestamp of every stream: which checkpoint ends it, and when it happened.
//!
//! A barrier is a timestamp (DESIGN: "no barrier message exists"): epoch *e* ends for an operator
//! when it downgrades its capability to *e + 1*. The event part is event time in milliseconds; it
//! stands at its minimum until a source ends, which moves it to its maximum.
//!
//! Not here: what an operator does when an epoch ends, see [`gate`](super::gate).

use serde::{Deserialize, Serialize};
use timely::PartialOrder;
use timely::progress::timestamp::{PathSummary, Refines, Timestamp};

/// The input between two barriers, and the checkpoint that ends it. Epochs start at 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Later than every epoch: the frontier of an input on which nothing can arrive any more.
    pub const MAX: Epoch = Epoch(u64::MAX);

    /// The epoch after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }

    /// The epoch before this one; of epoch 0, epoch 0.
    pub fn previous(self) -> Epoch {
        Epoch(self.0.saturating_sub(1))
    }
}

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Event time that no record can precede.
pub const EVENT_MIN: i64 = i64::MIN;
/// Event time of an input that has ended.
pub const EVENT_MAX: i64 = i64::MAX;

/// Epoch and event time, under the product order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time {
    /// The checkpoint that ends this input.
    pub epoch: Epoch,
    /// Event time, in milliseconds.
    pub event: i64,
}

impl Time {
    /// The time with these two parts.
    pub fn new(epoch: Epoch, event: i64) -> Time {
        Time { epoch, event }
    }
}

impl PartialOrder for Time {
    fn less_equal(&self, other: &Self) -> bool {
        self.epoch <= other.epoch && self.event <= other.event
    }
}

/// What a path does to a time: nothing, while there are no loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unchanged;

impl PartialOrder for Unchanged {
    fn less_equal(&self, _: &Self) -> bool {
        true
    }
}

impl PathSummary<Time> for Unchanged {
    fn results_in(&self, time: &Time) -> Option<Time> {
        Some(*time)
    }
    fn followed_by(&self, _: &Self) -> Option<Self> {
        Some(Unchanged)
    }
}

impl Timestamp for Time {
    type Summary = Unchanged;
    fn minimum() -> Self {
        Time { epoch: Epoch(0), event: EVENT_MIN }
    }
}

impl Refines<()> for Time {
    fn to_inner((): ()) -> Self {
        Time::minimum()
    }
    fn to_outer(self) {}
    fn summarize(_: Unchanged) {}
}
