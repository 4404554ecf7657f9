//! A task of the model: a gate, an inbox, an outbox, and what its stage does with a record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use overtake::simulation::capture::Capture;
use overtake::simulation::gate::{Cut, Gate, Seen};
use overtake::simulation::plan::{EdgeKind, Place, Read, Scale, reads};
use overtake::simulation::time::Epoch;

use super::{Bounds, Fault, Handle, Manifest, POOL, Record, claim, holders};

/// A record on its way, with the epoch in which it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    /// The sender's epoch.
    pub(super) epoch: Epoch,
    pub(super) record: Record,
}

/// What the coordinator says to all tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Control {
    pub(super) trigger: Epoch,
    pub(super) overtake: Epoch,
    pub(super) aborted: Epoch,
    pub(super) completed: Epoch,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// Reads splits.
    Source,
    /// Remembers what has passed.
    Count,
    /// Writes transactions.
    Sink,
}

/// What a task hands over at a barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    pub(super) epoch: Epoch,
    pub(super) has_ended: bool,
    /// By split, of a source.
    pub(super) positions: BTreeMap<usize, usize>,
    /// What was counted since the cut `base`, or ever.
    pub(super) changed: BTreeSet<Record>,
    pub(super) base: Option<Epoch>,
    pub(super) restored: Vec<Record>,
    /// By sender.
    pub(super) inbox: Vec<Vec<Record>>,
    /// By receiver.
    pub(super) outbox: Vec<Vec<Record>>,
    pub(super) handles: BTreeSet<Handle>,
}

impl Snapshot {
    /// The transactions that it lists.
    pub fn listed(&self) -> impl Iterator<Item = Handle> {
        self.handles.iter().copied()
    }

    /// What it has of the edge that leads to the task.
    pub(super) fn received(&self) -> impl Iterator<Item = Record> {
        self.restored.iter().chain(self.inbox.iter().flatten()).copied()
    }
}

/// A transaction that a cut has closed, and its rows.
type Closed = (Handle, Vec<Record>);

/// One task on one worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    pub(super) stage: Stage,
    pub(super) index: usize,
    pub(super) gate: Gate,
    /// The first half of the control word, read and not yet acted upon.
    pub(super) looked: Option<Control>,
    /// The newest complete checkpoint of which a sink knows, and what it has confirmed.
    pub(super) completed: Epoch,
    pub(super) confirmed: Epoch,
    /// The newest abort that was seen.
    aborted: Epoch,
    pub(super) capture: Option<(Capture, Snapshot)>,
    pub(super) restored: VecDeque<Record>,
    /// By sender.
    pub(super) inbox: Vec<VecDeque<Batch>>,
    /// By receiver.
    pub(super) outbox: Vec<VecDeque<Record>>,
    /// Its capability stands at the maximum of event time.
    pub(super) has_ended: bool,
    positions: BTreeMap<usize, usize>,
    counted: BTreeSet<Record>,
    /// Counted since the last cut, and between cuts that are not yet complete.
    dirty: BTreeSet<Record>,
    frozen: BTreeMap<Epoch, BTreeSet<Record>>,
    base: Option<Epoch>,
    /// The open transaction, and those that are not yet confirmed.
    open: Vec<Record>,
    pub(super) handles: BTreeSet<Handle>,
}

impl Task {
    pub(super) fn new(bounds: &Bounds, index: usize, workers: usize, start: Epoch) -> Task {
        let (stage, me) = (index / workers, index % workers);
        let stage = match stage {
            0 => Stage::Source,
            last if last + 1 == bounds.stages() => Stage::Sink,
            _ => Stage::Count,
        };
        let owned = bounds.splits(me, workers).map(|split| (split, 0));
        Task {
            positions: if stage == Stage::Source { owned.collect() } else { BTreeMap::new() },
            stage,
            index,
            gate: Gate::new(start),
            looked: None,
            completed: start.previous(),
            confirmed: start.previous(),
            aborted: start.previous(),
            capture: None,
            restored: VecDeque::new(),
            inbox: vec![VecDeque::new(); if stage == Stage::Source { 0 } else { workers }],
            outbox: vec![VecDeque::new(); if stage == Stage::Sink { 0 } else { workers }],
            has_ended: false,
            counted: BTreeSet::new(),
            dirty: BTreeSet::new(),
            frozen: BTreeMap::new(),
            base: None,
            open: vec![],
            handles: BTreeSet::new(),
        }
    }

