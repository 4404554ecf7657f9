//! The head with one keyed input: a function of a record and of its key's state.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use overtake_state::{Data, Value};

use crate::channel::inbox::Inbox;
use crate::checkpoint::gate::Gate;
use crate::error::BoxError;
use crate::operator::head::{Head, Output};
use crate::operator::slice::{Done, LOOK_EVERY, Turn};
use crate::source::Emit;

/// What is done with the records of one input, a slice at a time.
pub trait Operator<R>: 'static {
    /// What it emits.
    type Out: 'static;
    /// Can it emit more than one record for one?
    const EXPANDS: bool;
    /// Processes some records, in order. They are counted when all are processed; whoever is given
    /// more than one, as it does not [expand](Operator::EXPANDS), counts those before one that
    /// panics.
    fn process(&mut self, records: &[R], done: &Done<'_>, out: &mut impl Emit<Self::Out>);
}

/// One input and its operator.
pub struct Single<R, O> {
    inbox: Rc<RefCell<Inbox<R>>>,
    operator: O,
}

impl<R, O> Single<R, O> {
    pub(crate) fn new(inbox: Rc<RefCell<Inbox<R>>>, operator: O) -> Single<R, O> {
        Single { inbox, operator }
    }
}

impl<R: 'static, O: Operator<R>> Head for Single<R, O> {
    type Out = O::Out;

    #[inline]
    fn work<E: Emit<O::Out>>(&mut self, turn: &Turn<'_>, out: &mut E) -> Result<usize, BoxError> {
        let mut inbox = self.inbox.borrow_mut();
        let Some(records) = inbox.current(turn.gate) else { return Ok(0) };
        let records = &records[..records.len().min(turn.limit)];
        // An operator that may emit much for one record is asked for one record at a time.
        let step = if O::EXPANDS || E::EXPANDS { 1 } else { LOOK_EVERY };
        let done = turn.count();
        for some in records.chunks(step) {
            self.operator.process(some, &done, out);
            done.add(some.len());
            if (step == 1 && out.is_blocked()) || turn.is_interrupted(done.records()) {
                break;
            }
        }
        inbox.advance(done.records());
        Ok(done.records())
    }

    fn is_ready(&self, gate: &Gate, _: Duration) -> bool {
        self.inbox.borrow().is_ready(gate)
    }
}

/// Folds each key's records into one value, and emits it after every record.
pub struct Fold<K, V, F, A> {
    pub(crate) state: Value<K, V>,
    pub(crate) key: Rc<F>,
    pub(crate) add: A,
}

impl<R, K, V, F, A> Operator<R> for Fold<K, V, F, A>
where
    R: 'static,
    K: Data + Eq,
    V: Data + Default,
    F: Fn(&R) -> K + 'static,
    A: FnMut(&mut V, &R) + 'static,
{
    type Out = (K, V);
    const EXPANDS: bool = false;

    #[inline]
    fn process(&mut self, records: &[R], done: &Done<'_>, out: &mut impl Emit<(K, V)>) {
        let add = &mut self.add;
        self.state.update_each(records, &*self.key, |key, value, record| {
            done.within(records, record, || {
                add(value, record);
                out.emit((key.clone(), value.clone()));
            });
        });
    }
}

/// A function of key, record and whatever state it holds.
pub struct Process<F, P, O> {
    pub(crate) key: Rc<F>,
    pub(crate) function: P,
    pub(crate) output: Output<O>,
}

impl<R, K, F, P, O> Operator<R> for Process<F, P, O>
where
    R: 'static,
    K: 'static,
    O: 'static,
    F: Fn(&R) -> K + 'static,
    P: FnMut(&K, &R, &mut Output<O>) + 'static,
{
    type Out = O;
    const EXPANDS: bool = true;

    #[inline]
    fn process(&mut self, records: &[R], _: &Done<'_>, out: &mut impl Emit<O>) {
        for record in records {
            (self.function)(&(self.key)(record), record, &mut self.output);
            self.output.drain_into(out);
        }
    }
}
