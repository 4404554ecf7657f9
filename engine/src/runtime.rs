//! How a job runs: its threads, its clock, its lives.
//!
//! Threads of a job, all joined before it ends: `overtake-job`, which owns its lives; and in each
//! life its workers (`overtake-work-<i>`), and, named `overtake-…`, the director of
//! checkpoints; with a state directory also the segment writer, the publisher and two commit
//! threads. Sources and sinks say which threads they have of their own.

pub(crate) mod asked;
pub(crate) mod clock;
pub(crate) mod job;
pub(crate) mod life;
pub(crate) mod lives;
pub(crate) mod pending;
pub(crate) mod queue;
pub(crate) mod restart;
pub(crate) mod running;
pub(crate) mod services;
pub(crate) mod spawn;
pub(crate) mod threads;
pub(crate) mod worker;
