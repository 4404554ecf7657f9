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

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::BoxError;

/// Whether what a job processes outlives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The job has no state directory.
    None,
    /// It takes checkpoints.
    Checkpoints,
}

/// The life that a listener is told of.
#[derive(Clone, Debug)]
pub struct LifeContext {
    /// One run of a job, from its start to its end: the same in all lives that it restarts, and
    /// different in every other run of this process.
    pub run: u64,
    /// The job's id, drawn at random when its state directory was made; empty without one.
    pub job: String,
    /// The life of the job.
    pub generation: u64,
    /// Whether what is processed outlives it.
    pub durability: Durability,
}

/// Is told of a job's lives and checkpoints. See the [contract](self).
pub trait Listener: Send + Sync + 'static {
    /// A life begins.
    ///
    /// # Errors
    ///
    /// If the source or the sink cannot be used in such a job, which then does not start.
    fn begin(&self, life: &LifeContext) -> Result<(), BoxError>;

    /// The checkpoint of this epoch is complete, and so is all that preceded it.
    fn completed(&self, epoch: u64);

    /// This run of a job has ended, or could not start: it may be one that never began a life, or
    /// was refused, while another uses the same source or sink.
    fn ended(&self, run: u64);
}

/// Those of a job's sources and sinks.
pub(crate) type Listeners = Arc<[Arc<dyn Listener>]>;

/// The listeners of a job that may begin lives. Dropped, it begins none any more: it has ended, or
/// could not start (N4).
pub(crate) struct Heard {
    pub(crate) listeners: Listeners,
    pub(crate) run: u64,
}

impl Heard {
    pub(crate) fn new(listeners: &[Arc<dyn Listener>]) -> Heard {
        static RUNS: AtomicU64 = AtomicU64::new(1);
        Heard { listeners: listeners.into(), run: RUNS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        for listener in &*self.listeners {
            // Whoever panics here keeps nobody else from being told; the panic hook has said it.
            let _ = catch_unwind(AssertUnwindSafe(|| listener.ended(self.run)));
        }
    }
}
