//! How each column is read: what it may hold, and what is said of a value that it may not.

use std::fmt;
use std::str::FromStr;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use super::{Carrier, Tail};
use crate::tariff::SEATS_UNLISTED;

/// The latest year that a flight may have, so that its repetitions still have years of four digits.
const YEAR_MAX: u16 = 8999;

/// Further than any two airports, and than four times that by way of others.
const DISTANCE_MAX: u32 = 50_000;

const SEATS_MAX: u32 = 10_000;

pub(super) fn year<'de, D: Deserializer<'de>>(column: D) -> Result<u16, D::Error> {
    whole(column, "year", 1900, YEAR_MAX)
}

pub(super) fn month<'de, D: Deserializer<'de>>(column: D) -> Result<u8, D::Error> {
    whole(column, "month", 1, 12)
}

pub(super) fn day<'de, D: Deserializer<'de>>(column: D) -> Result<u8, D::Error> {
    whole(column, "day", 1, 31)
}

pub(super) fn hour<'de, D: Deserializer<'de>>(column: D) -> Result<u8, D::Error> {
    whole(column, "hour", 0, 24)
}

pub(super) fn distance<'de, D: Deserializer<'de>>(column: D) -> Result<u32, D::Error> {
    whole(column, "distance", 0, DISTANCE_MAX)
}

/// Whether there is a time of day (as `hhmm`).
pub(super) fn dep_time<'de, D: Deserializer<'de>>(column: D) -> Result<bool, D::Error> {
    const NAME: &str = "dep_time";
    column.deserialize_str(Field(|text: &str| {
        let time = present(text).map(|text| between::<u16>(text, NAME, 0, 2400));
        time.transpose().map(|time| time.is_some())
    }))
}

pub(super) fn seats<'de, D: Deserializer<'de>>(column: D) -> Result<u32, D::Error> {
    column.deserialize_str(Field(|text: &str| match present(text) {
        Some(text) => between(text, "seats", 0, SEATS_MAX),
        None => Ok(SEATS_UNLISTED),
    }))
}

pub(super) fn carrier<'de, D: Deserializer<'de>>(column: D) -> Result<Carrier, D::Error> {
    column.deserialize_str(Field(|text: &str| {
        text.parse::<Carrier>().map_err(|expected| malformed("carrier", text, expected))
    }))
}

pub(super) fn tailnum<'de, D: Deserializer<'de>>(column: D) -> Result<Tail, D::Error> {
    column.deserialize_str(Field(|text: &str| {
        let tail = present(text).map_or(Ok(Tail::ABSENT), str::parse);
        tail.map_err(|expected| malformed("tailnum", text, expected))
    }))
}

fn whole<'de, D, N>(column: D, name: &str, least: N, most: N) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: FromStr + PartialOrd + fmt::Display + Copy,
{
    column.deserialize_str(Field(|text: &str| between(text, name, least, most)))
}

fn between<N>(text: &str, name: &str, least: N, most: N) -> Result<N, String>
where
    N: FromStr + PartialOrd + fmt::Display + Copy,
{
    match text.parse() {
        Ok(number) if least <= number && number <= most => Ok(number),
        _ => Err(malformed(name, text, format_args!("a whole number from {least} to {most}"))),
    }
}

fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty() && *text != "NA")
}

fn malformed(name: &str, found: &str, expected: impl fmt::Display) -> String {
    format!("`{name}` is {found:?}: expected {expected}")
}

/// Reads the text of one field without copying it.
struct Field<F>(F);

impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Field<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a column")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.0(text).map_err(E::custom)
    }
}
