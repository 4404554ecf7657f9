//! Overtake: a dataflow engine with exactly-once checkpoints, aligned and unaligned.
//!
//! A job is described by a closure and runs on one pinned thread per core. With a state directory
//! it takes checkpoints, and goes on from the last one whenever it is started again, on any number
//! of workers. The name is what an unaligned barrier does: it overtakes the data.
//!
//! ```text
//!   flow ──▶ graph ──▶ tasks on each worker ──▶ rings between them
//!                        │ snapshots            coordinator, writer, publisher, commits
//!                        └────────────────────▶ segments, manifest ──▶ a state directory
//! ```
//!
//! Where to begin: [`Job`], then [`flow::Flow`] and [`flow::stream::Stream`]; to push into a job
//! and to read from it, [`connect::embedded`]; to watch and to steer it, [`Handle`]; to connect a
//! system of your own, the contracts in [`source`] and [`sink`].

#![cfg_attr(
    not(feature = "simulation"),
    allow(unreachable_pub, reason = "the deciding modules are public for the simulation")
)]

mod channel;
mod checkpoint;
mod config;
pub mod connect;
mod error;
pub mod flow;
pub mod listener;
pub mod observe;
mod operator;
mod runtime;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod sink;
pub mod source;
mod sync;

pub use channel::wake::Waker;
pub use checkpoint::coordinator::{
    CheckpointReport, CutStats, Holder, Mode, Outcome, Reason, Report as TaskReport, Schedule,
};
pub use checkpoint::gate::Cut;
pub use checkpoint::time::Epoch;
pub use config::{Config, Idle, Limits, Pinning};
pub use error::{BoxError, Error};
pub use flow::Flow;
pub use listener::{Durability, LifeContext, Listener};
pub use operator::head::Output;
pub use overtake_state::{
    Broadcast, CheckpointId, Data, Entries, Key, List, Map, RestoreError, States, Transaction,
    Value,
};
pub use runtime::clock::Clock;
pub use runtime::job::Job;
pub use runtime::life::Memory;
pub use runtime::pending::{Awaiting, Pending};
pub use runtime::restart::Restart;
pub use runtime::running::{Handle, Report, Running};
pub use runtime::spawn::Thread;
