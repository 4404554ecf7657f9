//! One life of a job, turn by turn: what a test needs to be its scheduler, clock, disk and death.
//!
//! The parts are those that threads drive otherwise: the same tasks, coordinator, writer, publisher
//! and commits. A test draws whose turn it is; nothing here waits, and no thread is started.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use overtake_state::{GoBack, Job as JobRecord, Store};
use timely::worker::Worker as Timely;

use crate::checkpoint::commit::{self, Done, Job};
use crate::checkpoint::coordinator::{Coordinator, Event, Failure};
use crate::checkpoint::direct::{Director, Outcome};
use crate::checkpoint::publish::{Publication, Publisher, Turn};
use crate::checkpoint::restore;
use crate::checkpoint::time::Epoch;
use crate::checkpoint::write::{Writer, is_void};
pub use crate::checkpoint::{capture, coordinator, gate, plan, time};
use crate::config::Config;
use crate::error::Error;
use crate::flow::Flow;
use crate::runtime::clock::Clock;
use crate::runtime::job::{State, begin, describe_graph};
use crate::runtime::life::Life;
use crate::runtime::queue::Queue;
use crate::runtime::worker::Built;
pub use crate::sync::fault::{Fault, plant};
pub use crate::sync::{Hook, set_hook};

/// How a simulated life ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything is processed and committed.
    Finished,
    /// It cannot go on, and would be restored.
    Failed(Failure),
}

/// One life of a job that takes turns.
pub struct World {
    life: Arc<Life>,
    coordinator: Arc<Mutex<Coordinator>>,
    director: Director,
    writer: Writer,
    publisher: Publisher,
    publications: Arc<Queue<Publication>>,
    /// Prepares and commits that hang.
    hung: Vec<Job>,
    describe: Arc<dyn Fn(&mut Flow)>,
    has_passed_over: bool,
}

/// The dataflow of one worker of a world.
pub struct SimulatedWorker {
    built: Built,
}

impl World {
    /// Restores and begins a life: every step of it is a crash point, so a hook may end it by a
    /// panic. `micros` is the clock.
    ///
    /// # Errors
    ///
    /// As a real job: the checkpoint cannot be used, the store fails, the flow does not fit.
    pub fn begin(
        config: &Config,
        store: &Arc<dyn Store>,
        describe: Arc<dyn Fn(&mut Flow)>,
        micros: &Arc<AtomicU64>,
    ) -> Result<World, Error> {
        let graph = describe_graph(&*describe)?;
        let job = JobRecord::open(&**store, &[], || 1)?.id;
        let start = restore::prepare(store, &graph, GoBack::Refused)?;
        let targets = restore::targets(&graph);
        restore::begin(&**store, &job, &start, &targets)?;
        let (history, has_passed_over) = (start.history.clone(), !start.passed_over.is_empty());
        let state = State { store: store.clone(), job, start };
        let clock = Clock::Counted(micros.clone());
        let (life, coordinator) = begin(config, &graph, Some(&state), clock);
        let coordinator = Arc::new(Mutex::new(coordinator));
        let publications = Arc::new(Queue::default());
        let director = Director::new(&life, coordinator.clone(), publications.clone());
        let writer = Writer::new(&life, store);
        let publisher =
            Publisher::new(&life, store, history, config.retention, targets, Arc::new([]));
        let hung = Vec::new();
        Ok(World {
            life,
            coordinator,
            director,
            writer,
            publisher,
            publications,
            hung,
            describe,
            has_passed_over,
        })
    }

    /// Is the checkpoint of this epoch aborted?
    pub fn is_aborted(&self, epoch: u64) -> bool {
        self.life.is_aborted(Epoch(epoch))
    }

    /// Could a newer checkpoint than the one that it went on from not be read?
    pub fn has_passed_over(&self) -> bool {
        self.has_passed_over
    }

    /// The number of this life.
    pub fn generation(&self) -> u64 {
        self.life.generation
    }

    /// Builds the dataflow of the worker that this timely worker is.
    ///
    /// # Errors
    ///
    /// As a real worker.
    pub fn build(&self, timely: &mut Timely) -> Result<SimulatedWorker, Error> {
        let built = Built::new(timely, &self.life, &*self.describe)?;
        Ok(SimulatedWorker { built })
    }

