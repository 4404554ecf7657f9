//! Stories of failures that other engines had, by their numbers, and then every order of events.
//!
//! [`World`] sits beside the coordinator, keeps its own account of what it was told and what it
//! said, and checks E5, E6, E9 and K1 to K3 after every event. The exhaustive tests visit every
//! state that two and three epochs of two tasks can reach, with stale events, repeated events and
//! lost ones, and from each of them let a willing world bring the job to its end.

use super::history::HISTORY_MAX;
use super::*;

mod every_order;
mod stories;

const SECOND: Duration = Duration::from_secs(1);
/// The two tasks of one worker.
const SOURCE: usize = 0;
const SINK: usize = 1;

fn schedule(mode: Mode) -> Schedule {
    Schedule {
        mode,
        interval: SECOND,
        pause_min: Duration::ZERO,
        timeout: 10 * SECOND,
        prepare_timeout: 20 * SECOND,
        publish_timeout: 30 * SECOND,
        commit_timeout: 40 * SECOND,
        failures_tolerated: 1,
    }
}

fn config(schedule: Option<Schedule>) -> Config {
    Config { tasks: 2, workers: 1, sinks: [SINK].into(), start: Epoch(1), schedule }
}

/// What a world knows of a checkpoint from the events that it sent and the effects that it got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Known {
    captured: BTreeSet<usize>,
    ended: BTreeSet<usize>,
    listed: BTreeSet<Epoch>,
    is_durable: bool,
    is_overtaken: bool,
    is_savepoint: bool,
    is_stop: bool,
    is_aborted: bool,
    is_publishing: bool,
    is_published: bool,
}

impl Known {
    fn is_under_way(&self) -> bool {
        !self.is_aborted && !self.is_published
    }
}

/// A coordinator, and somebody who checks every word of it.
#[derive(Clone, Debug, Hash)]
struct World {
    coordinator: Coordinator,
    now: Duration,
    /// From the first epoch of this life on.
    checkpoints: BTreeMap<Epoch, Known>,
    prepared: BTreeSet<Epoch>,
    committed: Epoch,
    failed_in_a_row: u32,
    verdict: Option<Effect>,
}

impl World {
    fn new(config: Config) -> World {
        World {
            now: Duration::ZERO,
            checkpoints: BTreeMap::new(),
            prepared: BTreeSet::new(),
            committed: config.start.previous(),
            failed_in_a_row: 0,
            verdict: None,
            coordinator: Coordinator::new(config),
        }
    }

    fn in_mode(mode: Mode) -> World {
        World::new(config(Some(schedule(mode))))
    }

    /// The newest epoch that was triggered.
    fn last(&self) -> Epoch {
        self.checkpoints.keys().last().copied().unwrap_or_default()
    }

    fn complete(&self) -> Epoch {
        let complete = self.checkpoints.iter().filter(|(_, known)| known.is_published);
        complete.map(|(epoch, _)| *epoch).next_back().unwrap_or(Epoch(0))
    }

    /// Transactions that a snapshot of the sink for `epoch` lists: one a cut, until confirmed.
    fn listed(&self, epoch: Epoch) -> Vec<Epoch> {
        (self.committed.0 + 1..=epoch.0).map(Epoch).collect()
    }

    // ---- what can happen ----

    fn send(&mut self, event: Event) -> Vec<Effect> {
        let is_tick = event == Event::Tick;
        self.note(&event);
        let effects = self.coordinator.on(self.now, event);
        assert!(self.verdict.is_none() || effects.is_empty(), "{effects:?} after the end");
        for effect in &effects {
            self.check(effect);
        }
        let deadline = self.coordinator.next_deadline();
        if self.coordinator.config.schedule.is_some() {
            assert_eq!(deadline.is_none(), self.verdict.is_some(), "K1");
        }
        assert!(
            !is_tick || deadline.is_none_or(|due| due > self.now),
            "K1: a tick leaves nothing due"
        );
        effects
    }

    fn wait(&mut self) -> Vec<Effect> {
        self.now = self.now.max(self.coordinator.next_deadline().expect("something is awaited"));
        self.send(Event::Tick)
    }

    fn captured(&mut self, task: usize, epoch: u64) -> Vec<Effect> {
        self.reported(task, epoch, false)
    }

    fn reported(&mut self, task: usize, epoch: u64, has_ended: bool) -> Vec<Effect> {
        let epoch = Epoch(epoch);
        let listed = if task == SINK { self.listed(epoch) } else { vec![] };
        self.send(Event::Captured(Report {
            task,
            worker: 0,
            epoch,
            cut: crate::checkpoint::gate::Cut::Aligned,
            has_ended,
            listed,
            base: epoch.previous(),
            stats: CutStats { captured: self.now, ..CutStats::default() },
        }))
    }

    fn durable(&mut self, epoch: u64) -> Vec<Effect> {
        self.send(Event::Durable { worker: 0, epoch: Epoch(epoch), at: self.now })
    }

    fn write_failed(&mut self, epoch: u64) -> Vec<Effect> {
        let why = "no space left".into();
        self.send(Event::WriteFailed { worker: 0, epoch: Epoch(epoch), why })
    }

    fn prepared(&mut self, epoch: u64) -> Vec<Effect> {
        let transaction = Transaction { task: SINK, epoch: Epoch(epoch) };
        self.send(Event::Prepared { transaction })
    }

    fn published(&mut self, epoch: u64) -> Vec<Effect> {
        self.send(Event::Published { epoch: Epoch(epoch) })
    }

    fn committed(&mut self, epoch: u64) -> Vec<Effect> {
        self.send(Event::Committed { task: SINK, epoch: Epoch(epoch) })
    }

