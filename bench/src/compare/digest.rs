//! What came out, as a number that does not depend on the order: two runs over the same input have
//! the same digest, unless a row was lost, doubled or changed. Pure.
//!
//! A row that is always the same is counted by its hash, and the hashes are summed: one row more or
//! less changes the sum. Where several workers meet, an interim result may depend on who came
//! first; of such rows only the last version of each key is compared.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use foldhash::quality::FixedState;

/// What the comparison wants to know of one row of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub(super) due: Duration,
    each: u64,
    last: Option<(u64, Version)>,
}

type Version = (u64, u64);

impl Row {
    /// A row of which this must come out, once: it is the same in every run over the same input,
    /// also if sources are read in another order.
    pub fn of(each: &impl Hash) -> Row {
        Row { due: Duration::ZERO, each: hash(each), last: None }
    }

    /// Version `version` of what belongs to `key`; `content` is compared for the last one only.
    pub fn last(self, key: &impl Hash, version: u64, content: &impl Hash) -> Row {
        Row { last: Some((hash(key), (version, hash(content)))), ..self }
    }

    /// When the record was due that this row came from, as it was stamped.
    pub fn due(self, due: Duration) -> Row {
        Row { due, ..self }
    }
}

/// The same in every process.
fn hash(value: &impl Hash) -> u64 {
    FixedState::with_seed(0).hash_one(value)
}

/// The digest of an output.
///
/// ```
/// use overtake_bench::compare::{Digest, Row};
///
/// let digest = |rows: &[u32]| {
///     let mut digest = Digest::default();
///     rows.iter().for_each(|row| digest.add(&Row::of(row)));
///     digest
/// };
/// assert_eq!(digest(&[1, 2, 3]), digest(&[3, 1, 2]));
/// assert_ne!(digest(&[1, 2, 3]), digest(&[1, 2, 3, 3]));
/// ```
#[derive(
    Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct Digest {
    rows: u64,
    sum: u64,
    last: BTreeMap<u64, Version>,
}

impl Digest {
    /// One more row.
    #[inline]
    pub fn add(&mut self, row: &Row) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(row.each);
        if let Some((key, version)) = row.last {
            self.version(key, version);
        }
    }

    /// The rows of another output too.
    pub(super) fn merge(&mut self, other: Digest) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
        other.last.into_iter().for_each(|(key, version)| self.version(key, version));
    }

    fn version(&mut self, key: u64, version: Version) {
        let last = self.last.entry(key).or_default();
        *last = version.max(*last);
    }
}

/// In hexadecimal: how many rows, the sum of their hashes, that of the last versions.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.iter().fold(0, |sum: u64, last| sum.wrapping_add(hash(&last)));
        write!(f, "{:016x}{:016x}{last:016x}", self.rows, self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |i: u64| Row::of(&(i % 3, i / 3)).last(&(i % 3), i / 3, &(i * i));
        (0..30).map(row).collect()
    }

    fn digest<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Digest {
        let mut digest = Digest::default();
        rows.into_iter().for_each(|row| digest.add(row));
        digest
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let rows = rows();
        let mut parts = digest(&rows[20..]);
        parts.merge(digest(&rows[..20]));
        assert_eq!(parts.to_string(), digest(&rows).to_string());
        assert_eq!(digest(rows.iter().rev()).to_string(), digest(&rows).to_string());
    }

    #[test]
    fn every_lost_and_every_doubled_row_is_found() {
        let all = digest(&rows()).to_string();
        for i in 0..rows().len() {
            let (mut lost, mut doubled, mut swapped) = (rows(), rows(), rows());
            lost.remove(i);
            doubled.push(doubled[i]);
            swapped[i] = swapped[(i + 1) % swapped.len()];
            for wrong in [lost, doubled, swapped] {
                assert_ne!(digest(&wrong).to_string(), all, "row {i}");
            }
        }
    }

    #[test]
    fn of_a_key_the_last_version_is_compared_and_no_earlier_one() {
        let row = |version: u64, content: u64| Row::of(&version).last(&"key", version, &content);
        let expected = digest(&[row(1, 10), row(2, 30)]);
        assert_eq!(digest(&[row(1, 20), row(2, 30)]), expected);
        assert_ne!(digest(&[row(1, 10), row(2, 31)]), expected);
    }

    #[test]
    fn when_a_row_was_due_is_no_part_of_it() {
        let row = Row::of(&1);
        assert_eq!(digest(&[row]), digest(&[row.due(Duration::from_secs(1))]));
    }
}
