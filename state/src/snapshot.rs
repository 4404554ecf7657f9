//! What an operator hands over at a barrier, and what it is given at a restore.
//!
//! ```text
//!   worker:  States ── freeze ──▶ Vec<Frozen> ─┐ (a copy of the rows: no disk, no encoding)
//!   writer:                                    └─▶ Frozen::write ──▶ segment
//!   restore: Restored (shared by all workers) ──▶ States::value, list, map, … take their rows
//! ```

mod restored;
mod states;

pub use restored::Restored;
pub use states::States;

use crate::error::WriteError;
use crate::segment::SegmentWriter;

/// Writes a frozen table.
type Write = Box<dyn FnOnce(&mut SegmentWriter) -> Result<(), WriteError> + Send>;

/// A table as it was at the cut, to be written on another thread.
#[must_use = "what is frozen must be written, or the checkpoint is not complete"]
pub struct Frozen {
    bytes: usize,
    write: Write,
}

impl Frozen {
    /// How much memory it holds, about: what the rows own elsewhere is not counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Encodes and writes it.
    ///
    /// # Errors
    ///
    /// If the storage fails.
    pub fn write(self, writer: &mut SegmentWriter) -> Result<(), WriteError> {
        (self.write)(writer)
    }
}

#[cfg(test)]
mod tests;
