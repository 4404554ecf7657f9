//! The task: it hosts a fused chain on a worker, and drives it through the protocol.
//!
//! timely calls [`Task::pass`] whenever the task is active. A pass looks at the control word, pulls
//! everything, cuts if the gate says so, works for a slice, sends, and goes idle only after it has
//! armed its wake-up and looked once more.
//!
//! # Invariants
//!
//! * **E1–E4**: see [`gate`](crate::checkpoint::gate) and [`capture`](crate::checkpoint::capture).
//! * **E7**: the event part of the capability moves only when every input has ended, nothing is
//!   unprocessed and nothing unsent: no output is late because of the engine.
//! * **P1**: whoever overtakes processes nothing more in that pass, so that the other tasks on its
//!   worker get to their cuts.
//! * **P2**: a request that was seen and not served is work: the task asks to run again.
//! * **P3**: an input is told that it has ended once in every life, after its restored data.
//!
//! Not here: what is decided at a barrier (`checkpoint/gate.rs`), what the chain does (`chain.rs`).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use overtake_state::States;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::InputHandleCore;
use timely::progress::frontier::MutableAntichain;

use crate::channel::batch::Ticket;
use crate::channel::inbox::InPort;
use crate::channel::outbox::Partial;
use crate::channel::pact::AnyPull;
use crate::channel::wake::Wake;
use crate::checkpoint::capture::Capture;
use crate::checkpoint::control::View;
use crate::checkpoint::coordinator::{CutStats, Event, Report};
use crate::checkpoint::gate::{Cut, Gate, Seen};
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::time::{EVENT_MAX, EVENT_MIN, Epoch, Time};
use crate::error::{BoxError, Error};
use crate::operator::chain::Logic;
use crate::operator::slice::{Chunk, Slice, Turn};
use crate::runtime::life::{Life, Memory};
use crate::sync::{self, Fault, Padded, fault};

/// An input of a task: where its batches arrive, and what timely says of its frontier.
pub(crate) struct Input {
    pub(crate) port: Rc<dyn InPort>,
    pub(crate) handle: InputHandleCore<Time, Ticket, AnyPull>,
    /// The least epoch and event time that can still arrive.
    pub(crate) arriving: Time,
    pub(crate) is_told: bool,
}

/// What the task tells its worker after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is more to do.
    Again,
    /// Nothing, until somebody wakes it, or until this time.
    Wait(Option<Duration>),
}

/// A chain, its ports and its state on one worker.
pub(crate) struct Task {
    /// Counted over all workers.
    index: usize,
    worker: usize,
    life: Arc<Life>,
    wake: Arc<Padded<Wake>>,
    logic: Box<dyn Logic>,
    inputs: Vec<Input>,
    states: States,
    gate: Gate,
    view: View,
    event: i64,
    /// When the request that is not served yet was seen.
    asked: Option<Duration>,
    capturing: Option<(Capture, Snapshot)>,
    chunk: Chunk,
    processed: u64,
    has_reported_end: bool,
    is_draining: bool,
    memory: Memory,
}

impl Task {
    pub(crate) fn new(
        index: usize,
        worker: usize,
        life: &Arc<Life>,
        logic: Box<dyn Logic>,
        inputs: Vec<Input>,
        states: States,
    ) -> Task {
        let start = life.start();
        Task {
            index,
            worker,
            life: life.clone(),
            wake: life.wake(index).clone(),
            logic,
            inputs,
            states,
            gate: Gate::new(start),
            view: View::new(start.previous()),
            event: EVENT_MIN,
            asked: None,
            capturing: None,
            chunk: Chunk::new(),
            processed: 0,
            has_reported_end: false,
            is_draining: false,
            memory: Memory::default(),
        }
    }

    /// Takes the capabilities of the output ports, and moves them to the first epoch.
    pub(crate) fn hold(&mut self, capabilities: Vec<Capability<Time>>) {
        let mut capabilities = capabilities.into_iter();
        self.logic.outboxes(&mut |outbox| {
            outbox.hold(capabilities.next().expect("timely mints one capability for each port"));
        });
        self.downgrade();
    }

    fn is_source(&self) -> bool {
        self.inputs.is_empty()
    }

