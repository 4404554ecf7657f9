//! Whether a job that has failed is started again, and after what delay.
//!
//! Decided from what is told: no clock, no thread. Who waits and starts is
//! [`lives`](super::lives).
//!
//! # Invariants
//!
//! * **AG1**: what starting again cannot change is not tried again: the flow, the settings, a
//!   directory that cannot be opened, a restore that is refused, a thread that is left behind.
//! * **AG2**: no strategy starts more often in a row than its `attempts` say, and no delay is
//!   longer than its `max`.

use std::time::Duration;

use crate::error::Error;

/// Whether a job whose life has failed is started again in the same process, from its last complete
/// checkpoint.
///
/// What starts again is a life that failed by an error of an operator, a source or a sink, by a
/// panic, by more failed checkpoints than are tolerated, or by a transaction that could not be
/// prepared or committed. Not what a new life cannot change: a flow or a setting that is refused, a
/// state directory that cannot be opened, a checkpoint that cannot be restored, a thread that does
/// not end. And not a job that was told to stop.
///
/// The results are those of a job that never failed: the state directory stays locked in between,
/// and each start is a life of its own, with a number of its own, as if the process had been
/// started anew. Results that are no transactions, such as those of
/// [`for_each`](crate::flow::stream::Stream::for_each), may repeat.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use std::time::Duration;
/// use overtake::{Job, Restart, source};
///
/// let directory = tempfile::tempdir()?;
/// let is_first = Arc::new(AtomicBool::new(true));
/// let report = Job::new()
///     .workers(2)
///     .state(directory.path())
///     .restart(Restart::Backoff {
///         first: Duration::from_millis(10),
///         max: Duration::from_secs(60),
///         attempts: 10,
///         reset_after: Duration::from_secs(600),
///     })
///     .interval(Duration::from_millis(10))
///     .run(move |flow| {
///         let is_first = is_first.clone();
///         flow.source("numbers", source::items((0..100u64).collect()))
///             .key_by(|number| number % 10)
///             .fold("sums", move |sum: &mut u64, number| {
///                 assert!(*number != 50 || !is_first.swap(false, Ordering::Relaxed));
///                 *sum += number;
///             })
///             .for_each("print", |(_digit, _sum)| ());
///     })?;
/// assert_eq!(report.restarts, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Restart {
    /// The job ends with the error of its only life. Whoever started it starts it again.
    #[default]
    Never,
    /// Always after the same delay.
    Fixed {
        /// From the end of the threads of a life to the beginning of the next one.
        delay: Duration,
        /// How often the job is started again, over all its lives. At least 1.
        attempts: u32,
    },
    /// After a delay that doubles with each failure in a row.
    Backoff {
        /// The delay after the first failure. Longer than 0.
        first: Duration,
        /// No delay is longer. At least `first`.
        max: Duration,
        /// How often in a row the job is started again. At least 1.
        attempts: u32,
        /// After a life that lasted so long the count starts anew. Longer than 0.
        reset_after: Duration,
    },
}

/// The job shall be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) delay: Duration,
    /// Starts in a row, this one included: what the next decision is made from.
    pub(crate) in_a_row: u32,
}

impl Restart {
    /// A life has failed that lasted so long, after so many starts in a row. None if there shall be
    /// no further one (AG2).
    pub(crate) fn after(self, in_a_row: u32, lasted: Duration) -> Option<Again> {
        let (attempts, before) = match self {
            Restart::Never => return None,
            Restart::Fixed { attempts, .. } => (attempts, in_a_row),
            Restart::Backoff { attempts, reset_after, .. } if lasted >= reset_after => {
                (attempts, 0)
            }
            Restart::Backoff { attempts, .. } => (attempts, in_a_row),
        };
        (before < attempts).then(|| Again { delay: self.delay(before), in_a_row: before + 1 })
    }

    /// The delay after so many starts in a row.
    fn delay(self, before: u32) -> Duration {
        match self {
            Restart::Never => Duration::ZERO,
            Restart::Fixed { delay, .. } => delay,
            Restart::Backoff { first, max, .. } => {
                let double = |delay: &Duration| (*delay < max).then(|| delay.saturating_mul(2));
                let delays = std::iter::successors(Some(first), double);
                delays.take(before as usize + 1).last().unwrap_or(max).min(max)
            }
        }
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    ///
    /// The first one that is out of it.
    pub(crate) fn check(self) -> Result<(), Error> {
        let refuse = |name, found: String, allowed| Err(Error::Setting { name, found, allowed });
        match self {
            Restart::Fixed { attempts: 0, .. } | Restart::Backoff { attempts: 0, .. } => {
                refuse("restart.attempts", "0".into(), "at least 1")
            }
            Restart::Backoff { first: Duration::ZERO, .. } => {
                refuse("restart.first", "0 s".into(), "longer than 0: it is doubled")
            }
            Restart::Backoff { first, max, .. } if max < first => {
                refuse("restart.max", format!("{max:?}"), "at least as long as restart.first")
            }
            Restart::Backoff { reset_after: Duration::ZERO, .. } => {
                let allowed = "longer than 0, or restart.attempts never count";
                refuse("restart.reset_after", "0 s".into(), allowed)
            }
            _ => Ok(()),
        }
    }
}

/// May a new life succeed where this one failed (AG1)?
pub(crate) fn may_pass(why: &Error) -> bool {
    match why {
        Error::Source { .. }
        | Error::Sink { .. }
        | Error::Operator { .. }
        | Error::Panicked { .. }
        | Error::Write(_)
        | Error::Failed(_) => true,
        Error::Flow(_)
        | Error::Setting { .. }
        | Error::Open(_)
        | Error::Restore(_)
        | Error::Stuck { .. }
        | Error::Thread(_)
        | Error::Exhausted { .. }
        | Error::Checkpoint { .. }
        | Error::Read(_)
        | Error::Ended
        | Error::StateFull { .. }
        | Error::Stopped { .. } => false,
    }
}

#[cfg(test)]
mod tests;
