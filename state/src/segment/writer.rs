//! Writes a segment, front to back.

use super::{END, FOOTER, Frame, FrameHead, SegmentInfo, padding, segment_name};
use crate::data::encode;
use crate::error::WriteError;
use crate::lives::CheckpointId;
use crate::object::{MAGIC, SEGMENT};
use crate::store::{Append, Store};

/// How much is collected before it is given to the store.
const BUFFER_BYTES: usize = 1 << 20;

/// A segment that is being written. Dropped before it is finished, it leaves a file that nothing
/// names, and which is pruned.
pub struct SegmentWriter {
    file: Box<dyn Append>,
    name: String,
    worker: u32,
    /// What the file holds already.
    appended: u64,
    buffer: Vec<u8>,
    frames: Vec<Frame>,
}

impl SegmentWriter {
    /// Begins the segment of one worker and checkpoint.
    ///
    /// # Errors
    ///
    /// If there is one already, or the storage fails.
    pub fn create(
        store: &dyn Store,
        id: CheckpointId,
        worker: usize,
    ) -> Result<SegmentWriter, WriteError> {
        let name = segment_name(id, worker);
        let worker = u32::try_from(worker).expect("there are fewer workers than that");
        let file = store.create(&name)?;
        let buffer = SEGMENT.head().to_vec();
        Ok(SegmentWriter { file, name, worker, appended: 0, buffer, frames: vec![] })
    }

    /// Writes a frame: `fill` appends its payload.
    ///
    /// # Errors
    ///
    /// If the storage fails.
    pub fn frame(
        &mut self,
        head: FrameHead,
        records: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), WriteError> {
        let start = self.buffer.len();
        fill(&mut self.buffer);
        let payload = &self.buffer[start..];
        self.frames.push(Frame {
            head,
            records: records as u64,
            offset: self.appended + start as u64,
            bytes: payload.len() as u64,
            crc: crc32c::crc32c(payload),
        });
        self.pad();
        if self.buffer.len() >= BUFFER_BYTES {
            self.append()?;
        }
        Ok(())
    }

    /// How many bytes were written so far.
    pub fn bytes(&self) -> u64 {
        self.appended + self.buffer.len() as u64
    }

    /// Writes index and footer, and makes the file durable.
    ///
    /// # Errors
    ///
    /// If the storage fails; the segment is of no use then.
    pub fn finish(mut self) -> Result<SegmentInfo, WriteError> {
        let offset = self.bytes();
        let start = self.buffer.len();
        encode(&self.frames, &mut self.buffer);
        let bytes = (self.buffer.len() - start) as u64;
        self.buffer.extend(offset.to_le_bytes());
        self.buffer.extend(bytes.to_le_bytes());
        self.buffer.extend(MAGIC);
        self.buffer.extend(END);
        let digest = crc32c::crc32c(&self.buffer[start..]);
        self.buffer.extend(digest.to_le_bytes());
        debug_assert_eq!(self.bytes(), offset + bytes + FOOTER as u64);
        self.append()?;
        self.file.finish()?;
        let frames = u32::try_from(self.frames.len()).expect("a frame is at least 16 bytes");
        let SegmentWriter { name, worker, appended: bytes, .. } = self;
        Ok(SegmentInfo { name, worker, bytes, digest, frames })
    }

    /// Payloads begin where archives may lie (D2), so that they can be read in place.
    fn pad(&mut self) {
        self.buffer.resize(self.buffer.len() + padding(self.buffer.len()), 0);
    }

    fn append(&mut self) -> Result<(), WriteError> {
        self.file.append(&self.buffer)?;
        self.appended += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
