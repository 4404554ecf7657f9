//! The job `billing`: real flights, billed exactly once.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::command::between;

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
    /// Files of flights: CSV, plain or compressed [default: January 2013]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub input: Vec<PathBuf>,
}

/// How a barrier passes what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// It waits until what is in flight has been processed
    Aligned,
    /// It overtakes what is in flight, which becomes part of the checkpoint
    Unaligned,
    /// It waits for a while, and then overtakes
    Adaptive,
}

/// Runs the job.
pub fn run(_options: Options) -> anyhow::Result<()> {
    anyhow::bail!("`billing` is not built yet")
}
