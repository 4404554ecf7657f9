//! What has arrived on one edge and is not yet processed: everything is pulled at once, into one
//! queue per sender; the gate chooses what is processed.
//!
//! ```text
//!                 restored ──────────────┐ first, until it is empty; holds no credit
//!   ring of sender 0 ──▶ queue 0 ──┐     ▼
//!   ring of sender 1 ──▶ queue 1 ──┴─▶ gate ──▶ operator
//! ```
//!
//! # Invariants
//!
//! * **I1**: each queue is bounded by its channel's credit.
//! * **I2**: restored data is processed before anything pulled on the edge, so order per key holds.
//! * **I3**: a closed batch at the head of a queue hides no batch of another sender.
//! * **E4**: while a capture is open, what arrives of its epoch is recorded as it arrives.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use overtake_state::{Data, Place};
use timely::dataflow::channels::Message;

use crate::channel::batch::{Batch, Piece, Ticket};
use crate::channel::lane::Receiver;
use crate::checkpoint::capture::Capture;
use crate::checkpoint::flight::{Flights, Group};
use crate::checkpoint::gate::Gate;
use crate::checkpoint::time::{Epoch, Time};
use crate::sync::{Fault, fault};

/// The inbox of one edge on one worker.
pub(crate) struct Inbox<R> {
    operator: Arc<str>,
    edge: Arc<str>,
    restored: VecDeque<Batch<R>>,
    queues: Vec<VecDeque<Batch<R>>>,
    receiver: Receiver<R>,
    /// Where the batch in hand is, and how much of it is processed.
    turn: Turn,
    position: usize,
    capturing: Option<(Capture, Vec<Group<R>>)>,
    /// Records in all queues, the restored one too.
    records: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Restored,
    Sender(usize),
}

impl<R: 'static> Inbox<R> {
    /// An inbox with the in-flight data that this worker has restored. `operator` and `edge` are
    /// the names under which its own in-flight data is stored.
    pub(crate) fn new(
        operator: &str,
        edge: &str,
        receiver: Receiver<R>,
        restored: VecDeque<Batch<R>>,
    ) -> Inbox<R> {
        let records = restored.iter().map(|batch| batch.records.as_slice().len()).sum();
        Inbox {
            records,
            operator: operator.into(),
            edge: edge.into(),
            restored,
            queues: (0..receiver.senders()).map(|_| VecDeque::new()).collect(),
            receiver,
            turn: Turn::Restored,
            position: 0,
            capturing: None,
        }
    }

    /// Takes the next parcel off the rings; timely is given its ticket.
    pub(crate) fn arrive(&mut self) -> Option<Message<Time, Ticket>> {
        let (from, mut parcel) = self.receiver.receive()?;
        let time = *parcel.message.stamp.expect_singleton();
        if let Some((capture, groups)) = &mut self.capturing
            && capture.holds(time.epoch)
            && !fault(Fault::NoLateCapture)
        {
            let piece = Piece { time, records: parcel.records.share(), from: 0 };
            groups[1 + from].pieces.push(piece);
        }
        // I1: who sent it had credit for it, and gets that back when it is processed.
        self.records += parcel.records.as_slice().len();
        self.queues[from].push_back(Batch { time, records: parcel.records });
        Some(parcel.message)
    }

    /// Is there a batch that the gate lets through?
    pub(crate) fn is_ready(&self, gate: &Gate) -> bool {
        self.has_restored()
            || self
                .queues
                .iter()
                .any(|queue| queue.front().is_some_and(|batch| gate.is_open_for(batch.time.epoch)))
    }

    /// Is restored data left?
    pub(crate) fn has_restored(&self) -> bool {
        !self.restored.is_empty()
    }

    /// The unprocessed rest of the batch in hand, or the next batch that the gate lets through.
    #[inline]
    pub(crate) fn current(&mut self, gate: &Gate) -> Option<&[R]> {
        if self.position == 0 && !self.choose(gate) {
            return None;
        }
        let batch = match self.turn {
            Turn::Restored => self.restored.front(),
            Turn::Sender(sender) => self.queues[sender].front(),
        };
        let batch = batch.expect("the batch in hand is there until it is processed");
        Some(&batch.records.as_slice()[self.position..])
    }

    /// Takes a batch in hand: restored data first (I2), then the senders in turn (I3).
    fn choose(&mut self, gate: &Gate) -> bool {
        if !self.restored.is_empty() {
            self.turn = Turn::Restored;
            return true;
        }
        let first = match self.turn {
            Turn::Restored => 0,
            Turn::Sender(sender) => sender,
        };
        let open = |queue: &VecDeque<Batch<R>>| {
            queue.front().is_some_and(|batch| gate.is_open_for(batch.time.epoch))
        };
        let senders = self.queues.len();
        let chosen = (first..first + senders).find(|i| open(&self.queues[i % senders]));
        if let Some(sender) = chosen {
            self.turn = Turn::Sender(sender % senders);
        }
        chosen.is_some()
    }

    /// `count` records of the batch in hand are processed.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.position += count;
        self.records -= count;
        match self.turn {
            Turn::Restored => {
                if self.position == self.restored[0].records.as_slice().len() {
                    self.restored.pop_front();
                    self.position = 0;
                }
            }
            Turn::Sender(sender) => {
                let queue = &mut self.queues[sender];
                if self.position == queue[0].records.as_slice().len() {
                    let batch = queue.pop_front().expect("the batch in hand");
                    self.receiver.processed(sender, batch.records);
                    self.position = 0;
                    self.turn = Turn::Sender((sender + 1) % self.queues.len());
                }
            }
        }
    }
}

