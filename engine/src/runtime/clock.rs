//! The time of a job: since its life began, by the system's monotonic clock or by a test's.

use std::time::{Duration, Instant};

#[cfg(feature = "simulation")]
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Tells how long the life has lasted. Never goes back.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's monotonic clock.
    System {
        /// When the life began.
        started: Instant,
    },
    /// Microseconds that a test counts.
    #[cfg(feature = "simulation")]
    Counted(Arc<AtomicU64>),
}

impl Clock {
    /// The system's clock, from now on.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that asks")]
    pub fn system() -> Clock {
        Clock::System { started: Instant::now() }
    }

    /// What timely wants to reckon from: a worker that has none never parks.
    pub(crate) fn instant(&self) -> Option<Instant> {
        match self {
            Clock::System { started } => Some(*started),
            #[cfg(feature = "simulation")]
            Clock::Counted(_) => None,
        }
    }

    /// The time since the life began.
    #[inline]
    #[allow(clippy::disallowed_methods, reason = "this is the one place that asks")]
    pub fn now(&self) -> Duration {
        match self {
            Clock::System { started } => started.elapsed(),
            #[cfg(feature = "simulation")]
            Clock::Counted(micros) => Duration::from_micros(micros.load(Ordering::Relaxed)),
        }
    }

    /// The CPU time of the calling thread.
    pub fn thread_cpu(&self) -> Duration {
        match self {
            Clock::System { .. } => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
            }
            #[cfg(feature = "simulation")]
            Clock::Counted(_) => Duration::ZERO,
        }
    }
}

/// The time of day, since 1970: what files are stamped with.
pub(crate) fn time_of_day() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec as u32)
}
