//! A source of records in files: CSV or JSON lines; plain, gzip or zstd.
//!
//! # How it keeps the contract
//!
//! * **S1**: a split is a file and a repetition, named by both numbers and the path. So files that
//!   are added at the end are read from their beginning; a position of a file that is gone, or now
//!   stands at another place, is an error.
//! * **S2**, **S3**: a position is a byte of the uncompressed file, after a record, with the
//!   checksum of all bytes before it. They are read again and compared before anything is emitted,
//!   unless a plain file is untouched since. What comes after may have been mended or added. The
//!   splits of a worker are read in the order of their names: repetition by repetition, file by
//!   file.
//! * **S4**: each record carries the place after it through the chunk in which it waits, with the
//!   bytes that it was made of, so a position is told after any record, also within a chunk.
//! * **S5**: `read` moves parsed records only. A thread does everything else, see
//!   [`read_ahead`](super::read_ahead).
//! * **S6**: a position says whether its split is done; a split that is done is not opened again.
//! * **S7**: what has been read ahead stays in its chunk.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use overtake_state::Data;
use serde::de::DeserializeOwned;

use super::error::{BadRecord, ReadError};
use super::input::Input;
use super::read_ahead::{Chunk, Parse, ReadAhead, Task};
use crate::error::BoxError;
use crate::source::{Emit, Read, Source, SourceContext};

/// Reads records from files. What a file is compressed with, if anything, is told by its first
/// bytes.
///
/// A CSV file begins with a header line; a record takes the columns that it names, in any order,
/// and an empty field is an absent `Option`. JSON lines are one document a line.
///
/// ```
/// use overtake::connect::file::Files;
///
/// # use rkyv::{Archive, Deserialize, Serialize};
/// #[derive(Clone, Archive, Serialize, Deserialize, serde::Deserialize)]
/// struct Flight {
///     year: u16,
///     carrier: String,
///     dep_time: Option<u16>,
/// }
///
/// // Two years, from the files of one.
/// let flights: Files<Flight> = Files::csv(["january.csv.gz", "february.csv.zst"])
///     .repeat(2, |flight: &mut Flight, repetition| flight.year += repetition as u16);
/// ```
///
/// A malformed row stops the job, unless [`bad_records`](Files::bad_records) says otherwise.
pub struct Files<R, T = R> {
    paths: Vec<PathBuf>,
    format: Format,
    repetitions: usize,
    adapt: Option<Adapt<R>>,
    keep: Keep<R, T>,
    /// Those of this worker.
    splits: Vec<Split>,
    context: Option<SourceContext>,
    reading: Option<Reading<T>>,
}

/// Where in a split a source is: after which of its bytes, once decompressed, and its lines; and
/// by what the file is recognised.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct Position {
    /// So many bytes have been read.
    pub offset: u64,
    /// So many line ends have been read.
    pub line: u64,
    /// The crc32c of the bytes that have been read.
    pub checksum: u32,
    /// There is nothing left to read.
    pub done: bool,
    /// What the file was like when it was opened to be read up to here, or when that was last
    /// compared. A file that is like this now need not be read again. None if it is compressed, or
    /// had been changed a moment before.
    pub metadata: Option<Metadata>,
}

/// What the system says of a file: whatever changes the content changes this.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct Metadata {
    /// The device on which it is.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Its length in bytes.
    pub length: u64,
    /// When its content was changed, as its owner may have it; in nanoseconds since 1970.
    pub modified_ns: i64,
    /// When it was changed, in nanoseconds since 1970.
    pub changed_ns: i64,
}

impl Metadata {
    pub(super) fn of(found: &std::fs::Metadata) -> Metadata {
        let ns = |seconds: i64, ns| seconds.wrapping_mul(1_000_000_000).wrapping_add(ns);
        Metadata {
            device: found.dev(),
            inode: found.ino(),
            length: found.len(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        }
    }
}

impl Position {
    pub(super) fn place(&self) -> Place {
        Place { offset: self.offset, line: self.line }
    }

    fn after(&mut self, place: Place) {
        (self.offset, self.line) = (place.offset, place.line);
    }
}

/// What of a position each record has of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) line: u64,
}

/// Makes a record of one repetition from that of the file.
pub(super) type Adapt<R> = Arc<dyn Fn(&mut R, usize) + Send + Sync>;

/// What becomes of a malformed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRecords {
    /// It is an error, and stops the job.
    Stop,
    /// It is emitted, as what is wrong with it.
    Emit,
}

