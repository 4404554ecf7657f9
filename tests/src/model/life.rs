//! One life of the model: tasks and channels, the coordinator, and who obeys it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use overtake::simulation::capture::Capture;
use overtake::simulation::coordinator::{
    Config, Coordinator, CutStats, Effect, Event, Report, Schedule, Transaction,
};
use overtake::simulation::gate::Cut;
use overtake::simulation::time::Epoch;

use super::task::{Batch, Control, Stage};
use super::{Action, Bounds, CREDIT, Fault, Handle, Manifest, Outside, Reading, Record, Snapshot};
use super::{Task, claim};

/// Longer than any exploration.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// What a crash wipes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    pub(super) generation: u64,
    pub(super) tasks: Vec<Task>,
    pub(super) is_over: bool,
    workers: usize,
    start: Epoch,
    /// By edge, sender and receiver: sent and not pulled.
    wires: Vec<VecDeque<Batch>>,
    control: Control,
    coordinator: Coordinator,
    now: Duration,
    /// Handed over, by checkpoint and task, until they are published or aborted.
    snapshots: BTreeMap<(Epoch, usize), Snapshot>,
    /// Workers whose segment is on disk.
    durable: BTreeSet<(Epoch, usize)>,
    preparing: BTreeMap<Handle, Vec<Record>>,
    /// Asked for, in order; and there, but the coordinator has not heard of it.
    publishing: VecDeque<Epoch>,
    untold: VecDeque<Epoch>,
    /// What had been counted at each complete cut.
    counted: BTreeMap<Epoch, Vec<BTreeSet<Record>>>,
}

impl Life {
    pub(super) fn new(bounds: &Bounds, generation: u64, workers: usize, start: Epoch) -> Life {
        let tasks = bounds.stages() * workers;
        let restored = start.previous();
        let schedule = Schedule {
            mode: bounds.mode,
            interval: Duration::ZERO,
            pause_min: Duration::ZERO,
            timeout: NEVER,
            prepare_timeout: NEVER,
            publish_timeout: NEVER,
            commit_timeout: NEVER,
            failures_tolerated: u32::MAX,
        };
        Life {
            generation,
            tasks: (0..tasks).map(|index| Task::new(bounds, index, workers, start)).collect(),
            is_over: false,
            workers,
            start,
            wires: vec![VecDeque::new(); (bounds.stages() - 1) * workers * workers],
            control: Control {
                trigger: restored,
                overtake: restored,
                aborted: restored,
                completed: restored,
            },
            coordinator: Coordinator::new(Config {
                tasks,
                workers,
                sinks: (tasks - workers..tasks).collect(),
                start,
                schedule: Some(schedule),
            }),
            now: Duration::ZERO,
            snapshots: BTreeMap::new(),
            durable: BTreeSet::new(),
            preparing: BTreeMap::new(),
            publishing: VecDeque::new(),
            untold: VecDeque::new(),
            counted: BTreeMap::new(),
        }
    }

    pub(super) fn actions(&self, bounds: &Bounds, may_fail: bool) -> Vec<Action> {
        let mut actions = vec![];
        let is_soon = self.coordinator.next_deadline().is_some_and(|due| due < NEVER);
        if is_soon && self.control.trigger.0 < bounds.epochs {
            actions.push(Action::Tick);
        }
        for task in 0..self.tasks.len() {
            let is_torn = bounds.reading == Reading::Torn && self.tasks[task].looked.is_none();
            if is_torn {
                actions.push(Action::Look(task));
            } else {
                actions.extend(self.choices(task).map(|sender| Action::Pass { task, sender }));
            }
        }
        for epoch in self.snapshots.keys().map(|(epoch, _)| *epoch).collect::<BTreeSet<_>>() {
            for worker in 0..self.workers {
                if self.is_whole(epoch, worker) && !self.durable.contains(&(epoch, worker)) {
                    actions.push(Action::Write { worker, epoch });
                    actions.extend(may_fail.then_some(Action::WriteFails { worker, epoch }));
                }
            }
        }
        actions.extend(self.preparing.keys().copied().map(Action::Prepare));
        actions.extend(self.committable(bounds).map(Action::Commit));
        // The publisher tells of one before it begins the next.
        let is_free = self.untold.is_empty() || bounds.has(Fault::EarlyAnnouncement);
        actions.extend((!self.untold.is_empty()).then_some(Action::Tell));
        actions.extend((is_free && !self.publishing.is_empty()).then_some(Action::Publish));
        actions
    }

