//! The director: it drives the coordinator. Events come from a queue, effects go to the control
//! word and to the publisher.
//!
//! Never on a worker: a slow record must not stop triggers, time-outs, publishing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use overtake_state::Statistics;

use crate::checkpoint::control::Raise;
use crate::checkpoint::coordinator::{
    CheckpointReport, Coordinator, Effect, Event, Failure, Holder, Reason,
};
use crate::checkpoint::publish::Publication;
use crate::checkpoint::time::Epoch;
use crate::runtime::life::Life;
use crate::runtime::queue::Queue;
use crate::sync;

/// How a life ends.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Everything is processed and committed, or the user stopped it.
    Finished,
    /// It cannot go on.
    Failed(Failure),
}

/// Shared with whoever watches the job.
pub(crate) type SharedCoordinator = Arc<Mutex<Coordinator>>;

/// See the [module](self).
pub(crate) struct Director {
    life: Arc<Life>,
    coordinator: SharedCoordinator,
    effects: VecDeque<Effect>,
    publications: Arc<Queue<Publication>>,
    /// What each task had processed at the last trigger.
    processed: Vec<u64>,
}

impl Director {
    pub(crate) fn new(
        life: &Arc<Life>,
        coordinator: SharedCoordinator,
        publications: Arc<Queue<Publication>>,
    ) -> Director {
        let (effects, processed) = (VecDeque::new(), Vec::new());
        Director { life: life.clone(), coordinator, effects, publications, processed }
    }

    /// Obeys one effect, or takes notice of one event, or of the time.
    pub(crate) fn turn(&mut self, event: Option<Event>) -> Option<Outcome> {
        if let Some(event) = event {
            let mut coordinator = self.lock();
            // Asked under the lock: a trigger is stamped when it is decided.
            let mut effects = coordinator.on(self.life.clock.now(), event);
            self.name_holders(&mut effects, &mut coordinator);
            let has_ended = |effect: &Effect| {
                matches!(effect, Effect::Announce(_) | Effect::Abort { .. } | Effect::Fail(_))
            };
            if effects.iter().any(has_ended) {
                let history = coordinator.history().map(|report| &**report);
                self.life.awaited.tell(self.life.generation, history);
            }
            drop(coordinator);
            self.effects.extend(effects);
        }
        let effect = self.effects.pop_front()?;
        self.obey(effect)
    }

    /// Is there an effect to obey before the next event?
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Waits for what happens next, but not longer than `patience`.
    pub(crate) fn wait(&self, patience: std::time::Duration) -> Event {
        let deadline = self.lock().next_deadline();
        let wait = deadline.map_or(patience, |at| at.saturating_sub(self.life.clock.now()));
        self.life.events.pop_within(Some(wait.min(patience))).unwrap_or(Event::Tick)
    }

    fn obey(&mut self, effect: Effect) -> Option<Outcome> {
        match effect {
            Effect::Trigger(epoch) => {
                sync::crash_point("trigger");
                self.processed = self.life.processed_by_all().collect();
                self.life.raise(Raise::Trigger(epoch));
            }
            Effect::Overtake(epoch) => self.life.raise(Raise::Overtake(epoch)),
            Effect::Abort { from, to } => {
                self.life.aborted.lock().expect("no holder panics").push((from, to));
                self.life.raise(Raise::Aborted(to));
            }
            Effect::Publish(epoch) => self.publications.push(self.publication(epoch)),
            Effect::Announce(epoch) => {
                sync::crash_point("announce");
                self.life.raise(Raise::Completed(epoch));
            }
            Effect::Stop => return Some(Outcome::Finished),
            Effect::Fail(failure) => return Some(Outcome::Failed(failure)),
        }
        None
    }

    /// Of a checkpoint that has just timed out the coordinator knows numbers; here are the names.
    fn name_holders(&self, effects: &mut [Effect], coordinator: &mut Coordinator) {
        for effect in effects {
            match effect {
                Effect::Abort { from, .. } => {
                    coordinator.explain(*from, |why| self.name_holders_in(why));
                }
                Effect::Fail(Failure::Checkpoints { epoch, why, .. }) => {
                    self.name_holders_in(why);
                    coordinator.explain(*epoch, |known| known.clone_from(why));
                }
                _ => {}
            }
        }
    }

    fn name_holders_in(&self, why: &mut Reason) {
        let Reason::TimedOut { uncaptured, holders, .. } = why else { return };
        let workers = (0..self.life.workers).filter_map(|worker| self.life.running(worker));
        let keeps_one_waiting = |inside: &usize| {
            let worker = self.life.name(*inside).1;
            uncaptured.iter().any(|task| self.life.name(*task).1 == worker)
        };
        let mut inside: Vec<usize> = workers.filter(keeps_one_waiting).collect();
        // Who has processed nothing since the trigger is stuck; the others are only busy.
        let progress =
            |task: &usize| self.processed.get(*task) != Some(&self.life.processed(*task));
        inside.sort_by_key(progress);
        let idle = if inside.is_empty() { uncaptured.first().copied() } else { None };
        let holder = |task: usize| {
            let (operator, worker) = self.life.name(task);
            let (operator, record) = (operator.to_owned(), self.life.processed(task));
            Holder { task, operator, worker, record, is_inside: idle.is_none() }
        };
        *holders = inside.into_iter().chain(idle).map(holder).collect();
    }

    fn publication(&self, epoch: Epoch) -> Publication {
        let coordinator = self.lock();
        let base_min = coordinator.base_min();
        let report = coordinator.under_way().find(|report| report.epoch == epoch);
        let report = report.expect("what is published is under way");
        let has_ended = report.tasks.values().all(|task| task.has_ended);
        let (is_savepoint, statistics) = (report.is_savepoint(), statistics(report));
        Publication { epoch, base_min, has_ended, is_savepoint, statistics }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Coordinator> {
        self.coordinator.lock().expect("the director alone changes it")
    }
}

fn statistics(report: &CheckpointReport) -> Statistics {
    let since = |at: Option<std::time::Duration>| {
        at.unwrap_or_default().saturating_sub(report.triggered).as_nanos() as u64
    };
    Statistics {
        captured_ns: since(report.captured),
        durable_ns: since(report.durable),
        pause_ns: report.pause().as_nanos() as u64,
        state_bytes: report.state_bytes(),
        in_flight_bytes: report.in_flight_bytes(),
    }
}
