//! Every limit and setting of a job: its unit, its default, its reason.

use std::time::Duration;

use crate::checkpoint::coordinator::{Mode, Schedule};
use crate::error::Error;
use crate::runtime::restart::Restart;

/// Bounds of what a job holds and how long it takes for one thing.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Records of a batch, at most. 2,048 of 16 bytes are 32 KiB: a full batch amortises what a
    /// batch costs, and stays in the second-level cache.
    pub batch_records_max: usize,
    /// Bytes of a batch, at most, as its records lie in memory.
    pub batch_bytes_max: usize,
    /// Batches of a channel that may be unacknowledged. Matters only while batch times credit is
    /// below some 4,096 records.
    pub credit: usize,
    /// How long a task keeps its worker: so long an overtaking barrier waits for it.
    pub slice: Duration,
    /// Records that a source makes per activation: so many that their consumers on the same
    /// worker find them in the cache.
    pub source_quantum: usize,
    /// Transactions of a sink and worker that may await their commit; with none free the sink takes
    /// no input. Two would do: one open, one prepared.
    pub transactions_max: usize,
    /// Bytes that the tables of all tasks may take, as [`Memory`](crate::Memory) counts them:
    /// beyond, the job ends with [`Error::StateFull`], and is not restarted. No limit is the
    /// default: nobody knows what else needs memory.
    pub state_bytes_max: u64,
    /// Bytes that records in batches may take on all channels. The credit is made less until they
    /// do: then senders wait for receivers. If one batch a channel is too much, the job does not
    /// start. No limit is the default, since credit and batches are one.
    pub in_flight_bytes_max: u64,
    /// How long a stopping job waits for a worker that is inside one record.
    pub stop_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            batch_records_max: 2_048,
            batch_bytes_max: 32 << 10,
            credit: 8,
            slice: Duration::from_micros(50),
            source_quantum: 4_096,
            transactions_max: 4,
            state_bytes_max: u64::MAX,
            in_flight_bytes_max: u64::MAX,
            stop_timeout: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The credit with which so many edges between so many workers stay within the limit of what is
    /// in flight: a sender has, beside what is on its way, a batch that is filled and one that
    /// waits.
    ///
    /// # Errors
    ///
    /// If that would be none.
    pub(crate) fn credit_within(&self, edges: usize, workers: usize) -> Result<usize, Error> {
        let batch = self.batch_bytes_max as u64;
        let of_one = (edges * workers * workers).max(1) as u64 * batch;
        let fit = (self.in_flight_bytes_max / of_one).saturating_sub(BATCHES_UNSENT);
        match usize::try_from(fit).unwrap_or(usize::MAX).min(self.credit) {
            0 => Err(Error::Flow(format!(
                "{edges} edge(s) between {workers} workers need at least {} bytes in flight, and the \
                 limit in_flight_bytes_max is {}: raise it, or lower batch_bytes_max or the workers",
                of_one * (BATCHES_UNSENT + 1),
                self.in_flight_bytes_max
            ))),
            credit => Ok(credit),
        }
    }

    /// Records of type `R` in a batch, at most.
    pub(crate) fn batch_records<R>(&self) -> usize {
        let fit = self.batch_bytes_max / size_of::<R>().max(1);
        fit.clamp(1, self.batch_records_max)
    }
}

/// What an idle worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It parks: no CPU time, some 10 to 50 µs until it runs again.
    Park,
    /// It spins: one core, and no delay.
    Spin,
}

/// Whether workers are bound to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// Worker *i* runs on the *i*-th core that the process may use, where the machine allows it.
    Pinned,
    /// The system decides.
    Free,
}

/// The settings of a job.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of the job in its [metrics and spans](crate::observe).
    pub name: String,
    /// Worker threads; the default is one for each core that the process may use.
    pub workers: usize,
    /// How checkpoints pass what is in flight, how often they are taken, how long they may take.
    pub schedule: Schedule,
    /// Complete checkpoints that are kept.
    pub retention: usize,
    /// What an idle worker does.
    pub idle: Idle,
    /// Whether workers are bound to cores.
    pub pinning: Pinning,
    /// Whether a job that has failed is started again in the same process. Never: whoever started
    /// it knows best what to do.
    pub restart: Restart,
    /// Bounds.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            name: "job".to_owned(),
            workers: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            schedule: Schedule {
                mode: Mode::Unaligned,
                interval: Duration::from_secs(1),
                pause_min: Duration::ZERO,
                timeout: Duration::from_secs(60),
                prepare_timeout: Duration::from_secs(60),
                publish_timeout: Duration::from_secs(60),
                commit_timeout: Duration::from_secs(60),
                failures_tolerated: 3,
            },
            retention: 2,
            idle: Idle::Park,
            pinning: Pinning::Pinned,
            restart: Restart::Never,
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Checks every setting against its range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let limits = &self.limits;
        let at_least_1: [(&'static str, usize); 6] = [
            ("workers", self.workers),
            ("retention", self.retention),
            ("credit", limits.credit),
            ("batch_records_max", limits.batch_records_max),
            ("source_quantum", limits.source_quantum),
            ("batch_bytes_max", limits.batch_bytes_max),
        ];
        for (name, value) in at_least_1 {
            if value == 0 {
                return Err(Error::Setting { name, found: "0".into(), allowed: "at least 1" });
            }
        }
        if limits.transactions_max < 2 {
            let found = limits.transactions_max.to_string();
            let name = "transactions_max";
            return Err(Error::Setting { name, found, allowed: "at least 2" });
        }
        if self.workers > WORKERS_MAX {
            let found = self.workers.to_string();
            return Err(Error::Setting { name: "workers", found, allowed: "at most 256" });
        }
        self.restart.check()
    }
}

/// Batches of a channel that its sender holds: one is filled, one waits for credit.
const BATCHES_UNSENT: u64 = 2;

/// Workers of a job: each pair has a ring per edge.
const WORKERS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_limited_in_records_and_in_bytes() {
        let limits = Limits::default();
        assert_eq!(limits.batch_records::<[u8; 16]>(), 2_048);
        assert_eq!(limits.batch_records::<u8>(), 2_048);
        assert_eq!(limits.batch_records::<[u8; 64]>(), 512);
        assert_eq!(limits.batch_records::<[u8; 1 << 20]>(), 1);
    }

    #[test]
    fn credit_is_made_less_until_what_is_in_flight_fits() {
        let limits = |in_flight_bytes_max| Limits { in_flight_bytes_max, ..Limits::default() };
        assert_eq!(limits(u64::MAX).credit_within(3, 2).unwrap(), 8);
        // 12 channels of 32 KiB a batch.
        assert_eq!(limits(2 << 20).credit_within(3, 2).unwrap(), 3);
        let message = limits(1 << 20).credit_within(3, 2).unwrap_err().to_string();
        assert_eq!(
            message,
            "flow: 3 edge(s) between 2 workers need at least 1179648 bytes in flight, and the limit \
             in_flight_bytes_max is 1048576: raise it, or lower batch_bytes_max or the workers"
        );
    }

    #[test]
    fn a_setting_out_of_range_is_named() {
        let config = Config { workers: 0, ..Config::default() };
        let message = config.check().unwrap_err().to_string();
        assert_eq!(message, "setting \"workers\": 0 is not allowed, expected at least 1");
        let restart = Restart::Fixed { delay: Duration::ZERO, attempts: 0 };
        let message = Config { restart, ..Config::default() }.check().unwrap_err().to_string();
        assert_eq!(message, "setting \"restart.attempts\": 0 is not allowed, expected at least 1");
    }
}