    /// The senders among which a task may choose; the first, if there is nothing to choose.
    fn choices(&self, task: usize) -> impl Iterator<Item = usize> {
        let has_sent = move |sender: &usize| {
            !self.tasks[task].inbox[*sender].is_empty()
                || !self.wires[self.wire(task, *sender)].is_empty()
        };
        let senders = (0..self.tasks[task].inbox.len()).filter(has_sent);
        senders.clone().chain(senders.clone().next().is_none().then_some(0))
    }

    /// All is committed; or the newest epoch was triggered, and nothing is under way.
    pub(super) fn has_ended(&self, bounds: &Bounds) -> bool {
        let is_at_bound = self.control.trigger.0 >= bounds.epochs;
        self.is_over || (is_at_bound && self.coordinator.under_way().next().is_none())
    }

    fn is_whole(&self, epoch: Epoch, worker: usize) -> bool {
        let mut of_worker = (worker..self.tasks.len()).step_by(self.workers);
        of_worker.all(|task| self.snapshots.contains_key(&(epoch, task)))
    }

    /// What sinks would commit, as far as they know.
    fn committable(&self, bounds: &Bounds) -> impl Iterator<Item = Handle> {
        let is_early = bounds.has(Fault::EarlyCommit);
        self.tasks.iter().flat_map(move |task| {
            let may = move |handle: &&Handle| {
                let is_prepared = !self.preparing.contains_key(handle);
                handle.epoch <= task.completed || (is_early && is_prepared)
            };
            task.handles.iter().filter(may).copied()
        })
    }

    pub(super) fn act(
        &mut self,
        bounds: &Bounds,
        outside: &mut Outside,
        action: Action,
    ) -> Result<(), String> {
        match action {
            Action::Tick => {
                let due = self.coordinator.next_deadline().expect("it is soon");
                self.now = self.now.max(due);
                self.report(bounds, Event::Tick)
            }
            Action::Look(task) => {
                self.tasks[task].looked = Some(self.control);
                Ok(())
            }
            Action::Pass { task, sender } => self.pass(bounds, task, sender),
            Action::Write { worker, epoch } => {
                self.durable.insert((epoch, worker));
                self.report(bounds, Event::Durable { worker, epoch, at: self.now })
            }
            Action::WriteFails { worker, epoch } => {
                let why = "full".into();
                self.report(bounds, Event::WriteFailed { worker, epoch, why })
            }
            Action::Prepare(handle) => {
                let rows = self.preparing.remove(&handle).expect("it is being prepared");
                outside.prepared.insert(handle, rows);
                let transaction = Transaction { task: handle.task, epoch: handle.epoch };
                self.report(bounds, Event::Prepared { transaction })
            }
            Action::Commit(handle) => self.commit(outside, handle),
            Action::Publish => self.publish(bounds, outside),
            Action::Tell => {
                let epoch = self.untold.pop_front().expect("there is something to tell");
                self.report(bounds, Event::Published { epoch })
            }
            Action::Crash => unreachable!("the world does that"),
        }
    }

