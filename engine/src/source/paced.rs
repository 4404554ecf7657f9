//! A source at a given rate: each record has a time at which it is due, and is not read before.
//!
//! The loop is open: a source that falls behind catches up as fast as it can, and due times stay
//! what they were. So a latency from due to processed holds all the waiting, also that of records
//! which could not even be read.
//!
//! Record *i* of a worker, counted from its first read, is due at `start + i * workers / rate`, so
//! that all workers together read at the rate. Splits, positions and what they promise (S1 to S4)
//! are those of the inner source.

use std::sync::Arc;
use std::time::Duration;

use super::{Emit, Read, Source, SourceContext};
use crate::Listener;
use crate::error::BoxError;

/// Reads `source` at `rate` records per second of all workers together. `stamp` is told when each
/// record is due, as a time of the job's clock.
///
/// ```
/// use overtake::connect::file::Files;
/// use overtake::source::{Paced, paced};
///
/// # use rkyv::{Archive, Deserialize, Serialize};
/// #[derive(Clone, Archive, Serialize, Deserialize, serde::Deserialize)]
/// struct Flight {
///     carrier: String,
///     #[serde(skip)]
///     due_ns: u64,
/// }
///
/// let flights: Files<Flight> = Files::csv(["flights.csv.gz"]);
/// let flights = paced(flights, 100_000, |flight: &mut Flight, due| {
///     flight.due_ns = due.as_nanos() as u64;
/// });
/// ```
///
/// # Panics
///
/// If the rate is 0.
pub fn paced<S, F>(source: S, rate: u64, stamp: F) -> Paced<S, F>
where
    S: Source,
    F: FnMut(&mut S::Record, Duration) + 'static,
{
    assert!(rate > 0, "a rate is at least one record per second");
    Paced { inner: source, schedule: Schedule { start: None, rate, workers: 1, emitted: 0 }, stamp }
}

/// A source at a given rate, see [`paced`].
#[derive(Clone)]
pub struct Paced<S, F> {
    inner: S,
    schedule: Schedule,
    stamp: F,
}

/// When which record is due.
#[derive(Clone)]
struct Schedule {
    /// The time of the first read.
    start: Option<Duration>,
    /// Records per second of all workers.
    rate: u64,
    workers: usize,
    /// How many records of this worker were emitted.
    emitted: u64,
}

impl Schedule {
    /// When the next record is due.
    fn next(&self, start: Duration) -> Duration {
        let late = u128::from(self.emitted) * self.workers as u128 * 1_000_000_000;
        start + Duration::from_nanos((late / u128::from(self.rate)) as u64)
    }

    /// How many records are due and not emitted.
    fn due(&self, start: Duration, now: Duration) -> u64 {
        let Some(since) = now.checked_sub(start) else { return 0 };
        // Record i is due from the first whole nanosecond after i * workers / rate rounded down.
        let slots = (since.as_nanos() + 1) * u128::from(self.rate);
        let all = slots.div_ceil(self.workers as u128 * 1_000_000_000);
        u64::try_from(all).unwrap_or(u64::MAX).saturating_sub(self.emitted)
    }
}

impl<S, F> Source for Paced<S, F>
where
    S: Source,
    F: FnMut(&mut S::Record, Duration) + 'static,
{
    type Record = S::Record;
    type Position = S::Position;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        self.inner.splits()
    }

    fn open(
        &mut self,
        split: &str,
        position: Option<S::Position>,
        context: &SourceContext,
    ) -> Result<(), BoxError> {
        self.schedule.workers = context.workers;
        self.inner.open(split, position, context)
    }

    fn read(
        &mut self,
        limit: usize,
        now: Duration,
        out: &mut impl Emit<S::Record>,
    ) -> Result<Read, BoxError> {
        let start = *self.schedule.start.get_or_insert(now);
        let due = self.schedule.due(start, now);
        if due == 0 {
            return Ok(Read::Until(self.schedule.next(start)));
        }
        let limit = usize::try_from(due).map_or(limit, |due| due.min(limit));
        let (schedule, stamp) = (&mut self.schedule, &mut self.stamp);
        let left = self.inner.read(limit, now, &mut Stamped { out, stamp, schedule, start })?;

        let next = self.schedule.next(start);
        Ok(match left {
            Read::More if next > now => Read::Until(next),
            Read::Until(time) => Read::Until(time.max(next)),
            left => left,
        })
    }

    fn positions(&self) -> Vec<(String, S::Position)> {
        self.inner.positions()
    }

    fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.inner.listener()
    }

    fn cut(&mut self, epoch: u64) {
        self.inner.cut(epoch);
    }

    fn drain(&mut self) -> Read {
        self.inner.drain()
    }
}

/// Tells each record its due time on the way.
struct Stamped<'a, E, F> {
    out: &'a mut E,
    stamp: &'a mut F,
    schedule: &'a mut Schedule,
    start: Duration,
}

impl<R, E: Emit<R>, F: FnMut(&mut R, Duration)> Emit<R> for Stamped<'_, E, F> {
    fn emit(&mut self, mut record: R) {
        (self.stamp)(&mut record, self.schedule.next(self.start));
        self.schedule.emitted += 1;
        self.out.emit(record);
    }

    fn is_blocked(&self) -> bool {
        self.out.is_blocked()
    }
}

#[cfg(test)]
mod tests;
