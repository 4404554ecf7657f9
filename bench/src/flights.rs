//! The records of the job `billing`: rows of `flights.csv` and `planes.csv`, with the columns that
//! a bill needs.
//!
//! The rows are read by serde from CSV with headers; columns that are not named here are passed
//! over. They are kept and exchanged as they lie in memory: no record has padding, so that rkyv
//! copies slices of them whole.
//!
//! Not here: what a flight costs, which is in `tariff`.

mod column;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The flights of January 2013, as they ship with the repository.
pub const JANUARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights-2013-01.csv.gz");

/// The aircraft, as they ship with the repository.
pub const PLANES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/planes.csv.gz");

/// One scheduled departure.
///
/// ```
/// use overtake_bench::flights::Flight;
///
/// let text = "\
/// year,month,day,dep_time,carrier,tailnum,distance,hour
/// 2013,1,31,NA,UA,N14228,1400,5
/// ";
/// let mut rows = csv::Reader::from_reader(text.as_bytes());
/// let flight: Flight = rows.deserialize().next().unwrap().unwrap();
/// assert!(!flight.departed);
/// assert_eq!(flight.carrier.to_string(), "UA");
/// assert_eq!(flight.month().to_string(), "2013-01");
/// ```
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[repr(C)]
pub struct Flight {
    /// When it was due to be read.
    #[serde(skip)]
    pub due: Due,
    /// The aircraft; absent for many cancelled flights.
    #[serde(rename = "tailnum", deserialize_with = "column::tailnum")]
    pub tail: Tail,
    /// In miles.
    #[serde(deserialize_with = "column::distance")]
    pub distance: u32,
    /// The year of the scheduled departure.
    #[serde(deserialize_with = "column::year")]
    pub year: u16,
    /// The airline.
    #[serde(deserialize_with = "column::carrier")]
    pub carrier: Carrier,
    /// The month of the scheduled departure, from 1.
    #[serde(deserialize_with = "column::month")]
    pub month: u8,
    /// The day of the scheduled departure, from 1.
    #[serde(deserialize_with = "column::day")]
    pub day: u8,
    /// The hour of the scheduled departure, local time.
    #[serde(deserialize_with = "column::hour")]
    pub hour: u8,
    /// Whether `dep_time` is there: a flight without it was cancelled.
    #[serde(rename = "dep_time", deserialize_with = "column::dep_time")]
    pub departed: bool,
}

impl Flight {
    /// The month in which the flight is billed.
    pub fn month(&self) -> Month {
        Month::new(self.year, self.month)
    }

    /// The same flight, `years` later: what repetition `years` of an input consists of.
    pub fn later(self, years: u16) -> Flight {
        Flight { year: self.year + years, ..self }
    }
}

/// One aircraft.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[repr(C)]
pub struct Plane {
    /// Its tail number.
    #[serde(rename = "tailnum", deserialize_with = "column::tailnum")]
    pub tail: Tail,
    /// How many passengers it seats; what an unlisted aircraft seats where the row does not say.
    #[serde(deserialize_with = "column::seats")]
    pub seats: u32,
}

/// When a flight was due to be read, by the job's clock; bytes, so that records have no padding.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
#[repr(transparent)]
pub struct Due([u8; 8]);

impl Due {
    /// So long after the job began.
    pub fn at(time: Duration) -> Due {
        Due((time.as_nanos() as u64).to_le_bytes())
    }

    /// In nanoseconds; 0 where nobody said.
    pub fn ns(self) -> u64 {
        u64::from_le_bytes(self.0)
    }
}

/// An airline, by its code of two letters.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[repr(transparent)]
pub struct Carrier([u8; 2]);

impl FromStr for Carrier {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Carrier, &'static str> {
        match text.as_bytes() {
            &[a, b] if text.chars().all(|c| c.is_ascii_alphanumeric()) => Ok(Carrier([a, b])),
            _ => Err("a code of two letters or digits"),
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ascii(&self.0))
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Carrier {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(ascii(&self.0))
    }
}

/// The tail number of an aircraft, or its absence: up to eight characters, padded with zeros.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[repr(transparent)]
pub struct Tail([u8; 8]);

impl Tail {
    /// No aircraft is named.
    pub const ABSENT: Tail = Tail([0; 8]);

    /// Whether no aircraft is named.
    pub fn is_absent(self) -> bool {
        self == Tail::ABSENT
    }
}

impl FromStr for Tail {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Tail, &'static str> {
        let mut tail = Tail::ABSENT;
        if text.len() > tail.0.len() || !text.bytes().all(|c| c.is_ascii_graphic()) {
            return Err("a tail number of at most 8 characters");
        }
        tail.0[..text.len()].copy_from_slice(text.as_bytes());
        Ok(tail)
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_absent() { "NA" } else { ascii(&self.0) })
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A month of the calendar; the order of months is the order of time.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[rkyv(derive(PartialEq, Eq, PartialOrd, Ord))]
#[repr(transparent)]
pub struct Month(u32);

impl Month {
    /// Month `month` of `year`, counted from 1.
    pub fn new(year: u16, month: u8) -> Month {
        assert!((1..=12).contains(&month), "month {month} is not from 1 to 12");
        Month(u32::from(year) * 12 + u32::from(month) - 1)
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0 / 12, self.0 % 12 + 1)
    }
}

impl fmt::Debug for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Month {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The characters before the padding. Bytes that no parser made (a default, a foreign file) show as
/// nothing.
fn ascii(padded: &[u8]) -> &str {
    let end = padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len());
    std::str::from_utf8(&padded[..end]).unwrap_or_default()
}

#[cfg(test)]
mod tests;
