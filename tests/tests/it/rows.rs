//! A job of the tests' own, whose output shows whether every record was processed once and in
//! order.
//!
//! ```text
//!   numbers ─ by key ─▶ slow: counts ─ by group of keys ─▶ ordered: expects ─▶ sink
//! ```
//!
//! Each key's records are numbered from 0 and come from one split. Both keyed stages note what
//! their state expects; a record that is lost, repeated or overtaken by another one of its key
//! leaves a row whose numbers differ.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use overtake::connect::file::PartFiles;
use overtake::source::{Emit, Read, Source, SourceContext};
use overtake::{
    BoxError, CheckpointReport, Clock, Config, Error, Flow, Handle, Job, Mode, Outcome, Output,
    Pinning, Report, Running,
};
use overtake_state::{Directory, History, Manifest};
use rkyv::{Archive, Deserialize, Serialize};

use crate::harness::{Place, names, until};

/// Keys of a split.
const KEYS: u64 = 50;

/// A record of the source: the `number`-th of its key.
#[derive(Clone, Copy, Archive, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) key: u32,
    pub(crate) number: u64,
}

/// What the first stage makes of it.
#[derive(Clone, Copy, Archive, Serialize, Deserialize)]
pub(crate) struct Counted {
    key: u32,
    number: u64,
    counted: u64,
}

/// A row of the output: its key, and three times the same number, if all is well. It is read by
/// people and has no header.
pub(crate) type Line = (u32, u64, u64, u64);

/// Splits of so many records each, read in turn.
#[derive(Clone)]
pub(crate) struct Numbers {
    name: &'static str,
    lengths: Vec<u64>,
    /// Split, and how many of its records were emitted.
    open: Vec<(usize, u64)>,
}

impl Numbers {
    pub(crate) fn new(name: &'static str, lengths: &[u64]) -> Numbers {
        Numbers { name, lengths: lengths.to_vec(), open: Vec::new() }
    }

    fn split(&self, split: usize) -> String {
        format!("{}-{split}", self.name)
    }
}

impl Source for Numbers {
    type Record = Row;
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok((0..self.lengths.len()).map(|split| self.split(split)).collect())
    }

    fn open(&mut self, name: &str, from: Option<u64>, _: &SourceContext) -> Result<(), BoxError> {
        let split = (0..self.lengths.len()).find(|split| self.split(*split) == name);
        self.open.push((split.ok_or("no such split")?, from.unwrap_or(0)));
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<Row>,
    ) -> Result<Read, BoxError> {
        for _ in 0..limit {
            let unread = |(split, next): &&mut (usize, u64)| *next < self.lengths[*split];
            // The one that is furthest behind: the splits are read in step.
            let Some((split, next)) = self.open.iter_mut().filter(unread).min_by_key(|x| x.1)
            else {
                return Ok(Read::Ended);
            };
            if out.is_blocked() {
                break;
            }
            let key = *split as u32 * KEYS as u32 + (*next % KEYS) as u32;
            out.emit(Row { key, number: *next / KEYS });
            *next += 1;
        }
        Ok(Read::More)
    }

    fn positions(&self) -> Vec<(String, u64)> {
        self.open.iter().map(|(split, next)| (self.split(*split), *next)).collect()
    }
}

/// How long a stage works on each record; it can be changed while it does.
#[derive(Clone, Default)]
pub(crate) struct Pace(Arc<AtomicU64>);

