//! The beginning of a measured job: any source, read at a rate, which can be paused.
//!
//! The loop is open, as in [`overtake::source::paced`], but in running time: a record is not late
//! because the job was paused. A source that ends is read again from its beginning, so that a short
//! input lasts as long as the measurement does.
//!
//! Splits and what their positions promise (S1 to S4) are those of the source, a position for each
//! split and how many records lie before it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use overtake::BoxError;
use overtake::source::{Emit, Read, Source, SourceContext};

use super::digest::Digest;
use super::probe::{Phase, Probe};

/// Computes the digest of the output, given how many records were read of each split.
pub(super) type Reference =
    dyn Fn(&BTreeMap<String, u64>, &SourceContext) -> Result<Digest, BoxError> + Send + Sync;

/// The source that [`Build::source`](super::Build::source) makes.
pub struct Metered<S: Source, F> {
    source: S,
    stamp: F,
    probe: Arc<Probe>,
    pace: Pace,
    splits: Vec<(Reader<S>, Arc<AtomicU64>)>,
    /// The split whose turn it is.
    turn: usize,
}

impl<S: Source, F> Metered<S, F> {
    pub(super) fn new(source: S, stamp: F, probe: &Arc<Probe>) -> Metered<S, F> {
        let pace = Pace::new(probe.drive.rate);
        Metered { source, stamp, probe: probe.clone(), pace, splits: Vec::new(), turn: 0 }
    }

    /// How many records may still be read of a split.
    fn left(&self, split: usize) -> u64 {
        let Some(ends) = &self.probe.drive.ends else { return u64::MAX };
        let reader = &self.splits[split].0;
        ends.get(&reader.split).copied().unwrap_or(0).saturating_sub(reader.read)
    }
}

/// When which record is due, in running time; without a rate whenever it is read.
struct Pace {
    /// When the first record was due.
    start: Option<u64>,
    /// The phase in which that was said.
    phase: Phase,
    /// Records a second of all workers.
    rate: Option<u64>,
    /// Workers that read.
    readers: usize,
    emitted: u64,
}

impl Pace {
    fn new(rate: Option<u64>) -> Pace {
        Pace { start: None, phase: Phase::default(), rate, readers: 1, emitted: 0 }
    }

    /// When the record after `emitted` ones is due, in nanoseconds.
    fn next_ns(&self, start_ns: u64, now_ns: u64) -> u64 {
        let Some(rate) = self.rate else { return now_ns };
        let late = u128::from(self.emitted) * self.readers as u128 * 1_000_000_000;
        start_ns + (late / u128::from(rate)) as u64
    }

    /// How many records are due and not emitted.
    fn due(&self, start_ns: u64, now_ns: u64) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        let slots = (u128::from(now_ns.saturating_sub(start_ns)) + 1) * u128::from(rate);
        let all = slots.div_ceil(self.readers as u128 * 1_000_000_000);
        u64::try_from(all).unwrap_or(u64::MAX).saturating_sub(self.emitted)
    }
}