/// Makes what is emitted of a row, or of what is wrong with it.
pub(super) type Keep<R, T> = fn(Result<R, ReadError>) -> Result<T, ReadError>;

#[derive(Clone, Copy)]
pub(super) enum Format {
    Csv,
    JsonLines,
}

struct Split {
    name: String,
    path: PathBuf,
    repetition: usize,
    position: Position,
}

/// From the first read on.
struct Reading<T> {
    ahead: ReadAhead<T>,
    /// Which of the splits each task of the thread is.
    tasks: Vec<usize>,
    /// How many tasks have not been read to their end.
    unfinished: usize,
    chunk: Option<Chunk<T>>,
}

impl<R> Files<R> {
    /// Reads CSV files with a header line.
    pub fn csv(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Files<R> {
        Files::new(paths, Format::Csv)
    }

    /// Reads files with a JSON document in each line.
    pub fn json_lines(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Files<R> {
        Files::new(paths, Format::JsonLines)
    }

    fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>, format: Format) -> Files<R> {
        Files {
            paths: paths.into_iter().map(Into::into).collect(),
            format,
            repetitions: 1,
            adapt: None,
            keep: |row| row,
            splits: Vec::new(),
            context: None,
            reading: None,
        }
    }

    /// Reads all files so many times over; `adapt` makes the records of each repetition, from 0,
    /// differ.
    #[must_use]
    pub fn repeat(
        mut self,
        repetitions: usize,
        adapt: impl Fn(&mut R, usize) + Send + Sync + 'static,
    ) -> Files<R> {
        self.repetitions = repetitions;
        self.adapt = Some(Arc::new(adapt));
        self
    }

    /// Makes of each row a record, or what is wrong with it: to be told apart by
    /// [`split`](crate::flow::stream::Stream::split), or dropped. A missing column, or a file that
    /// cannot be read on, is an error as ever. A quote that nobody closes makes one row of all that
    /// follows it.
    ///
    /// ```
    /// use overtake::connect::file::{BadRecord, BadRecords, Files};
    /// # use overtake::Job;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("payments.csv");
    /// # std::fs::write(&path, "account,cents\na,1\nb,x\nc,3\n").unwrap();
    ///
    /// Job::new().run(move |flow| {
    ///     let payments = Files::<(String, i64)>::csv([&path]).bad_records(BadRecords::Emit);
    ///     let (payments, bad) = flow.source("payments", payments).split(|row| row);
    ///     payments.for_each("balances", |(_account, _cents)| ());
    ///     bad.for_each("bad", |bad: &BadRecord| {
    ///         assert_eq!((bad.line, bad.column.as_str()), (3, "2 (cents)"));
    ///     });
    /// })?;
    /// # Ok::<(), overtake::Error>(())
    /// ```
    #[must_use]
    pub fn bad_records(self, policy: BadRecords) -> Files<R, Result<R, BadRecord>> {
        Files {
            paths: self.paths,
            format: self.format,
            repetitions: self.repetitions,
            adapt: self.adapt,
            keep: match policy {
                BadRecords::Stop => |row| row.map(Ok),
                BadRecords::Emit => |row| match row {
                    Ok(record) => Ok(Ok(record)),
                    Err(error) => BadRecord::of(error).map(Err),
                },
            },
            splits: Vec::new(),
            context: None,
            reading: None,
        }
    }
}

impl<R, T> Files<R, T> {
    /// Sorted, names are in the order of reading.
    fn name(&self, repetition: usize, file: usize) -> String {
        format!("{repetition:010}-{file:010}-{}", self.paths[file].display())
    }

