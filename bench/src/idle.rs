//! The benchmark `idle`: what a job costs that has nothing to do, and how long it takes to wake.
//!
//! One record at a time is pushed from another thread into a job that is parked; it carries the
//! time of its push, and the function behind a keyed stage says when it has arrived.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;
use overtake::source::{Emit, Read, Source, SourceContext};
use overtake::{BoxError, Config, Idle, Job, Waker};

use crate::meter::process_cpu;
use crate::option::between;

/// What `overtake bench idle` is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Options {
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = between(1u16, 256))]
    pub workers: u16,
    /// Records to push
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = between(1u32, 1_000_000))]
    pub pushes: u32,
    /// Idle workers spin instead of parking
    #[arg(long)]
    pub spin: bool,
}

/// How long nothing happens while the CPU time is measured.
const QUIET: Duration = Duration::from_secs(5);
/// Between two pushes: long enough that every worker has parked.
const GAP: Duration = Duration::from_millis(1);

/// Measures, and prints the figures.
///
/// # Errors
///
/// If the job cannot run.
pub fn run(options: Options) -> anyhow::Result<()> {
    let input = Arc::new(Input::default());
    let began = Instant::now();
    let latencies = Arc::new(Mutex::new(Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?));
    let (of_flow, seen) = (input.clone(), latencies.clone());
    let idle = if options.spin { Idle::Spin } else { Idle::Park };
    let config = Config { workers: usize::from(options.workers), idle, ..Config::default() };
    let running = Job::new().config(config).start(move |flow| {
        let seen = seen.clone();
        flow.source("pushes", Pushes { input: of_flow.clone(), is_mine: false })
            .key_by(|record: &(u64, u64)| record.0)
            .fold("last", |last: &mut u64, record| *last = record.1)
            .for_each("arrival", move |(_, pushed)| {
                let now = began.elapsed().as_nanos() as u64;
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.saturating_record(now - pushed);
            });
    })?;
    std::thread::sleep(Duration::from_millis(200));
    let before = process_cpu();
    std::thread::sleep(QUIET);
    let idle = process_cpu() - before;
    for key in 0..u64::from(options.pushes) {
        input.push((key, began.elapsed().as_nanos() as u64));
        std::thread::sleep(GAP);
    }
    input.end();
    running.join()?;
    let seen = latencies.lock().unwrap_or_else(PoisonError::into_inner);
    let micros = |q| seen.value_at_quantile(q) as f64 / 1e3;
    println!(
        "idle: {} workers that {}; {:.3} ms of CPU time in {} s without a record; from push to \
         arrival behind one keyed stage, {} records: p50 {:.1} µs, p99 {:.1} µs, max {:.1} µs",
        options.workers,
        if options.spin { "spin" } else { "park" },
        idle.as_secs_f64() * 1e3,
        QUIET.as_secs(),
        seen.len(),
        micros(0.5),
        micros(0.99),
        micros(1.0),
    );
    Ok(())
}

/// Records on their way from the pushing thread.
#[derive(Default)]
struct Input {
    waiting: Mutex<(Vec<(u64, u64)>, bool)>,
    waker: Mutex<Option<Waker>>,
}

impl Input {
    fn push(&self, record: (u64, u64)) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).0.push(record);
        self.wake();
    }

    fn end(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.wake();
    }

    fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        waker.iter().for_each(Waker::wake);
    }
}

/// What is pushed, as a source of one split.
struct Pushes {
    input: Arc<Input>,
    is_mine: bool,
}

impl Source for Pushes {
    type Record = (u64, u64);
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok(vec!["pushes".to_owned()])
    }

    fn open(&mut self, _: &str, _: Option<u64>, context: &SourceContext) -> Result<(), BoxError> {
        let mut waker = self.input.waker.lock().unwrap_or_else(PoisonError::into_inner);
        *waker = Some(context.waker.clone());
        self.is_mine = true;
        Ok(())
    }

    fn read(
        &mut self,
        _: usize,
        _: Duration,
        out: &mut impl Emit<(u64, u64)>,
    ) -> Result<Read, BoxError> {
        if !self.is_mine {
            return Ok(Read::Ended);
        }
        let mut waiting = self.input.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0.drain(..).for_each(|record| out.emit(record));
        Ok(if waiting.1 { Read::Ended } else { Read::Idle })
    }

    fn positions(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}
