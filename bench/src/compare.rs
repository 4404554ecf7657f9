//! What checkpoints cost a job in each mode: side by side, under a light load and behind a slow
//! stage.
//!
//! The same job runs without checkpoints and in each mode, in windows that alternate, so that a
//! machine whose speed wanders does so for all of them; whoever is not measured is paused.
//!
//! ```text
//!   off │ aligned │ unaligned │ adaptive │ off │ aligned │ …       windows, one job at a time
//!   then, each with checkpoints: crash ── start again ── go on ── end ── compare the output
//! ```
//!
//! A record is due at a rate that is the same for all modes, and its latency counts from then. A
//! mode is also crashed: the job is dropped in the middle of an interval, which leaves it as a
//! process would that had died, except that the process lives on; a new life is started from its
//! directory. What all lives have committed is compared with a sequential program over the same
//! input.
//!
//! What was measured is a value, a [`Comparison`]. For a job of your own, see [`compare()`].

mod digest;
mod drive;
mod jobs;
mod latency;
mod print;
mod probe;
mod report;
mod sink;
mod source;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use overtake::flow::stream::{Origin, Stream, Transform};
use overtake::source::Source;
use overtake::{Config, Data, Flow};
use serde::{Deserialize, Serialize};

pub use digest::{Digest, Row};
pub use jobs::Job;
pub use print::print;
pub use report::{Checkpoints, Comparison, Latency, Machine, Percentiles, Run};
pub use sink::Measuring;
pub use source::Metered;

use crate::option::between;
use crate::scratch;
use probe::{Probe, lock};

/// What `overtake compare` is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Options {
    /// The job
    #[arg(long, value_enum, default_value_t = Job::Billing)]
    pub job: Job,
    /// How checkpoints are taken
    #[arg(long, value_enum, value_name = "MODE", num_args = 1.., value_delimiter = ',',
        default_values_t = Mode::ALL)]
    pub modes: Vec<Mode>,
    /// The loads under which each mode runs
    #[arg(long, value_enum, value_name = "LOAD", num_args = 1.., value_delimiter = ',',
        default_values_t = Load::ALL)]
    pub load: Vec<Load>,
    /// How long each mode is measured under each load, in seconds
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = between(0.1, SECONDS_MAX))]
    pub seconds: f64,
    /// Threads that work [default: one a core]
    #[arg(long, value_name = "N", value_parser = between(1u16, 256))]
    pub workers: Option<u16>,
    /// The time between two checkpoints, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = between(1u32, 3_600_000))]
    pub interval: u32,
    /// Records due a second [default: light a tenth of what the machine can do, backpressure a
    /// quarter more than the slowed stage can]
    #[arg(long, value_name = "N", value_parser = between(1u32, u32::MAX))]
    pub rate: Option<u32>,
    /// How long the slowed stage is busy with a record, in microseconds
    #[arg(long, value_name = "US", default_value_t = 20, value_parser = between(1u32, 1_000))]
    pub busy: u32,
    /// Where the checkpoints go [default: a directory in /dev/shm, or else in the system's
    /// temporary directory]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Write the figures to this file, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Options {
    fn settings(&self) -> Settings {
        let default = Settings::default();
        Settings {
            job: self.job.name().to_owned(),
            modes: self.modes.clone(),
            loads: self.load.clone(),
            seconds: self.seconds,
            workers: self.workers.map_or(default.workers, usize::from),
            interval_ms: self.interval,
            rate_rps: self.rate,
            stage_us: self.busy,
            state: self.state.clone().unwrap_or(default.state),
        }
    }
}

/// Measures, prints the figures and writes them.
///
/// # Errors
///
/// If a job cannot run or the file cannot be written; and, when the figures are told, if an output
/// is not that of the reference.
pub fn run(options: &Options) -> anyhow::Result<()> {
    // Whoever waited a minute for figures does not want to hear that there is no such directory.
    let json = match &options.json {
        Some(path) => {
            let in_file = || format!("cannot write \"{}\"", path.display());
            Some((File::create(path).with_context(in_file)?, in_file))
        }
        None => None,
    };
    let comparison = options.job.compare(&options.settings())?;
    print!("{}", print(&comparison));
    if let Some((file, in_file)) = json {
        let mut file = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut file, &comparison).with_context(in_file)?;
        file.flush().with_context(in_file)?;
    }
    judge(&comparison.runs)
}

