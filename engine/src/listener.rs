//! What is told of a job's lives and checkpoints, to sources and sinks that hold something between
//! them: an offset to be confirmed, records to be kept until they are durable, results to be shown.
//!
//! ```text
//!   begin ──▶ completed(e) ──▶ completed(f) ──▶ begin (restored) ──▶ … ──▶ ended
//! ```
//!
//! # The contract
//!
//! * **N1**: a listener is one object over all workers and lives of a job; the flow, described
//!   anew, names the same one.
//! * **N2**: [`begin`](Listener::begin) is told in each life before a worker opens the source or
//!   the sink, and after all threads of the life before have ended.
//! * **N3**: [`completed`](Listener::completed) is told when the checkpoint's manifest and its mark
//!   are durable, in the order of the epochs of a life. One may be left out: the process, or the
//!   life, ended in between. What the next life is restored from tells.
//! * **N4**: [`ended`](Listener::ended) is told once, when no further life will begin in this
//!   process, after all threads of the last one have ended.
//! * **N5**: whoever is told returns at once: it is the publisher of checkpoints that tells.

use std::sync::Arc;

use crate::error::BoxError;

/// Whether what a job processes outlives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The job has no state directory.
    None,
    /// It takes checkpoints.
    Checkpoints,
}

/// Is told of a job's lives and checkpoints. See the [contract](self).
pub trait Listener: Send + Sync + 'static {
    /// A life begins.
    ///
    /// # Errors
    ///
    /// If the source or the sink cannot be used in such a job, which then does not start.
    fn begin(&self, generation: u64, durability: Durability) -> Result<(), BoxError>;

    /// The checkpoint of this epoch is complete, and so is all that preceded it.
    fn completed(&self, epoch: u64);

    /// The job has ended.
    fn ended(&self);
}

/// Those of a job's sources and sinks.
pub(crate) type Listeners = Arc<[Arc<dyn Listener>]>;

/// The listeners of a job that may begin lives. Dropped, it begins none any more: it has ended, or
/// could not start (N4).
pub(crate) struct Heard(pub(crate) Listeners);

impl Drop for Heard {
    fn drop(&mut self) {
        self.0.iter().for_each(|listener| listener.ended());
    }
}
