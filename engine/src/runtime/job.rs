//! A job before it runs: its settings, its state directory, the life that begins.
//!
//! Not here: the lives that follow, see [`lives`](super::lives); their threads, see
//! [`threads`](super::threads).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use overtake_state::{Directory, EdgeInfo, Job as JobRecord, Store, draw_id};

use crate::checkpoint::coordinator::{self, Coordinator, Mode};
use crate::checkpoint::restore::Start;
use crate::config::Config;
use crate::error::Error;
use crate::flow::Flow;
use crate::flow::graph::Graph;
use crate::listener::Heard;
use crate::observe::Told;
use crate::runtime::clock::Clock;
use crate::runtime::life::{Beginning, Life};
use crate::runtime::lives::{Home, Lives};
use crate::runtime::restart::Restart;
use crate::runtime::running::{Report, Running};
use crate::runtime::spawn::{Spawner, Thread};
use crate::runtime::threads::Describe;

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
    spawner: Spawner,
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

    /// The name of the job in its [metrics and spans](crate::observe). Jobs of one process need
    /// names of their own to be told apart there.
    pub fn name(mut self, name: impl Into<String>) -> Job {
        self.config.name = name.into();
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

    /// Whether the job is started again in this process when it has failed. Whatever strategy but
    /// [`Restart::Never`] needs a [state directory](Job::state) to go on from.
    pub fn restart(mut self, restart: Restart) -> Job {
        self.config.restart = restart;
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

    /// Starts the job's threads by this function instead of by the system: on threads of a pool,
    /// with a priority, a stack or cores of the program's choice. It must return, and each thread
    /// must [run](Thread::run) soon on a thread that nothing else waits for. Every
    /// [life](crate::Restart) starts its threads anew.
    ///
    /// ```
    /// use overtake::{Job, Thread, source};
    ///
    /// let report = Job::new()
    ///     .workers(2)
    ///     .spawn(|thread: Thread| {
    ///         let builder = std::thread::Builder::new().name(format!("mine/{}", thread.name()));
    ///         builder.stack_size(4 << 20).spawn(|| thread.run()).map(drop)
    ///     })
    ///     .run(|flow| {
    ///         flow.source("numbers", source::items(vec![1u64, 2, 3])).for_each("print", |_| ());
    ///     })?;
    /// assert_eq!(report.processed("numbers"), 3);
    /// # Ok::<(), overtake::Error>(())
    /// ```
    pub fn spawn(
        mut self,
        start: impl Fn(Thread) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Job {
        self.spawner = Spawner::Program(Arc::new(start));
        self
    }

    /// Starts the job, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// If it cannot start or go on, also when it was restarted as often as it may be; see
    /// [`Error`].
    pub fn run(
        self,
        describe: impl Fn(&mut Flow) + Send + Sync + 'static,
    ) -> Result<Report, Error> {
        self.start(describe)?.join()
    }

    /// Starts the job on threads of its own, or on those that [`spawn`](Job::spawn) gives it.
    ///
    /// They are, and all have ended when the job has: `overtake-job`, which owns its lives; and in
    /// each life its workers, `overtake-work-<i>`, and `overtake-director`; with a state directory
    /// also `overtake-writer`, `overtake-publisher`, `overtake-commit-0` and `overtake-commit-1`.
    /// Sources and sinks may have some of their own, and say so:
    /// [`Files`](crate::connect::file::Files) has one for each worker, `overtake-read-<i>`, and
    /// [`PartFiles`](crate::connect::file::PartFiles) one for each open file,
    /// `overtake-write-<sink>`. All but the workers sleep unless a checkpoint is under way, or the
    /// director [tells](crate::observe) what was processed. All have the cores that the caller may
    /// use. Nothing else of the program is touched: no signal handler, no logger, recorder or
    /// subscriber, no allocator, no panic hook, no output, no exit. Several jobs may run in a
    /// process; where their workers share cores, [`Pinning::Free`](crate::Pinning::Free) lets the
    /// system place them.
    ///
    /// # Errors
    ///
    /// If the flow, the settings or the state directory do not allow it.
    pub fn start(
        self,
        describe: impl Fn(&mut Flow) + Send + Sync + 'static,
    ) -> Result<Running, Error> {
        let describe: Describe = Arc::new(describe);
        let graph = described(&*describe);
        // From here on, whoever waits for the job is told if it does not start.
        let heard = Heard::new(&graph.listeners);
        self.config.check()?;
        self.check_restart()?;
        graph.check()?;
        let (mut config, spawner) = (self.config.clone(), self.spawner.clone());
        config.limits.credit = config.limits.credit_within(graph.edges.len(), config.workers)?;
        let home = self.open(&graph)?;
        let told = Told::new(&config.name);
        Lives { config, spawner, home, describe, heard, told }.start(&graph)
    }

    /// There must be something to go on from.
    fn check_restart(&self) -> Result<(), Error> {
        if self.state.is_some() || self.config.restart == Restart::Never {
            return Ok(());
        }
        Err(Error::Setting {
            name: "restart",
            found: "a strategy for a job without a state directory".into(),
            allowed: "Restart::Never, or a state directory to go on from: give the job one",
        })
    }

    fn open(&self, graph: &Graph) -> Result<Option<Home>, Error> {
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
        Ok(Some(Home { store, job, may_go_back: self.may_go_back }))
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
    let graph = described(describe);
    graph.check()?;
    Ok(graph)
}

fn described(describe: &dyn Fn(&mut Flow)) -> Graph {
    let mut flow = Flow::new();
    describe(&mut flow);
    flow.into_graph()
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