    /// The repetition and the file that a split is.
    fn parse(&self, split: &str) -> Option<(usize, usize)> {
        let mut parts = split.splitn(3, '-');
        let repetition = parts.next()?.parse().ok()?;
        let file = parts.next()?.parse().ok()?;
        let is_ours = repetition < self.repetitions && file < self.paths.len();
        (is_ours && self.name(repetition, file) == split).then_some((repetition, file))
    }
}

impl<R, T> Clone for Files<R, T> {
    /// The same files, to be opened by another worker.
    fn clone(&self) -> Files<R, T> {
        Files {
            paths: self.paths.clone(),
            format: self.format,
            repetitions: self.repetitions,
            adapt: self.adapt.clone(),
            keep: self.keep,
            splits: Vec::new(),
            context: None,
            reading: None,
        }
    }
}

impl<R: DeserializeOwned + 'static, T: Data> Source for Files<R, T> {
    type Record = T;
    type Position = Position;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        let files = 0..self.paths.len();
        let splits = (0..self.repetitions)
            .flat_map(|repetition| files.clone().map(move |file| (repetition, file)));
        Ok(splits.map(|(repetition, file)| self.name(repetition, file)).collect())
    }

    fn open(
        &mut self,
        split: &str,
        position: Option<Position>,
        context: &SourceContext,
    ) -> Result<(), BoxError> {
        let (repetition, file) =
            self.parse(split).ok_or_else(|| ReadError::NotASplit { split: split.into() })?;
        let split = Split {
            name: split.into(),
            path: self.paths[file].clone(),
            repetition,
            position: position.unwrap_or_default(),
        };
        if !split.position.done {
            split.check()?;
        }
        self.splits.push(split);
        self.context = Some(context.clone());
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<T>,
    ) -> Result<Read, BoxError> {
        // Without a context no split was opened.
        let Some(context) = &self.context else { return Ok(Read::Ended) };
        if self.reading.is_none() {
            self.splits.sort_by(|one, other| one.name.cmp(&other.name));
            self.reading = Some(self.start(context)?);
        }
        let reading = self.reading.as_mut().expect("started above");
        Ok(reading.read(limit, &mut self.splits, out)?)
    }

    fn positions(&self) -> Vec<(String, Position)> {
        let mut positions: Vec<_> =
            self.splits.iter().map(|split| (split.name.clone(), split.position)).collect();
        if let Some(Reading { chunk: Some(chunk), tasks, .. }) = &self.reading {
            // Within a chunk nobody has summed so far.
            let position = &mut positions[tasks[chunk.task]].1;
            position.checksum = chunk.passage.checksum(position.offset);
        }
        positions
    }
}

impl Split {
    /// Finds what can be found without reading the file.
    fn check(&self) -> Result<(), ReadError> {
        let unreadable = |reason| ReadError::Unreadable { path: self.path.clone(), reason };
        let input = Input::open(&self.path, &Arc::default())?;
        match (input.length().map_err(unreadable)?, self.position.offset) {
            (Some(length), position) if length < position => {
                Err(ReadError::Shorter { path: self.path.clone(), position, length })
            }
            _ => Ok(()),
        }
    }
}

impl<R: DeserializeOwned + 'static, T: Data> Files<R, T> {
    fn start(&self, context: &SourceContext) -> Result<Reading<T>, BoxError> {
        let unfinished = self.splits.iter().enumerate().filter(|(_, split)| !split.position.done);
        let (tasks, work): (Vec<_>, Vec<_>) = unfinished
            .map(|(index, split)| {
                let (path, repetition) = (split.path.clone(), split.repetition);
                (index, Task { path, repetition, from: split.position })
            })
            .unzip();
        let name = format!("overtake-read-{}", context.worker);
        let parse = Parse { format: self.format, adapt: self.adapt.clone(), keep: self.keep };
        let ahead = ReadAhead::start(name, work, parse, context.waker.clone())?;
        Ok(Reading { ahead, unfinished: tasks.len(), tasks, chunk: None })
    }
}

impl<T: Data> Reading<T> {
    fn read(
        &mut self,
        limit: usize,
        splits: &mut [Split],
        out: &mut impl Emit<T>,
    ) -> Result<Read, ReadError> {
        let mut emitted = 0;
        while self.unfinished > 0 {
            let mut chunk = match self.chunk.take() {
                Some(chunk) => chunk,
                None => match self.ahead.next()? {
                    Some(chunk) => chunk,
                    None => return Ok(Read::Idle),
                },
            };
            let position = &mut splits[self.tasks[chunk.task]].position;
            // Whatever comes before the place is of this file, or was compared with it.
            position.metadata = chunk.metadata;
            while emitted < limit && !out.is_blocked() {
                let Some((record, after)) = chunk.records.pop_front() else { break };
                position.after(after);
                out.emit(record);
                emitted += 1;
            }
            if !chunk.records.is_empty() {
                self.chunk = Some(chunk);
                return Ok(Read::More);
            }
            position.checksum = chunk.checksum;
            position.done = chunk.is_last;
            self.unfinished -= usize::from(chunk.is_last);
            self.ahead.recycle((chunk.records, chunk.passage.empty()));
        }
        Ok(Read::Ended)
    }
}

#[cfg(test)]
mod tests;
