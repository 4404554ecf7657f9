//! A job from its first thread to its last.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use overtake_state::{
    CheckpointId, Directory, EdgeInfo, GoBack, History, Job as JobRecord, Store, draw_id,
};
use timely::WorkerConfig;
use timely::communication::{Config as Communication, WorkerGuards, initialize};
use timely::worker::Worker as Timely;

use crate::checkpoint::control::Raise;
use crate::checkpoint::coordinator::{
    self, CheckpointReport, Coordinator, Event, Failure, Mode, Request,
};
use crate::checkpoint::direct::{Director, Outcome, SharedCoordinator};
use crate::checkpoint::publish::Publisher;
use crate::checkpoint::restore::{self, Start};
use crate::checkpoint::write::Writer;
use crate::config::{Config, Pinning};
use crate::error::Error;
use crate::flow::Flow;
use crate::flow::graph::Graph;
use crate::runtime::clock::Clock;
use crate::runtime::life::{Beginning, Life};
use crate::runtime::queue::Queue;
use crate::runtime::services::{self, Closing};
use crate::runtime::worker::Built;

/// A job: its settings, and where it keeps its state.
///
/// ```
/// use overtake::{Job, source};
///
/// let numbers = source::items((0..100u64).collect());
/// let report = Job::new().workers(2).run(move |flow| {
///     flow.source("numbers", numbers.clone())
///         .key_by(|number| number % 10)
///         .fold("sums", |sum: &mut u64, number| *sum += number)
///         .for_each("print", |(_digit, _sum)| ());
/// })?;
/// assert_eq!(report.processed("sums"), 100);
/// # Ok::<(), overtake::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Job {
    config: Config,
    state: Option<PathBuf>,
    identity: Vec<(String, String)>,
    may_go_back: bool,
}

impl Job {
    /// A job with the default settings and without a state directory: it takes no checkpoints, and
    /// what it processes is lost with it.
    pub fn new() -> Job {
        Job::default()
    }

    /// All settings at once.
    pub fn config(mut self, config: Config) -> Job {
        self.config = config;
        self
    }

    /// Worker threads.
    pub fn workers(mut self, workers: usize) -> Job {
        self.config.workers = workers;
        self
    }

    /// How checkpoints pass what is in flight.
    pub fn mode(mut self, mode: Mode) -> Job {
        self.config.schedule.mode = mode;
        self
    }

    /// From the trigger of one checkpoint to that of the next.
    pub fn interval(mut self, interval: Duration) -> Job {
        self.config.schedule.interval = interval;
        self
    }

    /// The directory in which checkpoints are kept. If it has one, the job goes on from it.
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Job {
        self.state = Some(directory.into());
        self
    }

    /// Something that must be the same in every life of the job, such as its input. A difference is
    /// an error that names it.
    pub fn identity(mut self, name: &str, value: impl Into<String>) -> Job {
        self.identity.push((name.to_owned(), value.into()));
        self
    }

    /// Allows the job to go on from a checkpoint that is older than what was perhaps committed, if
    /// the newer one cannot be read: results may then be written twice.
    pub fn may_go_back(mut self) -> Job {
        self.may_go_back = true;
        self
    }

    /// Starts the job, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// If it cannot start or go on; see [`Error`].
    pub fn run(
        self,
        describe: impl Fn(&mut Flow) + Send + Sync + 'static,
    ) -> Result<Report, Error> {
        self.start(describe)?.join()
    }

    /// Starts the job on threads of its own.
    ///
    /// # Errors
    ///
    /// If the flow, the settings or the state directory do not allow it.
    pub fn start(
        self,
        describe: impl Fn(&mut Flow) + Send + Sync + 'static,
    ) -> Result<Running, Error> {
        self.config.check()?;
        let graph = describe_graph(&describe)?;
        let state = self.open(&graph)?;
        let (life, coordinator) = begin(&self.config, &graph, state.as_ref(), Clock::system());
        let targets = restore::targets(&graph);
        Running::start(&self.config, life, coordinator, state, targets, Arc::new(describe))
    }