    fn report(&mut self, bounds: &Bounds, event: Event) -> Result<(), String> {
        for effect in self.coordinator.on(self.now, event) {
            match effect {
                Effect::Trigger(epoch) => self.control.trigger = epoch,
                Effect::Overtake(epoch) => self.control.overtake = epoch,
                Effect::Abort { from, to } => {
                    let to = if bounds.has(Fault::AbortsOne) { from } else { to };
                    self.control.aborted = to;
                    self.snapshots.retain(|(epoch, _), _| *epoch < from || *epoch > to);
                    self.durable.retain(|(epoch, _)| *epoch < from || *epoch > to);
                }
                Effect::Publish(epoch) if bounds.has(Fault::EarlyAnnouncement) => {
                    self.publishing.push_back(epoch);
                    self.untold.push_back(epoch);
                }
                Effect::Publish(epoch) => self.publishing.push_back(epoch),
                Effect::Announce(epoch) => self.control.completed = epoch,
                Effect::Stop => self.is_over = true,
                Effect::Fail(failure) => return Err(format!("the job failed: {failure}")),
            }
        }
        Ok(())
    }

    // ---- a pass of a task ----

    fn pass(&mut self, bounds: &Bounds, index: usize, sender: usize) -> Result<(), String> {
        let looked = self.tasks[index].looked.take().unwrap_or(self.control);
        let (requests, verdict) = match bounds.has(Fault::ReadOrder) {
            true => (self.control, looked),
            false => (looked, self.control),
        };
        self.pull(bounds, index);
        let start = self.start;
        self.tasks[index].hear(bounds, start, verdict);
        self.confirm(bounds, index)?;

        let arriving = self.arriving(index);
        let seen = self.tasks[index].seen(bounds, requests, arriving);
        let overtaking = self.tasks[index].gate.before_work(&seen);
        if let Some((epoch, cut)) = overtaking {
            self.cut(bounds, index, epoch, cut)?;
        }
        self.complete_capture(bounds, index)?;
        if overtaking.is_none() && self.tasks[index].may_work(&seen) {
            self.tasks[index].work(bounds, sender, self.workers)?;
        }
        self.flush(bounds, index);
        let has_ended = self.has_task_ended(bounds, index);
        self.tasks[index].has_ended |= has_ended;
        while overtaking.is_none() {
            let seen = self.tasks[index].seen(bounds, requests, arriving);
            let Some((epoch, cut)) = self.tasks[index].gate.after_work(&seen) else { break };
            self.cut(bounds, index, epoch, cut)?;
        }
        Ok(())
    }

    fn pull(&mut self, bounds: &Bounds, index: usize) {
        let senders = self.tasks[index].inbox.len();
        for sender in 0..senders {
            let wire = self.wire(index, sender);
            while let Some(batch) = self.wires[wire].pop_front() {
                self.tasks[index].pull(bounds, sender, batch);
            }
        }
    }

    /// The channel from a worker to this task.
    fn wire(&self, index: usize, sender: usize) -> usize {
        let (stage, me) = (index / self.workers, index % self.workers);
        ((stage - 1) * self.workers + sender) * self.workers + me
    }

    /// The tasks that send to this one, and all that is on its way on that edge: timely's frontier
    /// does not know for which worker a batch is.
    fn upstream(&self, index: usize) -> (&[Task], impl Iterator<Item = &Batch>) {
        let (stage, n) = (index / self.workers, self.workers);
        match stage.checked_sub(1) {
            Some(edge) => (
                &self.tasks[edge * n..stage * n],
                self.wires[edge * n * n..stage * n * n].iter().flatten(),
            ),
            None => (&[], self.wires[..0].iter().flatten()),
        }
    }

    /// The least epoch that can still arrive.
    fn arriving(&self, index: usize) -> Epoch {
        let (senders, batches) = self.upstream(index);
        let epochs = senders.iter().map(|task| task.gate.epoch());
        epochs.chain(batches.map(|batch| batch.epoch)).min().unwrap_or(Epoch::MAX)
    }

    /// Its inputs stand at the end of event time, and it has nothing left.
    fn has_task_ended(&self, bounds: &Bounds, index: usize) -> bool {
        let (senders, mut batches) = self.upstream(index);
        let is_told = senders.iter().all(|task| task.has_ended) && batches.next().is_none();
        is_told && self.tasks[index].is_empty(bounds)
    }

