//! What a seed means, apart from its turns: the job, its settings, what fails and how often.

use std::time::Duration;

use overtake::{Config, Idle, Limits, Mode, Pinning, Restart, Schedule};

use super::dice::Dice;
use super::graph::Graph;
use super::operators::Context;
use super::outside::Shared;

/// How often the outside fails: once in so many times; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// An operation on a segment.
    pub(super) write: u64,
    /// A put, of which nobody learns whether it was done. It may be done much later.
    pub(super) unknown: u64,
    /// A listing, a deletion.
    pub(super) look: u64,
    /// A prepare.
    pub(super) prepare: u64,
    /// A commit, or the target at the beginning of a life.
    pub(super) commit: u64,
    /// A prepare or a commit hangs for ever.
    pub(super) hang: u64,
    /// A write hangs for ever.
    pub(super) hang_write: u64,
    /// A checkpoint cannot be read at a restore.
    pub(super) read: u64,
    /// A process dies at a crash point of a service.
    pub(super) die: u64,
    /// A process dies between publishing and announcing.
    pub(super) die_published: u64,
    /// A process dies after a commit, before it is confirmed.
    pub(super) die_committed: u64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The job.
    pub(super) graph: Graph,
    /// Rows of each split.
    pub(super) records: u64,
    /// Records of each split of the broadcast stream.
    pub(super) dimensions: u64,
    /// The broadcast stream is slow, once in so many reads.
    pub(super) pauses: u64,
    /// Turns that a record takes at the slow stage.
    pub(super) turns: u64,
    /// The number of workers of every life, if it is one.
    pub(super) workers: Option<usize>,
    /// A yield point ends the turn once in so many times.
    pub(super) yields: u64,
    /// A read is stale once in so many times.
    pub(super) stale: u64,
    /// What fails.
    pub(super) faults: Faults,
    /// Lives that a crash ends at a drawn turn.
    pub(super) crashes: u64,
    /// Deaths while a life begins.
    pub(super) deaths: u64,
    /// What a dead process had asked for may arrive later.
    pub(super) is_haunted: bool,
    /// The user asks for something, once in so many turns.
    pub(super) requests: u64,
    /// In the first life checkpoints are aborted faster than they can be captured.
    pub(super) is_cruel: bool,
    /// Before one of these turns a crash ends a life.
    pub(super) lasting: &'static [u64],
    schedule: Schedule,
    limits: Limits,
    /// Checkpoints that are kept.
    pub(super) retention: usize,
}

/// From this turn of a life on, nothing fails any more.
pub(super) const CALM: u64 = 40_000;

/// How long a life lasts in which nothing but aborts happens.
pub(super) const CRUEL: u64 = 40_000;

/// In a life that no crash ends: so many turns without progress are too many.
pub(super) const PATIENCE: u64 = 90_000;

/// Longer than a life.
const NEVER: u64 = 600_000;

