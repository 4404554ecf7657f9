//! Batches in flight, in segments: what an unaligned snapshot captures.

use std::sync::Arc;

use rkyv::{Archive, Deserialize, Serialize};

use super::{Content, Frame, FrameHead, Segment, SegmentWriter};
use crate::data::{Data, decode_vec, encode_slice};
use crate::error::{RestoreError, WriteError};

/// Where a batch in flight was at the cut, seen from the worker that captured it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Archive, Serialize, Deserialize,
)]
pub enum Place {
    /// Restored from an earlier checkpoint and not processed since.
    Restored,
    /// Received, or on its way, from a worker.
    Inbox {
        /// The sender.
        from: u32,
    },
    /// Waiting for credit, to be sent to a worker.
    Outbox {
        /// The receiver.
        to: u32,
    },
}

/// What identifies a batch in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightHead {
    /// The operator that captured it: the receiver, or the sender if it was in an outbox.
    pub operator: Arc<str>,
    /// The edge.
    pub edge: Arc<str>,
    /// Where it was.
    pub place: Place,
    /// The epoch that it was sent in.
    pub epoch: u64,
    /// Its event time.
    pub event: i64,
}

/// A batch in flight, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight<R> {
    /// The epoch that it was sent in.
    pub epoch: u64,
    /// Its event time.
    pub event: i64,
    /// The records.
    pub records: Vec<R>,
}

/// Writes a batch in flight. The order of writing is the order in which it is restored (G2).
///
/// # Errors
///
/// If the storage fails.
pub fn write_flight<R: Data>(
    writer: &mut SegmentWriter,
    head: FlightHead,
    records: &[R],
) -> Result<(), WriteError> {
    let FlightHead { operator, edge, place, epoch, event } = head;
    let content = Content::Flight { place, epoch, event };
    let head = FrameHead { operator, name: edge, content };
    writer.frame(head, records.len(), |out| encode_slice(records, out))
}

/// Reads a batch in flight, if the frame holds one that was at this place.
pub(crate) fn read_flight<R: Data>(
    segment: &Segment,
    frame: &Frame,
    wanted: Place,
) -> Result<Option<Flight<R>>, RestoreError> {
    let Content::Flight { place, epoch, event } = frame.head.content else { return Ok(None) };
    if place != wanted {
        return Ok(None);
    }
    let payload = segment.payload(frame)?;
    let records = decode_vec::<R>(&payload).map_err(|why| segment.malformed(why))?;
    if records.len() as u64 != frame.records {
        return Err(segment.malformed("a batch of another length").into());
    }
    Ok(Some(Flight { epoch, event, records }))
}