    fn flush(&mut self, bounds: &Bounds, index: usize) {
        let (stage, me) = (index / self.workers, index % self.workers);
        for receiver in 0..self.tasks[index].outbox.len() {
            let to = (stage + 1) * self.workers + receiver;
            let wire = self.wire(to, me);
            while self.wires[wire].len() + self.tasks[to].inbox[me].len() < CREDIT {
                let task = &mut self.tasks[index];
                let Some(record) = task.outbox[receiver].pop_front() else { break };
                let epoch = match &task.capture {
                    Some((capture, _)) if bounds.has(Fault::OldStamp) => capture.epoch(),
                    _ => task.gate.epoch(),
                };
                self.wires[wire].push_back(Batch { epoch, record });
            }
        }
    }

    fn cut(&mut self, bounds: &Bounds, index: usize, epoch: Epoch, cut: Cut) -> Result<(), String> {
        if cut == Cut::Aligned {
            self.check_aligned(index, epoch)?;
        }
        if cut == Cut::Dry {
            self.report(bounds, Event::Dry { task: index, epoch })?;
        }
        let has_ended = self.has_task_ended(bounds, index);
        let at = (self.generation, epoch, cut);
        let Some((snapshot, closed)) = self.tasks[index].cut(bounds, at, has_ended) else {
            return Ok(());
        };
        self.preparing.extend(closed);
        if cut == Cut::Aligned || bounds.has(Fault::CapturedAtOnce) {
            return self.hand_over(bounds, index, cut, snapshot);
        }
        self.tasks[index].capture = Some((Capture::new(epoch), snapshot));
        Ok(())
    }

    /// E3: all batches of epochs up to the cut are processed, and their outputs sent.
    fn check_aligned(&self, index: usize, epoch: Epoch) -> Result<(), String> {
        let task = &self.tasks[index];
        let wires = (0..task.inbox.len()).flat_map(|sender| &self.wires[self.wire(index, sender)]);
        let is_unprocessed = task.inbox.iter().flatten().chain(wires).any(|b| b.epoch <= epoch);
        let is_unsent = task.outbox.iter().any(|records| !records.is_empty());
        let is_done = !is_unprocessed && !is_unsent && task.restored.is_empty();
        claim(is_done, || format!("E3: task {index} cuts {epoch} and is not done"))
    }

    fn complete_capture(&mut self, bounds: &Bounds, index: usize) -> Result<(), String> {
        let arriving = self.arriving(index);
        let is_complete = |(capture, _): &mut (Capture, _)| capture.is_complete(arriving);
        match self.tasks[index].capture.take_if(is_complete) {
            Some((_, snapshot)) => self.hand_over(bounds, index, Cut::Overtaken, snapshot),
            None => Ok(()),
        }
    }

    fn hand_over(
        &mut self,
        bounds: &Bounds,
        task: usize,
        cut: Cut,
        snapshot: Snapshot,
    ) -> Result<(), String> {
        let epoch = snapshot.epoch;
        let listed = match bounds.has(Fault::Unlisted) {
            true => vec![],
            false => snapshot.listed().map(|handle| handle.epoch).collect(),
        };
        let (worker, has_ended) = (task % self.workers, snapshot.has_ended);
        self.snapshots.insert((epoch, task), snapshot);
        let (base, stats) = (epoch, CutStats::default());
        let report = Report { task, worker, epoch, cut, has_ended, listed, base, stats };
        self.report(bounds, Event::Captured(report))
    }

    // ---- publishing and committing ----

