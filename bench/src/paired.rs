//! The paired harness: is B at least so many times as fast as A, on a machine that is never the
//! same for long?
//!
//! Sides run in alternating windows, and only one at a time:
//!
//! ```text
//!     A   B1   A   B2   A   B1   A   …
//!     └─ pair ─┘
//!          └── pair ──┘
//! ```
//!
//! # Invariants
//!
//! * **P1**: a pair is one window of B between two of A; its ratio is B over the mean of the two.
//! * **P2**: a window counts if it was quiet; a pair if its windows do, and its two A differ by
//!   less than 10 %.
//! * **P3**: a verdict needs [`PAIRS_MIN`] counted pairs. It is *met* or *missed* only if the
//!   whole interval of the median says so.
//!
//! Not here: what a window measures, which is in `meter`.

mod drive;

pub use drive::{Plan, compare};
pub(crate) use drive::{REST, SETTLE, wait_for_quiet};

use std::fmt;

use crate::meter::Window;
use crate::statistics::{median, median_interval, quantile};

/// Counted pairs that a verdict needs.
pub const PAIRS_MIN: usize = 30;

/// The two A of a pair may differ by this share of the larger one.
const DRIFT_MAX: f64 = 0.10;

/// A program that runs and stops at will.
pub trait Side {
    /// Runs, until the next `pause`. The first window begins a moment later.
    fn resume(&self);

    /// Stops: a paused side takes no CPU time.
    fn pause(&self);

    /// How many records have been processed in all; may lag a little, and never shrinks.
    fn processed(&self) -> u64;
}

/// One window of B between two of A (P1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The window of A before that of B.
    pub before: Window,
    /// The window of B.
    pub between: Window,
    /// The window of A after that of B.
    pub after: Window,
}

impl Pair {
    /// Whether the pair says something (P2).
    pub fn counts(&self) -> bool {
        let (before, after) = (self.before.rate(), self.after.rate());
        let is_steady = (before - after).abs() < DRIFT_MAX * before.max(after);
        is_steady && [self.before, self.between, self.after].iter().all(Window::is_quiet)
    }

    /// How many times as fast as A B was.
    pub fn rate_ratio(&self) -> f64 {
        self.between.rate() * 2.0 / (self.before.rate() + self.after.rate())
    }

    /// How many times as much CPU time as A B took for a record.
    pub fn cpu_ratio(&self) -> f64 {
        let cpu_seconds = self.before.cpu_seconds + self.after.cpu_seconds;
        let records = self.before.records + self.after.records;
        self.between.cpu_per_record() / (cpu_seconds / records as f64)
    }
}

/// What all pairs of an A and a B say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Those that were measured, counted or not.
    pub pairs: Vec<Pair>,
}

/// A value in the middle, and how sure it is or how far it ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(3);
        let Spread { median, low, high } = self;
        write!(f, "{median:.places$} [{low:.places$} {high:.places$}]")
    }
}

/// Whether a bar was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The interval of the median lies above the bar.
    Met,
    /// It lies below.
    Missed,
    /// It holds the bar, or too few pairs counted.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::Undecided => "undecided",
        })
    }
}

impl Comparison {
    /// The pairs that count.
    pub fn counted(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(|pair| pair.counts())
    }

    /// How many times as fast as A B is, with the 95 % interval of the median. None if no pair
    /// counts.
    pub fn rate_ratio(&self) -> Option<Spread> {
        confidence(&self.counted().map(Pair::rate_ratio).collect::<Vec<_>>())
    }

    /// How many times as much CPU time B takes for a record, with the 95 % interval of the median.
    pub fn cpu_ratio(&self) -> Option<Spread> {
        Self::cpu_ratio_of(self.counted())
    }

    /// The same, of any pairs.
    pub fn cpu_ratio_of<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Option<Spread> {
        confidence(&pairs.map(Pair::cpu_ratio).collect::<Vec<_>>())
    }

    /// A's own rate, with the range from its 10th to its 90th percentile.
    pub fn rate_of_a(&self) -> Option<Spread> {
        range(self.counted().flat_map(|pair| [pair.before.rate(), pair.after.rate()]).collect())
    }

    /// B's own rate, with the range from its 10th to its 90th percentile.
    pub fn rate_of_b(&self) -> Option<Spread> {
        range(self.counted().map(|pair| pair.between.rate()).collect())
    }

    /// Whether B is at least `bar` times as fast as A (P3).
    pub fn verdict(&self, bar: f64) -> Verdict {
        match self.rate_ratio() {
            Some(ratio) if self.counted().count() >= PAIRS_MIN => match ratio {
                Spread { low, .. } if low >= bar => Verdict::Met,
                Spread { high, .. } if high < bar => Verdict::Missed,
                _ => Verdict::Undecided,
            },
            _ => Verdict::Undecided,
        }
    }
}

fn confidence(ratios: &[f64]) -> Option<Spread> {
    let (low, high) = median_interval(ratios)?;
    Some(Spread { median: median(ratios)?, low, high })
}

fn range(rates: Vec<f64>) -> Option<Spread> {
    let at = |q| quantile(&rates, q);
    Some(Spread { median: at(0.5)?, low: at(0.1)?, high: at(0.9)? })
}

#[cfg(test)]
mod tests;
