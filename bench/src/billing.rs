//! The job `billing`: real flights, billed exactly once.
//!
//! Not here: the dataflow, which is in [`job`]; what a flight costs, which is in `tariff`.

pub mod job;
mod latency;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use overtake::connect::file::{self, BadRecord, Files, PartFiles};
use overtake::source::paced;
use overtake::{Config, Job};

use crate::flights::{Due, Flight, JANUARY};
use crate::interrupt::{self, INTERRUPTED};
use crate::option::{Mode, between};
use latency::{Latencies, Measured};

/// What `overtake billing` is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Options {
    /// The directory of the checkpoints; a job goes on from what it finds there
    #[arg(long, value_name = "DIR", requires = "out")]
    pub state: Option<PathBuf>,
    /// The directory of the invoices
    #[arg(long, value_name = "DIR", requires = "state")]
    pub out: Option<PathBuf>,
    /// Run the input so many times over, a year later each time [default: 1]
    #[arg(long, value_name = "N", value_parser = between(1u16, 1000))]
    pub repeat: Option<u16>,
    /// Threads that work [default: one a core]
    #[arg(long, value_name = "N", value_parser = between(1u16, 256))]
    pub workers: Option<u16>,
    /// How a barrier passes what is in flight
    #[arg(long, value_enum, default_value_t = Mode::Unaligned)]
    pub mode: Mode,
    /// The time between two checkpoints, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = between(1u32, 3_600_000))]
    pub interval: u32,
    /// Read at most so many flights a second [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = between(1u32, u32::MAX))]
    pub rate: Option<u32>,
    /// What happens to a row that is no flight
    #[arg(long, value_enum, default_value_t = BadRecords::Stop)]
    pub bad_records: BadRecords,
    /// Files of flights: CSV, plain or compressed [default: January 2013]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub input: Vec<PathBuf>,
}

/// What happens to a row that is no flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BadRecords {
    /// The job stops, and says where it is and what is wrong with it
    Stop,
    /// It is left out, and counted
    Skip,
    /// It is left out; where it is and what is wrong with it goes to part files in `bad-records`
    /// below the directory of the invoices
    Side,
}

/// The operator behind the side output, and the directory that it writes.
const BAD_RECORDS: &str = "bad_records";
const BAD_RECORDS_DIRECTORY: &str = "bad-records";

/// Flights a second of a run that nobody configured, and how long it lasts.
const DEMO_RATE: u32 = 100_000;
const DEMO_SECONDS: u32 = 10;

/// January has so many flights.
const JANUARY_FLIGHTS: u64 = 27_004;

