//! The model: the deciding modules of the engine in the smallest world in which they can go wrong.
//!
//! [`Gate`], [`Capture`], [`Coordinator`] and the restore [`plan`] are those of the engine. What
//! surrounds them is written anew, in as few words as possible: tasks that hold a record at a time,
//! channels, a writer, a target with transactions. So the model checks the decisions, and the
//! simulation checks the engine.
//!
//! ```text
//!   source ══▶ count ══▶ sink    credit 1: a batch of one record on its way, one in the outbox
//!   source ══════════▶ sink      on one or two workers, rescaled by a crash
//! ```
//!
//! # Invariants
//!
//! A world that breaks one says so in [`World::wrong`], with the name that the engine gives it.
//! E1 to E6 and E9 are those of the gate, the capture and the coordinator; E4 and E5 are checked at
//! every complete checkpoint: what the positions say was read is committed, listed or in flight,
//! once, and what was counted is what has passed the count.
//!
//! Not here: time-outs, threads, bytes, event time between its minimum and its maximum; frontiers
//! are seen at once; several records a batch.
//!
//! [`Gate`]: overtake::simulation::gate::Gate
//! [`Capture`]: overtake::simulation::capture::Capture
//! [`Coordinator`]: overtake::simulation::coordinator::Coordinator
//! [`plan`]: overtake::simulation::plan

mod life;
mod task;

use std::collections::{BTreeMap, BTreeSet};

use overtake::simulation::coordinator::Mode;
use overtake::simulation::plan::{EdgeKind, Scale, sources, splits};
use overtake::simulation::time::Epoch;

pub use life::Life;
pub use task::{Snapshot, Task};

/// Unacknowledged batches on a channel.
const CREDIT: usize = 1;
/// Transactions of a sink that await their commit; with all of them taken it is dry.
const POOL: usize = 2;
/// The splits of every source, by name.
const SPLITS: [&str; 2] = ["0", "1"];

/// A record: where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Which split.
    pub split: usize,
    /// Where in it.
    pub position: usize,
}

/// A transaction of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// The life in which it was cut.
    pub generation: u64,
    /// The cut.
    pub epoch: Epoch,
    /// The sink's task.
    pub task: usize,
}

/// A fault that can be planted in the glue, and has to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An overtaking snapshot leaves the outbox out.
    NoOutbox,
    /// What arrives after the snapshot is not captured.
    NoLateCapture,
    /// An overtaking snapshot leaves the rest of the restored data out.
    NoRestored,
    /// A capture is complete at the cut.
    CapturedAtOnce,
    /// Batches of later epochs are processed before the cut.
    NoGate,
    /// An aligned cut does not wait for the outbox.
    Undrained,
    /// What is sent after the cut carries the old epoch.
    OldStamp,
    /// The control word is read in the wrong order: verdicts before requests.
    ReadOrder,
    /// A commit does not wait for the checkpoint.
    EarlyCommit,
    /// A snapshot lists the transaction of its own cut only.
    DroppedHandles,
    /// A report does not say what its snapshot lists.
    Unlisted,
    /// A checkpoint is announced before its manifest is there.
    EarlyAnnouncement,
    /// An abort is taken to mean one epoch.
    AbortsOne,
    /// A task has ended though its outbox is not empty.
    EndsUnsent,
    /// A dry sink waits for its frontier.
    DryWaits,
    /// New workers keep all of what they read of a shared piece.
    Unfiltered,
    /// New workers read the pieces of a channel in the wrong order.
    PlanReversed,
}

/// What is explored.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// With a count between source and sink?
    pub shape: Shape,
    /// Workers before and after the crash.
    pub scale: Scale,
    /// The mode of all checkpoints.
    pub mode: Mode,
    /// The keys of the records of each split, in order.
    pub keys: [&'static [usize]; SPLITS.len()],
    /// The newest epoch that is triggered.
    pub epochs: u64,
    /// Writes that fail.
    pub aborts: u32,
    /// Lives that end in a crash.
    pub restores: u32,
    /// How a task reads the control word.
    pub reading: Reading,
    /// What is wrong with the glue.
    pub fault: Option<Fault>,
}

