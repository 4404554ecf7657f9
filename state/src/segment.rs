//! A segment: the file of one worker and one checkpoint. It holds all that the worker's tasks
//! handed over, as frames, in the order in which they were written, then an index of the frames,
//! then a footer that says where the index is. FORMAT.md draws every byte.
//!
//! ```text
//!   ┌──────┬─────────┬─────────┬─ ─ ─┬─────────┬───────┬────────┐
//!   │ head │ payload │ payload │     │ payload │ index │ footer │
//!   └──────┴─────────┴─────────┴─ ─ ─┴─────────┴───────┴────────┘
//!             each has its checksum in the index; the footer has that of the index
//! ```
//!
//! # Invariants
//!
//! * **G1**: a payload is shown only after its checksum was found right, and an index only after
//!   that of the footer was; the footer's is in the manifest too, so a whole segment of another
//!   checkpoint is not taken for this one.
//! * **G2**: the order of writing is the order of reading.

mod flight;
mod reader;
mod rows;
mod writer;

use std::sync::Arc;

pub(crate) use flight::read_flight;
pub use flight::{Flight, FlightHead, Place, write_flight};
pub use reader::Segment;
use rkyv::{Archive, Deserialize, Serialize};
pub(crate) use rows::{read_rows, write_rows};
pub use writer::SegmentWriter;

use crate::lives::CheckpointId;

/// What identifies a frame: whose it is, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct FrameHead {
    /// The operator.
    pub operator: Arc<str>,
    /// The table, or the edge.
    pub name: Arc<str>,
    /// What the payload holds.
    pub content: Content,
}

/// What a payload holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub enum Content {
    /// Rows of a keyed table whose hashes lie between two, both included.
    Table {
        /// The least hash.
        first: u64,
        /// The greatest hash.
        last: u64,
    },
    /// Rows of a broadcast table, of which each worker has a copy.
    Broadcast,
    /// Entries of operator state.
    Entries,
    /// A batch in flight.
    Flight {
        /// Where it was.
        place: Place,
        /// The epoch that it was sent in.
        epoch: u64,
        /// Its event time.
        event: i64,
    },
}

/// A frame, as the index lists it.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Frame {
    /// What it is.
    pub head: FrameHead,
    /// How many records or rows it holds.
    pub records: u64,
    /// Where in the file its payload begins.
    pub offset: u64,
    /// How long the payload is.
    pub bytes: u64,
    /// The crc32c of the payload.
    pub crc: u32,
}

/// A segment, as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// Its name in the store.
    pub name: String,
    /// The worker that wrote it.
    pub worker: u32,
    /// Its length.
    pub bytes: u64,
    /// The checksum in its footer, over index and footer (G1).
    pub digest: u32,
    /// How many frames it holds.
    pub frames: u32,
}

/// The folder of all segments.
pub(crate) const FOLDER: &str = "segments/";

/// The name of the segment of one worker and checkpoint.
pub(crate) fn segment_name(id: CheckpointId, worker: usize) -> String {
    format!("{FOLDER}{}-{worker:05}", id.name())
}

/// Which checkpoint a segment was written for, by its name.
pub(crate) fn segment_id(name: &str) -> Option<CheckpointId> {
    let (id, worker) = name.strip_prefix(FOLDER)?.rsplit_once('-')?;
    let id = CheckpointId::from_name(id)?;
    (segment_name(id, worker.parse().ok()?) == name).then_some(id)
}

/// The bytes of a segment's footer.
const FOOTER: usize = 32;

/// What the footer ends with, before its checksum.
const END: [u8; 4] = *b"END ";

/// How many zeros bring a length to the next multiple of the alignment of archives.
fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(crate::data::ALIGN) - bytes
}

#[cfg(test)]
mod tests;