    /// Takes its share of a checkpoint, by the engine's own plan.
    pub(super) fn restore(
        &mut self,
        bounds: &Bounds,
        manifest: &Manifest,
        (stage, me): (usize, usize),
        scale: Scale,
    ) {
        let of = |stage: usize, worker: usize| &manifest.snapshots[stage * scale.old + worker];
        let is_mine = |record: &Record| bounds.route(*record, scale.new) == me;
        for old in holders(stage, me, scale) {
            for (split, position) in &manifest.snapshots[old].positions {
                self.positions.entry(*split).and_modify(|mine| *mine = *position);
            }
            self.counted.extend(manifest.counted[old].iter().filter(|record| is_mine(record)));
        }
        self.dirty = self.counted.clone();
        if self.stage == Stage::Source {
            return;
        }
        let mut plan = reads(EdgeKind::Keyed, me, scale);
        if bounds.has(Fault::PlanReversed) {
            plan.reverse();
        }
        for Read { place, is_shared } in plan {
            let piece = match place {
                Place::Restored { receiver } => &of(stage, receiver).restored,
                Place::Inbox { receiver, sender } => &of(stage, receiver).inbox[sender],
                Place::Outbox { receiver, sender } => &of(stage - 1, sender).outbox[receiver],
            };
            let is_shared = is_shared && !bounds.has(Fault::Unfiltered);
            self.restored.extend(piece.iter().filter(|record| !is_shared || is_mine(record)));
        }
    }

    /// Takes a batch out of a channel; one that an open capture misses goes into it too.
    pub(super) fn pull(&mut self, bounds: &Bounds, sender: usize, batch: Batch) {
        if let Some((capture, snapshot)) = &mut self.capture
            && capture.holds(batch.epoch)
            && !bounds.has(Fault::NoLateCapture)
        {
            snapshot.inbox[sender].push(batch.record);
        }
        self.inbox[sender].push_back(batch);
    }

    /// What was frozen since the last complete cut is dirty again (E9).
    pub(super) fn hear(&mut self, bounds: &Bounds, start: Epoch, verdict: Control) {
        let (aborted, completed) = (verdict.aborted, verdict.completed);
        let holds = |(capture, _): &mut (Capture, Snapshot)| match bounds.has(Fault::AbortsOne) {
            true => capture.epoch() == aborted,
            false => capture.is_aborted(aborted),
        };
        drop(self.capture.take_if(holds));
        if aborted > self.aborted && bounds.has(Fault::AbortsOne) {
            self.dirty.extend(self.frozen.remove(&aborted).unwrap_or_default());
        } else if aborted > self.aborted {
            self.base = (completed >= start).then_some(completed);
            for (_, changed) in self.frozen.split_off(&completed.next()) {
                self.dirty.extend(changed);
            }
        }
        self.aborted = self.aborted.max(aborted);
        self.frozen = self.frozen.split_off(&completed.next());
        if self.stage == Stage::Sink {
            self.completed = completed;
        }
    }

    pub(super) fn seen(&self, bounds: &Bounds, requests: Control, arriving: Epoch) -> Seen {
        let Control { trigger, overtake, .. } = requests;
        let epoch = self.gate.epoch();
        let requested = trigger.max(overtake);
        let barrier = if requested >= epoch { requested.next() } else { epoch };
        let is_outbox_empty = self.outbox.iter().all(VecDeque::is_empty);
        Seen {
            trigger,
            overtake,
            arriving: if self.stage == Stage::Source { barrier } else { arriving },
            is_ready: self.is_ready(bounds),
            is_drained: (is_outbox_empty || bounds.has(Fault::Undrained))
                && self.restored.is_empty()
                && self.inbox.iter().flatten().all(|batch| batch.epoch > epoch),
            is_blocked: !is_outbox_empty,
            is_dry: self.is_dry() && !bounds.has(Fault::DryWaits),
        }
    }

    fn is_dry(&self) -> bool {
        self.stage == Stage::Sink && self.open.is_empty() && self.handles.len() >= POOL
    }

    fn is_ready(&self, bounds: &Bounds) -> bool {
        match self.stage {
            Stage::Source => self.unread(bounds).is_some(),
            _ if self.is_dry() => false,
            _ => {
                !self.restored.is_empty()
                    || (0..self.inbox.len()).any(|sender| self.is_open(bounds, sender))
            }
        }
    }

    fn is_open(&self, bounds: &Bounds, sender: usize) -> bool {
        let is_open = |batch: &Batch| self.gate.is_open_for(batch.epoch);
        self.inbox[sender].front().is_some_and(|batch| is_open(batch) || bounds.has(Fault::NoGate))
    }

    /// The next record of a source: it reads one split after the other.
    fn unread(&self, bounds: &Bounds) -> Option<Record> {
        let unread = |(split, at): &(&usize, &usize)| **at < bounds.keys[**split].len();
        self.positions
            .iter()
            .find(unread)
            .map(|(split, position)| Record { split: *split, position: *position })
    }

