//! Prepares and commits transactions, on threads of their own: never a worker's or the writer's.
//!
//! # Invariants
//!
//! * **E6**: a prepare is tried once; a commit is tried again until it is confirmed or its time is
//!   over, which the coordinator watches.

use std::collections::VecDeque;
use std::sync::Arc;

use overtake_state::Transaction;

use crate::channel::wake::Waker;
use crate::checkpoint::coordinator::{Event, Transaction as Key};
use crate::checkpoint::time::Epoch;
use crate::runtime::queue::Queue;
use crate::sink::{Prepare, Target};
use crate::sync::{self, Mutex};

/// What is done for a sink elsewhere. Tasks are counted over all workers.
pub(crate) enum Job {
    Prepare { task: usize, sink: String, epoch: Epoch, prepare: Prepare },
    Commit { transaction: Transaction, target: Arc<dyn Target>, confirmed: Arc<Confirmed> },
}

/// Commits that were confirmed, on their way back to the sink.
pub(crate) struct Confirmed {
    epochs: Mutex<VecDeque<Epoch>>,
    waker: Waker,
}

impl Confirmed {
    pub(crate) fn new(waker: Waker) -> Confirmed {
        Confirmed { epochs: Mutex::new(VecDeque::new()), waker }
    }

    pub(crate) fn take(&self) -> VecDeque<Epoch> {
        std::mem::take(&mut *self.epochs.lock().expect("no holder panics"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.epochs.lock().expect("no holder panics").is_empty()
    }

    fn push(&self, epoch: Epoch) {
        self.epochs.lock().expect("no holder panics").push_back(epoch);
        self.waker.wake();
    }
}

/// What became of a job.
pub(crate) enum Done {
    Finished,
    /// The commit failed; it shall be tried again after a while.
    Again {
        job: Job,
        why: String,
    },
}

/// Does one job and reports.
pub(crate) fn run(job: Job, events: &Queue<Event>) -> Done {
    match job {
        Job::Prepare { task, sink: _, epoch, prepare } => {
            let transaction = Key { task, epoch };
            sync::crash_point("prepare");
            events.push(match prepare() {
                Ok(()) => Event::Prepared { transaction },
                Err(why) => Event::PrepareFailed { transaction, why: why.to_string() },
            });
            Done::Finished
        }
        Job::Commit { transaction, target, confirmed } => {
            sync::crash_point("commit");
            match target.commit(&transaction) {
                Ok(()) => {
                    sync::crash_point("committed");
                    confirmed.push(Epoch(transaction.epoch));
                    Done::Finished
                }
                Err(why) => {
                    let job = Job::Commit { transaction, target, confirmed };
                    Done::Again { job, why: why.to_string() }
                }
            }
        }
    }
}
