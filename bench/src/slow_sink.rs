//! The benchmark `slow-sink`: what a job holds while its sink is slower than its source.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use overtake::{Config, Job, Schedule};

use crate::generator::{Generator, Tap};
use crate::meter::live_bytes;
use crate::option::{Mode, between};
use crate::scratch::{self, Directory};

/// What `overtake bench slow-sink` is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Options {
    /// How a barrier passes what is in flight
    #[arg(long, value_enum, default_value_t = Mode::Unaligned)]
    pub mode: Mode,
    /// How long the sink is busy with a record, in microseconds
    #[arg(long, value_name = "US", default_value_t = 20, value_parser = between(0u32, 1_000_000))]
    pub busy: u32,
    /// How long, after five seconds in which everything fills
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = between(1u32, 86_400))]
    pub seconds: u32,
}

const KEYS: u64 = 10_000;
/// How long everything may fill.
const FILLING: u32 = 5;
/// How long an adaptive checkpoint waits before it overtakes.
const ADAPTIVE_AFTER: Duration = Duration::from_millis(100);

/// Measures, and prints the figures.
///
/// # Errors
///
/// If the job cannot run.
pub fn run(options: Options) -> anyhow::Result<()> {
    let state = Directory::new(&scratch::base())?;
    let schedule = Schedule {
        mode: options.mode.with_patience(ADAPTIVE_AFTER),
        interval: Duration::from_millis(500),
        ..Config::default().schedule
    };
    let config = Config { workers: 2, schedule, ..Config::default() };
    let tap = Arc::new(Tap::default());
    let (of_flow, busy) = (tap.clone(), Duration::from_micros(u64::from(options.busy)));
    let running = Job::new().config(config).state(state.path()).start(move |flow| {
        flow.source("numbers", Generator::new(KEYS, 2, &of_flow))
            .key_by(|record: &(u64, u64)| record.0)
            .fold("sums", |sum: &mut u64, record| *sum += record.1)
            .rebalance("dealt")
            .for_each("slow", move |_| {
                let until = Instant::now() + busy;
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            });
    })?;
    tap.open();
    let mut seen: Vec<(f64, f64)> = Vec::new();
    for second in 0..FILLING + options.seconds {
        std::thread::sleep(Duration::from_secs(1));
        if second >= FILLING {
            seen.push((live_bytes() as f64 / MIB, resident()? / MIB));
        }
    }
    tap.close();
    let handle = running.handle();
    let (memory, checkpoints) = (handle.memory(), handle.history().len());
    let processed = handle.processed("numbers");
    drop(running);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (first, last) = (of(&seen[0]), of(&seen[seen.len() - 1]));
        let most = seen.iter().map(of).fold(0.0, f64::max);
        format!("{first:.1} MiB at first, {last:.1} at last, {most:.1} at most")
    };
    println!(
        "slow-sink: {:?}, 2 workers, {} µs a record, {} s after {FILLING}, {processed} records \
         read, {checkpoints} checkpoints: live {}; resident {}; the job says {:.1} MiB in flight, \
         {:.1} of state",
        options.mode,
        options.busy,
        options.seconds,
        range(|seen| seen.0),
        range(|seen| seen.1),
        memory.in_flight_bytes as f64 / MIB,
        memory.state_bytes as f64 / MIB,
    );
    Ok(())
}

const MIB: f64 = (1 << 20) as f64;

/// Bytes of this process that are in memory, as Linux counts them.
fn resident() -> anyhow::Result<f64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    let page = rustix::param::page_size() as f64;
    resident.map(|pages| pages * page).ok_or_else(|| anyhow::anyhow!("/proc/self/statm: {pages}"))
}
