//! The coordinator: when a checkpoint is triggered, overtaken, aborted, published, announced.
//!
//! ```text
//!            ┌─ Captured by all ─┐┌─ Durable by all, Prepared ─┐┌─ Published ─┐┌─ Committed ─┐
//!  trigger ──┴───── capturing ───┴┴────────── writing ─────────┴┴─ publishing ┴┴─ announced ─┴─▶
//!            └────────── timeout: aborted, with all later ones ┘└─ its own ───┘└─ its own ───┘
//! ```
//!
//! A state machine without I/O, clock or thread: events in, effects out, in the order in which they
//! are to be carried out. The driver empties its queue before it sends a [`Event::Tick`], so that a
//! report that is there beats the time-out that it answers, and it sleeps until
//! [`Coordinator::next_deadline`] at most. Time is what the caller says, counted from the start of
//! the life. Stale events are legal and ignored.
//!
//! # Invariants
//!
//! * **E5**: a checkpoint is published when all tasks have captured it, all workers' segments are
//!   durable and all transactions that its snapshots list are prepared, and in order.
//! * **E6**: a checkpoint is announced, and with it its commits are allowed, when its manifest is
//!   known to be durable. A prepare that fails or hangs, a commit that fails or hangs fails the
//!   job.
//! * **E9**: one capture is open at a time, at most [`UNDER_WAY_MAX`] checkpoints are under way,
//!   and one that is aborted takes all later ones along; from the moment when publishing begins it
//!   cannot be aborted. A run that is aborted together is one failure.
//! * **K1**: whatever the job waits for has a deadline; no lost message stops it silently.
//! * **K2**: a savepoint is never overtaken, and is triggered when nothing can make a sink dry.
//! * **K3**: the job stops when each sink has confirmed the commits of the last checkpoint: the
//!   first complete one in which all tasks had ended, or the one that was taken to stop.
//!
//! Not here: retention (which checkpoints are kept), lives (which one is restored).

mod event;
mod history;
#[cfg(test)]
mod tests;
mod timer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::time::Epoch;
use crate::sync::{Fault, fault};

pub use event::{Effect, Event, Failure, Request, Transaction};
use history::History;
pub use history::{CheckpointReport, CutStats, Holder, Outcome, Reason, Report};

/// Checkpoints under way at a time: one is captured while the one before it is written.
pub const UNDER_WAY_MAX: usize = 2;

/// How a checkpoint passes what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every task waits for its frontier.
    Aligned,
    /// No task waits.
    Unaligned,
    /// Starts aligned, and overtakes whatever is not captured in time.
    Adaptive {
        /// How long after the trigger.
        after: Duration,
    },
}

/// How often checkpoints are taken, and how long each step of one may last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// How a checkpoint passes what is in flight.
    pub mode: Mode,
    /// From trigger to trigger, and from an abort to the next trigger.
    pub interval: Duration,
    /// From the completion of a checkpoint to the next trigger, at least.
    pub pause_min: Duration,
    /// From the trigger until publishing begins; then the checkpoint is aborted.
    pub timeout: Duration,
    /// From the report that lists a transaction until it is prepared; then the job fails.
    pub prepare_timeout: Duration,
    /// Until the result of publishing is known; then the job fails, and a restore finds out.
    pub publish_timeout: Duration,
    /// From the announcement until every sink has confirmed; then the job fails.
    pub commit_timeout: Duration,
    /// Failed checkpoints in a row that do not fail the job.
    pub failures_tolerated: u32,
}

/// The job, as far as the coordinator needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Tasks over all workers: they are numbered `0..tasks`.
    pub tasks: usize,
    /// Workers: each writes one segment a checkpoint.
    pub workers: usize,
    /// The tasks that commit.
    pub sinks: BTreeSet<usize>,
    /// The first epoch of this life.
    pub start: Epoch,
    /// None for a job without a state directory.
    pub schedule: Option<Schedule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Tasks wait for their frontiers.
    Aligning,
    /// Tasks have been told not to wait.
    Overtaking,
    /// Every task has its snapshot.
    Writing,
    /// Its manifest may be there at any moment.
    Publishing { since: Duration },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Checkpoint {
    stage: Stage,
    /// Workers whose segment is.
    durable: BTreeSet<usize>,
    report: CheckpointReport,
}

