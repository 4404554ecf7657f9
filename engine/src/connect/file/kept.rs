//! A reader that keeps what it gives until somebody takes it.
//!
//! Who parses rows takes blocks of bytes, and a row ends anywhere in them. The checksum of a file
//! up to the end of a row needs the bytes themselves: they are copied once, and summed many rows at
//! a time, since a sum of its own for each row costs a tenth of what the row does.

use std::io::{self, Read};

/// See the [module](self).
pub(super) struct Kept<R> {
    reader: R,
    bytes: Vec<u8>,
}

impl<R> Kept<R> {
    pub(super) fn new(reader: R) -> Kept<R> {
        Kept { reader, bytes: Vec::new() }
    }

    pub(super) fn reader(&mut self) -> &mut R {
        &mut self.reader
    }

    /// What it has given and was not taken.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl<R: Read> Read for Kept<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(to)?;
        self.bytes.extend_from_slice(&to[..read]);
        Ok(read)
    }
}

/// Some bytes of a file, and the checksum of all that come before them.
#[derive(Default)]
pub(super) struct Passage {
    /// Where in the file, once decompressed, it begins.
    start: u64,
    bytes: Vec<u8>,
    before: u32,
}

impl Passage {
    /// Nothing, after what has been read.
    pub(super) fn begin(start: u64, before: u32) -> Passage {
        Passage { start, bytes: Vec::new(), before }
    }

    /// Takes what was kept up to there as what follows this one, whose place is given up. Answers
    /// what is taken; its room is that of `emptied`.
    pub(super) fn next(&mut self, end: u64, kept: &mut Vec<u8>, emptied: Vec<u8>) -> Passage {
        let count = usize::try_from(end - self.start).expect("it is in memory");
        let mut rest = emptied;
        rest.clear();
        rest.extend_from_slice(&kept[count..]);
        let mut bytes = std::mem::replace(kept, rest);
        bytes.truncate(count);
        let next = Passage { start: self.start, bytes, before: self.before };
        (self.start, self.before) = (end, next.checksum(end));
        next
    }

    /// The crc32c of everything before an offset that is within it, or its end.
    pub(super) fn checksum(&self, offset: u64) -> u32 {
        let count = usize::try_from(offset - self.start).expect("it is in memory");
        crc32c::crc32c_append(self.before, &self.bytes[..count])
    }

    /// The crc32c of everything before it.
    pub(super) fn before(&self) -> u32 {
        self.before
    }

    /// Its room, for another one.
    pub(super) fn empty(self) -> Vec<u8> {
        self.bytes
    }
}