/// The tasks of each worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// source → sink
    Short,
    /// source → count → sink
    Counted,
}

/// How a task reads the control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// At one moment.
    Whole,
    /// Requests first; verdicts may be much newer.
    Torn,
}

impl Bounds {
    /// Tasks of a worker.
    pub fn stages(&self) -> usize {
        match self.shape {
            Shape::Short => 2,
            Shape::Counted => 3,
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The receiver of a record on any edge: all are keyed.
    fn route(&self, record: Record, workers: usize) -> usize {
        self.keys[record.split][record.position] % workers
    }

    fn records(&self) -> Vec<Record> {
        let of = |split: usize| {
            (0..self.keys[split].len()).map(move |position| Record { split, position })
        };
        (0..SPLITS.len()).flat_map(of).collect()
    }

    fn splits(&self, me: usize, workers: usize) -> impl Iterator<Item = usize> {
        let owned = splits(SPLITS, me, workers).into_iter();
        owned.map(|name| SPLITS.iter().position(|other| *other == name).expect("it is one"))
    }
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The coordinator looks at its clock.
    Tick,
    /// A task reads the first half of the control word.
    Look(usize),
    /// timely runs a task; if it works, then on a batch of this sender, if there is one.
    Pass {
        /// The task.
        task: usize,
        /// The worker that sent the batch.
        sender: usize,
    },
    /// The writer writes what a worker has of a checkpoint.
    Write {
        /// The worker.
        worker: usize,
        /// The checkpoint.
        epoch: Epoch,
    },
    /// It cannot.
    WriteFails {
        /// The worker.
        worker: usize,
        /// The checkpoint.
        epoch: Epoch,
    },
    /// A transaction is prepared.
    Prepare(Handle),
    /// A transaction is committed, and the sink told.
    Commit(Handle),
    /// The manifest becomes durable.
    Publish,
    /// The coordinator hears of it.
    Tell,
    /// The process dies, and a new life restores the newest complete checkpoint.
    Crash,
}

/// A complete checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Manifest {
    /// Which.
    pub epoch: Epoch,
    /// Of the life that took it.
    pub workers: usize,
    /// One of each task.
    pub snapshots: Vec<Snapshot>,
    /// What each task has counted: its increments put together.
    pub counted: Vec<BTreeSet<Record>>,
}

/// What survives a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outside {
    /// The newest complete checkpoint.
    pub complete: Option<Manifest>,
    /// Transactions that the target has prepared.
    pub prepared: BTreeMap<Handle, Vec<Record>>,
    /// Transactions that are visible.
    pub committed: BTreeMap<Handle, Vec<Record>>,
}

impl Outside {
    fn visible(&self) -> impl Iterator<Item = Record> {
        self.committed.values().flatten().copied()
    }
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// What a crash wipes.
    pub life: Life,
    /// What it does not.
    pub outside: Outside,
    /// Writes that may still fail.
    pub aborts: u32,
    /// Crashes that may still come.
    pub restores: u32,
    /// The first claim that was broken.
    pub wrong: Option<String>,
}

impl World {
    /// The first life, about to begin.
    pub fn new(bounds: &Bounds) -> World {
        World {
            life: Life::new(bounds, 1, bounds.scale.old, Epoch(1)),
            outside: Outside::default(),
            aborts: bounds.aborts,
            restores: bounds.restores,
            wrong: None,
        }
    }

    /// All that may happen next.
    pub fn actions(&self, bounds: &Bounds) -> Vec<Action> {
        if self.wrong.is_some() || self.life.is_over {
            return vec![];
        }
        let mut actions = self.life.actions(bounds, self.aborts > 0);
        actions.extend((self.restores > 0).then_some(Action::Crash));
        actions
    }

