//! The names of part files, and what happens to them by name: commit, abort, refusal.
//!
//! ```text
//!   .part-<job>-<generation>-open<n>-<sink>-<worker>.csv   grows; no snapshot knows it
//!   .part-<job>-<generation>-<epoch>-<sink>-<worker>.csv   prepared
//!    part-<job>-<generation>-<epoch>-<sink>-<worker>.csv   committed
//! ```
//!
//! # Invariants
//!
//! * **P1**: a rename never replaces a file.
//! * **P2**: a name is durable when its directory was synced after the rename. A sync that failed
//!   is not tried again, since a second one may succeed without having written anything.
//! * **P3**: only hidden files of this job and of earlier generations are ever deleted.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Access, CWD, RenameFlags, access, renameat_with};
use rustix::io::Errno;

use super::error::WriteError;
use crate::error::BoxError;
use crate::sink::{Target, Transaction};

const SUFFIX: &str = ".csv";

/// The visible name of a part file, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartName {
    pub(super) job: String,
    pub(super) generation: u64,
    pub(super) stage: Stage,
    pub(super) sink: String,
    pub(super) worker: usize,
}

/// What is written in the place of the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being written, the n-th of its sink.
    Open(u64),
    /// It holds the records of this epoch.
    Closed(u64),
}

impl PartName {
    /// Takes a visible name apart.
    pub(super) fn parse(name: &str) -> Option<PartName> {
        let mut parts = name.strip_prefix("part-")?.strip_suffix(SUFFIX)?.split('-');
        let job = parts.next()?.to_owned();
        let generation = parts.next()?.parse().ok()?;
        let stage = parts.next()?;
        let stage = match stage.strip_prefix("open") {
            Some(number) => Stage::Open(number.parse().ok()?),
            None => Stage::Closed(stage.parse().ok()?),
        };
        let (sink, worker) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        let part = PartName { job, generation, stage, sink, worker };
        (parts.next().is_none() && part.to_string() == name).then_some(part)
    }

    /// What a name may be made of: `-` separates.
    pub(super) fn check(name: &str) -> Result<(), WriteError> {
        let is_ours = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_ours) {
            return Err(WriteError::Name { name: name.into() });
        }
        Ok(())
    }

    pub(super) fn hidden_in(&self, directory: &Path) -> PathBuf {
        directory.join(format!(".{self}"))
    }

    pub(super) fn visible_in(&self, directory: &Path) -> PathBuf {
        directory.join(self.to_string())
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part-{}-{:010}-", self.job, self.generation)?;
        match self.stage {
            Stage::Open(number) => write!(f, "open{number}")?,
            Stage::Closed(epoch) => write!(f, "{epoch:010}")?,
        }
        write!(f, "-{}-{:04}{SUFFIX}", self.sink, self.worker)
    }
}

/// The output directory: commits part files, and deletes those that no checkpoint lists.
pub(super) struct PartDirectory {
    path: PathBuf,
    /// A listed file may be under neither name: a reader took it.
    readers_remove: bool,
    /// A sync of the directory has failed (P2).
    is_unsynced: AtomicBool,
}

impl PartDirectory {
    pub(super) fn new(path: PathBuf, readers_remove: bool) -> PartDirectory {
        PartDirectory { path, readers_remove, is_unsynced: AtomicBool::new(false) }
    }

    /// What looks like a part file.
    fn find(&self, job: &str) -> Result<Vec<Found>, WriteError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(WriteError::at(&self.path))? {
            let name = entry.map_err(WriteError::at(&self.path))?.file_name();
            let name = name.to_string_lossy();
            let visible = name.strip_prefix('.').unwrap_or(&name);
            if !visible.starts_with("part-") {
                continue;
            }
            found.push(match PartName::parse(visible) {
                Some(part) if part.job != job => Found::Foreign(name.into()),
                Some(part) if name.starts_with('.') => Found::Hidden(part),
                Some(_) => Found::Visible,
                None => Found::Foreign(name.into()),
            });
        }
        Ok(found)
    }

    /// Deletes hidden files of older generations (P3).
    fn abort(
        &self,
        found: Vec<Found>,
        generation: u64,
        listed: &[Transaction],
    ) -> Result<(), WriteError> {
        for found in found {
            let Found::Hidden(part) = found else { continue };
            let name = part.to_string();
            let is_listed = listed.iter().any(|listed| listed.data == name.as_bytes());
            if part.generation >= generation || is_listed {
                continue;
            }
            let path = part.hidden_in(&self.path);
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // Another was faster.
                result => result.map_err(WriteError::at(&path))?,
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), WriteError> {
        if self.is_unsynced.load(Ordering::Acquire) {
            let reason = io::Error::other("an earlier sync of the directory has failed");
            return Err(WriteError::Unwritable { path: self.path.clone(), reason });
        }
        sync_directory(&self.path).inspect_err(|_| self.is_unsynced.store(true, Ordering::Release))
    }
}

enum Found {
    Hidden(PartName),
    Visible,
    /// Not one of this job.
    Foreign(String),
}

impl Target for PartDirectory {
    fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        let name = String::from_utf8_lossy(&transaction.data);
        let Some(part) = PartName::parse(&name) else {
            return Err(WriteError::NotAPart { name: name.into() }.into());
        };
        let (hidden, visible) = (part.hidden_in(&self.path), part.visible_in(&self.path));
        match rename(&hidden, &visible) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(WriteError::Occupied { path: visible }.into()),
            // It was committed before, or a reader took it since.
            Err(Errno::NOENT) if exists(&visible)? || self.readers_remove => {}
            Err(Errno::NOENT) => return Err(WriteError::Vanished { path: visible }.into()),
            Err(error) => return Err(WriteError::at(&visible)(error.into()).into()),
        }
        Ok(self.sync()?)
    }

    fn begin(&self, job: &str, generation: u64, listed: &[Transaction]) -> Result<(), BoxError> {
        PartName::check(job)?;
        make_directory(&self.path)?;
        access(&self.path, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| WriteError::at(&self.path)(error.into()))?;
        let found = self.find(job)?;
        if let Some(Found::Foreign(name)) =
            found.iter().find(|one| matches!(one, Found::Foreign(_)))
        {
            let (directory, name, job) = (self.path.clone(), name.clone(), job.into());
            return Err(WriteError::Foreign { directory, name, job }.into());
        }
        Ok(self.abort(found, generation, listed)?)
    }

    fn sweep(&self, job: &str, generation: u64) -> Result<(), BoxError> {
        Ok(self.abort(self.find(job)?, generation, &[])?)
    }
}

/// Renames, but never over another file (P1).
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), Errno> {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
}

pub(super) fn sync_directory(path: &Path) -> Result<(), WriteError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(WriteError::at(path))
}

fn exists(path: &Path) -> Result<bool, WriteError> {
    path.try_exists().map_err(WriteError::at(path))
}

/// Makes a directory, and those above it, durably.
fn make_directory(path: &Path) -> Result<(), WriteError> {
    if path.is_dir() {
        return Ok(());
    }
    let above = match path.parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    };
    make_directory(above)?;
    match fs::create_dir(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        result => result.map_err(WriteError::at(path))?,
    }
    sync_directory(above)
}
