//! A directory for a measurement, in memory where the machine has such a place.

use std::path::{Path, PathBuf};

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
    }
}
