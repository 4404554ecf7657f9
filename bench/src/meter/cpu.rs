//! The clocks of CPU time: this process's, this thread's, and the machine's.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The kernel's `USER_HZ`: what `/proc/stat` counts in, on every Linux that has it.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of all threads of this process.
pub fn process_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// CPU time of this thread.
pub fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).expect("CPU time is not negative")
}

/// What the machine's cores have done since it was started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Machine {
    pub(super) cores: usize,
    busy: f64,
    steal: f64,
}

impl Machine {
    /// What the kernel says; on a system without `/proc/stat` nobody is ever busy.
    pub(super) fn read() -> Machine {
        Machine::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    pub(super) fn parse(text: &str) -> Machine {
        let cores = text.lines().filter(|line| is_core(line)).count().max(1);
        let all = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let ticks: Vec<f64> = all.filter_map(|ticks| ticks.parse().ok()).collect();
        let &[user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks.as_slice()
        else {
            return Machine { cores, ..Machine::default() };
        };
        Machine { cores, busy: user + nice + system + irq + softirq, steal }
    }

    /// Seconds that the cores together were busy, and seconds that were stolen from them.
    pub(super) fn since(&self, earlier: &Machine) -> (f64, f64) {
        let seconds = |now: f64, then: f64| (now - then) / TICKS_PER_SECOND;
        (seconds(self.busy, earlier.busy), seconds(self.steal, earlier.steal))
    }
}

/// Whether a line is that of one core, `cpu0` and so on, and not that of all.
fn is_core(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
