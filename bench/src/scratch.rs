//! A directory for a measurement, in memory where the machine has such a place. It goes with its
//! owner, also when the command is interrupted.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::interrupt;

/// Where measurements keep their checkpoints, if nobody says otherwise: `/dev/shm`, or else the
/// system's temporary directory.
pub(crate) fn base() -> PathBuf {
    let shared_memory = PathBuf::from("/dev/shm");
    if shared_memory.is_dir() { shared_memory } else { std::env::temp_dir() }
}

/// A directory that goes when its owner does.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(base: &Path) -> std::io::Result<Directory> {
        let unique = format!("overtake-{}-{:016x}", std::process::id(), overtake_state::draw_id());
        let path = base.join(unique);
        std::fs::create_dir_all(&path)?;
        lock().push(path.clone());
        interrupt::removes_scratch();
        Ok(Directory(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind lies in a temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
        lock().retain(|path| *path != self.0);
    }
}

/// Those that are there.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<PathBuf>> {
    DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all that are there: the process ends.
pub(crate) fn remove_all() {
    for path in lock().drain(..) {
        // A job that still writes may be quicker once, and not for ever.
        let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
}
