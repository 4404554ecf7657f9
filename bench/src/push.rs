//! The benchmark `push`: how long it takes from a push into an embedded job until its result is
//! read.
//!
//! One thread of the program pushes a record, waits for what comes out behind one keyed stage, and
//! pushes the next. The result comes by `for_each`, before it is committed: it is handed to the
//! thread as the worker waits, by a word that it spins on or by waking it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;
use overtake::connect::embedded::Input;
use overtake::{Config, Idle, Job};

use crate::option::between;
use crate::scratch::{self, Directory};

/// What `overtake bench push` is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Options {
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = between(1u16, 256))]
    pub workers: u16,
    /// Records to push
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = between(1u32, 1_000_000))]
    pub pushes: u32,
}

/// Between a result and the next push: long enough that every thread that parks has parked.
const GAP: Duration = Duration::from_micros(300);

/// Measures both ways of waiting, and prints the figures.
///
/// # Errors
///
/// If the job cannot run.
pub fn run(options: Options) -> anyhow::Result<()> {
    for idle in [Idle::Spin, Idle::Park] {
        let [arrival, read] = measure(&options, idle)?;
        let print = |of: &Histogram<u64>| {
            let micros = |q| of.value_at_quantile(q) as f64 / 1e3;
            format!(
                "p50 {:.1} µs, p99 {:.1} µs, max {:.1} µs",
                micros(0.5),
                micros(0.99),
                micros(1.0)
            )
        };
        println!(
            "push: {} records, one keyed stage, a checkpoint a second, {} worker{} and a program \
             that {}: read {}; of that until it is behind the stage {}",
            options.pushes,
            options.workers,
            if options.workers == 1 { "" } else { "s" },
            if idle == Idle::Spin { "spin" } else { "park" },
            print(&read),
            print(&arrival),
        );
    }
    Ok(())
}

/// What the program waits for.
#[derive(Default)]
struct Slot {
    /// The number of the newest record that has arrived, and when, in nanoseconds.
    number: AtomicU64,
    arrived: AtomicU64,
}

/// From the push to the arrival behind the stage, and to the thread that pushed.
fn measure(options: &Options, idle: Idle) -> anyhow::Result<[Histogram<u64>; 2]> {
    let state = Directory::new(&scratch::base())?;
    let input = Input::<(u64, u64)>::new();
    let (its, slot, began) = (input.clone(), Arc::new(Slot::default()), Instant::now());
    let (seen, reader) = (slot.clone(), std::thread::current());
    let config = Config { workers: usize::from(options.workers), idle, ..Config::default() };
    let running = Job::new().config(config).state(state.path()).start(move |flow| {
        let (seen, reader) = (seen.clone(), reader.clone());
        flow.source("pushes", its.source())
            .key_by(|record| record.0)
            .fold("last", |last: &mut u64, record| *last = record.1)
            .for_each("arrival", move |(_, number)| {
                seen.arrived.store(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
                // Release: who reads the number reads the time too.
                seen.number.store(*number, Ordering::Release);
                if idle == Idle::Park {
                    reader.unpark();
                }
            });
    })?;
    let mut producer = input.open("bench")?;
    let histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let mut histograms = [histogram.clone(), histogram];
    for number in 1..=u64::from(options.pushes) {
        std::thread::sleep(GAP);
        let pushed = began.elapsed().as_nanos() as u64;
        producer.push((number % 1_000, number))?;
        while slot.number.load(Ordering::Acquire) < number {
            match idle {
                Idle::Spin => std::hint::spin_loop(),
                Idle::Park => std::thread::park(),
            }
        }
        let read = began.elapsed().as_nanos() as u64;
        let arrived = slot.arrived.load(Ordering::Relaxed);
        for (histogram, at) in histograms.iter_mut().zip([arrived, read]) {
            histogram.saturating_record(at - pushed);
        }
    }
    input.close();
    running.join()?;
    Ok(histograms)
}
