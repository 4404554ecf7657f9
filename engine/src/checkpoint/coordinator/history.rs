//! What people look at: how each checkpoint went, task by task, and why some did not.
//!
//! Times are measured from the start of the life. They come from the stamps that tasks and the
//! writer put into their reports, not from when the coordinator woke to read them: on busy cores it
//! sees them milliseconds late. Captured latency and durable latency are two figures.
//!
//! Not here: anything that is decided. The past decides nothing.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::gate::Cut;
use crate::checkpoint::time::Epoch;

use super::Request;

/// Checkpoints that are remembered: a quarter of an hour at one a second, a megabyte or two.
pub(super) const HISTORY_MAX: usize = 1_024;

/// What one task measured of one cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutStats {
    /// When the task saw the request.
    pub seen: Duration,
    /// When it took its snapshot.
    pub cut: Duration,
    /// When its capture was complete; an aligned one is complete at the cut.
    pub captured: Duration,
    /// How long the snapshot kept the worker from its records, in thread CPU time.
    pub pause: Duration,
    /// State that this checkpoint writes.
    pub state_bytes: u64,
    /// State of earlier checkpoints that it refers to.
    pub referenced_bytes: u64,
    /// What was in flight: inbox, late batches, outbox, the rest of restored data.
    pub in_flight_bytes: u64,
}

impl CutStats {
    /// How long the task waited for its frontier before it cut.
    pub fn alignment(&self) -> Duration {
        self.cut.saturating_sub(self.seen)
    }
}

/// One task's snapshot is taken and its in-flight data is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The task, counted over all workers.
    pub task: usize,
    /// The worker that hosts it.
    pub worker: usize,
    /// The checkpoint.
    pub epoch: Epoch,
    /// Why the snapshot was taken where it is.
    pub cut: Cut,
    /// Had the task ended: inputs at event maximum, nothing unprocessed or unsent, no timer due?
    pub has_ended: bool,
    /// The epochs of all transactions of this task that the snapshot lists. All, not only the one
    /// that this cut closed: the report of the cut that closed another one may have been aborted.
    pub listed: Vec<Epoch>,
    /// The oldest epoch on which this snapshot, or a later one of the task, may still build.
    pub base: Epoch,
    /// What the task measured.
    pub stats: CutStats,
}

/// What was measured, and where it was cut, decides nothing: to the model it is one report.
impl Hash for Report {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Report { task, worker, epoch, has_ended, listed, base, cut: _, stats: _ } = self;
        (task, worker, epoch, has_ended, listed, base).hash(state);
    }
}

/// Why a checkpoint was aborted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Publishing had not begun when its time was over.
    TimedOut {
        /// How long that was, from the trigger.
        after: Duration,
        /// Tasks that had not reported their snapshot, counted over all workers.
        uncaptured: Vec<usize>,
        /// Who held it up, the likeliest first: the tasks that their workers were inside of, at
        /// most one a worker. If there were none, one that waited for others. Told by whoever
        /// knows names, not by the coordinator.
        holders: Vec<Holder>,
    },
    /// The segment of a worker could not be written.
    WriteFailed {
        /// The worker.
        worker: usize,
        /// What the writer said.
        why: String,
    },
    /// It would have built on this one, which was aborted.
    BuiltOn(Epoch),
}

/// A task that held up a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The task, counted over all workers.
    pub task: usize,
    /// The operator at the head of the fused chain.
    pub operator: String,
    /// The worker that hosts it.
    pub worker: usize,
    /// How many records it had processed on this worker in this life, as far as it has told: a task
    /// that is at work tells it after each chunk, of 2,048 records at most.
    pub record: u64,
    /// Was the worker inside of it? If not, it waited for others.
    pub is_inside: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { operator, worker, record, is_inside, .. } = self;
        let place = if *is_inside { "at or after its record" } else { "idle after record" };
        write!(f, "operator \"{operator}\" on worker {worker}, {place} {record}")
    }
}