    fn publish(&mut self, bounds: &Bounds, outside: &mut Outside) -> Result<(), String> {
        let epoch = self.publishing.pop_front().expect("something is to be published");
        let tasks = self.tasks.len();
        let snapshots: Vec<_> =
            (0..tasks).filter_map(|task| self.snapshots.get(&(epoch, task)).cloned()).collect();
        claim(snapshots.len() == tasks, || format!("E5: a snapshot of {epoch} is missing"))?;
        let is_durable = (0..self.workers).all(|worker| self.durable.contains(&(epoch, worker)));
        claim(is_durable, || format!("E5: a segment of {epoch} is not durable"))?;
        let mut counted = vec![];
        for (task, snapshot) in snapshots.iter().enumerate() {
            let mut all = match snapshot.base.map(|base| (base, self.counted.get(&base))) {
                None => BTreeSet::new(),
                Some((_, Some(base))) => base[task].clone(),
                Some((base, None)) => {
                    return Err(format!("E9: {epoch} builds on {base}, which is not complete"));
                }
            };
            all.extend(&snapshot.changed);
            counted.push(all);
        }
        let manifest = Manifest { epoch, workers: self.workers, snapshots, counted };
        self.check_cut(bounds, outside, &manifest)?;
        self.snapshots.retain(|(other, _), _| *other > epoch);
        self.durable.retain(|(other, _)| *other > epoch);
        self.counted.insert(epoch, manifest.counted.clone());
        outside.complete = Some(manifest);
        if !bounds.has(Fault::EarlyAnnouncement) {
            self.untold.push_back(epoch);
        }
        Ok(())
    }

    /// E4 and E5: what the positions say was read is visible, listed or in flight, once; and what
    /// was counted is what has passed the count.
    fn check_cut(
        &self,
        bounds: &Bounds,
        outside: &Outside,
        manifest: &Manifest,
    ) -> Result<(), String> {
        let Manifest { epoch, snapshots, .. } = manifest;
        let mut found: Vec<Record> = outside.visible().collect();
        for handle in snapshots.iter().flat_map(Snapshot::listed) {
            match outside.prepared.get(&handle) {
                Some(rows) => found.extend(rows),
                None if outside.committed.contains_key(&handle) => {}
                None => return Err(format!("E5: {epoch} lists {handle:?}, which is not prepared")),
            }
        }
        let n = self.workers;
        for edge in (0..bounds.stages() - 1).rev() {
            let (senders, receivers) = (&snapshots[edge * n..], &snapshots[(edge + 1) * n..]);
            found.extend(receivers[..n].iter().flat_map(Snapshot::received));
            found.extend(senders[..n].iter().flat_map(|s| &s.outbox).flatten());
            if self.tasks[edge * n].stage == Stage::Count {
                let mut passed = found.clone();
                passed.sort();
                let mut counted: Vec<_> = manifest.counted.iter().flatten().copied().collect();
                counted.sort();
                let says = || format!("E4: {counted:?} are counted in {epoch}, {passed:?} passed");
                claim(counted == passed, says)?;
            }
        }
        found.sort();
        let positions = snapshots[..n].iter().flat_map(|snapshot| &snapshot.positions);
        let read = positions
            .flat_map(|(split, end)| (0..*end).map(|position| Record { split: *split, position }));
        let mut read: Vec<_> = read.collect();
        read.sort();
        claim(read == found, || format!("E4: {epoch} has read {read:?}, {found:?} are found"))
    }

    /// E6: after its checkpoint is complete. A commit and its confirmation are one step.
    fn commit(&mut self, outside: &mut Outside, handle: Handle) -> Result<(), String> {
        let complete = outside.complete.as_ref().map(|manifest| manifest.epoch);
        claim(complete >= Some(handle.epoch), || format!("E6: {handle:?} is committed too early"))?;
        let rows = outside.prepared.remove(&handle);
        let rows = rows.ok_or_else(|| format!("E6: {handle:?} is committed and not prepared"))?;
        outside.committed.insert(handle, rows);
        self.tasks[handle.task].handles.remove(&handle);
        Ok(())
    }

    /// A sink reports when all is confirmed up to the newest checkpoint that it knows.
    fn confirm(&mut self, bounds: &Bounds, index: usize) -> Result<(), String> {
        let task = &mut self.tasks[index];
        let epoch = task.completed;
        let is_open = task.handles.iter().any(|handle| handle.epoch <= epoch);
        if is_open || task.stage != Stage::Sink || epoch <= task.confirmed {
            return Ok(());
        }
        task.confirmed = epoch;
        self.report(bounds, Event::Committed { task: index, epoch })
    }
}
