//! Heads: what a chain begins with, and where its records come from.

pub(crate) mod keyed;
pub(crate) mod merge;
pub(crate) mod reading;
pub(crate) mod two;

use std::time::Duration;

use crate::checkpoint::gate::Gate;
use crate::checkpoint::time::Epoch;
use crate::error::BoxError;
use crate::operator::slice::Turn;
use crate::source::Emit;

/// The beginning of a fused chain. It takes slices of records by reference, since a capture may
/// hold their batch.
pub trait Head: 'static {
    /// What it emits.
    type Out: 'static;

    /// Processes at most as many records as the turn allows, or reads them; answers how many. Stops
    /// early when the output is blocked or the turn is interrupted.
    ///
    /// # Errors
    ///
    /// The job stops with the operator's name and this error.
    fn work<E: Emit<Self::Out>>(&mut self, turn: &Turn<'_>, out: &mut E)
    -> Result<usize, BoxError>;

    /// Would [`work`](Head::work) find something?
    fn is_ready(&self, gate: &Gate, now: Duration) -> bool;

    /// An input has ended: told once in every life, after the restored data of that input.
    fn input_ended(&mut self, input: usize) {
        let _ = input;
    }

    /// Has it nothing left that is not in an inbox?
    fn has_ended(&self) -> bool {
        true
    }

    /// Somebody called the waker.
    fn woken(&mut self) {}

    /// When it wants to be woken, if nothing else wakes it before.
    fn wakes_at(&self) -> Option<Duration> {
        None
    }

    /// Puts what is to be stored into its tables, just before they are frozen at the end of an
    /// epoch.
    fn store(&mut self, epoch: Epoch) {
        let _ = epoch;
    }

    /// The job shall end: what has no inputs reads no further.
    fn drain(&mut self) {}
}

/// What an operator's function emits into.
#[derive(Debug)]
pub struct Output<O>(pub(crate) Vec<O>);

impl<O> Output<O> {
    /// Emits one record.
    #[inline]
    pub fn emit(&mut self, record: O) {
        self.0.push(record);
    }

    /// Hands on what was emitted.
    #[inline]
    pub(crate) fn drain_into(&mut self, out: &mut impl Emit<O>) {
        self.0.drain(..).for_each(|record| out.emit(record));
    }
}