    fn open(&self, graph: &Graph) -> Result<Option<State>, Error> {
        let Some(directory) = &self.state else {
            return match graph.targets().next() {
                None => Ok(None),
                Some((_, sink, _)) => Err(Error::Flow(format!(
                    "sink \"{sink}\" commits with checkpoints: give the job a state directory"
                ))),
            };
        };
        let store: Arc<dyn Store> = Arc::new(Directory::open(directory)?);
        let job = JobRecord::open(&*store, &self.identity, draw_id)?.id;
        let go_back = if self.may_go_back || graph.targets().next().is_none() {
            GoBack::Allowed
        } else {
            GoBack::Refused
        };
        let start = restore::prepare(&store, graph, go_back)?;
        restore::begin(&*store, &job, &start, &restore::targets(graph))?;
        Ok(Some(State { store, job, start }))
    }
}

/// An opened state directory, and what the life goes on from.
pub(crate) struct State {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) job: String,
    pub(crate) start: Start,
}

/// Runs the description once, to check names and edges before anything is touched.
pub(crate) fn describe_graph(describe: &dyn Fn(&mut Flow)) -> Result<Graph, Error> {
    let mut flow = Flow::new();
    describe(&mut flow);
    let graph = flow.into_graph();
    graph.check()?;
    Ok(graph)
}

/// Makes what the threads of a life share, and its coordinator.
pub(crate) fn begin(
    config: &Config,
    graph: &Graph,
    state: Option<&State>,
    clock: Clock,
) -> (Arc<Life>, Coordinator) {
    let life = Life::new(beginning(config, graph, state, clock));
    let tasks = graph.tasks.len();
    let sinks = graph
        .targets()
        .flat_map(|(task, _, _)| (0..config.workers).map(move |worker| worker * tasks + task));
    let coordinator = Coordinator::new(coordinator::Config {
        tasks: config.workers * tasks,
        workers: config.workers,
        sinks: sinks.collect(),
        start: life.start(),
        schedule: state.map(|_| config.schedule.clone()),
    });
    (Arc::new(life), coordinator)
}

fn beginning(config: &Config, graph: &Graph, state: Option<&State>, clock: Clock) -> Beginning {
    Beginning {
        job: state.map_or_else(String::new, |state| state.job.clone()),
        generation: state.map_or(1, |state| state.start.generation),
        workers: config.workers,
        tasks: graph.tasks.iter().map(|task| task.name.clone()).collect(),
        edges: graph
            .edges
            .iter()
            .map(|edge| EdgeInfo { name: edge.name.clone(), record: edge.record.clone() })
            .collect(),
        limits: config.limits.clone(),
        clock,
        restored: state.and_then(|state| state.start.restored.clone()),
        has_checkpoints: state.is_some(),
    }
}

/// Watches and steers a running job, from any thread.
#[derive(Clone)]
pub struct Handle {
    life: Arc<Life>,
    coordinator: SharedCoordinator,
    restored: Option<CheckpointId>,
    passed_over: Vec<(CheckpointId, String)>,
}

impl Handle {
    /// Asks for a checkpoint now, or for one more and the end.
    pub fn request(&self, request: Request) {
        self.life.events.push(Event::Requested(request));
    }

    /// Records that an operator or source has processed in this life, over all workers.
    pub fn processed(&self, operator: &str) -> u64 {
        processed(&self.life, operator)
    }

    /// The time since this life began: the clock of all that it reports.
    pub fn clock(&self) -> Clock {
        self.life.clock.clone()
    }

    /// The checkpoint that this life went on from.
    pub fn restored(&self) -> Option<CheckpointId> {
        self.restored
    }

    /// Newer checkpoints that could not be read, and why.
    pub fn passed_over(&self) -> &[(CheckpointId, String)] {
        &self.passed_over
    }

    /// The checkpoints of this life that have ended, oldest first.
    pub fn history(&self) -> Vec<CheckpointReport> {
        self.coordinator.lock().expect("no holder panics").history().cloned().collect()
    }
}

/// A job that runs. Dropped, it is stopped at once, as if the process had died.
pub struct Running {
    handle: Handle,
    closing: Arc<Closing>,
    ended: Receiver<&'static str>,
    outcome: Receiver<Outcome>,
    /// What went wrong first on a worker.
    failure: Arc<Mutex<Option<Error>>>,
    workers: Option<WorkerGuards<()>>,
    services: Vec<JoinHandle<()>>,
    publications: Arc<Queue<crate::checkpoint::publish::Publication>>,
    stop_timeout: Duration,
    left: Arc<AtomicUsize>,
    /// Keeps the lock of the state directory until everything has ended.
    store: Option<Arc<dyn Store>>,
}

