//! Installs a described flow on one worker: timely operators, channels, restored data.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use overtake_state::{Data, Place, States};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{Scope, Stream};
use timely::scheduling::Activator;

use crate::channel::batch::{Batch, Records, Ticket};
use crate::channel::inbox::Inbox;
use crate::channel::lane::{Receiver, Sender};
use crate::channel::outbox::Outbox;
use crate::channel::pact::RingPact;
use crate::channel::wake::Waker;
use crate::checkpoint::plan::{self, Read, Scale};
use crate::checkpoint::time::{Epoch, Time};
use crate::error::Error;
use crate::flow::edge::Inlet;
use crate::flow::graph::{EdgeSpec, Graph};
use crate::operator::task::{Input, Next, Task};
use crate::runtime::life::Life;
use crate::runtime::worker::{Hosted, Slot};

/// What is being installed on a worker, and the task that is being made.
pub struct Install<'s> {
    pub(crate) life: Arc<Life>,
    pub(crate) worker: usize,
    edges: Vec<EdgeSpec>,
    names: Vec<String>,
    streams: BTreeMap<usize, Stream<'s, Time, Ticket>>,
    /// The receiving ends of edges whose sender is installed.
    ends: BTreeMap<usize, Box<dyn Any>>,
    task: usize,
    builder: OperatorBuilder<'s, Time>,
    inputs: Vec<Input>,
    states: States,
}

/// Both ends of an edge on this worker, on their way from its sender to its receiver.
struct Ends<R> {
    sender: Rc<RefCell<Sender<R>>>,
    receiver: Receiver<R>,
}

impl<'s> Install<'s> {
    /// Installs all tasks of a flow in a dataflow.
    ///
    /// # Errors
    ///
    /// Whatever makes a task impossible: a source that cannot be opened, state that does not fit.
    pub(crate) fn all(
        graph: Graph,
        life: &Arc<Life>,
        scope: Scope<'s, Time>,
    ) -> Result<Vec<Hosted>, Error> {
        let Graph { tasks, edges, .. } = graph;
        let names: Vec<String> = tasks.iter().map(|task| task.name.clone()).collect();
        let worker = scope.index();
        let mut streams = BTreeMap::new();
        let mut ends = BTreeMap::new();
        let mut hosted = Vec::new();
        for (task, spec) in tasks.into_iter().enumerate() {
            let mut install = Install {
                life: life.clone(),
                worker,
                edges: edges.clone(),
                names: names.clone(),
                streams,
                ends,
                task,
                builder: OperatorBuilder::new(spec.name.clone(), scope),
                inputs: Vec::new(),
                states: States::new(&spec.name, worker, life.workers, life.restored()),
            };
            let made = (spec.make)(&mut install).and_then(|logic| {
                install.states.check_all_restored()?;
                Ok(logic)
            });
            let logic = match made {
                Ok(logic) => logic,
                Err(why) => {
                    // timely wants every operator that was begun to be built.
                    install.builder.build(|_| |_| {});
                    return Err(why);
                }
            };
            life.declare(&spec.name, install.states.tables());
            let index = life.index(worker, task);
            let (states, inputs) = (install.states, install.inputs);
            let task = Task::new(index, worker, life, logic, inputs, states);
            let activator = scope.activator_for(install.builder.operator_info().address);
            let slot = Rc::new(Slot::default());
            host(install.builder, task, index, life.clone(), activator.clone(), slot.clone());
            hosted.push(Hosted { activator, slot });
            (streams, ends) = (install.streams, install.ends);
        }
        Ok(hosted)
    }

    /// The state of the task that is being made.
    pub(crate) fn states(&mut self) -> &mut States {
        &mut self.states
    }

    /// The task that is being made, counted over all workers.
    pub(crate) fn index(&self) -> usize {
        self.life.index(self.worker, self.task)
    }

    /// Wakes the task that is being made.
    pub(crate) fn waker(&self) -> Waker {
        self.life.waker(self.index())
    }