impl<S, F> Source for Metered<S, F>
where
    S: Source + Clone,
    F: FnMut(&mut S::Record, Duration) + 'static,
{
    type Record = S::Record;
    type Position = (Option<S::Position>, u64);

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        let splits = self.source.splits()?;
        self.pace.readers = splits.len();
        Ok(splits)
    }

    fn open(
        &mut self,
        split: &str,
        position: Option<Self::Position>,
        context: &SourceContext,
    ) -> Result<(), BoxError> {
        self.pace.readers = self.pace.readers.min(context.workers);
        self.probe.tap.register(&context.waker);
        self.probe.context.get_or_init(|| context.clone());
        let reader = Reader::open(&self.source, split, position, context)?;
        let told = self.probe.open(split, reader.read);
        self.splits.push((reader, told));
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        now: Duration,
        out: &mut impl Emit<S::Record>,
    ) -> Result<Read, BoxError> {
        let is_at_end = |split| self.left(split) == 0;
        if self.probe.is_finishing() || (0..self.splits.len()).all(is_at_end) {
            return Ok(Read::Ended);
        }
        if !self.probe.tap.is_open() {
            return Ok(Read::Idle);
        }
        let (offset, phase) = (self.probe.offset(), self.probe.phase());
        let now_ns = now.saturating_sub(offset).as_nanos() as u64;
        if self.probe.drive.is_overloaded && phase != self.pace.phase {
            let rate = self.probe.drive.rate.filter(|_| !phase.is_filling());
            self.pace = Pace { start: None, phase, rate, emitted: 0, ..self.pace };
        }
        let start_ns = *self.pace.start.get_or_insert(now_ns);
        let due = self.pace.due(start_ns, now_ns);
        let until = |pace: &Pace| offset + Duration::from_nanos(pace.next_ns(start_ns, now_ns));
        if due == 0 {
            return Ok(Read::Until(until(&self.pace)));
        }
        let limit = usize::try_from(due).map_or(limit, |due| due.min(limit));

        // The first split that has something; what the others say matters only if none has.
        let mut idle = Read::Idle;
        for _ in 0..self.splits.len() {
            let split = self.turn;
            self.turn = (self.turn + 1) % self.splits.len();
            let limit = usize::try_from(self.left(split)).map_or(limit, |left| left.min(limit));
            if limit == 0 {
                continue;
            }
            let Metered { stamp, pace, splits, .. } = self;
            let (reader, told) = &mut splits[split];
            let before = reader.read;
            let left =
                reader.read(limit, now, &mut Stamped { out, stamp, pace, start_ns, now_ns })?;
            told.store(reader.read, Ordering::Release);
            if reader.read > before {
                let next = until(&self.pace);
                return Ok(if next > now { Read::Until(next) } else { Read::More });
            }
            idle = match (idle, left) {
                (Read::More, _) | (_, Read::More) => Read::More,
                (Read::Until(a), Read::Until(b)) => Read::Until(a.min(b)),
                (Read::Until(time), _) | (_, Read::Until(time)) => Read::Until(time),
                _ => Read::Idle,
            };
        }
        Ok(idle)
    }

    fn positions(&self) -> Vec<(String, Self::Position)> {
        self.splits.iter().map(|(reader, _)| (reader.split.clone(), reader.position())).collect()
    }
}

/// Tells each record its due time on the way.
struct Stamped<'a, E, F> {
    out: &'a mut E,
    stamp: &'a mut F,
    pace: &'a mut Pace,
    start_ns: u64,
    now_ns: u64,
}

impl<R, E: Emit<R>, F: FnMut(&mut R, Duration)> Emit<R> for Stamped<'_, E, F> {
    const EXPANDS: bool = E::EXPANDS;

    fn emit(&mut self, mut record: R) {
        let due_ns = self.pace.next_ns(self.start_ns, self.now_ns);
        (self.stamp)(&mut record, Duration::from_nanos(due_ns));
        self.pace.emitted += 1;
        self.out.emit(record);
    }

    fn is_blocked(&self) -> bool {
        self.out.is_blocked()
    }
}

/// One split, over and over.
struct Reader<S: Source> {
    /// As it was before it was opened.
    unopened: S,
    source: S,
    split: String,
    context: SourceContext,
    /// Records before the position, over all repetitions.
    read: u64,
    /// Has this repetition brought anything?
    has_read: bool,
}

impl<S: Source + Clone> Reader<S> {
    fn open(
        unopened: &S,
        split: &str,
        position: Option<(Option<S::Position>, u64)>,
        context: &SourceContext,
    ) -> Result<Reader<S>, BoxError> {
        let (position, read) = position.unwrap_or((None, 0));
        let mut source = unopened.clone();
        source.open(split, position, context)?;
        Ok(Reader {
            unopened: unopened.clone(),
            source,
            split: split.to_owned(),
            context: context.clone(),
            read,
            has_read: read > 0,
        })
    }