    /// What it leads to; none if nothing changes.
    pub fn after(&self, bounds: &Bounds, action: Action) -> Option<World> {
        let mut next = self.clone();
        match action {
            Action::Crash => next.restore(bounds),
            Action::WriteFails { .. } => {
                next.aborts -= 1;
                next.act(bounds, action);
            }
            _ => next.act(bounds, action),
        }
        // A pass may find nothing to do; everything else is offered when it changes something.
        let is_idle = matches!(action, Action::Pass { .. }) && next == *self;
        (!is_idle).then_some(next)
    }

    /// Can it go on without a crash? If not, it has to be at its end, or at the newest epoch.
    pub fn is_stuck(&self, bounds: &Bounds) -> bool {
        let goes_on = |action: Action| match action {
            Action::Crash => false,
            Action::Pass { .. } => self.after(bounds, action).is_some(),
            _ => true,
        };
        let is_done = self.wrong.is_some() || self.life.has_ended(bounds);
        // From the last: those that always go on come after the passes.
        !is_done && !self.actions(bounds).into_iter().rev().any(goes_on)
    }

    /// Has this life come to its end, by itself and with everything committed?
    pub fn is_over(&self) -> bool {
        self.life.is_over
    }

    /// Is this not the first life?
    pub fn is_restored(&self) -> bool {
        self.life.generation > 1
    }

    fn act(&mut self, bounds: &Bounds, action: Action) {
        if let Err(wrong) = self.life.act(bounds, &mut self.outside, action) {
            self.wrong = Some(wrong);
        } else if self.life.is_over {
            self.wrong = self.at_the_end(bounds).err();
        }
    }

    /// Every record is visible once, and those of a key in order.
    fn at_the_end(&self, bounds: &Bounds) -> Result<(), String> {
        let mut visible: Vec<_> = self.outside.visible().collect();
        let mut positions = BTreeMap::new();
        for record in &visible {
            let key = bounds.keys[record.split][record.position];
            let last = positions.insert((key, record.split), record.position);
            claim(last < Some(record.position), || format!("order of key {key}: {visible:?}"))?;
        }
        visible.sort();
        claim(visible == bounds.records(), || format!("E6: {visible:?} are visible at the end"))?;
        claim(self.outside.prepared.is_empty(), || "E6: something is left prepared".into())
    }

    /// A crash and what follows: commit what is listed, abort the rest, give everybody its share.
    fn restore(&mut self, bounds: &Bounds) {
        self.restores -= 1;
        let outside = &mut self.outside;
        let listed: BTreeSet<Handle> =
            outside.complete.iter().flat_map(|m| &m.snapshots).flat_map(|s| s.listed()).collect();
        for handle in listed {
            match outside.prepared.remove(&handle) {
                Some(rows) => {
                    outside.committed.insert(handle, rows);
                }
                None if outside.committed.contains_key(&handle) => {} // repeated
                None => self.wrong = Some(format!("E6: {handle:?} is listed, and is not there")),
            }
        }
        outside.prepared.clear();
        let start = outside.complete.as_ref().map_or(Epoch(1), |manifest| manifest.epoch.next());
        let generation = self.life.generation + 1;
        self.life = Life::new(bounds, generation, bounds.scale.new, start);
        if let Some(manifest) = &outside.complete {
            let scale = Scale { old: manifest.workers, new: bounds.scale.new };
            for (index, task) in self.life.tasks.iter_mut().enumerate() {
                task.restore(bounds, manifest, (index / scale.new, index % scale.new), scale);
            }
        }
    }
}

/// The tasks of `stage` whose state a new worker reads.
fn holders(stage: usize, me: usize, scale: Scale) -> impl Iterator<Item = usize> {
    sources(EdgeKind::Keyed, me, scale).into_iter().map(move |old| stage * scale.old + old)
}

fn claim(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
