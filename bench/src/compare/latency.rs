//! Latencies by when their records were due, so that they can be sorted to checkpoints afterwards:
//! only the history tells when a checkpoint was open. Pure.
//!
//! While the job runs, each worker counts latencies in slots of 0.1 ms of due time. After a window
//! the slots are sorted: those in which a checkpoint was open, and the others.
//!
//! # Invariants
//!
//! * **L1**: times are running times: they stand still while the job is paused.
//! * **L2**: a latency is told at most 1/128 too high and never too low; the maxima are exact.

use hashbrown::HashMap;
use hdrhistogram::Histogram;

use super::report::Latency;

/// How exactly a due time is kept: records due so long before a trigger may count as during it.
const SLOT_NS: u64 = 100_000;

/// Longer than any run: an hour. What is longer counts as this.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Bits of a latency that are kept (L2).
const BITS_KEPT: u32 = 8;

/// What one worker has seen since it was last asked.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    index: HashMap<u64, usize>,
    /// The slot of the last record: that of the next one too, most of the time.
    last: usize,
}

/// The records that were due in one slot.
pub(super) struct Slot {
    number: u64,
    max_ns: u64,
    counts: Vec<(u64, u64)>,
}

impl Slots {
    #[inline]
    pub(super) fn record(&mut self, due_ns: u64, latency_ns: u64) {
        let number = due_ns / SLOT_NS;
        if self.slots.get(self.last).is_none_or(|slot| slot.number != number) {
            self.last = *self.index.entry(number).or_insert_with(|| {
                self.slots.push(Slot { number, max_ns: 0, counts: Vec::new() });
                self.slots.len() - 1
            });
        }
        self.slots[self.last].record(latency_ns);
    }

    /// All slots so far; from now on there are new ones.
    pub(super) fn take(&mut self) -> Vec<Slot> {
        std::mem::take(self).slots
    }
}

impl Slot {
    #[inline]
    fn record(&mut self, latency_ns: u64) {
        self.max_ns = self.max_ns.max(latency_ns);
        let rounded = round_up(latency_ns);
        match self.counts.iter_mut().rev().find(|(latency, _)| *latency == rounded) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((rounded, 1)),
        }
    }
}

/// The highest latency of which the first bits are the same (L2).
#[inline]
fn round_up(ns: u64) -> u64 {
    let dropped = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS_KEPT);
    ns | ((1 << dropped) - 1)
}

/// From when to when something was, in nanoseconds of running time (L1), both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Span {
    fn ends_before(self, slot: u64) -> bool {
        self.to_ns / SLOT_NS < slot
    }

    fn touches(self, slot: u64) -> bool {
        (self.from_ns / SLOT_NS..=self.to_ns / SLOT_NS).contains(&slot)
    }
}

/// A checkpoint that was open for a while, and the worst record that was due meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) span: Span,
    pub(super) worst_ns: Option<u64>,
}

/// Latencies, sorted.
pub(super) struct Sorted {
    during: Figures,
    outside: Figures,
    all: Figures,
}

struct Figures {
    histogram: Histogram<u64>,
    max_ns: u64,
}

impl Default for Sorted {
    fn default() -> Sorted {
        Sorted { during: Figures::new(), outside: Figures::new(), all: Figures::new() }
    }
}

impl Sorted {
    /// Sorts the records of `slots` to those that were due while one of `checkpoints` was open, and
    /// the others. What was due in one of `ignored` does not count. Both are in the order of time.
    pub(super) fn add(&mut self, slots: &[Slot], checkpoints: &mut [Open], ignored: &[Span]) {
        for slot in slots {
            let before = ignored.partition_point(|span| span.ends_before(slot.number));
            if ignored.get(before).is_some_and(|span| span.touches(slot.number)) {
                continue;
            }
            let before = checkpoints.partition_point(|open| open.span.ends_before(slot.number));
            let mut is_during = false;
            let touches = |open: &&mut Open| open.span.touches(slot.number);
            for open in checkpoints[before..].iter_mut().take_while(touches) {
                is_during = true;
                open.worst_ns = open.worst_ns.max(Some(slot.max_ns));
            }
            let side = if is_during { &mut self.during } else { &mut self.outside };
            side.add(slot);
            self.all.add(slot);
        }
    }

