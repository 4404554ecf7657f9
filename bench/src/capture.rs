//! The benchmark `capture`: how long a checkpoint takes to capture while a slow stage holds much in
//! flight before it.
//!
//! A checkpoint is captured when all tasks have cut and their in-flight data is complete: by the
//! stamps in the reports, since the director may see it late on busy cores.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use overtake::flow::stream::{Origin, Stream, Transform};
use overtake::{CheckpointReport, Config, Handle, Job, Limits, Outcome, Schedule};

use crate::generator::{Generator, Tap};
use crate::meter::{allocations, uncounted};
use crate::option::{Mode, between};
use crate::scratch::{self, Directory};
use crate::statistics::quantile;

/// What `overtake bench capture` is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Options {
    /// How a barrier passes what is in flight
    #[arg(long, value_enum, default_value_t = Mode::Unaligned)]
    pub mode: Mode,
    /// How long the slow stage is busy with a record, in microseconds
    #[arg(long, value_name = "US", default_value_t = 20, value_parser = between(0u32, 1_000_000))]
    pub busy: u32,
    /// Keyed exchanges, one behind the other; the last one is before the slow stage
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = between(1u8, 3))]
    pub exchanges: u8,
    /// Batches of a channel that may be unacknowledged
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = between(1u16, 4096))]
    pub credit: u16,
    /// Checkpoints to take
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = between(1u32, 1000))]
    pub checkpoints: u32,
    /// The time from one to the next, in milliseconds, or until it has ended if that takes longer
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = between(0u32, 60_000))]
    pub gap: u32,
    /// Where the checkpoints go [default: a directory in /dev/shm, or else in the system's
    /// temporary directory]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// How long an adaptive checkpoint waits before it overtakes.
const ADAPTIVE_AFTER: Duration = Duration::from_millis(10);

/// Keys: little state.
const KEYS: u64 = 1_000;

/// A capture counts as one with much in flight from here on.
const MUCH_MIB: f64 = 8.0;

/// A full batch.
const BATCH_BYTES: f64 = 32_768.0;

/// Looking copies the history, on a core that a worker needs: not while a capture is open.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long one checkpoint may take before the measurement gives up.
const CHECKPOINT_MAX: Duration = Duration::from_secs(120);

/// Measures, and prints the figures.
///
/// # Errors
///
/// If the job cannot run, or a checkpoint does not end.
pub fn run(options: Options) -> anyhow::Result<()> {
    let base = options.state.clone().unwrap_or_else(scratch::base);
    let state = Directory::new(&base)?;
    let mode = options.mode.with_patience(ADAPTIVE_AFTER);
    let interval = Duration::from_secs(86_400);
    let schedule =
        Schedule { mode, interval, timeout: CHECKPOINT_MAX, ..Config::default().schedule };
    let limits = Limits { credit: usize::from(options.credit), ..Limits::default() };
    let config = Config { workers: 2, schedule, limits, ..Config::default() };
    let tap = Arc::new(Tap::default());
    let (of_flow, busy) = (tap.clone(), Duration::from_micros(u64::from(options.busy)));
    let exchanges = options.exchanges;
    let running = Job::new().config(config).state(state.path()).start(move |flow| {
        let numbers = flow.source("numbers", Generator::new(KEYS, 2, &of_flow));
        let add = |sum: &mut u64, record: &(u64, u64)| *sum += record.1;
        match exchanges {
            1 => slow(numbers, busy),
            2 => slow(numbers.key_by(by_key).fold("sums", add), busy),
            _ => {
                let sums = numbers.key_by(by_key).fold("sums", add);
                slow(sums.key_by(|sum| sum.0 + 1).fold("sums_of_sums", add), busy);
            }
        }
    })?;
    tap.open();
    let handle = running.handle();
    // The channels fill first.
    std::thread::sleep(Duration::from_secs(1));
    let before = allocations();
    for taken in 1..=options.checkpoints as usize {
        handle.checkpoint()?;
        std::thread::sleep(Duration::from_millis(u64::from(options.gap)));
        wait_for(&handle, taken)?;
    }
    let allocations = allocations() - before;
    tap.close();
    let history = handle.history();
    drop(running);
    println!(
        "capture: {:?}, 2 workers, {} exchanges, a stage of {} µs a record, batches of 2,048 records \
         of 16 bytes, credit {} on 4 channels each, idle workers park, checkpoints in {}",
        options.mode,
        options.exchanges,
        options.busy,
        options.credit,
        base.display()
    );
    print(&history, allocations);
    Ok(())
}

fn by_key(record: &(u64, u64)) -> u64 {
    record.0
}

/// The stage that holds up all others.
fn slow<O: Origin, T: Transform<O::Record, Out = (u64, u64)>>(
    records: Stream<O, T>,
    busy: Duration,
) {
    records
        .key_by(by_key)
        .fold("slow", move |sum: &mut u64, record| {
            *sum += record.1;
            let until = Instant::now() + busy;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        })
        .for_each("nowhere", |_| ());
}

fn wait_for(handle: &Handle, checkpoints: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + CHECKPOINT_MAX;
    // The history is copied for who looks at it.
    while uncounted(|| handle.history().len()) < checkpoints {
        anyhow::ensure!(Instant::now() < deadline, "checkpoint {checkpoints} did not end in time");
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn print(history: &[CheckpointReport], allocations: u64) {
    let complete: Vec<&CheckpointReport> =
        history.iter().filter(|c| matches!(c.outcome, Outcome::Published { .. })).collect();
    let captured = |c: &CheckpointReport| {
        // The last stamp of any task, not when the director saw the last report.
        let last = c.tasks.values().map(|task| task.stats.captured).max();
        last.unwrap_or_default().saturating_sub(c.triggered).as_secs_f64() * 1e3
    };
    let durable = |c: &CheckpointReport| {
        c.durable.unwrap_or_default().saturating_sub(c.triggered).as_secs_f64() * 1e3
    };
    let row = |of: &dyn Fn(&CheckpointReport) -> f64| {
        let figures: Vec<f64> = complete.iter().map(|c| of(c)).collect();
        let at = |q| quantile(&figures, q).unwrap_or_default();
        format!("{:.3} / {:.3} / {:.3}", at(0.5), at(0.99), at(1.0))
    };
    let in_flight = |c: &CheckpointReport| c.in_flight_bytes() as f64 / f64::from(1 << 20);
    let much = complete.iter().filter(|c| in_flight(c) >= MUCH_MIB).count();
    println!("  {} complete of {}; p50 / p99 / max:", complete.len(), history.len());
    println!("  captured {} ms", row(&captured));
    println!("  durable {} ms", row(&durable));
    println!("  pause of a worker {} µs of CPU time", row(&|c| c.pause().as_secs_f64() * 1e6));
    println!("  in flight {} MiB, {MUCH_MIB} or more in {much} of them", row(&in_flight));
    let per_checkpoint = allocations as f64 / history.len().max(1) as f64;
    let batches: f64 = complete.iter().map(|c| c.in_flight_bytes() as f64 / BATCH_BYTES).sum();
    let per_batch = per_checkpoint * complete.len() as f64 / batches;
    let of_batches = match batches {
        0.0 => String::new(),
        _ => format!(", {per_batch:.1} for each 32 KiB in flight"),
    };
    println!("  {per_checkpoint:.0} allocations per checkpoint{of_batches}, of all threads");
}
