//! What a system must do to be written to, exactly once.
//!
//! A sink processes records on a worker. At the cut of an epoch the engine takes the transaction
//! that holds what was processed in it, prepares it on a thread of its own, and commits it when the
//! checkpoint is complete.
//!
//! ```text
//!   write … write │ cut ──▶ prepare (a thread of the engine) ──▶ checkpoint complete ──▶ commit
//!                 │ the next epoch writes into another transaction meanwhile
//! ```
//!
//! # The contract
//!
//! * **K1**: what was written since the last cut is the open transaction; [`cut`](Sink::cut) closes
//!   it. A sink into which nothing was written has nothing to cut.
//! * **K2**: a prepared transaction survives the death of everybody: it can be committed from its
//!   [`Transaction`] alone, by any process.
//! * **K3**: [`commit`](Target::commit) is idempotent: repeated after each restart until it was
//!   confirmed. It returns only when the result is durable.
//! * **K4**: nothing of a transaction is visible before its commit, and all of it after.
//! * **K5**: [`begin`](Target::begin) is called once in each life before a worker starts, after
//!   what the restored checkpoint lists was committed; it aborts whatever older lives left. What
//!   arrives late from a killed process is aborted by [`sweep`](Target::sweep).
//! * **K6**: writing, cutting and asking never wait for the outside: that is what
//!   [`Prepare`] is for.
//! * **K7**: a sink may write ahead instead, for a target without transactions: what it processed
//!   lies in its [state](Sink::restore), [`store`](Sink::store) tells it which epoch ends there,
//!   and its [`Listener`] is told when that is complete. Then what it holds may go out; it stays in
//!   the state until it has arrived.

use std::marker::PhantomData;
use std::sync::Arc;

pub use overtake_state::Transaction;
use overtake_state::{Data, RestoreError, States};

use crate::error::BoxError;
use crate::{Listener, Waker};

/// Names a transaction before it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// The life of the job.
    pub generation: u64,
    /// The epoch whose records it holds.
    pub epoch: u64,
    /// The worker that wrote them.
    pub worker: usize,
}

/// Flushes a closed transaction, so that it can be committed by anybody (K2).
pub type Prepare = Box<dyn FnOnce() -> Result<(), BoxError> + Send>;

/// Where a sink runs.
#[derive(Clone, Debug)]
pub struct SinkContext {
    /// The job's id, drawn at random when its state directory was made.
    pub job: String,
    /// The name of the sink.
    pub name: String,
    /// The life of the job.
    pub generation: u64,
    /// The worker on which this instance runs, from 0.
    pub worker: usize,
    /// How many workers the job has.
    pub workers: usize,
    /// Wakes the sink's task when it is ready again.
    pub waker: Waker,
}

/// What outlives a worker: prepares and commits happen on threads of their own.
pub trait Target: Send + Sync + 'static {
    /// Makes a prepared transaction visible (K3, K4).
    ///
    /// # Errors
    ///
    /// An error that may pass is tried again until the commit time-out; then the job stops and its
    /// restore repeats the commit.
    fn commit(&self, transaction: &Transaction) -> Result<(), BoxError>;

    /// A new life begins: `listed` are the transactions of the restored checkpoint, committed
    /// already; abort every other one of older generations of this job (K5).
    ///
    /// # Errors
    ///
    /// If the target cannot be reached, or holds what is not ours; the job does not start.
    fn begin(&self, job: &str, generation: u64, listed: &[Transaction]) -> Result<(), BoxError>;

    /// Aborts what older generations left and arrived late. Called after each completion.
    ///
    /// # Errors
    ///
    /// Reported in the history; it is tried again at the next completion.
    fn sweep(&self, job: &str, generation: u64) -> Result<(), BoxError> {
        let _ = (job, generation);
        Ok(())
    }
}

/// A system that records are written to. See the [contract](self).
pub trait Sink: 'static {
    /// What is written.
    type Record: Data;

    /// What commits, if the sink is transactional; `None` for a sink that is idempotent or whose
    /// output may repeat.
    fn target(&self) -> Option<Arc<dyn Target>>;

    /// Declares what the sink keeps in checkpoints (K7). Called once on each worker, before it is
    /// opened.
    ///
    /// # Errors
    ///
    /// What cannot be restored; the job does not start.
    fn restore(&mut self, states: &mut States) -> Result<(), RestoreError> {
        let _ = states;
        Ok(())
    }

    /// Who is told when an epoch is complete (K7).
    fn listener(&self) -> Option<Arc<dyn Listener>> {
        None
    }

    /// Called once on each worker before the first record.
    ///
    /// # Errors
    ///
    /// If the system cannot be written to; the job does not start.
    fn open(&mut self, context: SinkContext) -> Result<(), BoxError>;

    /// Processes records: they are part of the open transaction now.
    ///
    /// # Errors
    ///
    /// A record that cannot be written stops the job.
    fn write(&mut self, records: &[Self::Record]) -> Result<(), BoxError>;

    /// Is there room for more? If not, the task takes no input until the waker is called.
    fn is_ready(&self) -> bool {
        true
    }

    /// Closes the open transaction (K1): its handle's own data, and how it is prepared. Asked only
    /// if something was written since the last cut.
    ///
    /// # Errors
    ///
    /// Stops the job.
    fn cut(&mut self, id: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError>;

    /// Puts what is to be stored into its state, which is frozen next: the snapshot that ends this
    /// epoch (K7).
    fn store(&mut self, epoch: u64) {
        let _ = epoch;
    }
}

/// Calls a function for every record: at least once, and before anything is committed.
pub(crate) struct Callback<R, F> {
    function: F,
    of: PhantomData<fn(R)>,
}

impl<R, F> Callback<R, F> {
    pub(crate) fn new(function: F) -> Callback<R, F> {
        Callback { function, of: PhantomData }
    }
}

impl<R: Data, F: FnMut(&R) + 'static> Sink for Callback<R, F> {
    type Record = R;

    fn target(&self) -> Option<Arc<dyn Target>> {
        None
    }

    fn open(&mut self, _: SinkContext) -> Result<(), BoxError> {
        Ok(())
    }

    #[inline]
    fn write(&mut self, records: &[R]) -> Result<(), BoxError> {
        records.iter().for_each(&mut self.function);
        Ok(())
    }

    fn cut(&mut self, _: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        Ok(None)
    }
}