    pub(super) fn during(&self) -> Option<Latency> {
        self.during.told()
    }

    pub(super) fn outside(&self) -> Option<Latency> {
        self.outside.told()
    }

    pub(super) fn all(&self) -> Option<Latency> {
        self.all.told()
    }
}

impl Figures {
    fn new() -> Figures {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3);
        Figures { histogram: histogram.expect("bounds that are in order"), max_ns: 0 }
    }

    fn add(&mut self, slot: &Slot) {
        self.max_ns = self.max_ns.max(slot.max_ns);
        for &(latency, count) in &slot.counts {
            self.histogram.saturating_record_n(latency.max(1), count);
        }
    }

    /// No record has no latency.
    fn told(&self) -> Option<Latency> {
        let micros = |ns: u64| ns as f64 / 1e3;
        let at = |q| micros(self.histogram.value_at_quantile(q).min(self.max_ns));
        (!self.histogram.is_empty()).then(|| Latency {
            records: self.histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: micros(self.max_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn span(from_ms: u64, to_ms: u64) -> Span {
        Span { from_ns: from_ms * MS, to_ns: to_ms * MS }
    }

    fn open(from_ms: u64, to_ms: u64) -> Open {
        Open { span: span(from_ms, to_ms), worst_ns: None }
    }

    /// One record each millisecond from 0 on, with these latencies.
    fn slots(latencies_ns: impl IntoIterator<Item = u64>) -> Vec<Slot> {
        let mut slots = Slots::default();
        let each = latencies_ns.into_iter().enumerate();
        each.for_each(|(ms, latency)| slots.record(ms as u64 * MS, latency));
        slots.take()
    }

    #[test]
    fn a_record_belongs_to_the_checkpoint_that_was_open_when_it_was_due() {
        let mut checkpoints = [open(10, 12), open(20, 20), open(200, 300)];
        let mut sorted = Sorted::default();
        // The later a record was due, the longer it took: the last of each checkpoint is the worst.
        sorted.add(&slots((0..100).map(|ms| 1_000 + ms)), &mut checkpoints, &[]);
        assert_eq!(sorted.during().unwrap().records, 3 + 1);
        assert_eq!(sorted.outside().unwrap().records, 96);
        assert_eq!(sorted.all().unwrap().records, 100);
        assert_eq!(checkpoints.map(|open| open.worst_ns), [Some(1_012), Some(1_020), None]);
        assert_eq!(sorted.during().unwrap().max, 1.02);
        assert_eq!(sorted.outside().unwrap().max, 1.099);
    }

    #[test]
    fn a_record_that_is_seen_windows_later_still_finds_its_checkpoint() {
        let mut checkpoints = [open(10, 12)];
        let mut sorted = Sorted::default();
        sorted.add(&slots([5; 11]), &mut checkpoints, &[]);
        let mut late = Slots::default();
        late.record(11 * MS, 90 * MS);
        sorted.add(&late.take(), &mut checkpoints, &[]);
        assert_eq!(checkpoints[0].worst_ns, Some(90 * MS));
        assert_eq!(sorted.during().unwrap().records, 2);
    }

    #[test]
    fn what_was_due_while_a_window_began_does_not_count() {
        let mut checkpoints = [open(10, 12)];
        let mut sorted = Sorted::default();
        sorted.add(&slots([5; 100]), &mut checkpoints, &[span(0, 29), span(50, 59)]);
        assert_eq!(sorted.all().unwrap().records, 60);
        assert_eq!((sorted.during(), checkpoints[0].worst_ns), (None, None));
    }

    #[test]
    fn l2_a_latency_is_told_a_little_too_high_at_most() {
        for ns in (0..2_000).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX, 123_456_789]) {
            let rounded = round_up(ns);
            assert!(rounded >= ns && rounded - ns <= ns / 128, "{ns} becomes {rounded}");
        }
        let mut sorted = Sorted::default();
        sorted.add(&slots([1_000_000; 1_000]), &mut [], &[]);
        let all = sorted.all().unwrap();
        assert_eq!((all.p50, all.p999, all.max), (1_000.0, 1_000.0, 1_000.0));
    }
}
