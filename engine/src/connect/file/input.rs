//! The bytes of one file, decompressed. What it is compressed with is told by its first bytes, not
//! by its name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder;

use super::error::ReadError;

/// What is read from the system at once, in bytes.
pub(super) const BLOCK_BYTES: usize = 128 * 1024;

/// The longest record, in bytes. A quote that is not closed makes the rest of a file one record:
/// this keeps it from taking all memory.
pub(super) const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An open file, read from its beginning.
pub(super) struct Input {
    bytes: Bytes,
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
        let mut input = Input { bytes, allowance: 0, abandoned: abandoned.clone() };
        input.next_record();
        Ok(input)
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
        let mut block = vec![0; BLOCK_BYTES];
        while reached < to {
            let wanted = usize::try_from(to - reached).map_or(BLOCK_BYTES, |n| n.min(BLOCK_BYTES));
            self.next_record();
            match self.read(&mut block[..wanted])? {
                0 => break,
                read => reached += read as u64,
            }
        }
        self.next_record();
        Ok(reached)
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