    fn read(
        &mut self,
        limit: usize,
        now: Duration,
        out: &mut impl Emit<S::Record>,
    ) -> Result<Read, BoxError> {
        let mut counted = Counted { out, records: 0 };
        let left = self.source.read(limit, now, &mut counted)?;
        self.read += counted.records;
        self.has_read |= counted.records > 0;
        if left != Read::Ended {
            return Ok(left);
        }
        if !self.has_read {
            let split = &self.split;
            return Err(
                format!("split \"{split}\" is empty: a measured source needs records").into()
            );
        }
        self.source = self.unopened.clone();
        self.source.open(&self.split, None, &self.context)?;
        self.has_read = false;
        Ok(Read::More)
    }

    fn position(&self) -> (Option<S::Position>, u64) {
        let positions = self.source.positions().into_iter();
        let mine = positions.filter(|(split, _)| *split == self.split).map(|(_, at)| at).next();
        (mine, self.read)
    }
}

struct Counted<'a, E> {
    out: &'a mut E,
    records: u64,
}

impl<R, E: Emit<R>> Emit<R> for Counted<'_, E> {
    const EXPANDS: bool = E::EXPANDS;

    #[inline]
    fn emit(&mut self, record: R) {
        self.records += 1;
        self.out.emit(record);
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        self.out.is_blocked()
    }
}

/// Records that are read for the reference at a time.
const CHUNK: usize = 4_096;

/// A reference that is given the records of `source` again, one split after the other.
pub(super) fn sequentially<S, F>(source: S, digest: F) -> Arc<Reference>
where
    S: Source + Clone + Send + Sync,
    F: Fn(&mut dyn Iterator<Item = S::Record>) -> Digest + Send + Sync + 'static,
{
    Arc::new(move |read: &BTreeMap<String, u64>, context: &SourceContext| {
        let mut source = source.clone();
        source.splits()?;
        let failed = RefCell::new(None);
        let began = Instant::now();
        let mut chunks = read.iter().flat_map(|(split, &count)| {
            let mut reader = Reader::open(&source, split, None, context)
                .map_err(|error| failed.replace(Some(error)))
                .ok();
            let failed = &failed;
            std::iter::from_fn(move || {
                let reader = reader.as_mut().filter(|reader| reader.read < count)?;
                let mut records = Collected(Vec::new());
                while records.0.is_empty() {
                    let limit = (count - reader.read).min(CHUNK as u64) as usize;
                    match reader.read(limit, began.elapsed(), &mut records) {
                        Ok(Read::Idle | Read::Until(_)) if records.0.is_empty() => {
                            sleep(Duration::from_millis(1));
                        }
                        Ok(_) => (),
                        Err(error) => {
                            failed.replace(Some(error));
                            return None;
                        }
                    }
                }
                Some(records.0)
            })
        });
        let mut records = chunks.by_ref().flatten();
        let digest = digest(&mut records);
        drop(records);
        drop(chunks);
        failed.into_inner().map_or(Ok(digest), Err)
    })
}

struct Collected<R>(Vec<R>);

impl<R> Emit<R> for Collected<R> {
    fn emit(&mut self, record: R) {
        self.0.push(record);
    }

    fn is_blocked(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_due_when_the_rate_says_however_late_it_is_read() {
        let mut pace = Pace { readers: 2, ..Pace::new(Some(1_000)) };
        assert_eq!(pace.due(7, 7), 1);
        // Two readers share the rate: one record every 2 ms for each.
        assert_eq!(pace.due(7, 7 + 1_999_999), 1);
        assert_eq!(pace.due(7, 7 + 2_000_000), 2);
        pace.emitted = 3;
        assert_eq!(pace.next_ns(7, 1_000_000_000), 7 + 6_000_000);
        assert_eq!(pace.due(7, 7 + 5_999_999), 0);
    }

    #[test]
    fn without_a_rate_a_record_is_due_when_it_is_read() {
        let pace = Pace { emitted: 5, ..Pace::new(None) };
        assert_eq!((pace.due(0, 9), pace.next_ns(0, 9)), (u64::MAX, 9));
    }
}