    fn dry(&mut self, epoch: u64) -> Vec<Effect> {
        self.send(Event::Dry { task: SINK, epoch: Epoch(epoch) })
    }

    /// Everything that a checkpoint needs until it is asked to be published.
    fn write(&mut self, epoch: u64) -> Vec<Effect> {
        self.captured(SOURCE, epoch);
        self.captured(SINK, epoch);
        self.prepared(epoch);
        self.durable(epoch)
    }

    /// From the next trigger to the last confirmation.
    fn complete_one(&mut self) -> u64 {
        self.wait();
        let epoch = self.last().0;
        assert_eq!(self.write(epoch), [Effect::Publish(Epoch(epoch))]);
        assert_eq!(self.published(epoch), [Effect::Announce(Epoch(epoch))]);
        self.committed(epoch);
        epoch
    }

    // ---- what it means ----

    fn note(&mut self, event: &Event) {
        match event {
            Event::Captured(report) => {
                if let Some(known) = self.checkpoints.get_mut(&report.epoch) {
                    if known.captured.insert(report.task) && report.has_ended {
                        known.ended.insert(report.task);
                    }
                    known.listed.extend(&report.listed);
                }
            }
            Event::Durable { epoch, .. } => {
                if let Some(known) = self.checkpoints.get_mut(epoch) {
                    known.is_durable = true;
                }
            }
            Event::Prepared { transaction } => {
                self.prepared.insert(transaction.epoch);
            }
            Event::Published { epoch } => {
                if let Some(known) = self.checkpoints.get_mut(epoch) {
                    known.is_published |= known.is_publishing;
                    self.failed_in_a_row = 0;
                }
            }
            Event::Committed { epoch, .. } => self.committed = self.committed.max(*epoch),
            _ => {}
        }
    }

    fn check(&mut self, effect: &Effect) {
        match effect {
            Effect::Trigger(epoch) => self.check_trigger(*epoch),
            Effect::Overtake(epoch) => {
                let is_next = *epoch == self.coordinator.next.previous();
                assert!(is_next, "E9: overtake {epoch} when it is not open");
                let known = self.checkpoints.entry(*epoch).or_default();
                assert!(!known.is_savepoint, "K2: savepoint {epoch} is overtaken");
                assert!(!std::mem::replace(&mut known.is_overtaken, true), "overtaken twice");
            }
            Effect::Abort { from, to } => {
                self.failed_in_a_row += 1;
                assert_eq!(*to, self.last(), "E9: later ones are aborted with it");
                for (epoch, known) in self.checkpoints.range_mut(from..=to) {
                    assert!(!known.is_publishing, "E9: {epoch} is aborted while published");
                    known.is_aborted = true;
                }
            }
            Effect::Publish(epoch) => self.check_publish(*epoch),
            Effect::Announce(epoch) => {
                assert!(self.checkpoints[epoch].is_published, "E6: {epoch} is not known durable");
                assert_eq!(*epoch, self.complete(), "E5: out of order");
            }
            Effect::Stop => {
                let is_last = |known: &Known| known.is_stop || known.ended.len() == 2;
                let mut complete = self.checkpoints.iter().filter(|(_, known)| known.is_published);
                let last = complete.find(|(_, known)| is_last(known)).map(|(epoch, _)| *epoch);
                let is_off = self.coordinator.config.schedule.is_none();
                assert!(is_off || last.is_some_and(|last| last <= self.committed), "K3");
                self.verdict = Some(effect.clone());
            }
            Effect::Fail(failure) => {
                if let Failure::Checkpoints { failed, .. } = failure {
                    assert_eq!(*failed, self.failed_in_a_row + 1, "E9: runs that failed");
                }
                self.verdict = Some(effect.clone());
            }
        }
    }

    fn check_trigger(&mut self, epoch: Epoch) {
        let request = self.coordinator.under_way().next_back().and_then(|report| report.request);
        let before = self.checkpoints.range(..epoch).filter(|(_, known)| known.is_under_way());
        let before: Vec<_> = before.collect();
        for (earlier, known) in &before {
            assert_eq!(known.captured.len(), 2, "E9: {epoch} while {earlier} is captured");
        }
        assert!(before.len() < UNDER_WAY_MAX, "E9: {epoch} is one too many");
        if request.is_some_and(Request::is_savepoint) {
            assert!(
                before.is_empty() && self.committed.next() == epoch,
                "K2: {epoch} is too early"
            );
        }
        let known = self.checkpoints.entry(epoch).or_default();
        assert!(known.captured.is_empty(), "E9: {epoch} is triggered twice");
        known.is_savepoint = request.is_some_and(Request::is_savepoint);
        known.is_stop = request.is_some_and(Request::is_last);
        assert!(!known.is_savepoint || !known.is_overtaken, "K2: savepoint {epoch} is overtaken");
    }

    fn check_publish(&mut self, epoch: Epoch) {
        for (earlier, known) in self.checkpoints.range(..epoch) {
            assert!(!known.is_under_way() || known.is_publishing, "E5: {epoch} before {earlier}");
        }
        let known = self.checkpoints.get_mut(&epoch).expect("E9: it was triggered");
        assert!(!known.is_aborted, "E9: aborted {epoch} is published");
        assert_eq!(known.captured.len(), 2, "E5: {epoch} is not captured");
        assert!(known.is_durable, "E5: {epoch} is not durable");
        let unprepared = known.listed.difference(&self.prepared);
        let unprepared: Vec<_> = unprepared.filter(|epoch| **epoch > self.committed).collect();
        assert!(unprepared.is_empty(), "E5: {epoch} lists {unprepared:?}, which are not prepared");
        assert!(!std::mem::replace(&mut known.is_publishing, true), "E5: {epoch} published twice");
    }
}
