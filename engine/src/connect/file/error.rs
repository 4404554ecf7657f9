//! What can be wrong with a file that is read, or written.
//!
//! Every message is one line, names the file, and says what to do or what was expected.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file cannot be read, or not as what it should be.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is missing, or may not be read.
    #[error("cannot read {path:?}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// It ends before the place up to which the job has read it.
    #[error(
        "{path:?} was read up to byte {position} but has only {length} bytes: \
         put the file back that the job has begun with, or start anew in an empty state directory"
    )]
    Shorter {
        /// The file.
        path: PathBuf,
        /// The position of the checkpoint, in uncompressed bytes.
        position: u64,
        /// What there is, in uncompressed bytes.
        length: u64,
    },
    /// What comes before the place up to which the job has read it is no longer what it read. What
    /// comes after it may change.
    #[error(
        "{path:?} was changed before byte {position}, up to which it was read: \
         put the file back that the job has begun with, or start anew in an empty state directory"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// The position of the checkpoint, in uncompressed bytes.
        position: u64,
    },
    /// It ended without a line end, the job took that for the end of the row, and now the row goes
    /// on.
    #[error(
        "{path:?} ended at byte {position} without a line end, and its last row goes on there now: \
         put a line end there, or start anew in an empty state directory"
    )]
    Grown {
        /// The file.
        path: PathBuf,
        /// The position of the checkpoint, in uncompressed bytes.
        position: u64,
    },
    /// Reading fails half-way: a disk fails, or compressed data is truncated or damaged.
    #[error("{path:?}, line {line}: cannot read on: {reason}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What the system or the decompressor says.
        reason: io::Error,
    },
    /// A row, or the header, is not what it should be.
    #[error("{path:?}, line {line}, column {column}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1; of a row with several lines the first.
        line: u64,
        /// Where in the line.
        column: Column,
        /// What is wrong there.
        reason: String,
    },
    /// A checkpoint names a split that the source does not have.
    #[error("{split:?} is no split of this source: give it the same files in the same order")]
    NotASplit {
        /// The split of the checkpoint.
        split: String,
    },
}

/// A row that is no record, of a source that [emits](super::BadRecords::Emit) such.
#[derive(
    Clone,
    Debug,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct BadRecord {
    /// The file.
    pub file: String,
    /// The line, from 1; of a row with several lines the first.
    pub line: u64,
    /// Where in the line: the number of a field, and its name if the header has one; of a line of
    /// JSON the number of a byte.
    pub column: String,
    /// What is wrong there.
    pub reason: String,
}

impl BadRecord {
    /// What is wrong with one row only; all else goes on being an error.
    pub(super) fn of(error: ReadError) -> Result<BadRecord, ReadError> {
        match error {
            ReadError::Malformed { path, line, column, reason }
                if !matches!(column, Column::Missing(_)) =>
            {
                let (file, column) = (path.display().to_string(), column.to_string());
                Ok(BadRecord { file, line, column, reason })
            }
            other => Err(other),
        }
    }
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadRecord { file, line, column, reason } = self;
        write!(f, "{file:?}, line {line}, column {column}: {reason}")
    }
}

/// Where in a line something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// A field of a CSV file, by number from 1, and by name if the header has one.
    Field(usize, Option<String>),
    /// A column of a CSV file that should be there.
    Missing(String),
    /// A byte of a line of JSON, from 1.
    Byte(usize),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Field(number, Some(name)) => write!(f, "{number} ({})", one_line(name)),
            Column::Field(number, None) => write!(f, "{number}"),
            Column::Missing(name) => write!(f, "({})", one_line(name)),
            Column::Byte(number) => write!(f, "{number}"),
        }
    }
}

impl ReadError {
    pub(super) fn malformed(path: &Path, line: u64, column: Column, reason: &str) -> ReadError {
        ReadError::Malformed { path: path.into(), line, column, reason: one_line(reason) }
    }
}

/// What others say, without line breaks.
fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r")
}

/// Part files cannot be written, or must not.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The system refuses.
    #[error(
        "cannot write {path:?}: {reason}; see to space and access there and start the job again, \
         it goes on from its last checkpoint"
    )]
    Unwritable {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// A record has no form as a row of CSV.
    #[error("cannot write a record to {directory:?} as a row of CSV: {reason}")]
    Unencodable {
        /// Where it should go.
        directory: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory has part files that are not of this job.
    #[error(
        "{directory:?} holds {name:?}, which job {job} has not written: \
         choose an empty directory, or move that file away"
    )]
    Foreign {
        /// The output directory.
        directory: PathBuf,
        /// One of the files that are not ours.
        name: String,
        /// This job.
        job: String,
    },
    /// A checkpoint lists a part file that is there under neither of its names.
    #[error(
        "{path:?} is in a checkpoint but there neither hidden nor visible: put it back; if readers \
         may take part files away, say so with `readers_may_remove_files`"
    )]
    Vanished {
        /// The file, under its visible name.
        path: PathBuf,
    },
    /// A part file would replace another one.
    #[error(
        "{path:?} is there already and differs from the hidden file that should get this name: \
         nothing was overwritten; move one of the two away"
    )]
    Occupied {
        /// The file, under its visible name.
        path: PathBuf,
    },
    /// A checkpoint lists something that is no part file.
    #[error("the checkpoint lists {name:?}, which is no name of a part file: it is damaged")]
    NotAPart {
        /// What it lists.
        name: String,
    },
    /// Without checkpoints nothing is ever committed.
    #[error(
        "part files become visible when a checkpoint is complete, and this job takes none: \
         give it a state directory"
    )]
    NoCheckpoints,
    /// The name of the sink or the job has no place in the name of a file.
    #[error("{name:?} cannot be in the name of a part file: use letters, digits and '_' only")]
    Name {
        /// The name.
        name: String,
    },
}

impl WriteError {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
        move |reason| WriteError::Unwritable { path: path.into(), reason }
    }
}
