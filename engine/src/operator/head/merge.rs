//! The head that passes records on: union, rebalance, custom partitioning.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::channel::inbox::Inbox;
use crate::checkpoint::gate::Gate;
use crate::error::BoxError;
use crate::operator::head::Head;
use crate::operator::slice::Turn;
use crate::source::Emit;

/// Takes the records of any number of inputs, each in turn.
pub struct Merge<R> {
    inputs: Vec<Rc<RefCell<Inbox<R>>>>,
    next: usize,
}

impl<R> Merge<R> {
    pub(crate) fn new(inputs: Vec<Rc<RefCell<Inbox<R>>>>) -> Merge<R> {
        Merge { inputs, next: 0 }
    }
}

impl<R: Clone + 'static> Head for Merge<R> {
    type Out = R;

    fn work<E: Emit<R>>(&mut self, turn: &Turn<'_>, out: &mut E) -> Result<usize, BoxError> {
        for _ in 0..self.inputs.len() {
            let mut inbox = self.inputs[self.next].borrow_mut();
            self.next = (self.next + 1) % self.inputs.len();
            let Some(records) = inbox.current(turn.gate) else { continue };
            let done = turn.count();
            for record in records.iter().take(turn.limit) {
                out.emit(record.clone());
                done.add(1);
                if out.is_blocked() || turn.is_interrupted(done.records()) {
                    break;
                }
            }
            inbox.advance(done.records());
            return Ok(done.records());
        }
        Ok(0)
    }

    fn is_ready(&self, gate: &Gate, _: Duration) -> bool {
        self.inputs.iter().any(|inbox| inbox.borrow().is_ready(gate))
    }
}
