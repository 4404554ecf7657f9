//! The thread of a source: it reads the splits of one worker one after another, decompresses and
//! parses them, and stays a bounded number of chunks ahead.
//!
//! # Invariants
//!
//! * **A1**: at most [`CHUNKS_AHEAD`] chunks wait, each of at most [`CHUNK_RECORDS`] records, made
//!   from [`CHUNK_BYTES`] and what one record has more, which it holds too. Emptied chunks travel
//!   back and are filled again.
//! * **A2**: what was parsed before an error is handed over before the error.
//! * **A3**: whatever is handed over, and the end of the thread, wakes the worker's task after it
//!   can be seen.
//! * **A4**: the thread ends when its [`ReadAhead`] is dropped, whether it waits for room, reads or
//!   passes over what a former life has read.
//! * **A5**: every file that a former life has begun is compared with what it read before a record
//!   of any file is handed over.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use serde::de::DeserializeOwned;

use super::csv::CsvRows;
use super::error::ReadError;
use super::json::JsonLines;
use super::kept::Passage;
use super::source::{Adapt, Format, Keep, Metadata, Place, Position};
use crate::Waker;

/// How many parsed chunks may wait for the worker.
const CHUNKS_AHEAD: usize = 8;

/// How many records a chunk holds at most.
pub(super) const CHUNK_RECORDS: usize = 1_024;

/// After how many bytes of uncompressed input a chunk is full.
const CHUNK_BYTES: u64 = 256 * 1024;

/// A split that is to be read.
pub(super) struct Task {
    pub(super) path: PathBuf,
    pub(super) repetition: usize,
    pub(super) from: Position,
}

/// Records of one split, each with the place after it.
pub(super) struct Chunk<T> {
    /// Which of the tasks.
    pub(super) task: usize,
    pub(super) records: VecDeque<(T, Place)>,
    /// What they were made of.
    pub(super) passage: Passage,
    /// That of the file up to the last of them.
    pub(super) checksum: u32,
    /// See [`Position::metadata`].
    pub(super) metadata: Option<Metadata>,
    /// No record follows in this split.
    pub(super) is_last: bool,
}

/// The room of a chunk: of its records, and of what they were made of.
pub(super) type Emptied<T> = (VecDeque<(T, Place)>, Vec<u8>);

/// How a file becomes records.
pub(super) struct Parse<R, T> {
    pub(super) format: Format,
    pub(super) adapt: Option<Adapt<R>>,
    pub(super) keep: Keep<R, T>,
}

/// The worker's end.
pub(super) struct ReadAhead<T> {
    chunks: Receiver<Result<Chunk<T>, ReadError>>,
    emptied: SyncSender<Emptied<T>>,
    abandoned: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> ReadAhead<T> {
    /// Starts the thread.
    pub(super) fn start<R: DeserializeOwned + 'static>(
        name: String,
        tasks: Vec<Task>,
        parse: Parse<R, T>,
        waker: Waker,
    ) -> io::Result<ReadAhead<T>> {
        // A1. The thread itself holds one chunk more, and the worker another one.
        let (emptied, spare) = sync_channel(CHUNKS_AHEAD + 2);
        let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
        let abandoned = Arc::new(AtomicBool::new(false));
        let reading =
            Reading { chunks: sender, _end: WakeAtEnd(waker), spare, abandoned: abandoned.clone() };
        let thread = Builder::new().name(name).spawn(move || {
            reading.run(&tasks, &parse);
        })?;
        Ok(ReadAhead { chunks, emptied, abandoned, thread: Some(thread) })
    }

    /// The next chunk, if one has been parsed.
    ///
    /// # Panics
    ///
    /// If the thread has panicked: with what it has said.
    pub(super) fn next(&mut self) -> Result<Option<Chunk<T>>, ReadError> {
        match self.chunks.try_recv() {
            Ok(chunk) => chunk.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => panic!("a source is not read on after an error or its end"),
            },
        }
    }

    /// Gives a chunk's room back.
    pub(super) fn recycle(&mut self, emptied: Emptied<T>) {
        // If the thread has ended, nobody needs it.
        let _ = self.emptied.try_send(emptied);
    }
}