    /// One activation.
    ///
    /// # Errors
    ///
    /// What an operator, a source or a sink says; the job stops.
    pub(crate) fn pass(&mut self, frontiers: &[MutableAntichain<Time>]) -> Result<Next, BoxError> {
        self.wake.disarm();
        self.wake.take_signal();
        self.life.control.look(&mut self.view);
        if self.life.control.is_stopping() {
            return Ok(Next::Wait(None));
        }
        self.logic.woken();
        if self.is_source() && self.life.control.is_draining() && !self.is_draining {
            self.is_draining = true;
            self.logic.drain();
        }
        self.life.looks(self.index).answer(&self.states);
        self.see(frontiers);
        self.pull();
        self.settle();
        sync::yield_point();
        if self.capturing.as_ref().is_some_and(|(c, _)| c.is_aborted(self.view.aborted)) {
            self.capturing = None;
            self.inputs.iter().for_each(|input| drop(input.port.close_capture()));
        }

        let seen = self.seen();
        let overtaking = self.gate.before_work(&seen);
        if let Some((epoch, cut)) = overtaking {
            self.cut(epoch, cut)?;
        }
        self.complete_capture();
        if overtaking.is_none() {
            self.work()?;
            self.life.set_processed(self.index, self.processed);
        }
        self.tell_memory()?;
        sync::yield_point();
        self.flush();
        self.tell();
        while overtaking.is_none() {
            let seen = self.seen();
            let Some((epoch, cut)) = self.gate.after_work(&seen) else { break };
            self.cut(epoch, cut)?;
        }
        self.report_end();
        Ok(self.next(overtaking.is_some()))
    }

    /// Tells what it takes of memory, and fails if all tasks together take more than they may.
    fn tell_memory(&mut self) -> Result<(), BoxError> {
        let mut in_flight: usize = self.inputs.iter().map(|input| input.port.bytes()).sum();
        self.logic.outboxes(&mut |outbox| in_flight += outbox.bytes());
        let now =
            Memory { state_bytes: self.states.memory() as u64, in_flight_bytes: in_flight as u64 };
        if now == self.memory {
            return Ok(());
        }
        self.life.set_memory(self.index, now);
        let has_grown = now.state_bytes > std::mem::replace(&mut self.memory, now).state_bytes;
        let allowed = self.life.limits.state_bytes_max;
        let bytes = if has_grown { self.life.memory().state_bytes } else { 0 };
        if bytes <= allowed {
            return Ok(());
        }
        let (name, worker) = self.life.name(self.index);
        Err(Error::StateFull { name: name.to_owned(), worker, bytes, allowed }.into())
    }

    /// Reads the frontiers: the least that can still arrive on each input.
    fn see(&mut self, frontiers: &[MutableAntichain<Time>]) {
        for (input, frontier) in self.inputs.iter_mut().zip(frontiers) {
            let times = frontier.frontier();
            let epoch = times.iter().map(|time| time.epoch).min().unwrap_or(Epoch::MAX);
            let event = times.iter().map(|time| time.event).min().unwrap_or(EVENT_MAX);
            input.arriving = Time::new(epoch, event);
        }
    }

    /// Pulls everything that has arrived into the inboxes; open captures record what is theirs.
    fn pull(&mut self) {
        for input in &mut self.inputs {
            input.handle.for_each(|_, _| {});
        }
    }

    fn settle(&mut self) {
        let completed = self.view.completed;
        if let Some(epoch) = self.logic.sink().and_then(|sink| sink.settle(completed)) {
            self.life.events.push(Event::Committed { task: self.index, epoch });
        }
    }

    /// What the gate is asked with.
    fn seen(&mut self) -> Seen {
        let now = self.life.clock.now();
        let epoch = self.gate.epoch();
        let requested = self.view.trigger.max(self.view.overtake);
        let arriving = if self.is_source() {
            if requested >= epoch { requested.next() } else { epoch }
        } else {
            self.inputs.iter().map(|input| input.arriving.epoch).min().unwrap_or(Epoch::MAX)
        };
        if requested >= epoch && self.asked.is_none() {
            self.asked = Some(now);
        }
        let is_dry = self.is_dry();
        let is_drained =
            self.inputs.iter().all(|input| input.port.is_drained(epoch)) && self.is_outbox_empty();
        Seen {
            trigger: self.view.trigger,
            overtake: self.view.overtake,
            arriving,
            is_ready: !is_dry && self.logic.is_ready(&self.gate, now),
            is_drained,
            is_blocked: self.is_blocked(),
            is_dry,
        }
    }

    fn is_dry(&mut self) -> bool {
        self.logic.sink().is_some_and(|sink| sink.is_dry())
    }