/// Runs the job, to its end or to an interruption: the exit code tells which.
///
/// # Errors
///
/// What makes the job impossible, in one line that names the file or the option.
pub fn run(options: Options) -> anyhow::Result<ExitCode> {
    let is_demo = options.state.is_none();
    let (state, out, options) = match (&options.state, &options.out) {
        (Some(state), Some(out)) => (state.clone(), out.clone(), options),
        _ => demo(options)?,
    };
    let inputs = inputs(&options.input)?;
    let repeat = options.repeat.unwrap_or(1);
    let named: Vec<String> = inputs.iter().map(|path| path.display().to_string()).collect();
    let mut config = Config::default();
    config.workers = options.workers.map_or(config.workers, usize::from);
    config.schedule.interval = Duration::from_millis(u64::from(options.interval));
    config.schedule.mode = options.mode.with_patience(ADAPTIVE_AFTER);
    let workers = config.workers;
    let latencies = Latencies::default();
    let (of_flow, directory) = (latencies.clone(), out.clone());
    let (rate, bad_records) = (options.rate, options.bad_records);
    let left_out = Arc::new(AtomicU64::new(0));
    let of_split = left_out.clone();
    let job = Job::new()
        .config(config)
        .state(&state)
        .identity("--input", named.join(", "))
        .identity("--repeat", repeat.to_string());
    let running = job.start(move |flow| {
        let invoices = Measured::new(PartFiles::csv(directory.clone()), &of_flow);
        let flights = Files::<Flight>::csv(inputs.clone());
        let flights = flights.repeat(usize::from(repeat), |flight: &mut Flight, years| {
            // At most 1,000 repetitions: the option says so.
            *flight = flight.later(years as u16);
        });
        let flights = flights.bad_records(match bad_records {
            BadRecords::Stop => file::BadRecords::Stop,
            BadRecords::Skip | BadRecords::Side => file::BadRecords::Emit,
        });
        // Without a rate every flight is due at once.
        let rate = rate.map_or(u64::MAX, u64::from);
        let flights = paced(flights, rate, |row: &mut Result<Flight, BadRecord>, due| {
            if let Ok(flight) = row {
                flight.due = Due::at(due);
            }
        });
        let (flights, bad) = flow.source("flights", flights).split({
            let left_out = of_split.clone();
            move |row| row.inspect_err(|_| _ = left_out.fetch_add(1, Ordering::Relaxed))
        });
        match bad_records {
            BadRecords::Side => {
                bad.sink(BAD_RECORDS, PartFiles::csv(directory.join(BAD_RECORDS_DIRECTORY)))
            }
            BadRecords::Stop | BadRecords::Skip => bad.for_each(BAD_RECORDS, |_| ()),
        }
        job::billing(flow, flights, invoices);
    })?;
    latencies.start(running.handle().clock());
    for (checkpoint, why) in running.handle().passed_over() {
        eprintln!("checkpoint {checkpoint} was passed over: {why}");
    }
    if let Some(checkpoint) = running.handle().restored() {
        println!("going on from checkpoint {checkpoint} in {}", state.display());
    }
    interrupt::stops(running.handle())?;
    let total = options.input.is_empty().then(|| JANUARY_FLIGHTS * u64::from(repeat));
    let report = report::watch(running, total)?;
    if !report.has_ended() {
        let flights = report.processed("invoices");
        let state = state.display();
        eprintln!(
            "stopped after {flights} flights of this life; start it again on {state} to go on"
        );
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let left_out = left_out.load(Ordering::Relaxed);
    if left_out > 0 {
        println!("rows that are no flights, left out in this life: {left_out}");
    }
    let bill = report::bill(&out)?;
    let path = out.join("invoices.csv");
    report::write_bill(&path, &bill)?;
    report::print(&report, &latencies, rate.is_some());
    if is_demo {
        let rate = job::maximum_rate(workers)?;
        println!("maximum rate of this machine without files: {rate}");
    }
    println!("invoices: {} (each update in part-*.csv, the bill in invoices.csv)", out.display());
    report::print_bill(&bill);
    Ok(ExitCode::SUCCESS)
}

/// How long an adaptive checkpoint waits before it overtakes.
const ADAPTIVE_AFTER: Duration = Duration::from_millis(100);

/// What runs when no directories are named: always from the beginning, at a rate that is said.
fn demo(mut options: Options) -> anyhow::Result<(PathBuf, PathBuf, Options)> {
    let target = PathBuf::from("target");
    let (state, out) = (target.join("billing-state"), target.join("billing"));
    for directory in [&state, &out] {
        match std::fs::remove_dir_all(directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot empty {}", directory.display()));
            }
            _ => (),
        }
    }
    if options.input.is_empty() {
        let rate = *options.rate.get_or_insert(DEMO_RATE);
        let wanted = u64::from(rate) * u64::from(DEMO_SECONDS);
        let repeat = wanted.div_ceil(JANUARY_FLIGHTS).clamp(1, 1000) as u16;
        let repeat = *options.repeat.get_or_insert(repeat);
        println!(
            "billing the flights of January 2013, {repeat} times over, at {rate} flights/s: about \
             {} s",
            JANUARY_FLIGHTS * u64::from(repeat) / u64::from(rate)
        );
    }
    Ok((state, out, options))
}

/// The files of flights, each by a name that does not depend on where the command is run.
fn inputs(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    if named.is_empty() {
        return Ok(vec![PathBuf::from(JANUARY)]);
    }
    let absolute = |path: &PathBuf| {
        path.canonicalize().with_context(|| format!("cannot read \"{}\"", path.display()))
    };
    named.iter().map(absolute).collect()
}
