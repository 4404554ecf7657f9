//! Records from JSON lines: one document a line; empty lines are skipped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::de::DeserializeOwned;

use super::error::{Column, ReadError};
use super::input::{BLOCK_BYTES, Input};
use super::source::{Metadata, Place, Position};

/// Some editors write it before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines of one file.
pub(super) struct JsonLines {
    path: PathBuf,
    reader: BufReader<Input>,
    place: Place,
    /// See [`kept`](JsonLines::kept).
    kept: Vec<u8>,
}

impl JsonLines {
    /// Opens the file at a position, or at its beginning.
    pub(super) fn open(
        path: &Path,
        from: &Position,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<JsonLines, ReadError> {
        let mut input = Input::open(path, abandoned)?;
        input.resume(path, from, b"\n")?;
        let reader = BufReader::with_capacity(BLOCK_BYTES, input);
        Ok(JsonLines { path: path.into(), reader, place: from.place(), kept: Vec::new() })
    }

    /// The record of the next line.
    pub(super) fn next<R: DeserializeOwned>(&mut self) -> Result<Option<R>, ReadError> {
        // Empty lines count as a part of the next one: all are kept.
        self.reader.get_mut().next_record();
        loop {
            let (start, is_first) = (self.kept.len(), self.place.offset == 0);
            if !self.read_line()? {
                return Ok(None);
            }
            let whole = &self.kept[start..];
            let line = match whole.strip_prefix(BYTE_ORDER_MARK) {
                Some(marked) if is_first => marked,
                _ => whole,
            };
            let before = whole.len() - line.len();
            let text = std::str::from_utf8(line).map_err(|error| {
                self.malformed(before + error.valid_up_to() + 1, "invalid UTF-8")
            })?;
            if text.trim_ascii().is_empty() {
                continue;
            }
            return serde_json::from_str(text).map(Some).map_err(|error| {
                let (said, column) = (error.to_string(), before + error.column().max(1));
                // It counts lines within this one.
                let reason = said.split(" at line ").next().unwrap_or(&said);
                self.malformed(column, reason)
            });
        }
    }

    /// Where the next line begins.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// The lines that were read since they were last taken.
    pub(super) fn kept(&mut self) -> &mut Vec<u8> {
        &mut self.kept
    }

    /// See [`Input::metadata`].
    pub(super) fn metadata(&self) -> Option<Metadata> {
        self.reader.get_ref().metadata()
    }

    fn read_line(&mut self) -> Result<bool, ReadError> {
        let read = self.reader.read_until(b'\n', &mut self.kept).map_err(|reason| {
            ReadError::Broken { path: self.path.clone(), line: self.place.line + 1, reason }
        })?;
        self.place.offset += read as u64;
        self.place.line += u64::from(read > 0);
        Ok(read > 0)
    }

    fn malformed(&self, column: usize, reason: &str) -> ReadError {
        ReadError::malformed(&self.path, self.place.line, Column::Byte(column), reason)
    }
}
