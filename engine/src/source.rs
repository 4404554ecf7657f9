//! What a system must do to be read from, exactly once.
//!
//! # The contract
//!
//! * **S1**: [`splits`](Source::splits) names the same splits on every worker. A split that is new
//!   in a later life is read from its beginning; one that is gone is an error of the source.
//! * **S2**: a split is read by one worker at a time: the engine opens each on one worker, at the
//!   position of the restored checkpoint, and hands none over while it runs.
//! * **S3**: after an [`open`](Source::open) at a position, the source emits exactly the records
//!   that followed when that position was told, in the same order.
//! * **S4**: [`positions`](Source::positions) covers exactly what was emitted. Reading ahead is
//!   allowed and not part of it.
//! * **S5**: [`read`](Source::read) never waits. A source that has nothing yet answers
//!   [`Read::Idle`] and calls its waker later, or [`Read::Until`] with the time of the next record.
//! * **S6**: [`Read::Ended`] means every split of this worker has been read to its end. It is
//!   final in one life, and answered again at once in the next one.
//! * **S7**: a source emits only while the output [is not blocked](Emit::is_blocked); records that
//!   it has read ahead stay with it.
//! * **S8**: a source that must know when its positions are durable has a
//!   [`Listener`]: [`cut`](Source::cut) tells it after which records each epoch ends, and the
//!   listener is told when that is complete.
//! * **S9**: a source that is told to [`drain`](Source::drain) emits what it has accepted and
//!   cannot be read again, and then ends. By default there is no such thing, and it ends at once.

pub(crate) mod items;
mod paced;

use std::sync::Arc;
use std::time::Duration;

use overtake_state::Data;

use crate::error::BoxError;
use crate::{Listener, Waker};
pub use items::Items;
pub use paced::{Paced, paced};

/// Takes records one at a time; what follows an operator in its fused chain.
pub trait Emit<R> {
    /// Can one record become several on the way? Then whoever emits asks after each one whether
    /// the output is blocked.
    const EXPANDS: bool = false;

    /// Hands over one record.
    fn emit(&mut self, record: R);

    /// A full batch waits for credit: nothing should be emitted for now.
    fn is_blocked(&self) -> bool;
}

/// How a source was left by [`Source::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// There is more: read again.
    More,
    /// Nothing for now; the waker will be called.
    Idle,
    /// Nothing before this time of the job's clock.
    Until(Duration),
    /// Every split of this worker has ended.
    Ended,
}

/// Where a source runs, and how it wakes its task.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// The worker on which this instance runs, from 0.
    pub worker: usize,
    /// How many workers the job has.
    pub workers: usize,
    /// Wakes the source's task when there is something to read.
    pub waker: Waker,
}

/// A system that records are read from. See the [contract](self).
pub trait Source: 'static {
    /// What is read.
    type Record: Data;
    /// Where in a split the source is: operator state, stored in every checkpoint.
    type Position: Data;

    /// The names of all splits of this source, on whichever worker (S1).
    ///
    /// # Errors
    ///
    /// If the system cannot be asked; the job does not start.
    fn splits(&mut self) -> Result<Vec<String>, BoxError>;

    /// Takes over a split, at the position of the restored checkpoint, if there is one (S3).
    /// Called for each split of this worker before the first read.
    ///
    /// # Errors
    ///
    /// If the split is missing, unreadable or shorter than the position.
    fn open(
        &mut self,
        split: &str,
        position: Option<Self::Position>,
        context: &SourceContext,
    ) -> Result<(), BoxError>;

    /// Emits at most `limit` records. `now` is the time of the job's clock.
    ///
    /// # Errors
    ///
    /// A record that cannot be read stops the job; the message names file, line and column.
    fn read(
        &mut self,
        limit: usize,
        now: Duration,
        out: &mut impl Emit<Self::Record>,
    ) -> Result<Read, BoxError>;

    /// The position of each split of this worker, after what was emitted (S4).
    fn positions(&self) -> Vec<(String, Self::Position)>;

    /// Who is told when positions are durable (S8).
    fn listener(&self) -> Option<Arc<dyn Listener>> {
        None
    }

    /// The positions that were just told are those of the checkpoint that ends this epoch (S8).
    fn cut(&mut self, epoch: u64) {
        let _ = epoch;
    }

    /// The job shall end, without reading its input to the end (S9). Answers how the source was
    /// left: [`Read::Ended`], or it is read until it says so.
    fn drain(&mut self) -> Read {
        Read::Ended
    }
}

/// A source of records that are in memory, read by one worker in their order.
pub fn items<R: Data>(items: Vec<R>) -> Items<R> {
    Items::new(items)
}