impl Checkpoint {
    fn is_capturing(&self) -> bool {
        matches!(self.stage, Stage::Aligning | Stage::Overtaking)
    }

    fn is_publishing(&self) -> bool {
        matches!(self.stage, Stage::Publishing { .. })
    }

    /// May it still be told not to wait? A savepoint never (K2).
    fn may_overtake(&self) -> bool {
        self.stage == Stage::Aligning && !self.report.is_savepoint()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Prepare {
    Awaited { since: Duration },
    Done,
}

/// Decides over the checkpoints of one life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    config: Config,
    /// The epoch that is triggered next.
    next: Epoch,
    /// Triggered, and neither published nor aborted.
    under_way: BTreeMap<Epoch, Checkpoint>,
    /// The newest complete checkpoint: at first the one that was restored.
    complete: Epoch,
    /// Since when the commits of a complete checkpoint are allowed and not all confirmed.
    announced: BTreeMap<Epoch, Duration>,
    /// Not yet confirmed. They outlive the checkpoint in which they were first listed (E6).
    transactions: BTreeMap<Transaction, Prepare>,
    /// Up to which epoch each sink has confirmed its commits.
    confirmed: BTreeMap<usize, Epoch>,
    /// The oldest epoch on which each task may still build.
    bases: Vec<Epoch>,
    /// In the order in which they were asked for, each once.
    requests: Vec<Request>,
    ended: BTreeSet<usize>,
    /// When the interval is over.
    regular: Duration,
    /// Before this not even a request is served.
    earliest: Duration,
    /// Runs of checkpoints that failed since the last complete one.
    failed: u32,
    /// The last checkpoint, once it is complete (K3).
    end: Option<Epoch>,
    is_over: bool,
    history: History,
}

impl Coordinator {
    /// A coordinator at the start of a life. Whatever the restored checkpoint lists is committed
    /// before: that is part of the restore.
    pub fn new(config: Config) -> Coordinator {
        let restored = config.start.previous();
        let confirmed = config.sinks.iter().map(|task| (*task, restored)).collect();
        let bases = vec![restored; config.tasks];
        let regular = config.schedule.as_ref().map(|s| s.interval).unwrap_or_default();
        Coordinator {
            next: config.start,
            under_way: BTreeMap::new(),
            complete: restored,
            announced: BTreeMap::new(),
            transactions: BTreeMap::new(),
            confirmed,
            bases,
            requests: Vec::new(),
            ended: BTreeSet::new(),
            regular,
            earliest: Duration::ZERO,
            failed: 0,
            end: None,
            is_over: false,
            history: History::default(),
            config,
        }
    }

    /// Takes notice of an event, and says what is to be done. After [`Effect::Stop`] and
    /// [`Effect::Fail`] there is nothing more to do.
    ///
    /// # Panics
    ///
    /// If the engine breaks its word: a commit before its announcement, a manifest out of order.
    pub fn on(&mut self, now: Duration, event: Event) -> Vec<Effect> {
        if self.is_over {
            return vec![];
        }
        match event {
            Event::Tick => self.tick(now),
            Event::Captured(report) => self.captured(now, report),
            Event::Durable { worker, epoch, at } => self.durable(now, worker, epoch, at),
            Event::WriteFailed { worker, epoch, why } => {
                self.abort(now, epoch, Reason::WriteFailed { worker, why })
            }
            Event::Prepared { transaction } => self.prepared(now, transaction),
            Event::PrepareFailed { transaction, why } if fault(Fault::PrepareTolerated) => {
                let failed = Reason::WriteFailed { worker: 0, why };
                let mut effects = self.abort(now, transaction.epoch, failed);
                effects.extend(self.prepared(now, transaction));
                effects
            }
            Event::PrepareFailed { transaction, why } => {
                self.fail(Failure::Prepare { transaction, why: Some(why) })
            }
            Event::Committed { task, epoch } => self.committed(task, epoch),
            Event::Dry { epoch, .. } => self.overtake(epoch),
            Event::Published { epoch } => self.published(now, epoch),
            Event::Requested(request) => self.requested(request),
            Event::Ended { task } => self.ended(task),
            Event::WorkerFailed { why } => self.fail(Failure::Worker(why)),
        }
    }