    /// May it process a record now? A source stops at the barrier, but owes a slice between two.
    pub(super) fn may_work(&self, seen: &Seen) -> bool {
        let is_at_barrier = self.stage == Stage::Source
            && seen.trigger >= self.gate.epoch()
            && self.gate.may_cut(seen);
        seen.is_ready && !seen.is_blocked && !is_at_barrier
    }

    /// Processes one record, of `sender` if that has one.
    pub(super) fn work(
        &mut self,
        bounds: &Bounds,
        sender: usize,
        workers: usize,
    ) -> Result<(), String> {
        let record = match self.stage {
            Stage::Source => {
                let record = self.unread(bounds).expect("it is ready");
                self.positions.insert(record.split, record.position + 1);
                record
            }
            _ => self.take(bounds, sender)?,
        };
        self.gate.worked();
        match self.stage {
            Stage::Source => {}
            Stage::Count => {
                let is_new = self.counted.insert(record);
                claim(is_new, || format!("E4: {record:?} is counted twice"))?;
                self.dirty.insert(record);
            }
            Stage::Sink => self.open.push(record),
        }
        if self.stage != Stage::Sink {
            self.outbox[bounds.route(record, workers)].push_back(record);
        }
        Ok(())
    }

    fn take(&mut self, bounds: &Bounds, sender: usize) -> Result<Record, String> {
        if let Some(record) = self.restored.pop_front() {
            return Ok(record);
        }
        let any = (0..self.inbox.len()).map(|i| (sender + i) % self.inbox.len());
        let from = { any }.find(|sender| self.is_open(bounds, *sender)).expect("it is ready");
        let batch = self.inbox[from].pop_front().expect("it is open");
        claim(batch.epoch <= self.gate.epoch(), || format!("E2: {batch:?} in {:?}", self.gate))?;
        Ok(batch.record)
    }

    /// Takes the snapshot of `epoch`, unless its checkpoint was aborted already.
    pub(super) fn cut(
        &mut self,
        bounds: &Bounds,
        (generation, epoch, cut): (u64, Epoch, Cut),
        has_ended: bool,
    ) -> Option<(Snapshot, Option<Closed>)> {
        self.gate.passed(epoch);
        let is_void = match bounds.has(Fault::AbortsOne) {
            true => self.aborted == epoch,
            false => self.aborted >= epoch,
        };
        if is_void {
            return None;
        }
        let closed = (!self.open.is_empty()).then(|| {
            let handle = Handle { generation, epoch, task: self.index };
            self.handles.insert(handle);
            (handle, std::mem::take(&mut self.open))
        });
        let is_listed = |h: &&Handle| !bounds.has(Fault::DroppedHandles) || h.epoch == epoch;
        let (no_inbox, no_outbox) =
            (vec![vec![]; self.inbox.len()], vec![vec![]; self.outbox.len()]);
        let mut snapshot = Snapshot {
            epoch,
            has_ended,
            positions: self.positions.clone(),
            changed: self.dirty.clone(),
            base: self.base,
            restored: vec![],
            inbox: no_inbox,
            outbox: no_outbox,
            handles: self.handles.iter().filter(is_listed).copied().collect(),
        };
        if self.stage == Stage::Count {
            self.frozen.insert(epoch, std::mem::take(&mut self.dirty));
            self.base = Some(epoch);
        }
        if cut != Cut::Aligned {
            self.share(bounds, Capture::new(epoch), &mut snapshot);
        }
        Some((snapshot, closed))
    }

    /// What is in flight at the cut.
    fn share(&self, bounds: &Bounds, capture: Capture, snapshot: &mut Snapshot) {
        if !bounds.has(Fault::NoRestored) {
            snapshot.restored = self.restored.iter().copied().collect();
        }
        for (sender, batches) in self.inbox.iter().enumerate() {
            let held = batches.iter().filter(|batch| capture.holds(batch.epoch));
            snapshot.inbox[sender] = held.map(|batch| batch.record).collect();
        }
        if !bounds.has(Fault::NoOutbox) {
            let records = |records: &VecDeque<Record>| records.iter().copied().collect();
            snapshot.outbox = self.outbox.iter().map(records).collect();
        }
    }

    /// Nothing of its own is unread, unprocessed or unsent.
    pub(super) fn is_empty(&self, bounds: &Bounds) -> bool {
        let is_sent = self.outbox.iter().all(VecDeque::is_empty) || bounds.has(Fault::EndsUnsent);
        self.unread(bounds).is_none()
            && self.restored.is_empty()
            && self.inbox.iter().all(VecDeque::is_empty)
            && is_sent
    }
}
