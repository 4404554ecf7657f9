//! The bytes of one file, decompressed. What it is compressed with is told by its first bytes, not
//! by its name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder;

use super::error::ReadError;
use super::source::{Metadata, Position};
use crate::runtime::clock;

/// What is read from the system at once, in bytes.
pub(super) const BLOCK_BYTES: usize = 128 * 1024;

/// The longest record, in bytes. A quote that is not closed makes the rest of a file one record:
/// this keeps it from taking all memory.
pub(super) const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long a file must have been left alone before its metadata stand for its content. Systems
/// stamp files by a coarse clock: of two changes within some milliseconds the second may not show.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// An open file, read from its beginning.
pub(super) struct Input {
    bytes: Bytes,
    /// As they were before anything was read.
    metadata: Option<Metadata>,
    /// The next byte, if it was looked at.
    peeked: Option<u8>,
    /// What may still be read before the current record is too long.
    allowance: usize,
    /// Nobody wants the rest.
    abandoned: Arc<AtomicBool>,
}

enum Bytes {
    Plain(File),
    Gzip(MultiGzDecoder<BufReader<File>>),
    Zstd(Decoder<'static, BufReader<File>>),
}

impl Input {
    /// Opens the file. Reading from it fails when it is `abandoned`.
    pub(super) fn open(path: &Path, abandoned: &Arc<AtomicBool>) -> Result<Input, ReadError> {
        let bytes = Bytes::open(path)
            .map_err(|reason| ReadError::Unreadable { path: path.into(), reason })?;
        let metadata = bytes
            .metadata()
            .map_err(|reason| ReadError::Unreadable { path: path.into(), reason })?;
        let (peeked, abandoned) = (None, abandoned.clone());
        let mut input = Input { bytes, metadata, peeked, allowance: 0, abandoned };
        input.next_record();
        Ok(input)
    }

    /// What stands for the content, if anything short of the content does: the metadata of a plain
    /// file that was left alone for some time before it was opened.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        self.metadata
    }

    /// Goes from the beginning to a position, and makes sure that what comes before it is what was
    /// read before it, and that the last row did not go on then where it goes on now. A row ends
    /// with any of `ends`.
    ///
    /// # Errors
    ///
    /// If it is not, or the file ends before.
    pub(super) fn resume(
        &mut self,
        path: &Path,
        from: &Position,
        ends: &[u8],
    ) -> Result<(), ReadError> {
        let broken = |reason| {
            let line = from.line.max(1);
            ReadError::Broken { path: path.into(), line, reason }
        };
        if from.metadata.is_some() && from.metadata == self.metadata {
            self.skip(0, from.offset).map_err(broken)?;
            return Ok(());
        }
        let (mut length, mut checksum, mut last) = (0, 0, None);
        self.read_on(from.offset, |bytes| {
            length += bytes.len() as u64;
            checksum = crc32c::crc32c_append(checksum, bytes);
            last = bytes.last().copied();
        })
        .map_err(broken)?;
        let (path, position) = (path.to_owned(), from.offset);
        if length < position {
            return Err(ReadError::Shorter { path, position, length });
        }
        if checksum != from.checksum {
            return Err(ReadError::Changed { path, position });
        }
        if last.is_some_and(|last| !ends.contains(&last)) {
            self.peeked = self.next_byte().map_err(broken)?;
            if self.peeked.is_some_and(|next| !b"\r\n".contains(&next)) {
                return Err(ReadError::Grown { path, position });
            }
        }
        Ok(())
    }

    /// A new record begins: it may be as long as any.
    pub(super) fn next_record(&mut self) {
        // Who reads this reads ahead by one block.
        self.allowance = RECORD_BYTES_MAX + BLOCK_BYTES;
    }

