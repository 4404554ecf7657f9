//! The tail that is a sink: it processes what the chain emits, and keeps its transactions' books.
//!
//! ```text
//!   open ──cut──▶ listed ──complete──▶ committing ──confirmed──▶ forgotten
//! ```
//!
//! # Invariants
//!
//! * **E6**: a transaction is listed in every snapshot from the cut that closes it until its commit
//!   is confirmed, so a failed checkpoint delays a commit and never drops it.
//! * **T1**: at most `transactions_max` are listed; a sink with none free takes no input.

use std::sync::Arc;

use overtake_state::Transaction;

use crate::channel::outbox::OutPort;
use crate::checkpoint::commit::{Confirmed, Job};
use crate::checkpoint::time::Epoch;
use crate::error::BoxError;
use crate::operator::tail::Tail;
use crate::runtime::life::Life;
use crate::sink::{Sink, Target, TransactionId};
use crate::source::Emit;
use crate::sync::{Fault, fault};

/// What a task asks of its sink.
pub trait SinkPort {
    /// Takes confirmations and asks for the commits that are allowed. Answers the newest epoch up
    /// to which everything is confirmed, if it has grown.
    fn settle(&mut self, completed: Epoch) -> Option<Epoch>;
    /// Were commits confirmed since the last [`settle`](SinkPort::settle)?
    fn has_news(&self) -> bool;
    /// Are all its transactions listed, and none open?
    fn is_dry(&self) -> bool;
    /// Closes the open transaction, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the sink.
    fn cut(&mut self, epoch: Epoch) -> Result<(), BoxError>;
    /// The transactions that the next snapshot lists.
    fn listed(&self) -> Vec<Transaction>;
}

/// A sink on one worker.
pub(crate) struct Sinking<S: Sink> {
    sink: S,
    records: Vec<S::Record>,
    has_written: bool,
    is_ready: bool,
    books: Option<Books>,
}

/// The transactions of a sink on one worker.
struct Books {
    target: Arc<dyn Target>,
    task: usize,
    worker: usize,
    name: String,
    life: Arc<Life>,
    listed: Vec<Listed>,
    confirmed: Arc<Confirmed>,
    /// Everything up to this epoch is confirmed.
    settled: Epoch,
}

struct Listed {
    transaction: Transaction,
    is_committing: bool,
}

impl<S: Sink> Sinking<S> {
    /// A sink that has been opened; `task` is counted over all workers.
    pub(crate) fn new(sink: S, name: &str, worker: usize, task: usize, life: &Arc<Life>) -> Self {
        let books = sink.target().filter(|_| life.has_checkpoints()).map(|target| Books {
            target,
            task,
            worker,
            name: name.to_owned(),
            life: life.clone(),
            listed: Vec::new(),
            confirmed: Arc::new(Confirmed::new(life.waker(task))),
            settled: life.start().previous(),
        });
        Sinking { sink, records: Vec::new(), has_written: false, is_ready: true, books }
    }
}

impl<S: Sink> Emit<S::Record> for Sinking<S> {
    #[inline]
    fn emit(&mut self, record: S::Record) {
        self.records.push(record);
    }
    #[inline]
    fn is_blocked(&self) -> bool {
        !self.is_ready
    }
}

impl<S: Sink> Tail<S::Record> for Sinking<S> {
    fn outboxes(&mut self, _: &mut dyn FnMut(&mut dyn OutPort)) {}

    fn end_slice(&mut self) -> Result<(), BoxError> {
        if !self.records.is_empty() {
            self.sink.write(&self.records)?;
            self.records.clear();
            self.has_written = true;
        }
        self.is_ready = self.sink.is_ready();
        Ok(())
    }

    fn store(&mut self, epoch: Epoch) {
        self.sink.store(epoch.0);
    }

    fn sink(&mut self) -> Option<&mut dyn SinkPort> {
        Some(self)
    }
}

impl<S: Sink> SinkPort for Sinking<S> {
    fn settle(&mut self, completed: Epoch) -> Option<Epoch> {
        self.is_ready = self.sink.is_ready();
        let books = self.books.as_mut()?;
        for epoch in books.confirmed.take() {
            books.listed.retain(|listed| listed.transaction.epoch != epoch.0);
        }
        for listed in &mut books.listed {
            let is_allowed = listed.transaction.epoch <= completed.0 || fault(Fault::EarlyCommit);
            if is_allowed && !listed.is_committing {
                listed.is_committing = true;
                books.life.commits.push(Job::Commit {
                    transaction: listed.transaction.clone(),
                    target: books.target.clone(),
                    confirmed: books.confirmed.clone(),
                });
            }
        }
        let is_settled = books.listed.iter().all(|l| l.transaction.epoch > completed.0);
        (is_settled && completed > books.settled).then(|| {
            books.settled = completed;
            completed
        })
    }

    fn has_news(&self) -> bool {
        self.books.as_ref().is_some_and(|books| !books.confirmed.is_empty())
    }

    fn is_dry(&self) -> bool {
        let books = self.books.as_ref().filter(|_| !self.has_written);
        books.is_some_and(|books| books.listed.len() >= books.life.limits.transactions_max)
    }

    fn cut(&mut self, epoch: Epoch) -> Result<(), BoxError> {
        if !std::mem::take(&mut self.has_written) {
            return Ok(());
        }
        let Some(books) = &mut self.books else { return Ok(()) };
        let generation = books.life.generation;
        let id = TransactionId { generation, epoch: epoch.0, worker: books.worker };
        if let Some((data, prepare)) = self.sink.cut(id)? {
            let (sink, worker) = (books.name.clone(), books.worker as u32);
            let prepare = Job::Prepare { task: books.task, sink: sink.clone(), epoch, prepare };
            let transaction = Transaction { sink, generation, epoch: epoch.0, worker, data };
            books.listed.push(Listed { transaction, is_committing: false });
            books.life.commits.push(prepare);
        }
        Ok(())
    }

    fn listed(&self) -> Vec<Transaction> {
        let Some(Books { listed, .. }) = &self.books else { return Vec::new() };
        let first = if fault(Fault::DropHandles) { listed.len().saturating_sub(1) } else { 0 };
        let is_kept = |listed: &&Listed| !listed.is_committing || !fault(Fault::ForgetAtSend);
        let kept = listed[first..].iter().filter(is_kept);
        kept.map(|listed| listed.transaction.clone()).collect()
    }
}