    /// The newest checkpoints that have ended, the last one last.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &Arc<CheckpointReport>> + Clone {
        self.history.iter()
    }

    /// Lets somebody who knows more than numbers say more about why checkpoint `epoch`, which has
    /// just ended, was aborted.
    pub(crate) fn explain(&mut self, epoch: Epoch, say: impl FnOnce(&mut Reason)) {
        self.history.explain(epoch, say);
    }

    /// Checkpoints that have been triggered and have not ended, the newest last.
    pub fn under_way(&self) -> impl DoubleEndedIterator<Item = &CheckpointReport> {
        self.under_way.values().map(|checkpoint| &checkpoint.report)
    }

    /// Those of them whose manifest may be there at any moment.
    pub(crate) fn publishing(&self) -> impl Iterator<Item = Epoch> {
        self.under_way.iter().filter(|(_, c)| c.is_publishing()).map(|(epoch, _)| *epoch)
    }

    /// Complete checkpoints whose commits are not all confirmed, and since when they are allowed.
    pub(crate) fn announced(&self) -> impl Iterator<Item = (Epoch, Duration)> {
        self.announced.iter().map(|(epoch, since)| (*epoch, *since))
    }

    /// How many transactions are cut and not confirmed.
    pub(crate) fn open_transactions(&self) -> usize {
        self.transactions.len()
    }

    /// The oldest epoch on which a task may still build: nothing from it on may be pruned.
    pub fn base_min(&self) -> Epoch {
        self.bases.iter().copied().min().unwrap_or(self.complete)
    }

    fn trigger(&mut self, now: Duration, request: Option<Request>) -> Vec<Effect> {
        let schedule = self.config.schedule.as_ref().expect("only a schedule has timers");
        let epoch = self.next;
        self.next = epoch.next();
        self.regular = now.saturating_add(schedule.interval);
        if let Some(request) = &request {
            self.requests.retain(|asked| asked != request);
        }
        let checkpoint = Checkpoint {
            stage: Stage::Aligning,
            durable: BTreeSet::new(),
            report: CheckpointReport::new(epoch, request, now),
        };
        let is_unaligned = schedule.mode == Mode::Unaligned;
        self.under_way.insert(epoch, checkpoint);
        // Overtake first: nobody who sees the trigger begins to wait.
        let mut effects = if is_unaligned { self.overtake(epoch) } else { vec![] };
        effects.push(Effect::Trigger(epoch));
        effects
    }

    fn overtake(&mut self, epoch: Epoch) -> Vec<Effect> {
        match self.under_way.get_mut(&epoch) {
            Some(checkpoint) if checkpoint.may_overtake() => {
                checkpoint.stage = Stage::Overtaking;
                vec![Effect::Overtake(epoch)]
            }
            _ => vec![],
        }
    }