    /// How long the file is, if that can be told without reading it.
    pub(super) fn length(&self) -> io::Result<Option<u64>> {
        match &self.bytes {
            Bytes::Plain(file) => file.metadata().map(|file| Some(file.len())),
            Bytes::Gzip(_) | Bytes::Zstd(_) => Ok(None),
        }
    }

    /// Goes from `from`, where it is, on to `to`, both in uncompressed bytes. Tells how far it
    /// came: less if the file is shorter.
    pub(super) fn skip(&mut self, from: u64, to: u64) -> io::Result<u64> {
        if let Bytes::Plain(file) = &mut self.bytes {
            let length = file.metadata()?.len();
            return file.seek(SeekFrom::Start(to.min(length)));
        }
        let mut reached = from;
        self.read_on(to - from, |bytes| reached += bytes.len() as u64)?;
        Ok(reached)
    }

    /// Reads so many bytes, or up to the end, a block at a time.
    fn read_on(&mut self, mut count: u64, mut with: impl FnMut(&[u8])) -> io::Result<()> {
        let mut block = vec![0; BLOCK_BYTES];
        while count > 0 {
            let wanted = usize::try_from(count).map_or(BLOCK_BYTES, |n| n.min(BLOCK_BYTES));
            self.next_record();
            let read = self.read(&mut block[..wanted])?;
            if read == 0 {
                break;
            }
            with(&block[..read]);
            count -= read as u64;
        }
        self.next_record();
        Ok(())
    }

    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        Ok((self.read(&mut byte)? == 1).then_some(byte[0]))
    }
}

impl Bytes {
    fn open(path: &Path) -> io::Result<Bytes> {
        let mut buffered = BufReader::with_capacity(BLOCK_BYTES, File::open(path)?);
        let bytes = match buffered.fill_buf()? {
            [0x1f, 0x8b, ..] => Bytes::Gzip(MultiGzDecoder::new(buffered)),
            // A frame, or a skippable frame before the first one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Bytes::Zstd(Decoder::with_buffer(buffered)?)
            }
            _ => {
                let mut file = buffered.into_inner();
                file.rewind()?;
                Bytes::Plain(file)
            }
        };
        Ok(bytes)
    }

    fn metadata(&self) -> io::Result<Option<Metadata>> {
        let Bytes::Plain(file) = self else { return Ok(None) };
        let found = file.metadata()?;
        let changed = Duration::new(
            found.ctime().try_into().unwrap_or_default(),
            found.ctime_nsec().try_into().unwrap_or_default(),
        );
        // A stamp of the future says nothing.
        let age = clock::time_of_day().saturating_sub(changed);
        Ok((age >= SETTLED_AFTER).then(|| Metadata::of(&found)))
    }
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // Relaxed: it only shortens what nobody waits for.
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody reads on"));
        }
        if self.allowance == 0 {
            let message = format!(
                "the record is longer than {} MiB: is a quote not closed?",
                RECORD_BYTES_MAX >> 20
            );
            return Err(io::Error::other(message));
        }
        if let (Some(byte), Some(first)) = (self.peeked, to.first_mut()) {
            (*first, self.peeked) = (byte, None);
            return Ok(1);
        }
        let wanted = to.len().min(self.allowance);
        let read = match &mut self.bytes {
            Bytes::Plain(file) => file.read(&mut to[..wanted]),
            Bytes::Gzip(gzip) => damaged("gzip", gzip.read(&mut to[..wanted])),
            Bytes::Zstd(zstd) => damaged("zstd", zstd.read(&mut to[..wanted])),
        }?;
        self.allowance -= read;
        Ok(read)
    }
}

/// Says of which data a decompressor speaks.
fn damaged(kind: &str, read: io::Result<usize>) -> io::Result<usize> {
    read.map_err(|error| match error.kind() {
        // The system's own, a failing disk for example.
        _ if error.raw_os_error().is_some() => error,
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), format!("the {kind} data is truncated"))
        }
        other => io::Error::new(other, format!("the {kind} data is damaged: {error}")),
    })
}
