//! A job while it runs: its threads from the first to the last, and who watches it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use overtake_state::{CheckpointId, Store};
use timely::WorkerConfig;
use timely::communication::{Config as Communication, WorkerGuards, initialize};
use timely::worker::Worker as Timely;

use crate::checkpoint::control::Raise;
use crate::checkpoint::coordinator::{CheckpointReport, Coordinator, Event, Failure, Request};
use crate::checkpoint::direct::{Director, Outcome, SharedCoordinator};
use crate::checkpoint::publish::{Publication, Publisher};
use crate::checkpoint::write::Writer;
use crate::config::{Config, Pinning};
use crate::error::Error;
use crate::flow::Flow;
use crate::runtime::clock::Clock;
use crate::runtime::job::State;
use crate::runtime::life::Life;
use crate::runtime::queue::Queue;
use crate::runtime::services::{self, Closing};
use crate::runtime::worker::{Built, guard};
use crate::sink::Target;

/// Watches and steers a running job, from any thread.
#[derive(Clone)]
pub struct Handle {
    life: Arc<Life>,
    coordinator: SharedCoordinator,
    restored: Option<CheckpointId>,
    passed_over: Vec<(CheckpointId, String)>,
}

impl Handle {
    /// Asks for a checkpoint now, whenever the next one would be due. It may fail, as any; the
    /// history tells.
    ///
    /// # Errors
    ///
    /// If the job has no state directory.
    pub fn checkpoint(&self) -> Result<(), Error> {
        if !self.life.has_checkpoints() {
            let why = "a job without a state directory takes no checkpoints: give it one";
            return Err(Error::Flow(why.into()));
        }
        self.life.events.push(Event::Requested(Request::Checkpoint));
        Ok(())
    }

    /// Asks the job to take one more checkpoint, commit what it lists, and end. Without a state
    /// directory it ends at once. Time does not move: a later start goes on from there.
    pub fn stop(&self) {
        self.life.events.push(Event::Requested(Request::Stop));
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
    publications: Arc<Queue<Publication>>,
    stop_timeout: Duration,
    left: Arc<AtomicUsize>,
    /// Keeps the lock of the state directory until everything has ended.
    store: Option<Arc<dyn Store>>,
}

type Describe = Arc<dyn Fn(&mut Flow) + Send + Sync>;

impl Running {
    /// Starts the threads of a life.
    pub(crate) fn start(
        config: &Config,
        life: Arc<Life>,
        coordinator: Coordinator,
        state: Option<State>,
        targets: BTreeMap<String, Arc<dyn Target>>,
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
            let publisher = Publisher::new(&life, &store, start.history, config.retention, targets);
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
            let result =
                guard(|| Built::new(&mut timely, &life, &*describe)?.run(&mut timely, idle));
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
        let failure = self.failure.lock().expect("no holder panics").take();
        match (clean_end, failure) {
            // Whatever failed first: who starts the job again must know that a thread is left.
            (Err(stuck @ Error::Stuck { .. }), _) => return Err(stuck),
            (_, Some(why)) | (Err(why), None) => return Err(why),
            (Ok(()), None) => (),
        }
        match outcome {
            Ok(Outcome::Finished) => Ok(Report {
                life: self.handle.life.clone(),
                generation: self.handle.life.generation,
                lasted: self.handle.life.clock.now(),
                restored: self.handle.restored,
                passed_over: std::mem::take(&mut self.handle.passed_over),
                history: self.handle.history(),
                has_ended: self.handle.coordinator.lock().expect("no holder panics").is_complete(),
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
    has_ended: bool,
}

impl Report {
    /// Has all input been processed, and everything that it made been committed? If not, the job
    /// was stopped, and another life goes on.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Records that an operator or source has processed in this life, over all workers.
    pub fn processed(&self, operator: &str) -> u64 {
        processed(&self.life, operator)
    }
}