    fn is_blocked(&self) -> bool {
        self.logic.is_blocked()
    }

    fn is_outbox_empty(&mut self) -> bool {
        let mut is_empty = true;
        self.logic.outboxes(&mut |outbox| is_empty &= outbox.is_empty());
        is_empty
    }

    /// May it process a record now? A source stops at the barrier, but owes a slice between two.
    fn may_work(&mut self, seen: &Seen) -> bool {
        let is_at_barrier =
            self.is_source() && self.view.trigger >= self.gate.epoch() && self.gate.may_cut(seen);
        seen.is_ready && !seen.is_blocked && !is_at_barrier
    }

    /// Processes for one slice, in chunks; after each it looks at the clock and the control word.
    fn work(&mut self) -> Result<(), BoxError> {
        let limits = &self.life.limits;
        let (budget, quantum) = (limits.slice, limits.source_quantum);
        let mut seen = self.seen();
        let mut now = self.life.clock.now();
        let mut slice = Slice::start(now, budget);
        let mut done_in_pass = 0;
        while self.may_work(&seen) {
            let limit = self.chunk.records();
            let version = self.view.version;
            let position = Position {
                life: &self.life,
                task: self.index,
                before: self.processed,
                done: Cell::new(0),
            };
            let (gate, control) = (&self.gate, &self.life.control);
            let turn = Turn { limit, now, gate, control, version, done: &position.done };
            let done = self.logic.work(&turn)?;
            drop(position);
            if done > 0 {
                assert!(self.event < EVENT_MAX, "E7: a record was processed after the end");
                self.gate.worked();
                self.processed += done as u64;
                done_in_pass += done;
                self.send(Partial::Keep);
            }
            now = self.life.clock.now();
            let is_over = slice.is_over(now, done, &mut self.chunk);
            let is_full = self.is_source() && done_in_pass >= quantum;
            if done == 0 || is_over || is_full || self.life.control.version() != version {
                break;
            }
            seen.is_ready = !self.is_dry() && self.logic.is_ready(&self.gate, now);
            if !seen.is_ready && !self.is_source() {
                self.pull();
                seen.is_ready = !self.is_dry() && self.logic.is_ready(&self.gate, now);
            }
            seen.is_blocked = self.is_blocked();
        }
        Ok(())
    }

    fn send(&mut self, partial: Partial) {
        self.logic.outboxes(&mut |outbox| outbox.flush(partial));
    }

    /// Sends what has credit: also partial batches, if there is nothing else to do.
    fn flush(&mut self) {
        let seen = self.seen();
        let has_more = self.may_work(&seen);
        self.send(if has_more { Partial::Keep } else { Partial::Send });
    }

    /// Tells the chain which inputs have ended (P3), then moves its own event time (E7).
    fn tell(&mut self) {
        for (i, input) in self.inputs.iter_mut().enumerate() {
            let is_empty = input.port.is_empty() || fault(Fault::ToldByFront);
            if !input.is_told && input.arriving.event == EVENT_MAX && is_empty {
                input.is_told = true;
                self.logic.input_ended(i);
            }
        }
        if self.event == EVENT_MIN && self.has_ended() {
            self.event = EVENT_MAX;
            self.downgrade();
        }
    }

    /// Inputs at event maximum and told, nothing unprocessed or unsent, nothing of its own left.
    fn has_ended(&mut self) -> bool {
        self.inputs.iter().all(|input| {
            input.is_told && input.arriving.event == EVENT_MAX && input.port.is_empty()
        }) && self.logic.has_ended()
            && (self.is_outbox_empty() || fault(Fault::EndNoUnsent))
    }

    fn report_end(&mut self) {
        if !self.has_reported_end && self.has_ended() {
            self.has_reported_end = true;
            self.life.events.push(Event::Ended { task: self.index });
        }
    }

    fn downgrade(&mut self) {
        let time = Time::new(self.gate.epoch(), self.event);
        self.logic.outboxes(&mut |outbox| outbox.downgrade(time));
    }

