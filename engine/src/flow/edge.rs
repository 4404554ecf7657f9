//! Edges: which worker a record goes to.
//!
//! A route is applied twice: when a record is sent, and when a record that was in flight is
//! restored, by then perhaps on another number of workers.

use std::rc::Rc;

use overtake_state::{Data, hash, owner};

use crate::channel::outbox::Outbox;
use crate::checkpoint::plan::EdgeKind;

/// How the records of an edge are spread over the workers.
pub(crate) trait Route<R>: 'static {
    /// Puts a record into the outbox for its worker, or workers.
    fn send(&mut self, outbox: &mut Outbox<R>, record: R);
}

/// By the hash range of a key.
pub(crate) struct ByKey<F>(pub(crate) Rc<F>);

impl<R: Data, K: Data, F: Fn(&R) -> K + 'static> Route<R> for ByKey<F> {
    #[inline]
    fn send(&mut self, outbox: &mut Outbox<R>, record: R) {
        let to = owner(hash(&(self.0)(&record)), outbox.targets());
        outbox.push(to, record);
    }
}

/// To the worker on which it is.
pub(crate) struct Pointwise {
    pub(crate) worker: usize,
}

impl<R: Data> Route<R> for Pointwise {
    fn send(&mut self, outbox: &mut Outbox<R>, record: R) {
        outbox.push(self.worker, record);
    }
}

/// To each worker in turn.
pub(crate) struct Rebalance {
    pub(crate) next: usize,
}

impl<R: Data> Route<R> for Rebalance {
    fn send(&mut self, outbox: &mut Outbox<R>, record: R) {
        outbox.push(self.next, record);
        self.next = (self.next + 1) % outbox.targets();
    }
}

/// To every worker.
pub(crate) struct Broadcast;

impl<R: Data> Route<R> for Broadcast {
    fn send(&mut self, outbox: &mut Outbox<R>, record: R) {
        for to in 1..outbox.targets() {
            outbox.push(to, record.clone());
        }
        outbox.push(0, record);
    }
}

/// By the user's function of the record and the number of workers.
pub(crate) struct Custom<F>(pub(crate) Rc<F>);

impl<R: Data, F: Fn(&R, usize) -> usize + 'static> Route<R> for Custom<F> {
    fn send(&mut self, outbox: &mut Outbox<R>, record: R) {
        let workers = outbox.targets();
        let to = (self.0)(&record, workers);
        assert!(to < workers, "the partitioner chose worker {to} of {workers}");
        outbox.push(to, record);
    }
}

/// The receiving side of an edge: which in-flight records a worker restores.
pub(crate) struct Inlet<R> {
    pub(crate) edge: usize,
    pub(crate) kind: EdgeKind,
    /// The worker that owns a record, on edges where the record decides.
    pub(crate) owner: Option<Owner<R>>,
}

pub(crate) type Owner<R> = Rc<dyn Fn(&R, usize) -> usize>;

/// The owner of a record by its key.
pub(crate) fn owner_by_key<R: 'static, K: Data>(key: &Rc<impl Fn(&R) -> K + 'static>) -> Owner<R> {
    let key = key.clone();
    Rc::new(move |record, workers| owner(hash(&key(record)), workers))
}
