//! The publisher: a manifest becomes durable, then the mark that commits may follow, then it is
//! told; then what nobody needs any more is deleted.
//!
//! # Invariants
//!
//! * **E5**: completion is one create-only write of the manifest. An unknown result is tried again,
//!   under the same name and with the same bytes.
//! * **E6**: the mark is durable before the completion is told, so before any commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use overtake_state::{
    CheckpointId, HASH, History, Manifest, OperatorInfo, Retention, Statistics, Store, keep, prune,
    publish, write_mark,
};

use crate::checkpoint::coordinator::Event;
use crate::checkpoint::restore::forget_the_line;
use crate::checkpoint::time::Epoch;
use crate::listener::Listeners;
use crate::runtime::life::Life;
use crate::sink::Target;
use crate::sync::{self, Fault, fault};

/// A checkpoint whose parts are all durable.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    pub(crate) epoch: Epoch,
    /// The oldest epoch on which a task may still build.
    pub(crate) base_min: Epoch,
    pub(crate) has_ended: bool,
    /// Does the user keep it?
    pub(crate) is_savepoint: bool,
    pub(crate) statistics: Statistics,
}

enum Step {
    Put(Publication, Box<Manifest>),
    Mark(Publication),
    Keep(Publication),
    Tell(Publication),
    Prune(Publication),
}

impl Step {
    /// As a crash point.
    fn name(&self) -> &'static str {
        match self {
            Step::Put(..) => "publish",
            Step::Mark(_) => "mark",
            Step::Keep(_) => "keep",
            Step::Tell(_) => "tell",
            Step::Prune(_) => "prune",
        }
    }
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is nothing to publish.
    Idle,
    /// A step was done.
    Done,
    /// A step failed, and shall be tried again after a while.
    Again,
}

/// Publishes one checkpoint at a time, on a thread of its own.
pub(crate) struct Publisher {
    life: Arc<Life>,
    store: Arc<dyn Store>,
    history: History,
    retention: usize,
    targets: BTreeMap<String, Arc<dyn Target>>,
    listeners: Listeners,
    step: Option<Step>,
}

impl Publisher {
    /// A publisher of a life whose past is `history`.
    pub(crate) fn new(
        life: &Arc<Life>,
        store: &Arc<dyn Store>,
        history: History,
        retention: usize,
        targets: BTreeMap<String, Arc<dyn Target>>,
        listeners: Listeners,
    ) -> Publisher {
        let (life, store) = (life.clone(), store.clone());
        Publisher { life, store, history, retention, targets, listeners, step: None }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.step.is_none()
    }

    /// Begins to publish.
    pub(crate) fn begin(&mut self, publication: Publication) {
        let manifest = Box::new(self.manifest(&publication));
        self.step = Some(Step::Put(publication, manifest));
    }

    /// Does one step.
    pub(crate) fn turn(&mut self) -> Turn {
        match &self.step {
            None => return Turn::Idle,
            Some(step) => sync::crash_point(step.name()),
        }
        let step = self.step.take().expect("looked at just above");
        let store = &*self.store;
        let mut is_published = false;
        let (next, is_done) = match step {
            Step::Put(publication, manifest) => match publish(store, &manifest) {
                Ok(_published) => {
                    is_published = true;
                    let next = if fault(Fault::MarkLate) { Step::Tell } else { Step::Mark };
                    (Some(next(publication)), true)
                }
                Err(_) => (Some(Step::Put(publication, manifest)), false),
            },
            Step::Mark(publication) => {
                let is_done = write_mark(store, self.id(publication.epoch)).is_ok();
                let next = match (is_done, publication.is_savepoint) {
                    (false, _) => Step::Mark,
                    (true, true) => Step::Keep,
                    (true, false) => Step::Tell,
                };
                (Some(next(publication)), is_done)
            }
            Step::Keep(publication) => {
                let is_done = keep(store, self.id(publication.epoch)).is_ok();
                let next = if is_done { Step::Tell } else { Step::Keep };
                (Some(next(publication)), is_done)
            }
            Step::Tell(publication) => {
                // N3. First: who waits for this checkpoint waits for what they are told, too.
                self.listeners.iter().for_each(|told| told.completed(publication.epoch.0));
                self.life.events.push(Event::Published { epoch: publication.epoch });
                (Some(Step::Prune(publication)), true)
            }
            Step::Prune(publication) => {
                if fault(Fault::MarkLate) {
                    let _ = write_mark(store, self.id(publication.epoch));
                }
                self.clean_up(&publication);
                (None, true)
            }
        };
        self.step = next;
        if is_published {
            sync::crash_point("published");
        }
        if is_done { Turn::Done } else { Turn::Again }
    }

    /// Is something on its way to the store, which may arrive there after the death of everybody?
    #[cfg(feature = "simulation")]
    pub(crate) fn is_putting(&self) -> bool {
        matches!(self.step, Some(Step::Put(..) | Step::Mark(_) | Step::Keep(_)))
    }

    /// The job ends: sweeps once more, since what a killed process had asked for may have arrived
    /// after the last checkpoint.
    pub(crate) fn close(self) {
        self.sweep();
    }

    fn sweep(&self) {
        for target in self.targets.values().filter(|_| !fault(Fault::AbortOnce)) {
            let _ = target.sweep(&self.life.job, self.life.generation);
        }
    }

    fn id(&self, epoch: Epoch) -> CheckpointId {
        CheckpointId { generation: self.life.generation, epoch: epoch.0 }
    }

    /// Whatever fails here is tried again after the next checkpoint.
    fn clean_up(&mut self, publication: &Publication) {
        let Publication { epoch, base_min, .. } = publication;
        let mut written = self.life.written.lock().expect("no holder panics");
        written.retain(|(written, _), _| written > epoch);
        drop(written);
        self.sweep();
        let retention = Retention {
            keep: self.retention,
            generation: self.life.generation,
            epoch_in_use: base_min.0,
        };
        if fault(Fault::RetainByName) {
            forget_the_line(&mut self.history);
        }
        let _ = prune(&*self.store, &mut self.history, retention);
    }

    fn manifest(&self, publication: &Publication) -> Manifest {
        let life = &self.life;
        let written = life.written.lock().expect("no holder panics");
        let parts: Vec<_> = (0..life.workers)
            .map(|worker| {
                let part = written.get(&(publication.epoch, worker));
                part.expect("E5: every worker's segment is durable").clone()
            })
            .collect();
        let mut transactions: Vec<_> =
            parts.iter().flat_map(|part| part.transactions.iter().cloned()).collect();
        transactions.sort();
        let operators = life.operators.lock().expect("no holder panics");
        let operators = operators
            .iter()
            .map(|(name, tables)| OperatorInfo { name: name.clone(), tables: tables.clone() });
        Manifest {
            job: life.job.clone(),
            id: self.id(publication.epoch),
            workers: life.workers as u32,
            hash: HASH.to_owned(),
            operators: operators.collect(),
            edges: life.edges.clone(),
            segments: parts.into_iter().map(|part| part.segment).collect(),
            transactions,
            ended: publication.has_ended,
            statistics: publication.statistics,
        }
    }
}
