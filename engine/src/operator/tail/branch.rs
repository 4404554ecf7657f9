//! Tails of a stream that is used more than once: each use is a branch with an outbox of its own,
//! since no timely operator stands between two of ours.

use crate::channel::outbox::OutPort;
use crate::operator::tail::Tail;
use crate::operator::transform::{Through, Transform};
use crate::source::Emit;

/// One use of a stream: its transforms, then its edge.
pub trait Branch<R> {
    fn emit(&mut self, record: R);
    fn is_blocked(&self) -> bool;
    fn outboxes(&mut self, visit: &mut dyn FnMut(&mut dyn OutPort));
}

pub(crate) type AnyBranch<R> = Box<dyn Branch<R>>;

/// A branch whose record types are known.
pub(crate) struct Chained<T, O> {
    pub(crate) transform: T,
    pub(crate) tail: O,
}

impl<R, T: Transform<R>, O: Tail<T::Out>> Branch<R> for Chained<T, O> {
    fn emit(&mut self, record: R) {
        Through { transform: &mut self.transform, out: &mut self.tail }.emit(record);
    }
    fn is_blocked(&self) -> bool {
        self.tail.is_blocked()
    }
    fn outboxes(&mut self, visit: &mut dyn FnMut(&mut dyn OutPort)) {
        self.tail.outboxes(visit);
    }
}

/// Each record goes to every branch.
pub(crate) struct Fork<R> {
    branches: Vec<AnyBranch<R>>,
}

impl<R> Fork<R> {
    pub(crate) fn new(branches: Vec<AnyBranch<R>>) -> Fork<R> {
        Fork { branches }
    }
}

impl<R: Clone + 'static> Emit<R> for Fork<R> {
    const EXPANDS: bool = true;
    fn emit(&mut self, record: R) {
        if let Some((last, others)) = self.branches.split_last_mut() {
            others.iter_mut().for_each(|branch| branch.emit(record.clone()));
            last.emit(record);
        }
    }
    fn is_blocked(&self) -> bool {
        self.branches.iter().any(|branch| branch.is_blocked())
    }
}

impl<R: Clone + 'static> Tail<R> for Fork<R> {
    fn outboxes(&mut self, visit: &mut dyn FnMut(&mut dyn OutPort)) {
        self.branches.iter_mut().for_each(|branch| branch.outboxes(visit));
    }
}

/// Each record goes to one of two branches: a side output.
pub(crate) struct Split<A, B, F> {
    pub(crate) function: F,
    pub(crate) main: AnyBranch<A>,
    pub(crate) side: AnyBranch<B>,
}

impl<R, A, B, F> Emit<R> for Split<A, B, F>
where
    R: 'static,
    A: 'static,
    B: 'static,
    F: FnMut(R) -> Result<A, B> + 'static,
{
    const EXPANDS: bool = true;
    fn emit(&mut self, record: R) {
        match (self.function)(record) {
            Ok(record) => self.main.emit(record),
            Err(record) => self.side.emit(record),
        }
    }
    fn is_blocked(&self) -> bool {
        self.main.is_blocked() || self.side.is_blocked()
    }
}

impl<R, A, B, F> Tail<R> for Split<A, B, F>
where
    R: 'static,
    A: 'static,
    B: 'static,
    F: FnMut(R) -> Result<A, B> + 'static,
{
    fn outboxes(&mut self, visit: &mut dyn FnMut(&mut dyn OutPort)) {
        self.main.outboxes(visit);
        self.side.outboxes(visit);
    }
}
