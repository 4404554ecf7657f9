//! The command `overtake`: the job `billing`, and the measurements that compare the engine with programs written by hand.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate measures: it reads the clock and waits by it"
)]

pub mod flights;
pub mod tariff;