impl<T> Drop for ReadAhead<T> {
    fn drop(&mut self) {
        // It is not joined: a disk, or a file system far away, may hold it up (A4).
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

/// The thread's end. The fields are dropped in this order (A3).
struct Reading<T> {
    chunks: SyncSender<Result<Chunk<T>, ReadError>>,
    _end: WakeAtEnd,
    spare: Receiver<Emptied<T>>,
    abandoned: Arc<AtomicBool>,
}

struct WakeAtEnd(Waker);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// Why the thread ends early.
enum Stop {
    /// There is nothing to be read after an error.
    Error(ReadError),
    /// The worker has gone.
    Abandoned,
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Stop {
        Stop::Error(error)
    }
}

impl<T> Reading<T> {
    fn run<R: DeserializeOwned>(self, tasks: &[Task], parse: &Parse<R, T>) {
        if let Err(Stop::Error(error)) = self.read_all(tasks, parse) {
            // If the worker has gone, nobody wants to know.
            let _ = self.send(Err(error));
        }
    }

    fn read_all<R: DeserializeOwned>(
        &self,
        tasks: &[Task],
        parse: &Parse<R, T>,
    ) -> Result<(), Stop> {
        let open = |task: &Task| Rows::open(parse.format, &task.path, &task.from, &self.abandoned);
        let mut begun = BTreeMap::new();
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.from.offset > 0) {
            begun.insert(index, open(task)?); // A5
        }
        for (index, task) in tasks.iter().enumerate() {
            let rows = match begun.remove(&index) {
                Some(rows) => rows,
                None => open(task)?,
            };
            self.read(index, task, rows, parse)?;
        }
        Ok(())
    }

    fn read<R: DeserializeOwned>(
        &self,
        index: usize,
        task: &Task,
        mut rows: Rows,
        parse: &Parse<R, T>,
    ) -> Result<(), Stop> {
        let mut read = Passage::begin(task.from.offset, task.from.checksum);
        loop {
            let (records, bytes) = self.spare.try_recv().unwrap_or_default();
            let (passage, checksum, metadata) = (Passage::default(), 0, rows.metadata());
            let mut chunk =
                Chunk { task: index, records, passage, checksum, metadata, is_last: false };
            let filled = rows.fill(&mut chunk, |mut row| {
                if let (Ok(record), Some(adapt)) = (&mut row, &parse.adapt) {
                    adapt(record, task.repetition);
                }
                (parse.keep)(row)
            });
            if let Some((_, last)) = chunk.records.back() {
                chunk.passage = read.next(last.offset, rows.kept(), bytes);
            }
            chunk.checksum = read.before();
            let is_last = chunk.is_last;
            // Also what comes before an error (A2).
            self.send(Ok(chunk))?;
            filled?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn send(&self, chunk: Result<Chunk<T>, ReadError>) -> Result<(), Stop> {
        self.chunks.send(chunk).map_err(|_| Stop::Abandoned)?;
        self._end.0.wake();
        Ok(())
    }
}

/// The open file of a split.
enum Rows {
    Csv(Box<CsvRows>),
    Json(Box<JsonLines>),
}

impl Rows {
    fn open(
        format: Format,
        path: &Path,
        from: &Position,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<Rows, ReadError> {
        Ok(match format {
            Format::Csv => Rows::Csv(CsvRows::open(path, from, abandoned)?.into()),
            Format::JsonLines => Rows::Json(JsonLines::open(path, from, abandoned)?.into()),
        })
    }

    /// Fills an empty chunk with what is kept of each row.
    fn fill<R: DeserializeOwned, T>(
        &mut self,
        chunk: &mut Chunk<T>,
        mut keep: impl FnMut(Result<R, ReadError>) -> Result<T, ReadError>,
    ) -> Result<(), ReadError> {
        let full_at = self.place().offset + CHUNK_BYTES;
        while chunk.records.len() < CHUNK_RECORDS && self.place().offset < full_at {
            let next = match self {
                Rows::Csv(rows) => rows.next(),
                Rows::Json(lines) => lines.next(),
            };
            let Some(row) = next.transpose() else {
                chunk.is_last = true;
                break;
            };
            // After a malformed row the place is behind it too.
            let kept = keep(row)?;
            chunk.records.push_back((kept, self.place()));
        }
        Ok(())
    }

    fn place(&self) -> Place {
        match self {
            Rows::Csv(rows) => rows.place(),
            Rows::Json(lines) => lines.place(),
        }
    }

    fn kept(&mut self) -> &mut Vec<u8> {
        match self {
            Rows::Csv(rows) => rows.kept(),
            Rows::Json(lines) => lines.kept(),
        }
    }

    fn metadata(&self) -> Option<Metadata> {
        match self {
            Rows::Csv(rows) => rows.metadata(),
            Rows::Json(lines) => lines.metadata(),
        }
    }
}