    /// Takes the snapshot of `epoch`, unless its checkpoint was aborted already.
    fn cut(&mut self, epoch: Epoch, cut: Cut) -> Result<(), BoxError> {
        sync::crash_point("cut");
        let clock = &self.life.clock;
        let (now, cpu) = (clock.now(), clock.thread_cpu());
        let has_ended = self.has_ended() || fault(Fault::EndBySources) && !self.is_source();
        let seen = self.asked.take().unwrap_or(now);
        if cut == Cut::Dry && !fault(Fault::DryAlone) {
            self.life.events.push(Event::Dry { task: self.index, epoch });
        }
        self.gate.passed(epoch);
        if self.view.aborted >= epoch {
            self.downgrade();
            return Ok(());
        }
        assert!(self.capturing.is_none(), "E9: cut {epoch} while another one is captured");
        let mut listed = Vec::new();
        if let Some(sink) = self.logic.sink() {
            sink.cut(epoch)?;
            listed = sink.listed();
        }
        self.logic.store(epoch);
        let tables = self.states.freeze();
        let mut flights = Vec::new();
        if cut != Cut::Aligned {
            let capture = Capture::new(epoch);
            self.inputs.iter().for_each(|input| input.port.open_capture(capture));
            if !fault(Fault::NoOutbox) {
                self.logic.outboxes(&mut |outbox| flights.push(outbox.share()));
            }
        }
        // The outboxes were shared at the time of the old epoch; what is sent from now on belongs
        // to the new one, whatever its age.
        self.downgrade();
        let state_bytes = tables.iter().map(|table| table.bytes() as u64).sum();
        let pause = self.life.clock.thread_cpu().saturating_sub(cpu);
        let stats = CutStats { seen, cut: now, pause, state_bytes, ..CutStats::default() };
        let report = Report {
            task: self.index,
            worker: self.worker,
            epoch,
            cut,
            has_ended,
            listed: listed.iter().map(|transaction| Epoch(transaction.epoch)).collect(),
            // A full snapshot builds on nothing.
            base: epoch,
            stats,
        };
        let snapshot = Snapshot { report, tables, flights, listed };
        if cut == Cut::Aligned {
            self.hand_over(snapshot);
        } else {
            self.capturing = Some((Capture::new(epoch), snapshot));
        }
        Ok(())
    }

    /// A capture is complete when its frontier says so: nobody counts barriers.
    fn complete_capture(&mut self) {
        let arriving = self.inputs.iter().map(|input| input.arriving.epoch).min();
        let arriving = arriving.unwrap_or(Epoch::MAX);
        let is_complete = |(capture, _): &mut (Capture, Snapshot)| capture.is_complete(arriving);
        if let Some((capture, mut snapshot)) = self.capturing.take_if(is_complete) {
            debug_assert_eq!(capture.epoch(), snapshot.report.epoch);
            let late = self.inputs.iter().filter_map(|input| input.port.close_capture());
            snapshot.flights.extend(late);
            self.hand_over(snapshot);
        }
    }

    fn hand_over(&mut self, mut snapshot: Snapshot) {
        sync::crash_point("capture");
        snapshot.report.stats.captured = self.life.clock.now();
        snapshot.report.stats.in_flight_bytes = snapshot.flights.iter().map(|f| f.bytes).sum();
        let report = snapshot.report.clone();
        self.life.snapshots.push(snapshot);
        self.life.events.push(Event::Captured(report));
    }

    /// Is there more to do? If not: arm, look again, and only then be idle.
    fn next(&mut self, has_overtaken: bool) -> Next {
        let seen = self.seen();
        // P2; and a task that owed a slice before its cut.
        let is_asked = self.gate.before_work(&seen).is_some() && !fault(Fault::ServedLater);
        if has_overtaken || is_asked || self.may_work(&seen) {
            return Next::Again;
        }
        self.wake.arm();
        let has_arrivals = self.inputs.iter().any(|input| input.port.has_arrivals());
        let mut can_send = false;
        self.logic.outboxes(&mut |outbox| can_send |= outbox.look_for_credit());
        let has_news = self.logic.sink().is_some_and(|sink| sink.has_news());
        let is_raised = self.life.control.version() != self.view.version;
        let is_woken = self.wake.take_signal();
        let is_news = has_arrivals || can_send || has_news || is_raised || is_woken;
        if is_news && !fault(Fault::NoRecheck) {
            self.wake.disarm();
            return Next::Again;
        }
        Next::Wait(self.logic.wakes_at())
    }
}

/// Where a task is: told after each chunk, also if it ends by an error or a panic.
struct Position<'a> {
    life: &'a Life,
    task: usize,
    /// Records that were processed before the chunk.
    before: u64,
    /// Records of the chunk that were processed before one failed.
    done: Cell<usize>,
}

impl Drop for Position<'_> {
    fn drop(&mut self) {
        self.life.set_processed(self.task, self.before + self.done.get() as u64);
    }
}
