//! The director: it drives the coordinator. Events come from a queue, effects go to the control
//! word and to the publisher.
//!
//! Never on a worker: a slow record must not stop triggers, time-outs, publishing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use overtake_state::Statistics;

use crate::checkpoint::control::Raise;
use crate::checkpoint::coordinator::{CheckpointReport, Coordinator, Effect, Event, Failure};
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
}

impl Director {
    pub(crate) fn new(
        life: &Arc<Life>,
        coordinator: SharedCoordinator,
        publications: Arc<Queue<Publication>>,
    ) -> Director {
        Director { life: life.clone(), coordinator, effects: VecDeque::new(), publications }
    }

    /// Obeys one effect, or takes notice of one event, or of the time.
    pub(crate) fn turn(&mut self, event: Option<Event>) -> Option<Outcome> {
        if let Some(event) = event {
            let mut coordinator = self.lock();
            // Asked under the lock: a trigger is stamped when it is decided.
            let effects = coordinator.on(self.life.clock.now(), event);
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

    /// Waits for what happens next.
    pub(crate) fn wait(&self) -> Event {
        let deadline = self.lock().next_deadline();
        let wait = deadline.map(|at| at.saturating_sub(self.life.clock.now()));
        self.life.events.pop_within(wait).unwrap_or(Event::Tick)
    }

    fn obey(&mut self, effect: Effect) -> Option<Outcome> {
        match effect {
            Effect::Trigger(epoch) => {
                sync::crash_point("trigger");
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
