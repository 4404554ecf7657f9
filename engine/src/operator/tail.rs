//! Tails: where the records of a chain go.
//!
//! A chain ends in an edge, in a sink, or where the stream is used more than once. Partitioning
//! belongs to the sending task: a task of its own would be one more buffer.

pub(crate) mod branch;
pub(crate) mod sink;

use crate::channel::outbox::{OutPort, Outbox};
use crate::checkpoint::time::Epoch;
use crate::error::BoxError;
use crate::flow::edge::Route;
use crate::operator::tail::sink::SinkPort;
use crate::source::Emit;
use overtake_state::Data;

/// The end of a fused chain.
pub(crate) trait Tail<R>: Emit<R> + 'static {
    /// Shows each of its outboxes, always in the same order.
    fn outboxes(&mut self, visit: &mut dyn FnMut(&mut dyn OutPort));

    /// The operator has finished a slice of records.
    ///
    /// # Errors
    ///
    /// Those of a sink.
    fn end_slice(&mut self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Puts what is to be stored into its tables, just before they are frozen at the end of an
    /// epoch.
    fn store(&mut self, epoch: Epoch) {
        let _ = epoch;
    }

    /// The sink, if it is one.
    fn sink(&mut self) -> Option<&mut dyn SinkPort> {
        None
    }
}

/// Sends records along one edge.
pub(crate) struct Send<R, P> {
    outbox: Outbox<R>,
    route: P,
}

impl<R, P> Send<R, P> {
    pub(crate) fn new(outbox: Outbox<R>, route: P) -> Send<R, P> {
        Send { outbox, route }
    }
}

impl<R: Data, P: Route<R>> Emit<R> for Send<R, P> {
    #[inline]
    fn emit(&mut self, record: R) {
        self.route.send(&mut self.outbox, record);
    }
    #[inline]
    fn is_blocked(&self) -> bool {
        self.outbox.is_blocked()
    }
}

impl<R: Data, P: Route<R>> Tail<R> for Send<R, P> {
    fn outboxes(&mut self, visit: &mut dyn FnMut(&mut dyn OutPort)) {
        visit(&mut self.outbox);
    }
}