    fn captured(&mut self, now: Duration, report: Report) -> Vec<Effect> {
        let Report { task, epoch, .. } = report;
        self.bases[task] = self.bases[task].max(report.base);
        // Also of an aborted checkpoint: its transactions are listed by the next one (E6).
        for listed in &report.listed {
            self.track(Transaction { task, epoch: *listed }, Prepare::Awaited { since: now });
        }
        if let Some(checkpoint) = self.under_way.get_mut(&epoch) {
            let is_capturing = checkpoint.is_capturing();
            let CheckpointReport { tasks, captured, .. } = &mut checkpoint.report;
            tasks.entry(task).or_insert(report);
            if is_capturing && tasks.len() == self.config.tasks {
                *captured = tasks.values().map(|report| report.stats.captured).max();
                checkpoint.stage = Stage::Writing;
                if fault(Fault::EndAtCapture) && tasks.values().all(|report| report.has_ended) {
                    return self.stop();
                }
            }
        }
        self.publish(now)
    }

    fn durable(&mut self, now: Duration, worker: usize, epoch: Epoch, at: Duration) -> Vec<Effect> {
        if let Some(checkpoint) = self.under_way.get_mut(&epoch) {
            checkpoint.durable.insert(worker);
            let durable = &mut checkpoint.report.durable;
            *durable = (*durable).max(Some(at));
        }
        self.publish(now)
    }

    fn prepared(&mut self, now: Duration, transaction: Transaction) -> Vec<Effect> {
        self.track(transaction, Prepare::Awaited { since: now });
        if let Some(prepare) = self.transactions.get_mut(&transaction) {
            *prepare = Prepare::Done;
        }
        self.publish(now)
    }

    /// A report may be older than the confirmation of what it lists: that is not to be awaited.
    fn track(&mut self, transaction: Transaction, prepare: Prepare) {
        if self.confirmed.get(&transaction.task).is_some_and(|up_to| transaction.epoch > *up_to) {
            self.transactions.entry(transaction).or_insert(prepare);
        }
    }

    /// Publishes, in order, whatever can be (E5): an increment builds on the one before.
    fn publish(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = vec![];
        for (epoch, checkpoint) in &mut self.under_way {
            if checkpoint.is_publishing() {
                continue;
            }
            let is_awaited = |transaction: Transaction| {
                matches!(self.transactions.get(&transaction), Some(Prepare::Awaited { .. }))
            };
            let is_complete = checkpoint.stage == Stage::Writing
                && checkpoint.durable.len() == self.config.workers
                && checkpoint.report.tasks.values().all(|Report { task, listed, .. }| {
                    listed
                        .iter()
                        .all(|epoch| !is_awaited(Transaction { task: *task, epoch: *epoch }))
                        || fault(Fault::DurableEarly)
                });
            if !is_complete {
                break;
            }
            checkpoint.stage = Stage::Publishing { since: now };
            effects.push(Effect::Publish(*epoch));
        }
        effects
    }

    fn published(&mut self, now: Duration, epoch: Epoch) -> Vec<Effect> {
        let Some(checkpoint) = self.under_way.remove(&epoch) else {
            return vec![]; // stale: told twice, or by a former life
        };
        assert!(checkpoint.is_publishing(), "E5: checkpoint {epoch} is published too early");
        let is_first = self.under_way.range(..epoch).next().is_none();
        assert!(is_first, "E5: checkpoint {epoch} is published before an earlier one");
        let pause = self.config.schedule.as_ref().map(|s| s.pause_min).unwrap_or_default();
        self.earliest = self.earliest.max(now.saturating_add(pause));
        self.failed = 0;
        self.complete = epoch;
        self.announced.insert(epoch, now);
        let report = checkpoint.report;
        let have_ended = report.tasks.values().all(|report| report.has_ended);
        if have_ended || report.request.is_some_and(Request::is_last) {
            self.end.get_or_insert(epoch);
        }
        self.history.push(report, Outcome::Published { at: now });
        let mut effects = vec![Effect::Announce(epoch)];
        effects.extend(self.settle());
        effects
    }

    fn committed(&mut self, task: usize, epoch: Epoch) -> Vec<Effect> {
        assert!(epoch <= self.complete, "E6: task {task} commits {epoch} before it is complete");
        let Some(confirmed) = self.confirmed.get_mut(&task) else {
            return vec![]; // a task that has nothing to commit may say so
        };
        *confirmed = epoch.max(*confirmed);
        self.transactions.retain(|open, _| open.task != task || open.epoch > epoch);
        self.settle()
    }

