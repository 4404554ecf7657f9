//! The threads of one life, from the first to the last.
//!
//! Not here: what comes after it, see [`lives`](super::lives).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use overtake_state::Store;
use timely::WorkerConfig;
use timely::communication::Config as Communication;
use timely::communication::{Allocator, AllocatorBuilder};
use timely::worker::Worker as Timely;

use crate::checkpoint::control::Raise;
use crate::checkpoint::coordinator::{Coordinator, Event, Failure};
use crate::checkpoint::direct::{Director, Outcome};
use crate::checkpoint::publish::{Publication, Publisher};
use crate::checkpoint::write::Writer;
use crate::config::{Config, Pinning};
use crate::error::Error;
use crate::flow::Flow;
use crate::listener::Listeners;
use crate::observe::{Observer, Told, Watch};
use crate::runtime::job::State;
use crate::runtime::life::Life;
use crate::runtime::queue::Queue;
use crate::runtime::running::Seen;
use crate::runtime::services::{self, Closing};
use crate::runtime::spawn::{Spawner, Thread};
use crate::runtime::worker::{Built, guard};
use crate::sink::Target;

/// What of a job, and outside of it, is told of checkpoints.
pub(crate) struct Outside {
    pub(crate) targets: BTreeMap<String, Arc<dyn Target>>,
    pub(crate) listeners: Listeners,
    pub(crate) told: Told,
}

/// What runs once on each worker.
pub(crate) type Describe = Arc<dyn Fn(&mut Flow) + Send + Sync>;

/// The threads of a life that runs. Dropped, they are stopped at once.
pub(crate) struct Threads {
    seen: Seen,
    observer: Arc<Observer>,
    closing: Arc<Closing>,
    ended: Receiver<&'static str>,
    outcome: Receiver<Outcome>,
    /// What went wrong first on a worker.
    failure: Arc<Mutex<Option<Error>>>,
    /// Who says good-bye when it ends: the services, and the workers together.
    awaited: usize,
    /// Those that the engine has started itself.
    handles: Vec<JoinHandle<()>>,
    spawner: Spawner,
    publications: Arc<Queue<Publication>>,
    stop_timeout: Duration,
    /// Keeps the lock of the state directory until everything has ended.
    store: Option<Arc<dyn Store>>,
}

/// How the threads of a life have ended.
pub(crate) enum Ended {
    /// All are joined: everything is processed and committed, or the user stopped it.
    Finished,
    /// All are joined: a new life may begin.
    Failed(Error),
    /// Some are not: nobody else may begin while this process lives.
    LeftBehind(Error),
}

impl Threads {
    /// Starts the threads of a life.
    ///
    /// # Errors
    ///
    /// If one cannot be started; the others are stopped.
    pub(crate) fn start(
        config: &Config,
        spawner: &Spawner,
        life: Arc<Life>,
        coordinator: Coordinator,
        state: Option<State>,
        outside: Outside,
        describe: Describe,
    ) -> Result<Threads, Error> {
        let Outside { targets, listeners, told } = outside;
        let (tell_ended, ended) = mpsc::channel();
        let (tell_outcome, outcome) = mpsc::channel();
        let coordinator = Arc::new(Mutex::new(coordinator));
        let publications = Arc::new(Queue::default());
        let (closing, failure) = (Arc::new(Closing::default()), Arc::default());
        let observer = told.begin(&life);
        let start = state.as_ref().map(|state| &state.start);
        let restored = start.and_then(|start| start.restored.as_ref());
        let seen = Seen {
            life: life.clone(),
            coordinator: coordinator.clone(),
            restored: restored.map(|restored| restored.manifest().id),
            passed_over: start.map_or(Vec::new(), |start| start.passed_over.clone()),
        };
        let watch = Watch::new(&observer, &coordinator);
        let mut threads = Threads {
            seen,
            observer: observer.clone(),
            closing: closing.clone(),
            ended,
            outcome,
            failure: Arc::clone(&failure),
            awaited: 0,
            handles: Vec::new(),
            spawner: spawner.clone(),
            publications: publications.clone(),
            stop_timeout: config.limits.stop_timeout,
            store: state.as_ref().map(|state| state.store.clone()),
        };
        let director = Director::new(&life, coordinator, publications.clone());
        threads.service("overtake-director", &tell_ended, move || {
            let _ = tell_outcome.send(services::direct(director, watch));
        })?;
        if let Some(State { store, start, .. }) = state {
            let writer = Writer::new(&life, &store);
            let (of, told) = (life.clone(), closing.clone());
            threads.service("overtake-writer", &tell_ended, move || {
                services::write(writer, &of, &told);
            })?;
            let publisher =
                Publisher::new(&life, &store, start.history, config.retention, targets, listeners);
            let told = closing.clone();
            threads.service("overtake-publisher", &tell_ended, move || {
                services::publish(publisher, &publications, &told);
            })?;
            for name in services::COMMITS {
                let (of, observer, told) = (life.clone(), observer.clone(), closing.clone());
                threads.service(name, &tell_ended, move || {
                    services::commit(&of, &observer, &told);
                })?;
            }
        }
        let (idle, pinning) = (config.idle, config.pinning);
        let work = move |allocator: AllocatorBuilder| {
            let worker_config = WorkerConfig::default().idle_spin(Duration::ZERO);
            let result = guard(|| {
                let AllocatorBuilder::Process(builder) = allocator else {
                    unreachable!("timely builds what was asked for");
                };
                let allocator = Allocator::Process(builder.build());
                let mut timely = Timely::new(worker_config, allocator, life.clock.instant());
                if pinning == Pinning::Pinned {
                    pin(timely.index());
                }
                life.worker_wake(timely.index()).adopt();
                Built::new(&mut timely, &life, &*describe)?.run(&mut timely, idle)
            });
            if let Err(why) = result {
                let event = Event::WorkerFailed { why: why.to_string() };
                failure.lock().expect("no holder panics").get_or_insert(why);
                life.events.push(event);
            }
        };
        threads.workers(config.workers, tell_ended, work)?;
        Ok(threads)
    }

