//! Records from CSV: the header names the columns, each row is a record.
//!
//! The crate `csv` finds rows and fields; [`row`] makes records of them, and knows the column in
//! which something is wrong.

mod row;

use std::io::{Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use csv::{Reader, ReaderBuilder, StringRecord};
use serde::de::DeserializeOwned;

use super::error::{Column, ReadError};
use super::input::{BLOCK_BYTES, Input};
use super::kept::Kept;
use super::source::{Metadata, Place, Position};
use row::{Columns, RowError};

/// The rows of one file.
pub(super) struct CsvRows {
    path: PathBuf,
    abandoned: Arc<AtomicBool>,
    reader: Reader<Kept<Chain<Cursor<Vec<u8>>, Input>>>,
    metadata: Option<Metadata>,
    /// What the reader's own position lacks: it has met the header, and then what follows `from`.
    skipped: Place,
    columns: Columns,
    row: StringRecord,
    scout: Option<Box<Scout>>,
}

impl CsvRows {
    /// Opens the file at a position, or after its header.
    pub(super) fn open(
        path: &Path,
        from: &Position,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<CsvRows, ReadError> {
        let mut rest = Input::open(path, abandoned)?;
        rest.resume(path, from, b"\r\n")?;
        let metadata = rest.metadata();
        let (first, rest) = match from.offset {
            0 => (rest, None),
            _ => (Input::open(path, abandoned)?, Some(rest)),
        };
        let mut rows = CsvRows {
            path: path.into(),
            abandoned: abandoned.clone(),
            reader: reader(Vec::new(), first),
            metadata,
            skipped: Place::default(),
            columns: Columns::default(),
            row: StringRecord::new(),
            scout: None,
        };
        if !rows.read_row()? {
            let reason = "the file is empty, a header line was expected";
            return Err(ReadError::malformed(path, 1, Column::Field(1, None), reason));
        }
        rows.columns = Columns::new(&rows.row);
        if let Some(rest) = rest {
            rows.go_on(from, rest)?;
        }
        Ok(rows)
    }

    /// After the header: goes on with what follows the position.
    fn go_on(&mut self, from: &Position, rest: Input) -> Result<(), ReadError> {
        // The reader meets the header once more, so that it knows how many fields a row has and
        // that no byte order mark is to come, and after it what follows the position.
        let header = self.place();
        let length = usize::try_from(header.offset).expect("it was read into memory");
        let again = self.kept()[..length].to_vec();
        self.reader = reader(again, rest);
        self.read_row()?;
        self.kept().drain(..length);
        self.skipped.offset = from.offset.saturating_sub(header.offset);
        self.skipped.line = from.line.saturating_sub(header.line);
        Ok(())
    }

    /// The record of the next row.
    pub(super) fn next<R: DeserializeOwned>(&mut self) -> Result<Option<R>, ReadError> {
        let start = self.place();
        let record = match self.read_row()? {
            true => self.columns.record(&self.row).map(Some),
            // No row may have said so yet.
            false => self.columns.check::<R>().map(|()| None),
        };
        record.map_err(|error| self.malformed(start, error))
    }

    /// Where the next row begins.
    pub(super) fn place(&self) -> Place {
        let reader = self.reader.position();
        Place {
            offset: reader.byte() + self.skipped.offset,
            // The reader counts from 1.
            line: reader.line() - 1 + self.skipped.line,
        }
    }

    /// What was read since it was last taken, and perhaps more.
    pub(super) fn kept(&mut self) -> &mut Vec<u8> {
        self.reader.get_mut().bytes()
    }

    /// See [`Input::metadata`].
    pub(super) fn metadata(&self) -> Option<Metadata> {
        self.metadata
    }

    fn read_row(&mut self) -> Result<bool, ReadError> {
        let start = self.place();
        self.reader.get_mut().reader().get_mut().1.next_record();
        self.reader
            .read_record(&mut self.row)
            .map_err(|error| self.unread(start, error.into_kind()))
    }

    /// No row could be made of what follows `start`.
    fn unread(&mut self, start: Place, error: csv::ErrorKind) -> ReadError {
        let (column, reason) = match error {
            csv::ErrorKind::Io(reason) => {
                return ReadError::Broken { path: self.path.clone(), line: start.line + 1, reason };
            }
            csv::ErrorKind::Utf8 { err, .. } => (err.field(), "invalid UTF-8".to_owned()),
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                let first = expected_len.min(len);
                let expected =
                    usize::try_from(first).expect("fields of a row are counted in usize");
                (expected, format!("the row has {len} fields, the header has {expected_len}"))
            }
            other => (0, format!("{other:?}")),
        };
        self.malformed(start, RowError::field(column, reason))
    }

    fn malformed(&mut self, start: Place, error: RowError) -> ReadError {
        let line = if error.is_of_header() { 1 } else { self.first_line(start) };
        let (column, reason) = self.columns.locate(error);
        ReadError::malformed(&self.path, line, column, &reason)
    }

    /// The line of the row that follows `start`. Between the two there may be the rest of a line
    /// end, and empty lines.
    fn first_line(&mut self, start: Place) -> u64 {
        let mut line = start.line + 1;
        let scout = match self.scout.take() {
            Some(scout) => Ok(scout),
            None => {
                Input::open(&self.path, &self.abandoned).map(|input| Scout { input, at: 0 }.into())
            }
        };
        // What cannot be read a second time was read a first time all the same.
        let Ok(mut scout) = scout else { return line };
        let is_there = |reached: std::io::Result<u64>| reached.is_ok_and(|at| at == start.offset);
        if !is_there(scout.input.skip(scout.at, start.offset)) {
            return line;
        }
        scout.at = start.offset;
        let mut byte = [0];
        while let Ok(1) = scout.input.read(&mut byte) {
            scout.at += 1;
            match byte[0] {
                b'\n' => line += 1,
                b'\r' => {}
                _ => break,
            }
        }
        self.scout = Some(scout);
        line
    }
}

/// Reads the file once more, up to the malformed rows, for their lines: all of them in one go.
struct Scout {
    input: Input,
    at: u64,
}

fn reader(header: Vec<u8>, input: Input) -> Reader<Kept<Chain<Cursor<Vec<u8>>, Input>>> {
    ReaderBuilder::new()
        .has_headers(false)
        .buffer_capacity(BLOCK_BYTES)
        .from_reader(Kept::new(Cursor::new(header).chain(input)))
}
