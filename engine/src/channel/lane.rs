//! The two ends of an edge on a worker: a lane for each worker on the other side.
//!
//! ```text
//!            ring: batches ──────────────▶
//!   sender   spare: empty buffers ◀──────   receiver
//!            credit: batches processed ◀──
//! ```
//!
//! # Invariants
//!
//! * **L1**: at most `credit` batches of a channel are unacknowledged, so its ring never overflows.
//! * **L2**: a credit returns when its batch is *processed*, not when it is pulled.
//!
//! Channels to another process fit in beside the ring: the same credit, returned as messages.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use timely::dataflow::channels::Message;

use crate::channel::batch::{Parcel, Records, Ticket};
use crate::channel::credit::{Credit, Returned, credit};
use crate::channel::ring::{Consumer, Producer, ring};
use crate::channel::wake::Wake;
use crate::checkpoint::time::Time;
use crate::sync::{Mutex, Padded};

struct SendLane<R> {
    ring: Producer<Parcel<R>>,
    spare: Consumer<Vec<R>>,
    /// Buffers that came back. The one that came last is used first: it is in the caches, and while
    /// little is under way the same few are.
    spares: Vec<Vec<R>>,
    credit: Credit,
    receiver: Arc<Padded<Wake>>,
}

struct ReceiveLane<R> {
    ring: Consumer<Parcel<R>>,
    spare: Producer<Vec<R>>,
    returned: Returned,
    sender: Arc<Padded<Wake>>,
}

/// The sending end of an edge on one worker.
pub(crate) struct Sender<R> {
    lanes: Vec<SendLane<R>>,
    /// The records of the ticket that is on its way through timely to our pusher.
    departing: Option<Records<R>>,
}

impl<R> Sender<R> {
    pub(crate) fn targets(&self) -> usize {
        self.lanes.len()
    }

    #[inline]
    pub(crate) fn has_credit(&mut self, to: usize) -> bool {
        self.lanes[to].credit.has()
    }

    /// The same, never stale: the look after arming.
    pub(crate) fn look_for_credit(&mut self, to: usize) -> bool {
        self.lanes[to].credit.look()
    }

    /// An empty buffer for at least `capacity` records: one that came back, if there is one.
    pub(crate) fn buffer(&mut self, to: usize, capacity: usize) -> Vec<R> {
        let lane = &mut self.lanes[to];
        while let Some(buffer) = lane.spare.pop() {
            // More than can be under way are left of a record that made many batches.
            if lane.spares.len() < lane.spares.capacity() {
                lane.spares.push(buffer);
            }
        }
        lane.spares.pop().unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// Lays out the records whose ticket is given to timely next.
    pub(crate) fn depart(&mut self, records: Records<R>) {
        debug_assert!(self.departing.is_none(), "each ticket passes before the next");
        self.departing = Some(records);
    }

    /// The ticket came out of timely: its records follow it onto the ring.
    pub(crate) fn send(&mut self, message: Message<Time, Ticket>) {
        let records = self.departing.take().expect("the outbox lays out what it sends");
        let lane = &mut self.lanes[message.data.to];
        lane.credit.take();
        let sent = lane.ring.push(Parcel { message, records });
        assert!(sent.is_ok(), "L1: the outbox sends only what has credit");
        lane.receiver.0.notify();
    }
}

/// The receiving end of an edge on one worker.
pub(crate) struct Receiver<R> {
    lanes: Vec<ReceiveLane<R>>,
    /// The lane to look at first, so that none is always first.
    turn: usize,
}

impl<R> Receiver<R> {
    pub(crate) fn senders(&self) -> usize {
        self.lanes.len()
    }

    /// The next parcel of any lane, and the lane.
    pub(crate) fn receive(&mut self) -> Option<(usize, Parcel<R>)> {
        for _ in 0..self.lanes.len() {
            if let Some(parcel) = self.lanes[self.turn].ring.pop() {
                return Some((self.turn, parcel));
            }
            self.turn = (self.turn + 1) % self.lanes.len();
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.ring.is_empty())
    }

    /// A batch is processed: its buffer and its credit go back (L2).
    pub(crate) fn processed(&mut self, from: usize, records: Records<R>) {
        let lane = &mut self.lanes[from];
        if let Some(mut buffer) = records.into_buffer() {
            buffer.clear();
            // A full spare ring has enough buffers for every batch that can be under way.
            let _ = lane.spare.push(buffer);
        }
        lane.returned.give_back();
        lane.sender.0.notify();
    }
}

type Ends<R> = (Vec<Option<Sender<R>>>, Vec<Option<Receiver<R>>>);

/// Makes all channels of an edge.
fn connect<R>(
    credit_limit: usize,
    senders: &[Arc<Padded<Wake>>],
    receivers: &[Arc<Padded<Wake>>],
) -> Ends<R> {
    let mut receiving: Vec<Receiver<R>> =
        receivers.iter().map(|_| Receiver { lanes: Vec::new(), turn: 0 }).collect();
    let sending = senders
        .iter()
        .map(|sender| {
            let lanes = receivers.iter().zip(&mut receiving).map(|(receiver, receiving)| {
                let (ring_in, ring_out) = ring(credit_limit);
                let (spare_in, spare_out) = ring(credit_limit + 2);
                let (credit, returned) = credit(credit_limit);
                receiving.lanes.push(ReceiveLane {
                    ring: ring_out,
                    spare: spare_in,
                    returned,
                    sender: sender.clone(),
                });
                SendLane {
                    ring: ring_in,
                    spare: spare_out,
                    spares: Vec::with_capacity(credit_limit + 2),
                    credit,
                    receiver: receiver.clone(),
                }
            });
            Some(Sender { lanes: lanes.collect(), departing: None })
        })
        .collect();
    (sending, receiving.into_iter().map(Some).collect())
}

/// Where the workers of a life meet to take their ends of each edge.
#[derive(Default)]
pub(crate) struct Exchange {
    edges: Mutex<BTreeMap<usize, Box<dyn Any + Send>>>,
}

impl Exchange {
    /// This worker's ends of an edge; whoever comes first makes all its channels.
    pub(crate) fn ends<R: Send + Sync + 'static>(
        &self,
        edge: usize,
        worker: usize,
        credit_limit: usize,
        senders: &[Arc<Padded<Wake>>],
        receivers: &[Arc<Padded<Wake>>],
    ) -> (Sender<R>, Receiver<R>) {
        let mut edges = self.edges.lock().expect("no worker panics while it takes its ends");
        let ends = edges
            .entry(edge)
            .or_insert_with(|| Box::new(connect::<R>(credit_limit, senders, receivers)));
        let (sending, receiving) = ends
            .downcast_mut::<Ends<R>>()
            .expect("every worker builds the same flow: an edge has one record type");
        let sender = sending[worker].take().expect("a worker takes its ends once");
        let receiver = receiving[worker].take().expect("a worker takes its ends once");
        (sender, receiver)
    }
}