type Describe = Arc<dyn Fn(&mut Flow) + Send + Sync>;

impl Running {
    fn start(
        config: &Config,
        life: Arc<Life>,
        coordinator: Coordinator,
        state: Option<State>,
        targets: std::collections::BTreeMap<String, Arc<dyn crate::sink::Target>>,
        describe: Describe,
    ) -> Result<Running, Error> {
        let (tell_ended, ended) = mpsc::channel();
        let (tell_outcome, outcome) = mpsc::channel();
        let coordinator = Arc::new(Mutex::new(coordinator));
        let publications = Arc::new(Queue::default());
        let (closing, failure) = (Arc::new(Closing::default()), Arc::default());
        let left = Arc::new(AtomicUsize::new(config.workers));
        let start = state.as_ref().map(|state| &state.start);
        let restored = start.and_then(|start| start.restored.as_ref());
        let handle = Handle {
            life: life.clone(),
            coordinator: coordinator.clone(),
            restored: restored.map(|restored| restored.manifest().id),
            passed_over: start.map_or(Vec::new(), |start| start.passed_over.clone()),
        };
        let mut running = Running {
            handle,
            closing: closing.clone(),
            ended,
            outcome,
            failure: Arc::clone(&failure),
            workers: None,
            services: Vec::new(),
            publications: publications.clone(),
            stop_timeout: config.limits.stop_timeout,
            left: left.clone(),
            store: state.as_ref().map(|state| state.store.clone()),
        };
        let director = Director::new(&life, coordinator, publications.clone());
        running.service("overtake-director", &tell_ended, move || {
            let _ = tell_outcome.send(services::direct(director));
        })?;
        if let Some(State { store, start, .. }) = state {
            let writer = Writer::new(&life, &store);
            let (of, told) = (life.clone(), closing.clone());
            running.service("overtake-writer", &tell_ended, move || {
                services::write(writer, &of, &told);
            })?;
            let history: History = start.history;
            let publisher = Publisher::new(&life, &store, history, config.retention, targets);
            let told = closing.clone();
            running.service("overtake-publisher", &tell_ended, move || {
                services::publish(publisher, &publications, &told);
            })?;
            for name in services::COMMITS {
                let (of, told) = (life.clone(), closing.clone());
                running.service(name, &tell_ended, move || services::commit(&of, &told))?;
            }
        }
        let (idle, pinning) = (config.idle, config.pinning);
        let work = move |allocator| {
            let worker_config = WorkerConfig::default().idle_spin(Duration::ZERO);
            let mut timely = Timely::new(worker_config, allocator, life.clock.instant());
            if pinning == Pinning::Pinned {
                pin(timely.index());
            }
            life.worker_wake(timely.index()).adopt();
            let result = crate::runtime::worker::guard(|| {
                Built::new(&mut timely, &life, &*describe)?.run(&mut timely, idle)
            });
            if let Err(why) = result {
                let event = Event::WorkerFailed { why: why.to_string() };
                failure.lock().expect("no holder panics").get_or_insert(why);
                life.events.push(event);
            }
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                let _ = tell_ended.send(WORKERS);
            }
        };
        let workers = initialize(Communication::Process(config.workers), work);
        running.workers = Some(workers.map_err(|why| Error::Thread(std::io::Error::other(why)))?);
        Ok(running)
    }

    fn service(
        &mut self,
        name: &'static str,
        ended: &Sender<&'static str>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        let thread = services::spawn(name, &self.handle.life, ended, run)?;
        self.services.push(thread);
        Ok(())
    }

    /// Watches and steers the job from elsewhere.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Has the job ended? Then [`join`](Running::join) does not wait for more than its threads.
    pub fn has_ended(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
            || self.services.first().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the job has ended.
    ///
    /// # Errors
    ///
    /// Why it could not go on.
    pub fn join(mut self) -> Result<Report, Error> {
        let outcome = self.outcome.recv();
        let clean_end = self.shut_down();
        if let Some(why) = self.failure.lock().expect("no holder panics").take() {
            return Err(why);
        }
        clean_end?;
        match outcome {
            Ok(Outcome::Finished) => Ok(Report {
                life: self.handle.life.clone(),
                generation: self.handle.life.generation,
                lasted: self.handle.life.clock.now(),
                restored: self.handle.restored,
                passed_over: std::mem::take(&mut self.handle.passed_over),
                history: self.handle.history(),
            }),
            Ok(Outcome::Failed(failure)) => Err(Error::Failed(self.explain(failure))),
            Err(_) => Err(Error::Failed("the director of checkpoints panicked".into())),
        }
    }

    /// Names the task of a failure, and adds what a sink last said.
    fn explain(&self, failure: Failure) -> String {
        let task = match &failure {
            Failure::Prepare { transaction, .. } | Failure::Commit { transaction, .. } => {
                let (name, worker) = self.handle.life.name(transaction.task);
                format!(" (operator \"{name}\" on worker {worker})")
            }
            _ => String::new(),
        };
        let said = self.handle.life.commit_error.lock().expect("no holder panics").take();
        let said = match (&failure, said) {
            (Failure::Commit { .. }, Some(said)) => format!(": {said}"),
            _ => String::new(),
        };
        format!("{failure}{task}{said}")
    }

    /// Stops all threads and joins them; those that do not end in time are left behind.
    fn shut_down(&mut self) -> Result<(), Error> {
        self.handle.life.raise(Raise::Stop);
        self.closing.tell();
        self.handle.life.snapshots.wake();
        self.handle.life.commits.wake();
        self.publications.wake();
        let is_started = usize::from(self.workers.is_some());
        let mut missing = self.services.len() + is_started;
        let deadline = self.handle.life.clock.now() + self.stop_timeout;
        let mut names = Vec::new();
        while missing > 0 {
            match self.ended.recv_timeout(deadline.saturating_sub(self.handle.life.clock.now())) {
                Ok(name) => names.push(name),
                Err(RecvTimeoutError::Timeout) => return Err(self.leave_behind(&names)),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            missing -= 1;
        }
        // Their threads have said good-bye: joining does not wait.
        if let Some(workers) = self.workers.take() {
            drop(workers.join());
        }
        for service in self.services.drain(..) {
            let _ = service.join();
        }
        Ok(())
    }

    /// Gives up threads that do not end. They may still hold the state directory.
    fn leave_behind(&mut self, ended: &[&str]) -> Error {
        std::mem::forget(self.workers.take());
        self.services.clear();
        std::mem::forget(self.store.take());
        let stuck =
            (0..self.handle.life.workers).find_map(|worker| self.handle.life.running(worker));
        if !ended.contains(&WORKERS)
            && let Some(task) = stuck
        {
            let (name, worker) = self.handle.life.name(task);
            let record = self.handle.life.processed(task);
            return Error::Stuck { name: name.to_owned(), worker, record };
        }
        Error::Failed("a prepare, a commit or a write hangs and was left behind".into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.workers.is_some() || !self.services.is_empty() {
            // Whatever is wrong now, nobody is left to be told.
            self.handle.life.events.push(Event::WorkerFailed { why: "the job was dropped".into() });
            let _ = self.shut_down();
        }
    }
}

/// What the workers say together when the last of them has ended.
const WORKERS: &str = "workers";

/// Binds the calling thread to the worker's core, where the machine allows it.
fn pin(worker: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if !cores.is_empty() {
        core_affinity::set_for_current(cores[worker % cores.len()]);
    }
}

fn processed(life: &Life, operator: &str) -> u64 {
    let task = life.tasks.iter().position(|name| name == operator);
    let of = |task| (0..life.workers).map(|w| life.processed(life.index(w, task))).sum();
    task.map_or(0, of)
}

/// How a job ended well.
pub struct Report {
    life: Arc<Life>,
    /// The number of this life.
    pub generation: u64,
    /// How long it lasted.
    pub lasted: Duration,
    /// The checkpoint that it went on from.
    pub restored: Option<CheckpointId>,
    /// Newer checkpoints that could not be read, and why.
    pub passed_over: Vec<(CheckpointId, String)>,
    /// Its checkpoints, oldest first.
    pub history: Vec<CheckpointReport>,
}

impl Report {
    /// Records that an operator or source has processed in this life, over all workers.
    pub fn processed(&self, operator: &str) -> u64 {
        processed(&self.life, operator)
    }
}
