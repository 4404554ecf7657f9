//! The head with two inputs and one state.
//!
//! It never refuses one input to wait for the other (refusing deadlocks an aligned checkpoint):
//! what it cannot use yet it holds in keyed state. The end of the left input releases what is held,
//! a few records at a time, and a later record of a key with held records goes behind them.
//!
//! # Invariants
//!
//! * **J1**: restored data of the left input is worked off before anything of the right one.
//! * **J2**: while the left input has not ended, a holding head processes nothing of the right.
//! * **J3**: the records of a key are processed in the order in which they arrived.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use overtake_state::{Data, List};

use crate::channel::inbox::Inbox;
use crate::checkpoint::gate::Gate;
use crate::error::BoxError;
use crate::operator::head::{Head, Output};
use crate::operator::slice::Turn;
use crate::source::Emit;
use crate::sync::{Fault, fault};

/// Two inputs, what is done with each, and what is held of the right one.
pub struct Two<A, B, K, O, L, R, F> {
    left: Rc<RefCell<Inbox<A>>>,
    right: Rc<RefCell<Inbox<B>>>,
    functions: Functions<L, R, F>,
    held: Option<Held<K, B>>,
    output: Output<O>,
    is_lefts_turn: bool,
}

/// The functions of a head with two inputs.
pub(crate) struct Functions<L, R, F> {
    pub(crate) left: L,
    pub(crate) right: R,
    pub(crate) right_key: Rc<F>,
}

struct Held<K, B> {
    records: List<K, B>,
    /// The left input has ended: what is held goes first.
    is_released: bool,
}

impl<A, B, K, O, L, R, F> Two<A, B, K, O, L, R, F> {
    pub(crate) fn new(
        left: Rc<RefCell<Inbox<A>>>,
        right: Rc<RefCell<Inbox<B>>>,
        functions: Functions<L, R, F>,
        held: Option<List<K, B>>,
    ) -> Self {
        let held = held.map(|records| Held { records, is_released: false });
        Two { left, right, functions, held, output: Output(Vec::new()), is_lefts_turn: true }
    }
}

impl<A, B, K, O, L, R, F> Two<A, B, K, O, L, R, F>
where
    A: 'static,
    B: Data + 'static,
    K: Data + Eq,
    O: 'static,
    L: FnMut(&A, &mut Output<O>) + 'static,
    R: FnMut(&K, &B, &mut Output<O>) + 'static,
    F: Fn(&B) -> K + 'static,
{
    fn work_left(&mut self, turn: &Turn<'_>, out: &mut impl Emit<O>) -> usize {
        let mut inbox = self.left.borrow_mut();
        let Some(records) = inbox.current(turn.gate) else { return 0 };
        let done = turn.count();
        for record in records.iter().take(turn.limit) {
            (self.functions.left)(record, &mut self.output);
            self.output.drain_into(out);
            done.add(1);
            if out.is_blocked() || turn.is_interrupted(done.records()) {
                break;
            }
        }
        inbox.advance(done.records());
        done.records()
    }

    fn work_right(&mut self, turn: &Turn<'_>, out: &mut impl Emit<O>) -> usize {
        if fault(Fault::RefuseKeyed) && self.held.as_ref().is_some_and(|held| !held.is_released) {
            return 0;
        }
        let mut inbox = self.right.borrow_mut();
        let Some(records) = inbox.current(turn.gate) else { return 0 };
        let done = turn.count();
        for record in records.iter().take(turn.limit) {
            let key = (self.functions.right_key)(record);
            match &self.held {
                // J2, J3: it waits for the end of the left input, or behind who waited for it.
                Some(held)
                    if (!held.is_released || held.records.contains(&key))
                        && !fault(Fault::NoHold) =>
                {
                    held.records.push(&key, record.clone());
                }
                _ => {
                    (self.functions.right)(&key, record, &mut self.output);
                    self.output.drain_into(out);
                }
            }
            done.add(1);
            if out.is_blocked() || turn.is_interrupted(done.records()) {
                break;
            }
        }
        inbox.advance(done.records());
        done.records()
    }

    /// Processes what was held, key by key.
    fn release(&mut self, turn: &Turn<'_>, out: &mut impl Emit<O>) -> usize {
        let Some(held) = self.held.as_ref().filter(|held| held.is_released) else { return 0 };
        let done = turn.count();
        while done.records() < turn.limit && !out.is_blocked() {
            let Some(key) = held.records.any_key() else { break };
            let record = held.records.pop_front(&key).expect("a key that is listed has records");
            (self.functions.right)(&key, &record, &mut self.output);
            self.output.drain_into(out);
            done.add(1);
            if turn.is_interrupted(done.records()) {
                break;
            }
        }
        done.records()
    }

    fn has_released(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_released && !held.records.is_empty())
    }
}

impl<A, B, K, O, L, R, F> Head for Two<A, B, K, O, L, R, F>
where
    A: 'static,
    B: Data + 'static,
    K: Data + Eq,
    O: 'static,
    L: FnMut(&A, &mut Output<O>) + 'static,
    R: FnMut(&K, &B, &mut Output<O>) + 'static,
    F: Fn(&B) -> K + 'static,
{
    type Out = O;

    fn work<E: Emit<O>>(&mut self, turn: &Turn<'_>, out: &mut E) -> Result<usize, BoxError> {
        if fault(Fault::KeyedFirst) && self.right.borrow().has_restored() {
            return Ok(self.work_right(turn, out));
        }
        if self.left.borrow().has_restored() {
            return Ok(self.work_left(turn, out));
        }
        self.is_lefts_turn = !self.is_lefts_turn;
        if self.is_lefts_turn {
            let done = self.work_left(turn, out);
            if done > 0 {
                return Ok(done);
            }
        }
        let released = self.release(turn, out);
        if released > 0 {
            return Ok(released);
        }
        let done = self.work_right(turn, out);
        Ok(if done > 0 { done } else { self.work_left(turn, out) })
    }

    fn is_ready(&self, gate: &Gate, _: Duration) -> bool {
        self.has_released()
            || self.left.borrow().is_ready(gate)
            || self.right.borrow().is_ready(gate)
    }

    fn input_ended(&mut self, input: usize) {
        if let Some(held) = self.held.as_mut().filter(|_| input == 0) {
            held.is_released = true;
        }
    }

    fn has_ended(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.records.is_empty())
    }
}
