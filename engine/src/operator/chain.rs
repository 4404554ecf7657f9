//! A fused chain: a head, stateless transforms, a tail, in one loop without a virtual call.

use std::time::Duration;

use crate::channel::outbox::OutPort;
use crate::checkpoint::gate::Gate;
use crate::checkpoint::time::Epoch;
use crate::error::BoxError;
use crate::operator::head::Head;
use crate::operator::slice::Turn;
use crate::operator::tail::Tail;
use crate::operator::tail::sink::SinkPort;
use crate::operator::transform::{Through, Transform};

/// What a task asks of its chain, whatever its operators are. See [`Head`] and [`Tail`].
pub trait Logic {
    fn work(&mut self, turn: &Turn<'_>) -> Result<usize, BoxError>;
    fn is_ready(&self, gate: &Gate, now: Duration) -> bool;
    fn is_blocked(&self) -> bool;
    fn input_ended(&mut self, input: usize);
    fn has_ended(&self) -> bool;
    fn woken(&mut self);
    fn wakes_at(&self) -> Option<Duration>;
    fn store(&mut self, epoch: Epoch);
    fn drain(&mut self);
    fn outboxes(&mut self, visit: &mut dyn FnMut(&mut dyn OutPort));
    fn sink(&mut self) -> Option<&mut dyn SinkPort>;
}

/// The three parts.
pub(crate) struct Chain<H, T, O> {
    pub(crate) head: H,
    pub(crate) transform: T,
    pub(crate) tail: O,
}

impl<H: Head, T: Transform<H::Out>, O: Tail<T::Out>> Logic for Chain<H, T, O> {
    fn work(&mut self, turn: &Turn<'_>) -> Result<usize, BoxError> {
        let mut out = Through { transform: &mut self.transform, out: &mut self.tail };
        let done = self.head.work(turn, &mut out)?;
        // What a sink refuses is among them.
        turn.done.set(0);
        self.tail.end_slice()?;
        Ok(done)
    }

    fn is_ready(&self, gate: &Gate, now: Duration) -> bool {
        self.head.is_ready(gate, now)
    }

    fn is_blocked(&self) -> bool {
        self.tail.is_blocked()
    }

    fn input_ended(&mut self, input: usize) {
        self.head.input_ended(input);
    }

    fn has_ended(&self) -> bool {
        self.head.has_ended()
    }

    fn woken(&mut self) {
        self.head.woken();
    }

    fn wakes_at(&self) -> Option<Duration> {
        self.head.wakes_at()
    }

    fn store(&mut self, epoch: Epoch) {
        self.head.store(epoch);
        self.tail.store(epoch);
    }

    fn drain(&mut self) {
        self.head.drain();
    }

    fn outboxes(&mut self, visit: &mut dyn FnMut(&mut dyn OutPort)) {
        self.tail.outboxes(visit);
    }

    fn sink(&mut self) -> Option<&mut dyn SinkPort> {
        self.tail.sink()
    }
}
