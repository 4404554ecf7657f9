//! A local directory that one live process owns.
//!
//! ```text
//!   DIR/lock                  held by the process that owns the directory; holds its id
//!   DIR/job                   whose directory this is
//!   DIR/{lives,marks,manifests,segments}/…
//!   DIR/temporary/…           objects that are being put
//! ```
//!
//! A put writes and syncs a temporary file, links it to its name (a link never replaces), syncs the
//! folder and removes the temporary name; so a crash leaves nothing or the whole (O1).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Append, Store, StoreError};
use crate::error::OpenError;
use crate::job;

const LOCK: &str = "lock";
const TEMPORARY: &str = "temporary";

/// A store in a local directory, owned as long as the value lives.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    /// Counts the temporary files, so that two puts at a time do not meet.
    puts: AtomicU64,
    /// Locked.
    lock: File,
}

impl Directory {
    /// Makes the directory if it is not there, and owns it.
    ///
    /// # Errors
    ///
    /// If another live process owns it, it holds files but no job record, or the storage fails. A
    /// directory that is refused is not changed.
    pub fn open(path: impl AsRef<Path>) -> Result<Directory, OpenError> {
        let root = path.as_ref().to_path_buf();
        fs::create_dir_all(&root).map_err(failed("create", &root))?;
        refuse_foreign(&root)?;
        let lock = lock(&root)?;
        let temporary = root.join(TEMPORARY);
        fs::create_dir_all(&temporary).map_err(failed("create", &temporary))?;
        for left_over in names_in(&temporary)? {
            let path = temporary.join(left_over);
            fs::remove_file(&path).map_err(failed("delete", &path))?;
        }
        sync_folder(&root)?;
        Ok(Directory { root, puts: AtomicU64::new(0), lock })
    }

    fn path(&self, name: &str) -> PathBuf {
        let plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        assert!(name.split('/').all(plain) && name.split('/').count() <= 2, "the name \"{name}\"");
        self.root.join(name)
    }

    /// The folder of an object, made if need be.
    fn folder(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let folder = path.parent().unwrap_or(&self.root).to_path_buf();
        match fs::create_dir(&folder) {
            Ok(()) => sync_folder(&self.root)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("create", &folder)(error)),
        }
        Ok(folder)
    }

    // The steps of a put, in their order.

    fn write_temporary(&self, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        let count = self.puts.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join(TEMPORARY).join(count.to_string());
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(failed("write", &path))?;
        Ok(path)
    }

    fn link(temporary: &Path, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        match fs::hard_link(temporary, path) {
            // O3: what an earlier attempt of the same put left is as good.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let there = fs::read(path).map_err(failed("read", path))?;
                if there == bytes { Ok(()) } else { Err(failed("put", path)(error)) }
            }
            linked => linked.map_err(failed("put", path)),
        }
    }
}

impl Drop for Directory {
    /// Closing the file would not do: a process that another thread has just forked holds a copy
    /// of it until it executes its program.
    fn drop(&mut self) {
        // If this fails, closing it does the same a little later.
        let _ = self.lock.unlock();
    }
}

impl Store for Directory {
    fn create(&self, name: &str) -> Result<Box<dyn Append>, StoreError> {
        let path = self.path(name);
        let folder = self.folder(&path)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        Ok(Box::new(Growing { file: file.map_err(failed("create", &path))?, path, folder }))
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(name);
        let folder = self.folder(&path)?;
        let temporary = self.write_temporary(bytes)?;
        let linked = Directory::link(&temporary, &path, bytes);
        // Whatever became of the link; a left-over is deleted at the next start.
        let _ = fs::remove_file(&temporary);
        linked?;
        sync_folder(&folder).map_err(|error| StoreError::Unknown {
            file: show(&path),
            source: io::Error::other(error),
        })
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.path(name);
        fs::read(&path).map_err(failed("read", &path))
    }

    fn read_range(&self, name: &str, offset: u64, bytes: usize) -> Result<Vec<u8>, StoreError> {
        let path = self.path(name);
        let read = || {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut part = Vec::new();
            file.take(bytes as u64).read_to_end(&mut part)?;
            if part.len() < bytes {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "it is shorter than that"));
            }
            Ok(part)
        };
        read().map_err(failed("read", &path))
    }

    fn len(&self, name: &str) -> Result<u64, StoreError> {
        let path = self.path(name);
        Ok(fs::metadata(&path).map_err(failed("read", &path))?.len())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut names = BTreeSet::new();
        for name in names_in(&self.root)? {
            let path = self.root.join(&name);
            if name == LOCK || name == TEMPORARY {
                continue;
            } else if path.is_dir() {
                names.extend(names_in(&path)?.iter().map(|file| format!("{name}/{file}")));
            } else {
                names.insert(name);
            }
        }
        Ok(names.into_iter().filter(|name| name.starts_with(prefix)).collect())
    }

    fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        let mut folders = BTreeSet::new();
        for name in names {
            let path = self.path(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(failed("delete", &path))?,
            }
            folders.extend(path.parent().map(Path::to_path_buf));
        }
        folders.iter().filter(|folder| folder.exists()).try_for_each(|folder| sync_folder(folder))
    }

    fn place(&self, name: &str) -> String {
        show(&self.root.join(name))
    }
}

/// A file that is appended to, at its final place: nothing names it before it is finished.
struct Growing {
    file: File,
    path: PathBuf,
    folder: PathBuf,
}

impl Append for Growing {
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(failed("write", &self.path))
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        self.file.sync_all().map_err(failed("sync", &self.path))?;
        sync_folder(&self.folder)
    }
}

/// A directory with files but without a job record is not ours, or has lost it. What a crash
/// before the first record may leave does not count.
fn refuse_foreign(root: &Path) -> Result<(), OpenError> {
    let names = names_in(root)?;
    if names.contains(job::NAME) {
        return Ok(());
    }
    match names.into_iter().find(|name| name != LOCK && name != TEMPORARY) {
        Some(file) => Err(OpenError::Foreign { directory: show(root), file }),
        None => Ok(()),
    }
}

fn lock(root: &Path) -> Result<File, OpenError> {
    let path = root.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let pid = if pid.trim().is_empty() { "?" } else { pid.trim() }.to_owned();
            return Err(OpenError::InUse { directory: show(root), pid });
        }
        Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error).into()),
    }
    // The id is for people only: the lock is what counts.
    let noted = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    noted.map_err(failed("write", &path))?;
    Ok(file)
}

fn names_in(folder: &Path) -> Result<BTreeSet<String>, StoreError> {
    fs::read_dir(folder)
        .and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        })
        .map_err(failed("list", folder))
}

fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |error| StoreError::from_io(doing, show(path), error)
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
