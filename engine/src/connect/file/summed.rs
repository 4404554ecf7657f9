//! A reader that sums what whoever reads ahead from it has used.
//!
//! Who parses rows takes blocks of bytes, and a row ends anywhere in them. What it was given is kept
//! until it says how far it has come: so the checksum is exact at the end of every row, and each
//! byte is copied once and summed once.

use std::io::{self, Read};

/// See the [module](self).
pub(super) struct Summed<R> {
    reader: R,
    /// Given, and not all summed yet.
    kept: Vec<u8>,
    /// How many of the bytes kept are summed.
    done: usize,
    /// How many bytes are summed, and their crc32c.
    offset: u64,
    checksum: u32,
}

impl<R> Summed<R> {
    /// What comes from the reader follows nothing.
    pub(super) fn new(reader: R) -> Summed<R> {
        Summed { reader, kept: Vec::new(), done: 0, offset: 0, checksum: 0 }
    }

    pub(super) fn reader(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The checksum of what was used.
    pub(super) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// What was used is to count as this.
    pub(super) fn set_checksum(&mut self, checksum: u32) {
        self.checksum = checksum;
    }

    /// Sums up to there: so many of the bytes given are used.
    pub(super) fn used(&mut self, offset: u64) {
        let more = usize::try_from(offset - self.offset).expect("it was given from memory");
        let bytes = &self.kept[self.done..self.done + more];
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        (self.done, self.offset) = (self.done + more, offset);
    }

    /// The last bytes that were used, up to the end of those given last.
    pub(super) fn last_used(&self) -> &[u8] {
        &self.kept[..self.done]
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(to)?;
        self.kept.drain(..self.done);
        self.done = 0;
        self.kept.extend_from_slice(&to[..read]);
        Ok(read)
    }
}
