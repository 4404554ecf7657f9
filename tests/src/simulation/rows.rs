//! The records of a simulated job, and the system that they are read from: a few splits whose
//! records follow from their positions.

use std::time::Duration;

use overtake::BoxError;
use overtake::source::{Emit, Read, Source, SourceContext};
use rkyv::{Archive, Deserialize, Serialize};

use super::dice::mix;
use super::outside::Shared;

/// Splits of the stream of rows.
pub(super) const SPLITS: u64 = 4;
/// Splits of the stream that is broadcast.
pub(super) const DIMENSIONS: u64 = 2;
/// The number of the first split of the broadcast stream.
pub(super) const FIRST_DIMENSION: u64 = 100;
const KEYS: u64 = 10;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Archive, Serialize, Deserialize)]
pub(super) struct Row {
    /// Its key.
    pub(super) key: u64,
    /// The split that it comes from.
    pub(super) split: u64,
    /// Where it was in it.
    pub(super) pos: u64,
    /// What is added up.
    pub(super) val: u64,
    /// The sum of its key, itself included, at the last operator that counted.
    pub(super) sum: u64,
    /// Which copy of the record this is, where a stage makes two.
    pub(super) copy: u64,
}

impl Row {
    /// The record at a position.
    pub(super) fn at(split: u64, pos: u64) -> Row {
        let hash = mix(split * 7919 + pos + 1);
        let (key, val) = (hash % KEYS, 1 + (hash >> 32) % 9);
        Row { key, split, pos, val, sum: 0, copy: 0 }
    }

    /// Which record it is.
    pub(super) fn id(&self) -> (u64, u64) {
        (self.split, self.pos)
    }
}

/// Reads a stream of rows, or the stream that is broadcast.
#[derive(Clone)]
pub(super) struct Splits {
    shared: Shared,
    splits: std::ops::Range<u64>,
    records: u64,
    /// Once in so many reads it has nothing for a while.
    pauses: u64,
    open: Vec<(u64, u64)>,
}

impl Splits {
    /// The stream of rows: so many of each split.
    pub(super) fn rows(shared: &Shared, splits: std::ops::Range<u64>, records: u64) -> Splits {
        Splits { shared: shared.clone(), splits, records, pauses: 0, open: Vec::new() }
    }

    /// The stream that is broadcast, so many of each split; slow, once in so many reads.
    pub(super) fn dimensions(shared: &Shared, records: u64, pauses: u64) -> Splits {
        let splits = FIRST_DIMENSION..FIRST_DIMENSION + DIMENSIONS;
        Splits { pauses, ..Splits::rows(shared, splits, records) }
    }
}

impl Source for Splits {
    type Record = Row;
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok(self.splits.clone().map(|split| format!("{split}")).collect())
    }

    fn open(&mut self, split: &str, at: Option<u64>, _: &SourceContext) -> Result<(), BoxError> {
        let at = at.unwrap_or(0);
        self.shared.lock().left += self.records - at;
        self.open.push((split.parse()?, at));
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        now: Duration,
        out: &mut impl Emit<Row>,
    ) -> Result<Read, BoxError> {
        let pauses = self.pauses;
        if self.pauses > 0 && self.shared.lock().dice.one_in(pauses) {
            return Ok(Read::Until(now + Duration::from_micros(20)));
        }
        for _ in 0..limit {
            let unread = self.open.iter_mut().filter(|(_, at)| *at < self.records);
            let Some((split, at)) = unread.min_by_key(|(_, at)| *at) else {
                return Ok(Read::Ended);
            };
            if out.is_blocked() {
                return Ok(Read::More);
            }
            let row = Row::at(*split, *at);
            *at += 1;
            let mut outside = self.shared.lock();
            outside.processed += 1;
            outside.left -= 1;
            outside.note("read", [row.split, row.pos, 0]);
            drop(outside);
            out.emit(row);
        }
        let is_left = self.open.iter().any(|(_, at)| *at < self.records);
        Ok(if is_left { Read::More } else { Read::Ended })
    }

    fn positions(&self) -> Vec<(String, u64)> {
        self.open.iter().map(|(split, at)| (split.to_string(), *at)).collect()
    }
}
