//! What threads outside of a life ask of it, and wait for: until it is closed, and no longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use overtake_state::{CheckpointId, States};

use crate::checkpoint::coordinator::{CheckpointReport, Outcome, Request};
use crate::error::Error;
use crate::runtime::pending::Answer;

/// Things that are asked of somebody who may be gone.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    /// May be true when nothing is there; never false when something is.
    is_any: AtomicBool,
    things: Mutex<Option<Vec<T>>>,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Asked { is_any: AtomicBool::new(false), things: Mutex::new(Some(Vec::new())) }
    }
}

impl<T> Asked<T> {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<T>>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, or gives the thing back: nobody is there any more.
    pub(crate) fn ask(&self, thing: T) -> Result<(), T> {
        match &mut *self.lock() {
            Some(things) => {
                things.push(thing);
                // Release: pairs with the acquire in `take_if`.
                self.is_any.store(true, Ordering::Release);
                Ok(())
            }
            None => Err(thing),
        }
    }

    /// Takes those that `choose` says.
    pub(crate) fn take_if(&self, choose: impl FnMut(&mut T) -> bool) -> Vec<T> {
        if !self.is_any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut things = self.lock();
        let Some(things) = &mut *things else { return Vec::new() };
        let taken = things.extract_if(.., choose).collect();
        self.is_any.store(!things.is_empty(), Ordering::Release);
        taken
    }

    /// Nobody answers any more: what is there is dropped, and who waits for it is told.
    pub(crate) fn close(&self) {
        let things = self.lock().take();
        drop(things);
    }
}

/// A look at the state of a task, done by its worker between two slices.
pub(crate) type Look = Box<dyn FnOnce(&States) + Send>;

impl Asked<Look> {
    pub(crate) fn answer(&self, states: &States) {
        self.take_if(|_| true).into_iter().for_each(|look| look(states));
    }
}

/// Somebody waits for a checkpoint that was asked for.
pub(crate) struct Awaited {
    pub(crate) request: Request,
    /// By the clock of the life that was asked.
    pub(crate) since: Duration,
    pub(crate) answer: Answer<CheckpointId>,
}

impl Awaited {
    /// Is this the checkpoint that was asked for? Of ordinary ones every later one is. One that the
    /// job ends with is tried again when it was aborted.
    fn is(&self, report: &CheckpointReport) -> bool {
        let is_such = match self.request {
            Request::Checkpoint => true,
            request => report.request == Some(request),
        };
        let is_over = matches!(report.outcome, Outcome::Published { .. });
        is_such && report.triggered >= self.since && (is_over || !self.request.is_last())
    }
}

impl Asked<Awaited> {
    /// Tells who waits for one of these checkpoints, which have ended, oldest first.
    pub(crate) fn tell<'a>(
        &self,
        generation: u64,
        history: impl Iterator<Item = &'a CheckpointReport> + Clone,
    ) {
        for awaited in self.take_if(|awaited| history.clone().any(|report| awaited.is(report))) {
            let report = history.clone().find(|report| awaited.is(report));
            let Some(CheckpointReport { epoch, outcome, .. }) = report else { continue };
            let answer = match outcome {
                Outcome::Aborted { why, .. } => {
                    Err(Error::Checkpoint { epoch: epoch.0, why: why.to_string() })
                }
                _ => Ok(CheckpointId { generation, epoch: epoch.0 }),
            };
            // Who does not wait any more need not be told.
            let _ = awaited.answer.send(answer);
        }
    }
}
