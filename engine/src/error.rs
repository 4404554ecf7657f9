//! What can go wrong, by the phase in which it does, and what to do about it.

use overtake_state::{OpenError, ReadError, RestoreError, WriteError};

/// What a source, a sink or an operator says went wrong.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a job did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The flow contradicts itself; it is the program that must change.
    #[error("flow: {0}")]
    Flow(String),

    /// A setting is out of its range.
    #[error("setting \"{name}\": {found} is not allowed, expected {allowed}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },

    /// The state directory cannot be used: the message names the file and says what to do.
    #[error(transparent)]
    Open(#[from] OpenError),

    /// The checkpoint cannot be restored, or does not fit the flow.
    #[error(transparent)]
    Restore(#[from] RestoreError),

    /// The state directory cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),

    /// A source could not be opened or read.
    #[error("source \"{name}\": {cause}")]
    Source {
        /// The source.
        name: String,
        /// What it says.
        cause: BoxError,
    },

    /// A sink could not be opened, written or committed.
    #[error("sink \"{name}\": {cause}")]
    Sink {
        /// The sink.
        name: String,
        /// What it says.
        cause: BoxError,
    },

    /// An operator, or what is fused with it, failed.
    #[error("operator \"{name}\" on worker {worker} at its record {record}: {cause}")]
    Operator {
        /// The operator at the head of the fused chain.
        name: String,
        /// The worker.
        worker: usize,
        /// How many records the operator had processed on this worker in this life: the next one
        /// failed. Of a sink, which takes many records at a time: those before what it was given.
        record: u64,
        /// What it says.
        cause: BoxError,
    },

    /// An operator panicked.
    #[error("operator \"{name}\" on worker {worker} panicked{}: {message}", at(*.record))]
    Panicked {
        /// The operator at the head of the fused chain.
        name: String,
        /// The worker.
        worker: usize,
        /// How many records the operator had processed on this worker in this life: the next one
        /// made it panic. Of a sink as in [`Operator`](Error::Operator). None if it was no
        /// operator, but what describes the flow.
        record: Option<u64>,
        /// The message of the panic.
        message: String,
    },

    /// A worker is still inside one record after the stop time-out. Its thread is left behind, and
    /// the state directory stays locked: end this process before you start the job again.
    #[error("operator \"{name}\" on worker {worker} is stuck in record {record}; end the process")]
    Stuck {
        /// The operator at the head of the fused chain.
        name: String,
        /// The worker.
        worker: usize,
        /// How many records the operator had processed on this worker.
        record: u64,
    },

    /// The job could not go on: too many failed checkpoints, a transaction that could not be
    /// prepared or committed. Start it again: it goes on from the last checkpoint.
    #[error("{0}; start the job again to go on from the last checkpoint")]
    Failed(String),

    /// The job failed once more than its [strategy](crate::Restart) restarts it.
    #[error("restarted {}; {last}", times(*.restarts))]
    Exhausted {
        /// How often it was restarted, over all its lives.
        restarts: u32,
        /// Why the last life failed.
        last: Box<Error>,
    },

    /// The job failed, and was told to stop before it had been restarted. What its last complete
    /// checkpoint lists will be committed when it is started again.
    #[error("stopped instead of restarted; {last}")]
    Stopped {
        /// Why the last life failed.
        last: Box<Error>,
    },

    /// A checkpoint that was asked for was aborted. The job goes on; ask again.
    #[error("checkpoint {epoch} was aborted: {why}")]
    Checkpoint {
        /// The checkpoint.
        epoch: u64,
        /// Why.
        why: String,
    },

    /// A key cannot be looked up.
    #[error(transparent)]
    Read(#[from] ReadError),

    /// The job has ended, or its life has failed and the next one not begun, before it was asked or
    /// could answer.
    #[error("the job has ended, or is being restarted")]
    Ended,

    /// The state of all tasks takes more memory than it may. Give the job more, let its state be
    /// smaller, or spread it over more machines.
    #[error(
        "operator \"{name}\" on worker {worker}: the state of the job takes {bytes} bytes of memory \
         with it, and may take {allowed} (limit state_bytes_max)"
    )]
    StateFull {
        /// The operator whose state has grown last.
        name: String,
        /// The worker.
        worker: usize,
        /// All state of the job.
        bytes: u64,
        /// The limit.
        allowed: u64,
    },

    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(std::io::Error),
}

fn at(record: Option<u64>) -> String {
    record.map_or_else(String::new, |record| format!(" at its record {record}"))
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