/// Whether every output is that of its reference.
fn judge(runs: &[Run]) -> anyhow::Result<()> {
    match runs.iter().find(|run| !run.output_equals_reference) {
        None => Ok(()),
        Some(Run { job, load, mode, output_digest, reference_digest, .. }) => anyhow::bail!(
            "{job}, {load}, {mode}: the output has digest {output_digest}, expected that of the \
             reference, {reference_digest}"
        ),
    }
}

/// How checkpoints are taken, if they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Not at all: what a crash takes is lost
    Off,
    /// A barrier waits until what is in flight has been processed
    Aligned,
    /// It overtakes what is in flight, which becomes part of the checkpoint
    Unaligned,
    /// It waits for a while, and then overtakes
    Adaptive,
}

impl Mode {
    /// In the order in which they take turns.
    pub const ALL: [Mode; 4] = [Mode::Off, Mode::Aligned, Mode::Unaligned, Mode::Adaptive];

    /// What holds after a crash.
    pub fn guarantee(self) -> &'static str {
        match self {
            Mode::Off => "at most once",
            Mode::Aligned | Mode::Unaligned | Mode::Adaptive => "exactly once",
        }
    }
}

/// How much the job has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Much less than it can: channels are almost empty
    Light,
    /// More than its slowed last stage can: channels are full
    Backpressure,
}

impl Load {
    /// In the order in which they are measured.
    pub const ALL: [Load; 2] = [Load::Light, Load::Backpressure];
}

/// As the command names it.
macro_rules! named_as_a_value {
    ($($of:ty),*) => {$(
        impl std::fmt::Display for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let value = self.to_possible_value().expect("no value is skipped");
                f.write_str(value.get_name())
            }
        }
    )*};
}
named_as_a_value!(Mode, Load);

/// Whoever measures for longer than an hour does so several times.
const SECONDS_MAX: f64 = 3_600.0;

/// What is compared, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What the runs are called.
    pub job: String,
    /// How checkpoints are taken; each is a run.
    pub modes: Vec<Mode>,
    /// The loads under which each mode runs.
    pub loads: Vec<Load>,
    /// How long each mode is measured under each load, in windows of a second, or less if this is
    /// less, or of an interval if that is longer.
    pub seconds: f64,
    /// Worker threads.
    pub workers: usize,
    /// From one checkpoint that is due to the next, in milliseconds of running time.
    pub interval_ms: u32,
    /// Records due a second, over all workers. If nobody says, a tenth of what the job was seen to
    /// process without checkpoints, and under backpressure a quarter more than that with the slowed
    /// stage.
    pub rate_rps: Option<u32>,
    /// How long the sink is busy with each row under backpressure, in microseconds of a core.
    pub stage_us: u32,
    /// Where the directories of the checkpoints are made, for the time of the comparison. Whether
    /// it is memory or a disk decides how fast a checkpoint is durable.
    pub state: PathBuf,
}

impl Default for Settings {
    /// All modes under all loads, ten seconds each, a worker for each core, a checkpoint every
    /// 500 ms, in memory where the machine has such a place.
    fn default() -> Settings {
        Settings {
            job: "job".to_owned(),
            modes: Mode::ALL.to_vec(),
            loads: Load::ALL.to_vec(),
            seconds: 10.0,
            workers: Config::default().workers,
            interval_ms: 500,
            rate_rps: None,
            stage_us: 20,
            state: scratch::base(),
        }
    }
}

impl Settings {
    fn interval(&self) -> Duration {
        Duration::from_millis(u64::from(self.interval_ms))
    }

    /// How long an adaptive checkpoint waits before it overtakes: it must fit into an interval.
    fn adaptive_after(&self) -> Duration {
        (self.interval() / 2).min(Duration::from_millis(100))
    }

    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            (0.1..=SECONDS_MAX).contains(&self.seconds),
            "setting \"seconds\": {} is not allowed, expected from 0.1 to {SECONDS_MAX}",
            self.seconds
        );
        for (name, value) in [("interval_ms", Some(self.interval_ms)), ("rate_rps", self.rate_rps)]
        {
            anyhow::ensure!(
                value != Some(0),
                "setting \"{name}\": 0 is not allowed, expected at least 1"
            );
        }
        Ok(())
    }
}

/// Where a job is described that is to be compared: a flow with a source that can be paused, and a
/// sink that measures.
pub struct Build<'a> {
    flow: &'a mut Flow,
    probe: Arc<Probe>,
}