    /// Makes the sending end of an edge: an output port with its outbox.
    pub(crate) fn output<R: Data>(&mut self, edge: usize) -> Outbox<R> {
        let EdgeSpec { from, to, name, .. } = &self.edges[edge];
        let limits = &self.life.limits;
        let (senders, receivers) = (self.life.wakes_of(*from), self.life.wakes_of(*to));
        let (sender, receiver) =
            self.life.exchange.ends(edge, self.worker, limits.credit, &senders, &receivers);
        let sender = Rc::new(RefCell::new(sender));
        self.ends.insert(edge, Box::new(Ends::<R> { sender: sender.clone(), receiver }));
        let (output, stream) = self.builder.new_output::<Ticket>();
        self.streams.insert(edge, stream);
        let output = OutputBuilder::from(output);
        Outbox::new(&self.names[*from], name, sender, output, limits.batch_records::<R>())
    }

    /// Makes the receiving end of an edge: an input port with its inbox, and in it what this
    /// worker restores of what was in flight.
    ///
    /// # Errors
    ///
    /// If in-flight data cannot be read.
    pub(crate) fn input<R: Data>(
        &mut self,
        inlet: &Inlet<R>,
    ) -> Result<Rc<RefCell<Inbox<R>>>, Error> {
        let ends = self.ends.remove(&inlet.edge).expect("senders are installed before receivers");
        let ends: Ends<R> = *ends.downcast().expect("an edge has one record type");
        let restored = self.restored(inlet)?;
        let EdgeSpec { to, name, .. } = &self.edges[inlet.edge];
        let inbox = Inbox::new(&self.names[*to], name, ends.receiver, restored);
        let inbox = Rc::new(RefCell::new(inbox));
        let stream = self.streams.remove(&inlet.edge).expect("made with the ends");
        let pact = RingPact { sender: ends.sender, inbox: inbox.clone() };
        let handle = self.builder.new_input(stream, pact);
        let arriving = Time::new(self.life.start(), crate::checkpoint::time::EVENT_MIN);
        self.inputs.push(Input { port: inbox.clone(), handle, arriving, is_told: false });
        Ok(inbox)
    }

    /// The in-flight data that this worker restores on an edge, in order (DESIGN: restore).
    fn restored<R: Data>(&self, inlet: &Inlet<R>) -> Result<VecDeque<Batch<R>>, Error> {
        let mut queue = VecDeque::new();
        let Some(restored) = self.life.restored() else { return Ok(queue) };
        let EdgeSpec { from, to, name, .. } = &self.edges[inlet.edge];
        let (me, new) = (self.worker, self.life.workers);
        let scale = Scale { old: restored.workers(), new };
        for Read { place, is_shared } in plan::reads(inlet.kind, me, scale) {
            let (holder, operator, place) = match place {
                plan::Place::Restored { receiver } => (receiver, *to, Place::Restored),
                plan::Place::Inbox { receiver, sender } => {
                    (receiver, *to, Place::Inbox { from: sender as u32 })
                }
                plan::Place::Outbox { sender, receiver } => {
                    (sender, *from, Place::Outbox { to: receiver as u32 })
                }
            };
            let operator = &self.names[operator];
            let flights = restored.flights::<R>(holder, operator, name, place)?;
            for flight in flights {
                let mut records = flight.records;
                if let Some(owner) = inlet.owner.as_ref().filter(|_| is_shared) {
                    records.retain(|record| owner(record, new) == me);
                }
                if !records.is_empty() {
                    let time = Time::new(Epoch(flight.epoch), flight.event);
                    queue.push_back(Batch { time, records: Records::Own(records) });
                }
            }
        }
        Ok(queue)
    }
}

/// Gives a task to timely.
fn host(
    builder: OperatorBuilder<'_, Time>,
    mut task: Task,
    index: usize,
    life: Arc<Life>,
    activator: Activator,
    slot: Rc<Slot>,
) {
    builder.build_reschedule(move |capabilities| {
        task.hold(capabilities);
        move |frontiers| {
            life.enter(index);
            let next = task.pass(frontiers);
            life.leave(index);
            slot.wakes_at.set(None::<Duration>);
            match next {
                Ok(Next::Again) => activator.activate(),
                Ok(Next::Wait(until)) => slot.wakes_at.set(until),
                Err(why) => slot.failure.set(Some(why)),
            }
            // timely drops an operator, and with it a full inbox, as soon as nobody objects.
            true
        }
    });
}