impl Pace {
    pub(crate) fn set(&self, per_record: Duration) {
        self.0.store(per_record.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn spend(&self) {
        let until = Duration::from_nanos(self.0.load(Ordering::Relaxed));
        if until > Duration::ZERO {
            let clock = Clock::system();
            while clock.now() < until {
                std::hint::spin_loop();
            }
        }
    }
}

/// A job in its directories, over its lives.
pub(crate) struct Rows {
    pub(crate) place: Place,
    pub(crate) pace: Pace,
    pub(crate) config: Config,
    lengths: Vec<u64>,
}

impl Rows {
    /// A job that reads splits of these lengths, and takes a checkpoint 20 times a second.
    pub(crate) fn new(lengths: &[u64]) -> Rows {
        let mut config = Config { pinning: Pinning::Free, ..Config::default() };
        config.schedule.interval = Duration::from_millis(50);
        let lengths = lengths.to_vec();
        Rows { place: Place::new(), pace: Pace::default(), config, lengths }
    }

    /// Begins a life, with each record taking so long.
    pub(crate) fn start(&self, workers: usize, mode: Mode, per_record: Duration) -> Running {
        let (lengths, pace, out) = (self.lengths.clone(), self.pace.clone(), self.place.out());
        self.pace.set(per_record);
        let describe = move |flow: &mut Flow| slow_rows(flow, &lengths, &pace, &out);
        self.job(workers, mode).start(describe).expect("the job starts")
    }

    /// A last life, which is as fast as it can.
    pub(crate) fn finish(&self, workers: usize, mode: Mode) -> Report {
        let report = self.start(workers, mode, Duration::ZERO).join().expect("the job ends");
        self.assert_exact();
        report
    }

    pub(crate) fn job(&self, workers: usize, mode: Mode) -> Job {
        let job = Job::new().config(self.config.clone()).state(self.place.state());
        job.workers(workers).mode(mode)
    }

    /// What the newest checkpoint says of itself; nobody may be running.
    pub(crate) fn newest(&self) -> Manifest {
        let store = Directory::open(self.place.state()).expect("the job has left its directory");
        let history = History::read(&store).expect("its past can be read");
        let newest = history.candidates()[0];
        Manifest::open(&store, newest).expect("its manifest can be read")
    }

    /// Asserts that each record was processed once, and in the order of its key.
    pub(crate) fn assert_exact(&self) {
        assert_exact(&self.place.out(), &[&self.lengths]);
    }
}

fn slow_rows(flow: &mut Flow, lengths: &[u64], pace: &Pace, out: &Path) {
    let pace = pace.clone();
    flow.source("numbers", Numbers::new("numbers", lengths))
        .key_by(|row| row.key)
        .process("slow", move |states| {
            let count = states.value::<u32, u64>("count")?;
            Ok(move |key: &u32, row: &Row, out: &mut Output<Counted>| {
                pace.spend();
                let counted =
                    count.update(key, |count: &mut u64| std::mem::replace(count, *count + 1));
                out.emit(Counted { key: row.key, number: row.number, counted });
            })
        })
        .key_by(|counted| counted.key / 4)
        .process("ordered", |states| {
            let next = states.map::<u32, u32, u64>("next")?;
            Ok(move |group: &u32, row: &Counted, out: &mut Output<Line>| {
                let Counted { key, number, counted } = *row;
                let expected = next.get(group, &key).unwrap_or(0);
                next.insert(group, key, number + 1);
                out.emit((key, number, counted, expected));
            })
        })
        .sink("rows", PartFiles::csv(out));
}

/// The row of the output of a record that only one stage has counted.
pub(crate) fn line(row: &Row, counted: u64) -> Line {
    (row.key, row.number, counted, counted)
}

/// Asserts that the part files have each record of these sources' splits once, and that each was in
/// order. Sources that begin with the same split share its keys.
pub(crate) fn assert_exact(out: &Path, sources: &[&[u64]]) {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for lengths in sources {
        for (split, length) in lengths.iter().enumerate() {
            for key in 0..KEYS.min(*length) {
                let numbers = (length - key).div_ceil(KEYS);
                *counts.entry((split as u64 * KEYS + key) as u32).or_default() += numbers;
            }
        }
    }
    let mut rows = counts.iter().map(|(key, count)| (*key, vec![0u32; *count as usize]));
    let mut seen: BTreeMap<u32, Vec<u32>> = rows.by_ref().collect();
    for name in names(out) {
        assert!(!name.starts_with('.'), "{name} is left behind");
        for line in fs::read_to_string(out.join(&name)).expect("a part file").lines() {
            let numbers: Vec<u64> = line.split(',').map(|n| n.parse().expect("a number")).collect();
            let [key, number, counted, expected] = numbers[..] else { panic!("{name}: {line}") };
            assert_eq!((counted, expected), (number, number), "out of order: {name}: {line}");
            seen.get_mut(&(key as u32)).expect("a key")[number as usize] += 1;
        }
    }
    for (key, times) in seen {
        let wrong = times.iter().position(|times| *times != 1);
        assert_eq!(wrong.map(|number| (number, times[number])), None, "key {key}: number, times");
    }
}

/// The checkpoints of a running job that are complete.
pub(crate) fn published(handle: &Handle) -> Vec<CheckpointReport> {
    let is_published = |c: &CheckpointReport| matches!(c.outcome, Outcome::Published { .. });
    handle.history().into_iter().filter(is_published).collect()
}

/// Waits until a job has a complete checkpoint of which this holds.
pub(crate) fn until_published(running: &Running, is_wanted: impl Fn(&CheckpointReport) -> bool) {
    let handle = running.handle();
    until(|| published(&handle).iter().any(&is_wanted) || running.has_ended());
    assert!(published(&handle).iter().any(&is_wanted), "it ended without: {:?}", handle.history());
}

/// Why a job failed.
pub(crate) fn failure(running: Running) -> Error {
    match running.join() {
        Err(why) => why,
        Ok(report) => panic!("it did not fail: {:?}", report.history),
    }
}
