//! What an operator has emitted and not yet sent: one open batch per target, and full ones.
//!
//! ```text
//!   emit ──▶ open[to] ──full──▶ sealed[to] ──credit──▶ timely ──▶ ring
//! ```
//!
//! # Invariants
//!
//! * **O1**: nothing is given to timely before there is credit for it, so that an overtaking
//!   snapshot can take the outbox along and send it later, at the new epoch.
//! * **O2**: a task whose outbox holds a sealed batch takes no further input; an outbox exceeds its
//!   bound by the output of one record, or of one chunk where a record makes one record at most.
//! * **O3**: an open batch has room for `capacity` records and holds fewer.
//!
//! Not here: which target a record goes to, see [`crate::flow::edge`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use overtake_state::{Data, Place};
use timely::container::NoopBuilder;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;

use crate::channel::batch::{Piece, Records, Ticket};
use crate::channel::lane::Sender;
use crate::checkpoint::flight::{Flights, Group};
use crate::checkpoint::time::Time;

/// The outbox of one edge on one worker.
pub(crate) struct Outbox<R> {
    operator: Arc<str>,
    edge: Arc<str>,
    /// timely's side of the port, and the right to send at the task's own time.
    output: OutputBuilder<Time, NoopBuilder<Ticket>>,
    capability: Option<Capability<Time>>,
    open: Vec<Vec<R>>,
    sealed: Vec<VecDeque<Records<R>>>,
    /// Batches in `sealed`.
    waiting: usize,
    sender: Rc<RefCell<Sender<R>>>,
    capacity: usize,
}

impl<R> Outbox<R> {
    /// An empty outbox that seals its batches at `capacity` records. `operator` and `edge` are the
    /// names under which its in-flight data is stored.
    pub(crate) fn new(
        operator: &str,
        edge: &str,
        sender: Rc<RefCell<Sender<R>>>,
        output: OutputBuilder<Time, NoopBuilder<Ticket>>,
        capacity: usize,
    ) -> Outbox<R> {
        let targets = sender.borrow().targets();
        Outbox {
            operator: operator.into(),
            edge: edge.into(),
            output,
            capability: None,
            open: (0..targets).map(|_| Vec::with_capacity(capacity)).collect(),
            sealed: (0..targets).map(|_| VecDeque::new()).collect(),
            waiting: 0,
            sender,
            capacity,
        }
    }

    pub(crate) fn targets(&self) -> usize {
        self.open.len()
    }

    /// Puts a record into the open batch of a target.
    #[inline]
    pub(crate) fn push(&mut self, to: usize, record: R) {
        let open = &mut self.open[to];
        let len = open.len();
        // SAFETY: by O3 there is room for one more record behind the last one.
        unsafe {
            open.as_mut_ptr().add(len).write(record);
            open.set_len(len + 1);
        }
        if len + 1 == self.capacity {
            self.seal(to);
        }
    }

    #[cold]
    fn seal(&mut self, to: usize) {
        let next = self.sender.borrow_mut().buffer(to, self.capacity);
        assert!(next.capacity() >= self.capacity && next.is_empty(), "O3");
        self.sealed[to].push_back(Records::Own(std::mem::replace(&mut self.open[to], next)));
        self.waiting += 1;
    }

    fn next_to_send(&mut self, to: usize, partial: Partial) -> Option<Records<R>> {
        let is_open_wanted = partial == Partial::Send && !self.open[to].is_empty();
        if self.sealed[to].is_empty() && !is_open_wanted || !self.sender.borrow_mut().has_credit(to)
        {
            return None;
        }
        if self.sealed[to].is_empty() {
            self.seal(to);
        }
        self.waiting -= 1;
        self.sealed[to].pop_front()
    }
}

/// What happens to a batch that is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// It stays open: more will come.
    Keep,
    /// It leaves, if there is credit: the operator has nothing else to do.
    Send,
}

/// What a task asks of an output, whatever its records are.
pub trait OutPort {
    /// Takes the capability of the port.
    fn hold(&mut self, capability: Capability<Time>);
    /// Moves the capability to the task's own time.
    fn downgrade(&mut self, time: Time);
    /// Does a full batch wait for credit?
    fn is_blocked(&self) -> bool;
    /// Is nothing unsent?
    fn is_empty(&self) -> bool;
    /// Bytes of the full batches that wait for credit.
    fn bytes(&self) -> usize;
    /// Could a waiting batch be sent now? Never stale: the look after arming.
    fn look_for_credit(&self) -> bool;
    /// Gives to timely what has credit, oldest first (O1).
    fn flush(&mut self, partial: Partial);
    /// For a capture: everything unsent, in order per target. Open batches go out as they are.
    fn share(&mut self) -> Flights;
}

impl<R: Data> OutPort for Outbox<R> {
    fn hold(&mut self, capability: Capability<Time>) {
        self.capability = Some(capability);
    }

    fn downgrade(&mut self, time: Time) {
        self.capability.as_mut().expect("held since the task was built").downgrade(&time);
    }

    fn is_blocked(&self) -> bool {
        self.waiting > 0
    }

    fn is_empty(&self) -> bool {
        self.waiting == 0 && self.open.iter().all(Vec::is_empty)
    }

    fn bytes(&self) -> usize {
        self.waiting * self.capacity * size_of::<R>()
    }

    fn look_for_credit(&self) -> bool {
        let mut sender = self.sender.borrow_mut();
        let unsent = |to: usize| !self.sealed[to].is_empty() || !self.open[to].is_empty();
        (0..self.open.len()).any(|to| unsent(to) && sender.look_for_credit(to))
    }

    fn flush(&mut self, partial: Partial) {
        if self.waiting == 0 && partial == Partial::Keep {
            return;
        }
        for to in 0..self.open.len() {
            while let Some(records) = self.next_to_send(to, partial) {
                let mut ticket = Ticket { to, records: records.as_slice().len() as i64 };
                self.sender.borrow_mut().depart(records);
                let capability = self.capability.as_ref().expect("held since the task was built");
                let mut output = self.output.activate();
                output.session_with_builder(capability).give_container(&mut ticket);
            }
        }
    }

    fn share(&mut self) -> Flights {
        let time = *self.capability.as_ref().expect("held since the task was built").time();
        let mut groups = Vec::new();
        for to in 0..self.open.len() {
            if !self.open[to].is_empty() {
                self.seal(to);
            }
            let pieces = self.sealed[to].iter_mut().map(|records| Piece {
                time,
                records: records.share(),
                from: 0,
            });
            groups.push(Group { place: Place::Outbox { to: to as u32 }, pieces: pieces.collect() });
        }
        Flights::new(&self.operator, &self.edge, groups)
    }
}
