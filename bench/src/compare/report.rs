//! A comparison as a value: what was measured of each run, on what machine, with what settings.
//!
//! Serialised, it is what `--json` writes. What does not exist is `null`: a job that takes no
//! checkpoints has none to tell of, and is not restored.

use serde::{Deserialize, Serialize};

use super::{Load, Mode, Settings};

/// All runs of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Where it was measured.
    pub machine: Machine,
    /// What was asked for.
    pub settings: Settings,
    /// One for each load and mode, in that order.
    pub runs: Vec<Run>,
}

/// The machine, as far as it tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that the process may use.
    pub cores: usize,
    /// The name of the processor; empty if unknown.
    pub cpu: String,
    /// The operating system and its version.
    pub system: String,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpus = read("/proc/cpuinfo");
        let name = cpus.lines().find_map(|line| line.strip_prefix("model name"));
        let cpu = name.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned();
        let release = read("/proc/sys/kernel/osrelease");
        Machine {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            cpu,
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim_end().to_owned(),
        }
    }
}

/// One job under one load in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The name of the job.
    pub job: String,
    /// The load.
    pub load: Load,
    /// How checkpoints were taken.
    pub mode: Mode,
    /// What holds after a crash: "at most once" or "exactly once".
    pub guarantee: String,
    /// Worker threads.
    pub workers: usize,
    /// From one checkpoint that is due to the next.
    pub interval_ms: u32,
    /// Records a second that were due, the same for all modes of a load.
    pub rate_rps: u64,
    /// How long the sink was busy with each row; 0 if it was not slowed.
    pub stage_us: u32,
    /// Rows that reached the sink in the windows that count.
    pub records: u64,
    /// The same by the time of these windows.
    pub throughput_rps: f64,
    /// From when a record was due until its row had reached the sink.
    pub latency_us: Option<Latency>,
    /// The same of records that were due while a checkpoint was open, from trigger to durable.
    pub latency_during_checkpoint_us: Option<Latency>,
    /// The same of all others.
    pub latency_outside_us: Option<Latency>,
    /// The worst record that was due while a checkpoint was open, the median over checkpoints.
    pub worst_per_checkpoint_us_p50: Option<f64>,
    /// What the checkpoints were like.
    pub checkpoints: Checkpoints,
    /// After the crash: from the new start to the first row that reached the sink.
    pub restore_ms: Option<f64>,
    /// Records that the crashed life had read and the next one read again.
    pub replayed_records: Option<u64>,
    /// The digest of what was committed over all lives.
    pub output_digest: String,
    /// The digest of what the input that was read makes in a sequential program.
    pub reference_digest: String,
    /// Whether they are the same.
    pub output_equals_reference: bool,
    /// Windows that count.
    pub windows: u32,
    /// Those among them that were disturbed, and stayed so when they were repeated.
    pub windows_disturbed: u32,
}

/// Percentiles of a latency, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many records.
    pub records: u64,
    /// Half of them took no longer.
    pub p50: f64,
    /// 90 % took no longer.
    pub p90: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// 99.9 % took no longer.
    pub p999: f64,
    /// None took longer.
    pub max: f64,
}

/// The checkpoints of the windows that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoints {
    /// Intervals that ended.
    pub due: u64,
    /// Checkpoints whose manifest is durable.
    pub completed: u64,
    /// Checkpoints that were aborted.
    pub failed: u64,
    /// From the trigger until the last task had captured, in milliseconds.
    pub captured_ms: Option<Percentiles>,
    /// From the trigger until the manifest was known to be durable, in milliseconds.
    pub durable_ms: Option<Percentiles>,
    /// The longest that a worker was kept from its records, in microseconds of CPU time.
    pub pause_us: Option<Percentiles>,
    /// The longest that a task waited for its frontier, in milliseconds.
    pub alignment_ms: Option<Percentiles>,
    /// State that was written, the median.
    pub state_bytes_p50: Option<u64>,
    /// What was in flight and was written, the median.
    pub inflight_bytes_p50: Option<u64>,
}

/// Percentiles over checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 99th.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}