    /// What is confirmed by all is awaited no longer; if that is the last checkpoint, all is done.
    fn settle(&mut self) -> Vec<Effect> {
        let confirmed = self.confirmed_by_all();
        self.announced.retain(|epoch, _| *epoch > confirmed);
        let is_exact = |end| self.confirmed.values().all(|confirmed| *confirmed == end);
        let is_last = |end| confirmed >= end && (!fault(Fault::EndExact) || is_exact(end));
        if self.end.is_some_and(is_last) { self.stop() } else { vec![] }
    }

    fn requested(&mut self, request: Request) -> Vec<Effect> {
        match self.config.schedule {
            Some(_) => {
                if !self.requests.contains(&request) {
                    self.requests.push(request);
                }
                vec![]
            }
            None if request.is_last() => self.stop(),
            None => vec![], // there is nowhere to write one: the job's handle says so
        }
    }

    fn ended(&mut self, task: usize) -> Vec<Effect> {
        self.ended.insert(task);
        if self.config.schedule.is_none() && self.have_ended() { self.stop() } else { vec![] }
    }

    /// What came after builds on what failed: it fails too (E9).
    fn abort(&mut self, now: Duration, from: Epoch, why: Reason) -> Vec<Effect> {
        let may_abort = |c: &Checkpoint| !c.is_publishing() || fault(Fault::AbortPublishing);
        let is_abortable = self.under_way.get(&from).is_some_and(may_abort);
        let Some(schedule) = self.config.schedule.as_ref().filter(|_| is_abortable) else {
            return vec![];
        };
        self.earliest = self.earliest.max(now.saturating_add(schedule.interval));
        self.failed += 1;
        let is_tolerated = self.failed <= schedule.failures_tolerated;
        for (epoch, checkpoint) in self.under_way.split_off(&from) {
            let why = if epoch == from { why.clone() } else { Reason::BuiltOn(from) };
            // What the job ends with is tried again, before all that was asked for later.
            let again = checkpoint.report.request.filter(|request| request.is_last());
            let is_asked = |request: &Request| self.requests.contains(request);
            if let Some(request) = again.filter(|request| !is_asked(request)) {
                self.requests.insert(0, request);
            }
            self.history.push(checkpoint.report, Outcome::Aborted { at: now, why });
        }
        if is_tolerated {
            return vec![Effect::Abort { from, to: self.next.previous() }];
        }
        self.fail(Failure::Checkpoints { failed: self.failed, epoch: from, why })
    }

    fn stop(&mut self) -> Vec<Effect> {
        self.is_over = true;
        vec![Effect::Stop]
    }

    fn fail(&mut self, failure: Failure) -> Vec<Effect> {
        self.is_over = true;
        vec![Effect::Fail(failure)]
    }

    fn confirmed_by_all(&self) -> Epoch {
        self.confirmed.values().copied().min().unwrap_or(Epoch::MAX)
    }

    /// Is everything processed and committed, or, where nothing commits, processed?
    pub(crate) fn is_complete(&self) -> bool {
        if self.config.schedule.is_none() {
            return self.have_ended();
        }
        let is_published =
            |c: &&Arc<CheckpointReport>| matches!(c.outcome, Outcome::Published { .. });
        let last = self.history().rfind(is_published);
        last.is_some_and(|report| report.tasks.values().all(|task| task.has_ended))
    }

    fn have_ended(&self) -> bool {
        self.ended.len() == self.config.tasks
    }

    fn uncaptured(&self, epoch: Epoch) -> Vec<usize> {
        let tasks = self.under_way.get(&epoch).map(|checkpoint| &checkpoint.report.tasks);
        (0..self.config.tasks).filter(|t| tasks.is_some_and(|c| !c.contains_key(t))).collect()
    }
}
