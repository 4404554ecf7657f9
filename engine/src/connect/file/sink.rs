//! A sink of CSV part files: one for each worker and epoch, visible when its checkpoint is
//! complete.
//!
//! # How it keeps the contract
//!
//! * **K1**: a transaction is a hidden file. Its epoch is not known while it grows, so it has a
//!   name of its own until it is prepared, see [`part`](super::part).
//! * **K2**: preparing waits until everything is appended, syncs the file, gives it its hidden name
//!   and syncs the directory. The transaction's data is the visible name: enough to commit.
//! * **K3**: committing is a rename. Is it done already, that is fine; either way the directory is
//!   synced before it is confirmed.
//! * **K4**: names with a leading dot are hidden; a rename shows a whole file at once.
//! * **K5**: beginning refuses a directory with files of another job, and deletes the hidden files
//!   of this job's older generations; sweeping deletes them again.
//! * **K6**: a worker encodes rows and hands blocks over; a thread appends them, see
//!   [`append`](super::append). Syncing and renaming are for the engine's threads.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::{Writer, WriterBuilder};
use overtake_state::Data;
use serde::Serialize;

use super::append::{Appender, BLOCK_BYTES, Closed};
use super::error::WriteError;
use super::part::{PartDirectory, PartName, Stage, rename, sync_directory};
use crate::error::BoxError;
use crate::sink::{Prepare, Sink, SinkContext, Target, TransactionId};

/// Writes records to CSV files named `part-<job>-<generation>-<epoch>-<sink>-<worker>.csv`, each
/// beginning with a header line. Every record is in exactly one visible file.
///
/// A record's fields are its columns; what has no place there is marked `#[serde(skip)]`.
///
/// ```
/// use overtake::connect::file::PartFiles;
///
/// # use rkyv::{Archive, Deserialize, Serialize};
/// #[derive(Clone, Archive, Serialize, Deserialize, serde::Serialize)]
/// struct Invoice {
///     carrier: String,
///     total_cents: u64,
///     #[serde(skip)]
///     due: u64,
/// }
///
/// let invoices: PartFiles<Invoice> = PartFiles::csv("target/invoices");
/// ```
pub struct PartFiles<R> {
    directory: PathBuf,
    readers_remove: bool,
    open: Option<Open>,
    record: PhantomData<fn(&R)>,
}

/// From [`open`](Sink::open) on.
struct Open {
    part: PartName,
    /// Gone when it has failed: the job stops then.
    rows: Option<Writer<Appender>>,
    /// Something was written since the last cut.
    is_dirty: bool,
}

impl<R> PartFiles<R> {
    /// Writes CSV files to this directory, which is made if it is missing.
    pub fn csv(directory: impl Into<PathBuf>) -> PartFiles<R> {
        PartFiles {
            directory: directory.into(),
            readers_remove: false,
            open: None,
            record: PhantomData,
        }
    }

    /// Whoever reads the files may take them away as soon as they are visible. Then a file that a
    /// checkpoint lists and that is gone was committed and taken; otherwise it is an error.
    #[must_use]
    pub fn readers_may_remove_files(mut self) -> PartFiles<R> {
        self.readers_remove = true;
        self
    }
}

impl<R> Clone for PartFiles<R> {
    /// The same directory, to be written by another worker.
    fn clone(&self) -> PartFiles<R> {
        PartFiles {
            directory: self.directory.clone(),
            readers_remove: self.readers_remove,
            open: None,
            record: PhantomData,
        }
    }
}

impl<R: Serialize + Data> Sink for PartFiles<R> {
    type Record = R;

    fn target(&self) -> Option<Arc<dyn Target>> {
        Some(Arc::new(PartDirectory::new(self.directory.clone(), self.readers_remove)))
    }

    fn open(&mut self, context: SinkContext) -> Result<(), BoxError> {
        if context.job.is_empty() {
            return Err(WriteError::NoCheckpoints.into());
        }
        PartName::check(&context.job)?;
        PartName::check(&context.name)?;
        let part = PartName {
            job: context.job,
            generation: context.generation,
            stage: Stage::Open(0),
            sink: context.name,
            worker: context.worker,
        };
        let appender = Appender::start(part.clone(), self.directory.clone(), context.waker)?;
        self.open = Some(Open { part, rows: Some(rows(appender)), is_dirty: false });
        Ok(())
    }

    fn write(&mut self, records: &[R]) -> Result<(), BoxError> {
        let open = self.open.as_mut().expect(OPENED);
        let rows = open.rows.as_mut().expect(NOT_FAILED);
        open.is_dirty |= !records.is_empty();
        for record in records {
            rows.serialize(record).map_err(|error| match error.into_kind() {
                csv::ErrorKind::Io(reason) => reason.into(),
                other => {
                    let (directory, reason) = (self.directory.clone(), format!("{other:?}"));
                    BoxError::from(WriteError::Unencodable { directory, reason })
                }
            })?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let rows = &self.open.as_ref().expect(OPENED).rows;
        rows.as_ref().is_none_or(|rows| rows.get_ref().is_ready())
    }

    fn cut(&mut self, id: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        let open = self.open.as_mut().expect(OPENED);
        if !std::mem::take(&mut open.is_dirty) {
            return Ok(None);
        }
        let written = open.rows.take().expect(NOT_FAILED);
        let appender = written.into_inner().map_err(csv::IntoInnerError::into_error)?;
        let closed = appender.close();
        open.rows = Some(rows(appender));

        let TransactionId { generation, epoch, worker } = id;
        let stage = Stage::Closed(epoch);
        let part = PartName { generation, stage, worker, ..open.part.clone() };
        let (data, directory) = (part.to_string().into_bytes(), self.directory.clone());
        Ok(Some((data, Box::new(move || prepare(closed, &part, &directory)))))
    }
}

const OPENED: &str = "a sink is opened before it is used";
const NOT_FAILED: &str = "a sink is not used after it has failed";

/// Encodes one transaction; it begins with the header line.
fn rows(appender: Appender) -> Writer<Appender> {
    WriterBuilder::new().buffer_capacity(BLOCK_BYTES).from_writer(appender)
}

/// Makes a transaction survive everybody, under the hidden name of its epoch. A sync that fails is
/// not tried again: the rows may be gone, and a second one would not say so.
fn prepare(closed: Closed, part: &PartName, directory: &Path) -> Result<(), BoxError> {
    let appended = closed.wait()?;
    appended.file.sync_all().map_err(WriteError::at(&appended.path))?;
    let hidden = part.hidden_in(directory);
    rename(&appended.path, &hidden).map_err(|error| WriteError::at(&hidden)(error.into()))?;
    Ok(sync_directory(directory)?)
}

#[cfg(test)]
mod tests;
