//! Reads a segment: the index at once, payloads when they are asked for.

use std::sync::Arc;

use super::{END, FOOTER, Frame, SegmentInfo};
use crate::data::decode;
use crate::error::{Damage, RestoreError};
use crate::object::{MAGIC, SEGMENT, check_crc, le_u32, le_u64};
use crate::store::{Store, StoreError};

/// A segment that was opened and whose index was found right.
pub struct Segment {
    store: Arc<dyn Store>,
    info: SegmentInfo,
    frames: Vec<Frame>,
}

impl Segment {
    /// Opens the segment that a manifest lists, and checks all of it but the payloads.
    ///
    /// # Errors
    ///
    /// If it is not there, not the one that is listed, damaged, or the storage fails.
    pub fn open(store: &Arc<dyn Store>, info: &SegmentInfo) -> Result<Segment, RestoreError> {
        let (store, info) = (Arc::clone(store), info.clone());
        let mut segment = Segment { store, info, frames: vec![] };
        segment.frames = segment.read_index()?;
        Ok(segment)
    }

    /// How the manifest lists it.
    pub fn info(&self) -> &SegmentInfo {
        &self.info
    }

    /// The frames, in the order in which they were written (G2).
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The payload of a frame, after a check of its checksum (G1).
    ///
    /// # Errors
    ///
    /// If it is damaged, or the storage fails.
    pub fn payload(&self, frame: &Frame) -> Result<Vec<u8>, RestoreError> {
        let bytes = usize::try_from(frame.bytes).map_err(|_| self.malformed("a frame is huge"))?;
        let payload = self.read(frame.offset, bytes)?;
        check_crc(&self.place(), frame.offset, frame.crc, crc32c::crc32c(&payload))?;
        Ok(payload)
    }

    /// Checks every payload.
    ///
    /// # Errors
    ///
    /// If one is damaged, or the storage fails.
    pub fn check(&self) -> Result<(), RestoreError> {
        self.frames.iter().try_for_each(|frame| self.payload(frame).map(drop))
    }

    /// The file is not what it should be.
    pub(crate) fn malformed(&self, why: impl ToString) -> Damage {
        Damage::Malformed { file: self.place(), why: why.to_string() }
    }

    fn place(&self) -> String {
        self.store.place(&self.info.name)
    }

    fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, RestoreError> {
        self.store.read_range(&self.info.name, offset, bytes).map_err(missing)
    }

    fn read_index(&self) -> Result<Vec<Frame>, RestoreError> {
        let file = self.place();
        let found = self.store.len(&self.info.name).map_err(missing)?;
        if found != self.info.bytes {
            return Err(Damage::Length { file, expected: self.info.bytes, found }.into());
        }
        let head = SEGMENT.head().len();
        let Some(footer_at) = found.checked_sub(FOOTER as u64).filter(|at| *at >= head as u64)
        else {
            let expected = (head + FOOTER) as u64;
            return Err(Damage::Length { file, expected, found }.into());
        };
        SEGMENT.check(&file, &self.read(0, head)?)?;
        let footer = self.read(footer_at, FOOTER)?;
        let (offset, bytes) = (le_u64(&footer, 0), le_u64(&footer, 8));
        let fits = offset.checked_add(bytes) == Some(footer_at);
        if !fits || footer[16..24] != MAGIC || footer[24..28] != END {
            return Err(self.malformed("its footer is not one").into());
        }
        let bytes = usize::try_from(bytes).map_err(|_| self.malformed("its index is huge"))?;
        let index = self.read(offset, bytes)?;
        let digest = crc32c::crc32c_append(crc32c::crc32c(&index), &footer[..FOOTER - 4]);
        check_crc(&file, offset, le_u32(&footer, FOOTER - 4), digest)?;
        if digest != self.info.digest {
            return Err(self.malformed("it is not the one that the manifest lists").into());
        }
        let frames: Vec<Frame> = decode(&index).map_err(|why| self.malformed(why))?;
        let inside = |f: &Frame| f.offset.checked_add(f.bytes).is_some_and(|end| end <= offset);
        if !frames.iter().all(inside) || frames.len() != self.info.frames as usize {
            return Err(self.malformed("its index does not fit it").into());
        }
        Ok(frames)
    }
}

/// A file that is listed and not there is damage: an older checkpoint may do.
pub(crate) fn missing(error: StoreError) -> RestoreError {
    match error {
        StoreError::Missing { file } => Damage::Missing { file }.into(),
        other => other.into(),
    }
}
