//! The benchmark `idle`: what a job costs that has nothing to do.

use std::time::Duration;

use clap::Args;
use overtake::connect::embedded::Input;
use overtake::{Config, Idle, Job};

use crate::meter::process_cpu;
use crate::option::between;

/// What `overtake bench idle` is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Options {
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = between(1u16, 256))]
    pub workers: u16,
    /// Idle workers spin instead of parking
    #[arg(long)]
    pub spin: bool,
}

/// How long nothing happens while the CPU time is measured.
const QUIET: Duration = Duration::from_secs(5);

/// Measures, and prints the figure.
///
/// # Errors
///
/// If the job cannot run.
pub fn run(options: Options) -> anyhow::Result<()> {
    let input = Input::<u64>::new();
    let idle = if options.spin { Idle::Spin } else { Idle::Park };
    let config = Config { workers: usize::from(options.workers), idle, ..Config::default() };
    let its = input.clone();
    let running = Job::new().config(config).start(move |flow| {
        flow.source("pushes", its.source())
            .key_by(|record| *record)
            .fold("last", |last: &mut u64, record| *last = *record)
            .for_each("nowhere", |_| ());
    })?;
    input.open("bench")?;
    std::thread::sleep(QUIET / 10);
    let before = process_cpu();
    std::thread::sleep(QUIET);
    let taken = process_cpu() - before;
    input.close();
    running.join()?;
    println!(
        "idle: {} workers that {}: {:.3} ms of CPU time in {} s",
        options.workers,
        if options.spin { "spin" } else { "park" },
        taken.as_secs_f64() * 1e3,
        QUIET.as_secs(),
    );
    Ok(())
}