    /// A turn of the director: obeys one effect, or takes notice of one event or of the time.
    pub fn direct(&mut self) -> Option<End> {
        let event = self.life.events.pop().unwrap_or(Event::Tick);
        let event = if self.director.has_effects() {
            // An effect comes first; the event waits.
            if event != Event::Tick {
                self.life.events.push_front(event);
            }
            None
        } else {
            Some(event)
        };
        self.director.turn(event).map(|outcome| match outcome {
            Outcome::Finished => End::Finished,
            Outcome::Failed(failure) => End::Failed(failure),
        })
    }

    /// A turn of the writer: writes one waiting snapshot, chosen among so many; or, if `is_lost`,
    /// hangs over it for ever.
    pub fn write(&mut self, choose: impl FnOnce(usize) -> usize, hangs: impl FnOnce() -> bool) {
        // Dropping what was aborted takes no time.
        self.life.snapshots.retain(|snapshot| !is_void(&self.life, snapshot.report.epoch));
        if let Some(snapshot) = self.life.snapshots.pick(choose)
            && !hangs()
        {
            self.writer.turn(snapshot);
        }
    }

    /// A turn of the publisher: one step.
    pub fn publish(&mut self) {
        if self.publisher.is_idle()
            && let Some(publication) = self.publications.pop()
        {
            self.publisher.begin(publication);
        }
        let _: Turn = self.publisher.turn();
    }

    /// A turn of a commit thread: one job, chosen among so many; or, if `hangs`, it hangs over it
    /// for ever.
    pub fn commit(&mut self, choose: impl FnOnce(usize) -> usize, hangs: impl FnOnce() -> bool) {
        let Some(job) = self.life.commits.pick(choose) else { return };
        if hangs() {
            self.hung.push(job);
        } else if let Done::Again { job, .. } = commit::run(job, &self.life.events) {
            self.life.commits.push(job);
        }
    }

    /// The job has ended well: what is left to do then.
    pub fn close(self) {
        self.publisher.close();
    }

    /// What was under way at the outside when the process died, and may still happen there.
    pub fn into_late(self) -> Vec<Late> {
        let waiting = std::iter::from_fn(|| self.life.commits.pop());
        let jobs = self.hung.into_iter().chain(waiting).map(LateWork::Job);
        let publisher = Some(self.publisher).filter(Publisher::is_putting);
        let put = publisher.map(|publisher| LateWork::Put(Box::new(publisher)));
        jobs.chain(put).map(Late).collect()
    }

    /// Asks the coordinator for something, as a user would.
    pub fn request(&self, request: coordinator::Request) {
        self.life.events.push(Event::Requested(request));
    }

    /// Shows the coordinator.
    pub fn with_coordinator<T>(&self, show: impl FnOnce(&Coordinator) -> T) -> T {
        show(&self.coordinator.lock().expect("no holder panics"))
    }

    /// Records that each task has processed in this life, by operator.
    pub fn processed(&self) -> BTreeMap<String, u64> {
        let life = &self.life;
        let of = |task| (0..life.workers).map(|w| life.processed(life.index(w, task))).sum();
        life.tasks.iter().enumerate().map(|(task, name)| (name.clone(), of(task))).collect()
    }

    /// Has the job been told to stop? Then workers drop their dataflows.
    pub fn is_stopping(&self) -> bool {
        self.life.control.is_stopping()
    }
}

/// What a dead process has asked of the outside, and what arrives there late.
pub struct Late(LateWork);

enum LateWork {
    Job(Job),
    Put(Box<Publisher>),
}

impl Late {
    /// It arrives.
    pub fn arrive(self) {
        match self.0 {
            LateWork::Job(job) => drop(commit::run(job, &Queue::default())),
            LateWork::Put(mut publisher) => _ = publisher.turn(),
        }
    }
}

impl SimulatedWorker {
    /// Steps once. A hook may end it by a panic, which is the death of the worker.
    ///
    /// # Errors
    ///
    /// What an operator says; a panic of one.
    pub fn step(&self, timely: &mut Timely) -> Result<(), Error> {
        self.built.step(timely, Some(std::time::Duration::ZERO))
    }

    /// Drops the dataflow.
    pub fn drop(self, timely: &mut Timely) {
        self.built.drop(timely);
    }
}