    /// Starts the workers. The last one that ends says good-bye for all.
    fn workers(
        &mut self,
        workers: usize,
        ended: Sender<&'static str>,
        work: impl Fn(AllocatorBuilder) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let built = Communication::Process(workers).try_build();
        let (builders, _) = built.map_err(|why| Error::Thread(std::io::Error::other(why)))?;
        let left = Arc::new(AtomicUsize::new(workers));
        let leave = move |count| {
            if left.fetch_sub(count, Ordering::AcqRel) == count {
                let _ = ended.send(WORKERS);
            }
        };
        self.awaited += 1;
        let work = Arc::new(work);
        for (index, builder) in builders.into_iter().enumerate() {
            let (work, leave_one) = (work.clone(), leave.clone());
            let body = move || {
                work(builder);
                drop(work);
                leave_one(1);
            };
            let thread = Thread::new(format!("overtake-work-{index}"), body);
            match self.spawner.spawn(thread) {
                Ok(handle) => self.handles.extend(handle),
                Err(why) => {
                    // Those that wait for it to begin are told by its part being dropped.
                    leave(workers - index);
                    return Err(Error::Thread(why));
                }
            }
        }
        Ok(())
    }

    fn service(
        &mut self,
        name: &'static str,
        ended: &Sender<&'static str>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        let thread = services::spawn(name, &self.seen.life, ended, &self.spawner, run)?;
        self.awaited += 1;
        self.handles.extend(thread);
        Ok(())
    }

    /// What may be looked at and steered from outside.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// Waits until the life has ended, and ends its threads. Answers how long it lasted, too.
    pub(crate) fn end(mut self) -> (Ended, Duration) {
        let outcome = self.outcome.recv();
        let lasted = self.seen.life.clock.now();
        let clean_end = self.shut_down();
        let failure = self.failure.lock().expect("no holder panics").take();
        let ended = match (clean_end, failure, outcome) {
            // Whatever failed first: who starts the job again must know that a thread is left.
            (Err(stuck @ Error::Stuck { .. }), ..) => Ended::LeftBehind(stuck),
            (Err(_), Some(why), _) | (Err(why), None, _) => Ended::LeftBehind(why),
            (Ok(()), Some(why), _) => Ended::Failed(why),
            (Ok(()), None, Ok(Outcome::Finished)) => Ended::Finished,
            (Ok(()), None, Ok(Outcome::Failed(failure))) => {
                Ended::Failed(Error::Failed(self.explain(failure)))
            }
            (Ok(()), None, Err(_)) => {
                Ended::Failed(Error::Failed("the director of checkpoints panicked".into()))
            }
        };
        self.observer.ended(match &ended {
            Ended::Finished => None,
            Ended::Failed(why) | Ended::LeftBehind(why) => Some(why),
        });
        (ended, lasted)
    }

    /// Names the task of a failure, and adds what a sink last said.
    fn explain(&self, failure: Failure) -> String {
        let life = &self.seen.life;
        let task = match &failure {
            Failure::Prepare { transaction, .. } | Failure::Commit { transaction, .. } => {
                let (name, worker) = life.name(transaction.task);
                format!(" (operator \"{name}\" on worker {worker})")
            }
            _ => String::new(),
        };
        let said = life.commit_error.lock().expect("no holder panics").take();
        let said = match (&failure, said) {
            (Failure::Commit { .. }, Some(said)) => format!(": {said}"),
            _ => String::new(),
        };
        format!("{failure}{task}{said}")
    }

    /// Stops all threads and joins them; those that do not end in time are left behind.
    fn shut_down(&mut self) -> Result<(), Error> {
        let life = self.seen.life.clone();
        life.raise(Raise::Stop);
        self.closing.tell();
        life.snapshots.wake();
        life.commits.wake();
        self.publications.wake();
        let deadline = life.clock.now() + self.stop_timeout;
        let mut names = Vec::new();
        while self.awaited > 0 {
            match self.ended.recv_timeout(deadline.saturating_sub(life.clock.now())) {
                Ok(name) => names.push(name),
                Err(RecvTimeoutError::Timeout) => return Err(self.leave_behind(&names)),
                Err(RecvTimeoutError::Disconnected) => self.awaited = 1,
            }
            self.awaited -= 1;
        }
        // Their threads have said good-bye: joining does not wait.
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
        life.close();
        Ok(())
    }

    /// Gives up threads that do not end. They may still hold the state directory.
    fn leave_behind(&mut self, ended: &[&str]) -> Error {
        self.awaited = 0;
        self.handles.clear();
        self.seen.life.hang_up();
        std::mem::forget(self.store.take());
        let life = &self.seen.life;
        let stuck = (0..life.workers).find_map(|worker| life.running(worker));
        if !ended.contains(&WORKERS)
            && let Some(task) = stuck
        {
            let (name, worker) = life.name(task);
            let record = life.processed(task);
            return Error::Stuck { name: name.to_owned(), worker, record };
        }
        Error::Failed("a prepare, a commit or a write hangs and was left behind".into())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if self.awaited > 0 {
            // Whatever is wrong now, nobody is left to be told.
            let why = "the job was dropped".into();
            self.seen.life.events.push(Event::WorkerFailed { why });
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
