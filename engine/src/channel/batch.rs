//! What travels on a channel.
//!
//! timely sees a [`Ticket`], which it counts and stamps; the batch itself goes beside it through
//! our ring. So every edge is one type to timely, whatever its records are.
//!
//! # Invariants
//!
//! * **B1**: a sealed batch is never changed. A capture shares it instead of copying it.

use std::sync::Arc;

use timely::Accountable;
use timely::dataflow::channels::Message;

use crate::checkpoint::time::Time;

/// The records of a sealed batch, shared once a capture holds them.
pub(crate) enum Records<R> {
    Own(Vec<R>),
    Shared(Arc<Vec<R>>),
}

impl<R> Records<R> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[R] {
        match self {
            Records::Own(records) => records,
            Records::Shared(records) => records,
        }
    }

    /// A second owner of the same records (B1); the `Arc` is made only now.
    pub(crate) fn share(&mut self) -> Arc<Vec<R>> {
        if let Records::Own(records) = self {
            *self = Records::Shared(Arc::new(std::mem::take(records)));
        }
        match self {
            Records::Shared(records) => records.clone(),
            Records::Own(_) => unreachable!("it was shared just above"),
        }
    }

    /// The buffer, unless a capture still holds it.
    pub(crate) fn into_buffer(self) -> Option<Vec<R>> {
        match self {
            Records::Own(records) => Some(records),
            Records::Shared(records) => Arc::try_unwrap(records).ok(),
        }
    }
}

/// A sealed batch with its stamp.
pub(crate) struct Batch<R> {
    pub(crate) time: Time,
    pub(crate) records: Records<R>,
}

/// Records of one captured batch, from a position on.
pub(crate) struct Piece<R> {
    pub(crate) time: Time,
    pub(crate) records: Arc<Vec<R>>,
    pub(crate) from: usize,
}

impl<R> Piece<R> {
    pub(crate) fn as_slice(&self) -> &[R] {
        &self.records[self.from..]
    }
}

/// What timely sees of a batch: where it goes, and how many records it has.
#[derive(Clone, Default)]
pub(crate) struct Ticket {
    pub(crate) to: usize,
    pub(crate) records: i64,
}

impl Accountable for Ticket {
    fn record_count(&self) -> i64 {
        self.records
    }
}

/// What is in a ring: timely's message, and the records that it stands for.
pub(crate) struct Parcel<R> {
    pub(crate) message: Message<Time, Ticket>,
    pub(crate) records: Records<R>,
}
