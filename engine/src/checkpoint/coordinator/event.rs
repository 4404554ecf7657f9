//! The words of the coordinator: what can happen to a checkpoint, and what can be done about it.

use std::fmt;
use std::time::Duration;

use crate::checkpoint::time::Epoch;

use super::history::{Reason, Report};

/// What a user may ask for. Requests are served in the order in which they were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// A checkpoint now, whenever the next would be due. It may fail, as any.
    Checkpoint,
    /// An aligned one, which the user keeps. It may fail, as any.
    Savepoint,
    /// One more, aligned, which the user keeps, its commits, and the end. Tried again until it is
    /// complete.
    StopWithSavepoint,
    /// One more checkpoint, its commits, and the end. Tried again until it is complete.
    Stop,
}

impl Request {
    /// Is it aligned, and kept by the user?
    pub fn is_savepoint(self) -> bool {
        matches!(self, Request::Savepoint | Request::StopWithSavepoint)
    }

    /// Does the job end with it?
    pub fn is_last(self) -> bool {
        matches!(self, Request::StopWithSavepoint | Request::Stop)
    }
}

/// What a sink processed in one epoch, which becomes visible as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transaction {
    /// The sink's task.
    pub task: usize,
    /// The cut that closed it.
    pub epoch: Epoch,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Nothing; but time has passed.
    Tick,
    /// A task has taken its snapshot and has all its in-flight data.
    Captured(Report),
    /// All that a worker has to write of a checkpoint is on disk.
    Durable {
        /// The worker.
        worker: usize,
        /// The checkpoint.
        epoch: Epoch,
        /// When it was.
        at: Duration,
    },
    /// A segment could not be written.
    WriteFailed {
        /// The worker.
        worker: usize,
        /// The checkpoint.
        epoch: Epoch,
        /// What the writer said.
        why: String,
    },
    /// A transaction is prepared: a commit of it will succeed.
    Prepared {
        /// Which.
        transaction: Transaction,
    },
    /// A transaction could not be prepared, and its rows are no longer held.
    PrepareFailed {
        /// Which.
        transaction: Transaction,
        /// What the sink said.
        why: String,
    },
    /// Every transaction of a sink up to this epoch is confirmed.
    Committed {
        /// The sink's task.
        task: usize,
        /// The newest announced checkpoint of which it knew.
        epoch: Epoch,
    },
    /// A sink without a free transaction has cut at once: nobody upstream of it can align.
    Dry {
        /// The sink's task.
        task: usize,
        /// The checkpoint.
        epoch: Epoch,
    },
    /// The manifest is known to be durable, and so is the mark that commits may follow.
    Published {
        /// The checkpoint.
        epoch: Epoch,
    },
    /// Somebody asks.
    Requested(Request),
    /// A task has nothing to do any more in this life.
    Ended {
        /// Which.
        task: usize,
    },
    /// A thread of the job has died or given up: a worker, the writer, a commit thread.
    WorkerFailed {
        /// What it said.
        why: String,
    },
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Raise the trigger in the control word.
    Trigger(Epoch),
    /// Raise overtake in the control word.
    Overtake(Epoch),
    /// Raise aborted in the control word; the writer drops what it has not begun of these.
    Abort {
        /// The oldest.
        from: Epoch,
        /// The newest that was triggered.
        to: Epoch,
    },
    /// Publish the manifest, under its name and with its bytes until the result is known.
    Publish(Epoch),
    /// Raise completed in the control word.
    Announce(Epoch),
    /// Raise stop: all is committed.
    Stop,
    /// Stop the workers, and restore.
    Fail(Failure),
}

/// Why the job cannot go on in this life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// More checkpoints in a row have failed than are tolerated.
    Checkpoints {
        /// How many have failed.
        failed: u32,
        /// The last of them.
        epoch: Epoch,
        /// Why it failed.
        why: Reason,
    },
    /// A transaction could not be prepared.
    Prepare {
        /// Which.
        transaction: Transaction,
        /// What the sink said, or none if it said nothing in time.
        why: Option<String>,
    },
    /// Nobody knows in time whether a checkpoint is published.
    Publish(Epoch),
    /// Nobody knows in time whether all transactions up to this one are committed.
    Commit {
        /// Which.
        transaction: Transaction,
    },
    /// A thread of the job died or gave up.
    Worker(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |why: &Option<String>| why.clone().unwrap_or_else(|| "timed out".into());
        match self {
            Failure::Checkpoints { failed, epoch, why } => {
                write!(f, "{failed} checkpoints failed in a row; checkpoint {epoch}: {why}")
            }
            Failure::Prepare { transaction: Transaction { task, epoch }, why } => {
                write!(f, "task {task} could not prepare what it wrote in epoch {epoch}: ")?;
                f.write_str(&said(why))
            }
            Failure::Publish(epoch) => {
                write!(f, "checkpoint {epoch} may or may not be published: timed out")
            }
            Failure::Commit { transaction: Transaction { task, epoch } } => {
                write!(f, "task {task} could not commit in time what it wrote up to epoch {epoch}")
            }
            Failure::Worker(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}