/// Holders that a message names; a list of 256 workers would be no message.
const HOLDERS_NAMED: usize = 3;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::TimedOut { after, uncaptured, .. } if uncaptured.is_empty() => {
                let what = "it was written or its transactions were prepared";
                write!(f, "timed out after {after:?} while {what}")
            }
            Reason::TimedOut { after, uncaptured, holders } if holders.is_empty() => {
                write!(f, "timed out after {after:?} before tasks {uncaptured:?} had captured it")
            }
            Reason::TimedOut { after, uncaptured, holders } => {
                write!(f, "timed out after {after:?}, held up by ")?;
                let named = &holders[..holders.len().min(HOLDERS_NAMED)];
                for (i, holder) in named.iter().enumerate() {
                    let before = if i == 0 { "" } else { " and by " };
                    write!(f, "{before}{holder}")?;
                }
                let is_named = |task: &usize| named.iter().any(|holder| holder.task == *task);
                match uncaptured.iter().filter(|task| !is_named(task)).count() {
                    0 => Ok(()),
                    1 => write!(f, "; 1 other task had not captured it"),
                    others => write!(f, "; {others} other tasks had not captured it"),
                }
            }
            Reason::WriteFailed { worker, why } => {
                write!(f, "the segment of worker {worker} could not be written: {why}")
            }
            Reason::BuiltOn(epoch) => write!(f, "builds on checkpoint {epoch}, which was aborted"),
        }
    }
}

/// How a checkpoint ended, if it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is being captured, written or published.
    UnderWay,
    /// Its manifest is durable.
    Published {
        /// When this was known.
        at: Duration,
    },
    /// It never was, and never will be.
    Aborted {
        /// When it was given up.
        at: Duration,
        /// Why.
        why: Reason,
    },
}

/// How one checkpoint went.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckpointReport {
    /// The checkpoint.
    pub epoch: Epoch,
    /// Who asked for it; nobody did if its time had come.
    pub request: Option<Request>,
    /// When it was triggered.
    pub triggered: Duration,
    /// When the last task had captured it.
    pub captured: Option<Duration>,
    /// When the last segment was durable.
    pub durable: Option<Duration>,
    /// How it ended.
    pub outcome: Outcome,
    /// What each task reported, as it was reported.
    pub tasks: BTreeMap<usize, Report>,
}

impl CheckpointReport {
    pub(super) fn new(epoch: Epoch, request: Option<Request>, triggered: Duration) -> Self {
        let (captured, durable, tasks) = (None, None, BTreeMap::new());
        let outcome = Outcome::UnderWay;
        CheckpointReport { epoch, request, triggered, captured, durable, outcome, tasks }
    }

    /// Is it one that the user keeps?
    pub fn is_savepoint(&self) -> bool {
        self.request.is_some_and(Request::is_savepoint)
    }

    /// Did any task overtake, or all wait for their frontiers?
    pub fn has_overtaken(&self) -> bool {
        self.tasks.values().any(|report| report.cut != Cut::Aligned)
    }

    /// How long after the trigger the slowest task saw it.
    pub fn start_delay(&self) -> Duration {
        let seen = self.tasks.values().map(|report| report.stats.seen).max();
        seen.unwrap_or_default().saturating_sub(self.triggered)
    }

    /// The longest that a task waited for its frontier before it cut.
    pub fn alignment(&self) -> Duration {
        self.tasks.values().map(|report| report.stats.alignment()).max().unwrap_or_default()
    }

    /// The longest that a worker was kept from its records, summed over its tasks.
    pub fn pause(&self) -> Duration {
        let mut pauses = BTreeMap::<usize, Duration>::new();
        for report in self.tasks.values() {
            *pauses.entry(report.worker).or_default() += report.stats.pause;
        }
        pauses.into_values().max().unwrap_or_default()
    }

    /// What was in flight, over all tasks.
    pub fn in_flight_bytes(&self) -> u64 {
        self.tasks.values().map(|report| report.stats.in_flight_bytes).sum()
    }

    /// State written for it, over all tasks.
    pub fn state_bytes(&self) -> u64 {
        self.tasks.values().map(|report| report.stats.state_bytes).sum()
    }
}

/// The newest [`HISTORY_MAX`] checkpoints that have ended, oldest first. What has ended does not
/// change: it is shared with who looks, so that looking never keeps the coordinator waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History(VecDeque<Arc<CheckpointReport>>);

impl History {
    pub(super) fn push(&mut self, mut report: CheckpointReport, outcome: Outcome) {
        if self.0.len() == HISTORY_MAX {
            self.0.pop_front();
        }
        report.outcome = outcome;
        self.0.push_back(Arc::new(report));
    }

    /// Says more about why the newest checkpoint of this epoch was aborted.
    pub(super) fn explain(&mut self, epoch: Epoch, say: impl FnOnce(&mut Reason)) {
        if let Some(ended) = self.0.iter_mut().rfind(|report| report.epoch == epoch)
            && let Outcome::Aborted { why, .. } = &mut Arc::make_mut(ended).outcome
        {
            say(why);
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<CheckpointReport>> + Clone {
        self.0.iter()
    }
}

/// The past decides nothing: coordinators that differ in it alone are one state of the model.
impl Hash for History {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
