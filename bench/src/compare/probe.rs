//! What a life of the measured job and whoever measures it share: the tap, the running time, what
//! was read and what has come out.
//!
//! # Invariants
//!
//! * **R1**: running time stands still while the tap is closed, for sources and for sinks: a record
//!   that is due or in flight at a pause is no older after it.
//! * **R2**: what is counted as read is exactly what the source has emitted in this life and, as
//!   the restored positions say, in those before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use overtake::Clock;
use overtake::source::SourceContext;

use super::digest::Digest;
use super::latency::{Slot, Slots};
use super::source::Reference;
use crate::generator::Tap;

/// How the job is driven in all its lives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Drive {
    /// Records a second; as many as possible, if nobody says.
    pub(super) rate: Option<u64>,
    /// Whether more is due than can be processed: then each window begins with nobody late.
    pub(super) is_overloaded: bool,
    /// How long the sink is busy with each row.
    pub(super) stage: Duration,
    /// Whether the sink commits with checkpoints.
    pub(super) is_transactional: bool,
    /// Where the input ends, by split; it has no end, if nobody says.
    pub(super) ends: Option<BTreeMap<String, u64>>,
}

/// One life of the job.
pub(super) struct Probe {
    pub(super) drive: Drive,
    pub(super) tap: Tap,
    pub(super) committed: Arc<Committed>,
    pub(super) context: OnceLock<SourceContext>,
    /// When the first row reached a sink.
    pub(super) first_row: OnceLock<Instant>,
    pub(super) reference: Mutex<Option<Arc<Reference>>>,
    clock: OnceLock<Clock>,
    paused: Mutex<Option<Duration>>,
    offset_ns: AtomicU64,
    phase: AtomicU64,
    is_finishing: AtomicBool,
    splits: Mutex<BTreeMap<String, Split>>,
    outputs: Mutex<Vec<Arc<Mutex<Output>>>>,
}

/// A stretch of time in which the source reads in one way. One number says which and how: a source
/// that saw an old one with a new way would reckon with what it had read in the other way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Phase(u64);

impl Phase {
    pub(super) fn is_filling(self) -> bool {
        self.0 % 2 == 1
    }
}

/// How far one split was read.
#[derive(Clone, Default)]
pub(super) struct Split {
    pub(super) restored: u64,
    pub(super) read: Arc<AtomicU64>,
}

/// What has come out on one worker.
#[derive(Default)]
pub(super) struct Output {
    pub(super) rows: u64,
    pub(super) slots: Slots,
    /// Of a sink that commits nothing.
    pub(super) digest: Digest,
}

impl Probe {
    /// A life that is paused; what it commits joins what is there.
    pub(super) fn new(drive: Drive, committed: &Arc<Committed>) -> Arc<Probe> {
        Arc::new(Probe {
            drive,
            tap: Tap::default(),
            committed: committed.clone(),
            context: OnceLock::new(),
            first_row: OnceLock::new(),
            reference: Mutex::default(),
            clock: OnceLock::new(),
            paused: Mutex::new(Some(Duration::ZERO)),
            offset_ns: AtomicU64::new(0),
            phase: AtomicU64::new(0),
            is_finishing: AtomicBool::new(false),
            splits: Mutex::default(),
            outputs: Mutex::default(),
        })
    }

    /// The life has begun, and this is its clock.
    pub(super) fn start(&self, clock: Clock) {
        let _ = self.clock.set(clock);
    }

    /// Lets the job run.
    pub(super) fn resume(&self) {
        if let (Some(running), Some(clock)) = (lock(&self.paused).take(), self.clock.get()) {
            // R1: only now, so that whoever still works after a pause reckons as before it.
            let offset = clock.now().saturating_sub(running);
            self.offset_ns.store(offset.as_nanos() as u64, Ordering::Release);
        }
        self.next_phase(false);
    }

