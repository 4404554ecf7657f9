//! What a stretch of time cost, and who disturbed it.
//!
//! A [`Window`] has two kinds of figures. What we did: records, CPU time of all our threads,
//! allocations. What others did: the share of the machine's cores that other processes and the
//! hypervisor took meanwhile.

mod allocator;
mod cpu;

use std::time::Instant;

pub use allocator::{Counting, allocations, live_bytes, uncounted};
pub use cpu::{process_cpu, thread_cpu};

use self::cpu::Machine;

/// A window counts only if neither others nor steal took more than this share of the cores.
const DISTURBANCE_MAX: f64 = 0.02;

/// The beginning of a window.
#[derive(Clone, Debug)]
pub struct Mark {
    at: Instant,
    records: u64,
    cpu_seconds: f64,
    allocations: u64,
    machine: Machine,
}

impl Mark {
    /// Begins a window, when `records` have been processed.
    pub fn new(records: u64) -> Mark {
        Mark {
            machine: Machine::read(),
            allocations: allocations(),
            cpu_seconds: process_cpu().as_secs_f64(),
            at: Instant::now(),
            records,
        }
    }

    /// Ends the window, when `records` have been processed.
    pub fn end(&self, records: u64) -> Window {
        let now = Mark::new(records);
        let seconds = (now.at - self.at).as_secs_f64();
        let cpu_seconds = now.cpu_seconds - self.cpu_seconds;
        let (busy, steal) = now.machine.since(&self.machine);
        let core_seconds = seconds * self.machine.cores as f64;
        Window {
            seconds,
            records: records - self.records,
            cpu_seconds,
            // The kernel counts in ticks, the process's clock does not: a tick too few is none too
            // many.
            others: ((busy - cpu_seconds) / core_seconds).max(0.0),
            steal: steal / core_seconds,
            allocations: now.allocations - self.allocations,
        }
    }
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// How long it was.
    pub seconds: f64,
    /// What was processed in it.
    pub records: u64,
    /// What all threads of this process took.
    pub cpu_seconds: f64,
    /// The share of all cores that other processes took.
    pub others: f64,
    /// The share of all cores that the hypervisor gave to other machines.
    pub steal: f64,
    /// Allocations of this process, where [`Counting`] is its allocator.
    pub allocations: u64,
}

impl Window {
    /// Records per second.
    pub fn rate(&self) -> f64 {
        self.records as f64 / self.seconds
    }

    /// Seconds of CPU time per record; infinite when there was none.
    pub fn cpu_per_record(&self) -> f64 {
        self.cpu_seconds / self.records as f64
    }

    /// Whether so little was disturbed that the window counts.
    pub fn is_quiet(&self) -> bool {
        self.others < DISTURBANCE_MAX && self.steal < DISTURBANCE_MAX
    }
}

#[cfg(test)]
mod tests;