/// What a task asks of an input, whatever its records are.
pub(crate) trait InPort {
    /// Is nothing unprocessed that precedes the barrier `epoch`?
    fn is_drained(&self, epoch: Epoch) -> bool;
    /// Is nothing unprocessed at all?
    fn is_empty(&self) -> bool;
    /// Bytes of the records that are unprocessed.
    fn bytes(&self) -> usize;
    /// Is there something on the rings that was not pulled yet? Never stale: the look after arming.
    fn has_arrivals(&self) -> bool;
    /// Opens a capture: shares what is unprocessed now; what arrives later is recorded.
    fn open_capture(&self, capture: Capture);
    /// Closes the capture and hands its data over.
    fn close_capture(&self) -> Option<Flights>;
}

impl<R: Data> InPort for RefCell<Inbox<R>> {
    fn is_drained(&self, epoch: Epoch) -> bool {
        let inbox = self.borrow();
        inbox.restored.is_empty()
            && inbox.queues.iter().flatten().all(|batch| batch.time.epoch > epoch)
    }

    fn is_empty(&self) -> bool {
        let inbox = self.borrow();
        let has_restored = !inbox.restored.is_empty() && !fault(Fault::EndBeforeRestored);
        !has_restored && inbox.queues.iter().all(VecDeque::is_empty)
    }

    fn bytes(&self) -> usize {
        self.borrow().records * size_of::<R>()
    }

    fn has_arrivals(&self) -> bool {
        !self.borrow().receiver.is_empty()
    }

    fn open_capture(&self, capture: Capture) {
        let inbox = &mut *self.borrow_mut();
        let (turn, position) = (inbox.turn, inbox.position);
        let mut groups = Vec::with_capacity(1 + inbox.queues.len());
        let rest = |is_in_hand: bool| if is_in_hand { position } else { 0 };
        let pieces = inbox.restored.iter_mut().enumerate().map(|(i, batch)| Piece {
            time: batch.time,
            records: batch.records.share(),
            from: rest(turn == Turn::Restored && i == 0),
        });
        groups.push(Group { place: Place::Restored, pieces: pieces.collect() });
        for (sender, queue) in inbox.queues.iter_mut().enumerate() {
            let held = queue.iter_mut().enumerate().filter(|(_, b)| capture.holds(b.time.epoch));
            let pieces = held.map(|(i, batch)| Piece {
                time: batch.time,
                records: batch.records.share(),
                from: rest(turn == Turn::Sender(sender) && i == 0),
            });
            let place = Place::Inbox { from: sender as u32 };
            groups.push(Group { place, pieces: pieces.collect() });
        }
        inbox.capturing = Some((capture, groups));
    }

    fn close_capture(&self) -> Option<Flights> {
        let inbox = &mut *self.borrow_mut();
        let (_, groups) = inbox.capturing.take()?;
        Some(Flights::new(&inbox.operator, &inbox.edge, groups))
    }
}