    /// From now on the source reads at the rate, or, to fill the channels, as fast as it can.
    pub(super) fn next_phase(&self, is_filling: bool) {
        let number = self.phase.load(Ordering::Relaxed) / 2 + 1;
        self.phase.store(number * 2 + u64::from(is_filling), Ordering::Release);
        self.tap.open();
    }

    /// Pauses the job: its sources and sinks take nothing.
    pub(super) fn pause(&self) {
        let running = self.running();
        self.tap.close();
        *lock(&self.paused) = Some(running);
    }

    /// Ends the input here: what was read is processed, and the job ends.
    pub(super) fn finish(&self) {
        self.is_finishing.store(true, Ordering::Release);
        self.resume();
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.is_finishing.load(Ordering::Acquire)
    }

    /// How long the job has run.
    pub(super) fn running(&self) -> Duration {
        let paused = *lock(&self.paused);
        let now = || self.now_ns().map_or(Duration::ZERO, Duration::from_nanos);
        paused.unwrap_or_else(now)
    }

    /// How long the job has run, if it does; on the path of records.
    #[inline]
    pub(super) fn now_ns(&self) -> Option<u64> {
        let now = self.clock.get()?.now().as_nanos() as u64;
        Some(now.saturating_sub(self.offset().as_nanos() as u64))
    }

    /// How far running time is behind the job's clock.
    #[inline]
    pub(super) fn offset(&self) -> Duration {
        Duration::from_nanos(self.offset_ns.load(Ordering::Acquire))
    }

    /// How the source reads now.
    pub(super) fn phase(&self) -> Phase {
        Phase(self.phase.load(Ordering::Acquire))
    }

    /// A split is opened at a position.
    pub(super) fn open(&self, split: &str, restored: u64) -> Arc<AtomicU64> {
        let read = Arc::new(AtomicU64::new(restored));
        lock(&self.splits).insert(split.to_owned(), Split { restored, read: read.clone() });
        read
    }

    /// How far each split was read (R2).
    pub(super) fn read(&self) -> BTreeMap<String, u64> {
        let read = |split: &Split| split.read.load(Ordering::Acquire);
        lock(&self.splits).iter().map(|(name, split)| (name.clone(), read(split))).collect()
    }

    /// How many records were read, of all splits.
    pub(super) fn records(&self) -> u64 {
        self.read().values().sum()
    }

    /// How many records lay before the restored positions.
    pub(super) fn restored(&self) -> u64 {
        lock(&self.splits).values().map(|split| split.restored).sum()
    }

    /// A sink is opened.
    pub(super) fn output(&self) -> Arc<Mutex<Output>> {
        let output = Arc::default();
        lock(&self.outputs).push(Arc::clone(&output));
        output
    }

    /// Rows that have reached the sinks.
    pub(super) fn rows(&self) -> u64 {
        lock(&self.outputs).iter().map(|output| lock(output).rows).sum()
    }

    /// The latencies of all workers since this was last asked.
    pub(super) fn take_slots(&self) -> Vec<Slot> {
        lock(&self.outputs).iter().flat_map(|output| lock(output).slots.take()).collect()
    }

    /// What has come out for good.
    pub(super) fn digest(&self) -> Digest {
        if self.drive.is_transactional {
            return self.committed.digest();
        }
        let mut digest = Digest::default();
        lock(&self.outputs).iter().for_each(|output| digest.merge(lock(output).digest.clone()));
        digest
    }
}

/// What all lives of a job have committed.
#[derive(Default)]
pub(super) struct Committed(Mutex<(BTreeSet<TransactionKey>, Digest)>);

/// Generation, epoch and worker.
type TransactionKey = (u64, u64, u32);

impl Committed {
    /// Once for each transaction, however often it is repeated.
    pub(super) fn commit(&self, key: TransactionKey, output: Digest) {
        let (keys, digest) = &mut *lock(&self.0);
        if keys.insert(key) {
            digest.merge(output);
        }
    }

    fn digest(&self) -> Digest {
        lock(&self.0).1.clone()
    }
}

/// Whoever panicked while it held a lock has stopped the job, which tells.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
