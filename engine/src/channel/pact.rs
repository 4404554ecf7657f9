//! Hands our channels to timely: what is pushed goes to a ring, what is in a ring is pulled.

use std::cell::RefCell;
use std::rc::Rc;

use timely::communication::{Pull, Push};
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pact::ParallelizationContract;
use timely::logging::TimelyLogger;
use timely::worker::Worker;

use crate::channel::batch::Ticket;
use crate::channel::inbox::Inbox;
use crate::channel::lane::Sender;
use crate::checkpoint::time::Time;

/// The contract of one edge on one worker.
pub(crate) struct RingPact<R> {
    pub(crate) sender: Rc<RefCell<Sender<R>>>,
    pub(crate) inbox: Rc<RefCell<Inbox<R>>>,
}

pub(crate) struct RingPush<R>(Rc<RefCell<Sender<R>>>);

impl<R: 'static> Push<Message<Time, Ticket>> for RingPush<R> {
    fn push(&mut self, message: &mut Option<Message<Time, Ticket>>) {
        if let Some(message) = message.take() {
            self.0.borrow_mut().send(message);
        }
    }
}

/// What timely pulls: tickets. The records go to the inbox at the same moment.
pub(crate) struct RingPull<R> {
    inbox: Rc<RefCell<Inbox<R>>>,
    current: Option<Message<Time, Ticket>>,
}

impl<R: 'static> Pull<Message<Time, Ticket>> for RingPull<R> {
    fn pull(&mut self) -> &mut Option<Message<Time, Ticket>> {
        self.current = self.inbox.borrow_mut().arrive();
        &mut self.current
    }
}

/// One type for the pulls of all edges, so that a task holds its inputs in one list.
pub(crate) type AnyPull = Box<dyn Pull<Message<Time, Ticket>>>;

impl<R: 'static> ParallelizationContract<Time, Ticket> for RingPact<R> {
    type Pusher = RingPush<R>;
    type Puller = AnyPull;

    fn connect(
        self,
        _: &Worker,
        _: usize,
        _: Rc<[usize]>,
        _: Option<TimelyLogger>,
    ) -> (Self::Pusher, Self::Puller) {
        let pull = RingPull { inbox: self.inbox, current: None };
        (RingPush(self.sender), Box::new(pull))
    }
}