impl<'a> Build<'a> {
    fn new(flow: &'a mut Flow, probe: &Arc<Probe>) -> Build<'a> {
        Build { flow, probe: probe.clone() }
    }

    /// The flow, for what else the job reads: that is neither paused nor read at a rate.
    pub fn flow(&mut self) -> &mut Flow {
        self.flow
    }

    /// Reads the source that is measured, at the rate. `stamp` tells each record when it is due,
    /// which the record carries to its row. A source that ends is read again from its beginning.
    pub fn source<S, F>(
        &mut self,
        name: &str,
        source: S,
        stamp: F,
    ) -> Stream<
        impl Origin<Record = S::Record> + use<S, F>,
        impl Transform<S::Record, Out = S::Record> + use<S, F>,
    >
    where
        S: Source + Clone,
        F: FnMut(&mut S::Record, Duration) + 'static,
    {
        self.flow.source(name, Metered::new(source, stamp, &self.probe))
    }

    /// The sink in which the job ends. `row` says of each row what of it belongs to the digest of
    /// the output, and when its record was due.
    pub fn sink<R, D>(&self, row: D) -> Measuring<R, D>
    where
        R: Data,
        D: Fn(&R) -> Row + 'static,
    {
        Measuring::new(&self.probe, row)
    }

    /// A program that says what must come out: it is given the records that were read of `source`,
    /// one split after the other, not stamped. Without one, the reference is the job itself, on one
    /// worker, without checkpoints and undisturbed.
    pub fn reference<S, F>(&mut self, source: S, program: F)
    where
        S: Source + Clone + Send + Sync,
        F: Fn(&mut dyn Iterator<Item = S::Record>) -> Digest + Send + Sync + 'static,
    {
        *lock(&self.probe.reference) = Some(source::sequentially(source, program));
    }
}

/// Compares the modes for the job that `build` describes. Like every description of a flow it is
/// called on each worker, and in each life.
///
/// The job needs one source that is measured, and one sink that measures. Both are slowed, paused
/// and crashed here; nothing else of the job needs to know.
///
/// ```
/// use overtake::source;
/// use overtake_bench::compare::{Build, Mode, Row, Settings, compare};
/// use rkyv::{Archive, Deserialize, Serialize};
/// use std::time::Duration;
///
/// #[derive(Clone, Archive, Serialize, Deserialize)]
/// struct Payment {
///     account: u64,
///     cents: i64,
///     due: Duration,
/// }
///
/// #[derive(Clone, Default, Archive, Serialize, Deserialize)]
/// struct Balance {
///     cents: i64,
///     due: Duration,
/// }
///
/// let payment = |i: u64| Payment { account: i % 100, cents: i as i64, due: Duration::ZERO };
/// let payments = source::items((0..10_000).map(payment).collect());
/// let settings = Settings {
///     modes: vec![Mode::Off, Mode::Unaligned],
///     seconds: 0.1,
///     interval_ms: 20,
///     rate_rps: Some(20_000),
///     ..Settings::default()
/// };
/// let comparison = compare(&settings, move |job: &mut Build<'_>| {
///     let balances = job.sink(|(account, balance): &(u64, Balance)| {
///         Row::of(&(account, balance.cents)).due(balance.due)
///     });
///     job.source("payments", payments.clone(), |payment, due| payment.due = due)
///         .key_by(|payment| payment.account)
///         .fold("balances", |balance: &mut Balance, payment| {
///             balance.cents += payment.cents;
///             balance.due = payment.due;
///         })
///         .sink("balances", balances);
/// })?;
/// assert_eq!(comparison.runs.len(), 4);
/// assert!(comparison.runs.iter().all(|run| run.output_equals_reference));
/// # Ok::<(), anyhow::Error>(())
/// ```
///
/// # Errors
///
/// If the settings, the flow or the state directory do not allow it, or a job fails. An output that
/// is not that of the reference is no error: the runs tell.
pub fn compare(
    settings: &Settings,
    build: impl Fn(&mut Build<'_>) + Send + Sync + 'static,
) -> anyhow::Result<Comparison> {
    settings.check()?;
    let build: Arc<drive::Describe> = Arc::new(build);
    let mut runs = Vec::new();
    for &load in &settings.loads {
        runs.extend(drive::measure(settings, load, &build)?);
    }
    Ok(Comparison { machine: Machine::this(), settings: settings.clone(), runs })
}

#[cfg(test)]
mod tests;