impl Plan {
    /// Draws a plan with so many rows of each split. Which of four profiles, the seed says.
    pub(super) fn draw(seed: u64, dice: &mut Dice, mut records: u64) -> Plan {
        let turns = Duration::from_micros;
        let mode = match dice.below(3) {
            0 => Mode::Aligned,
            1 => Mode::Unaligned,
            _ => Mode::Adaptive { after: turns(dice.pick(&[0, 120, 480])) },
        };
        let mut schedule = Schedule {
            mode,
            interval: turns(dice.pick(&[60, 360, 1200])),
            pause_min: turns(dice.pick(&[0, 0, 100])),
            timeout: turns(dice.pick(&[2_000, 6_000, NEVER, NEVER])),
            prepare_timeout: turns(8_000),
            publish_timeout: turns(8_000),
            commit_timeout: turns(8_000),
            failures_tolerated: dice.pick(&[4, 20]),
        };
        let mut faults = Faults {
            write: dice.pick(&[0, 0, 200, 30]),
            unknown: dice.pick(&[0, 3]),
            look: dice.pick(&[0, 5]),
            prepare: dice.pick(&[0, 0, 30]),
            commit: dice.pick(&[0, 8]),
            hang: dice.pick(&[0, 0, 50]),
            hang_write: 0,
            read: dice.pick(&[0, 3, 6]),
            die: dice.pick(&[0, 300]),
            die_published: 0,
            die_committed: 0,
        };
        let (mut crashes, mut deaths) = (dice.below(6), dice.below(4));
        let mut lasting = &[5_400, 5_400, 24_000][..];
        match seed % 4 {
            // Writes fail, so that transactions pile up.
            1 => {
                faults.write = dice.pick(&[0, 8, 20]);
                schedule.interval = turns(dice.pick(&[60, 180]));
                schedule.failures_tolerated = 1_000;
            }
            // Checkpoints one after the other, and time-outs that abort many of them.
            2 => {
                schedule.interval = turns(dice.pick(&[0, 20, 60]));
                schedule.timeout = turns(dice.pick(&[400, 800, 1_500]));
                schedule.failures_tolerated = 1_000;
                faults.write = dice.pick(&[0, 30, 100]);
            }
            // Many lives.
            3 => {
                schedule.interval = turns(dice.pick(&[60, 180]));
                faults.read = 2;
                (faults.die_published, faults.die_committed) = dice.pick(&[(2, 0), (0, 2), (4, 4)]);
                (crashes, deaths) = (4 + dice.below(12), dice.below(10));
                lasting = &[300, 900, 5_400, 24_000];
                records *= 2;
            }
            _ => {}
        }
        if schedule.timeout < turns(NEVER) {
            faults.hang_write = dice.pick(&[0, 100]);
        }
        let limits = Limits {
            batch_records_max: dice.pick(&[1, 2, 4]),
            credit: dice.pick(&[1, 2, 3]),
            slice: turns(dice.pick(&[1, 3, 10])),
            source_quantum: dice.pick(&[1, 2, 6]),
            transactions_max: dice.pick(&[2, 2, 3]),
            ..Limits::default()
        };
        Plan {
            graph: Graph::draw(dice),
            records,
            dimensions: dice.pick(&[3, 10, 30]),
            pauses: dice.pick(&[0, 2, 5]),
            turns: dice.pick(&[2, 8]),
            workers: dice.one_in(3).then(|| 1 + dice.below(WORKERS_MAX) as usize),
            yields: dice.pick(&[3, 10]),
            stale: dice.pick(&[0, 2, 6, 20]),
            faults,
            crashes,
            deaths,
            is_haunted: seed % 4 >= 2,
            requests: if seed.is_multiple_of(3) { 2_000 } else { 0 },
            is_cruel: seed % 4 == 2 && dice.one_in(3),
            lasting,
            schedule,
            limits,
            retention: dice.pick(&[1, 2, 3]),
        }
    }

    /// The settings of a life. The last one, which no crash ends, gives everything more time.
    pub(super) fn config(&self, workers: usize, is_last: bool, is_cruel: bool) -> Config {
        let mut schedule = self.schedule.clone();
        let mut limits = self.limits.clone();
        if is_last {
            // If nothing hangs, a checkpoint that is never captured shall be seen.
            let hangs = self.faults.hang_write > 0;
            schedule.timeout = Duration::from_micros(if hangs { CALM / 2 } else { NEVER });
        }
        if is_cruel {
            schedule.mode = Mode::Unaligned;
            (schedule.interval, schedule.pause_min) = (Duration::ZERO, Duration::ZERO);
            schedule.timeout = Duration::from_micros(60);
            schedule.failures_tolerated = u32::MAX;
            limits.transactions_max = usize::MAX;
        }
        Config {
            workers,
            schedule,
            retention: self.retention,
            idle: Idle::Spin,
            pinning: Pinning::Free,
            restart: Restart::Never,
            limits,
            ..Config::default()
        }
    }

    /// The settings of a life on real threads, where a turn is no time at all.
    pub(super) fn config_of_threads(&self, workers: usize) -> Config {
        let (mode, limits) = (self.schedule.mode, self.limits.clone());
        let interval = Duration::from_millis(2);
        let schedule = Schedule { mode, interval, ..Config::default().schedule };
        let (retention, pinning, restart) = (self.retention, Pinning::Free, Restart::Never);
        let idle = Idle::Park;
        Config { workers, schedule, retention, idle, pinning, restart, limits, ..Config::default() }
    }

    /// What the operators of the job know.
    pub(super) fn context(&self, shared: &Shared) -> Context {
        Context {
            shared: shared.clone(),
            records: self.records,
            dimensions: self.dimensions,
            pauses: self.pauses,
            is_fixed: self.workers.is_some(),
            has_relay: self.graph.has_relay,
            turns: self.turns,
            stage: 0,
        }
    }

    /// The number of workers of the next life.
    pub(super) fn workers(&self, dice: &mut Dice) -> usize {
        self.workers.unwrap_or_else(|| 1 + dice.below(WORKERS_MAX) as usize)
    }
}

/// Most workers of a life.
const WORKERS_MAX: u64 = 4;
