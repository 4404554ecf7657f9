//! The lives of a job, one after the other, under one lock of its state directory.
//!
//! ```text
//!   begin ──▶ threads run ──▶ all joined ──▶ finished
//!     ▲                           │ failed
//!     └────────── delay ◀─────────┴────────▶ the error, if it shall not or may not go on
//! ```
//!
//! The thread that owns them does nothing else: it sleeps until a life ends, and while it waits for
//! the next one.
//!
//! # Invariants
//!
//! * **L1**: a life begins after the threads of the one before are joined; if one is left behind,
//!   none begins in this process.
//!
//! Not here: what is decided, see [`restart`](super::restart); how a life begins in the directory,
//! see `checkpoint/restore.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use overtake_state::{GoBack, Store};

use crate::checkpoint::restore;
use crate::config::Config;
use crate::error::Error;
use crate::flow::graph::Graph;
use crate::listener::{Durability, Heard, LifeContext};
use crate::observe::Told;
use crate::runtime::clock::Clock;
use crate::runtime::job::{State, begin, describe_graph};
use crate::runtime::restart::may_pass;
use crate::runtime::running::{Report, Running, Steering, Wish};
use crate::runtime::spawn::{Spawner, Thread};
use crate::runtime::threads::{Describe, Ended, Outside, Threads};
use crate::runtime::worker::guard;

/// An opened state directory. It stays locked while this is there.
pub(crate) struct Home {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) job: String,
    pub(crate) may_go_back: bool,
}

impl Home {
    /// Begins a life in it: chooses the checkpoint, records the life, repeats commits.
    fn begin(&self, graph: &Graph) -> Result<State, Error> {
        let is_told = graph.targets().next().is_some() || !graph.listeners.is_empty();
        let go_back = if self.may_go_back || !is_told { GoBack::Allowed } else { GoBack::Refused };
        let start = restore::prepare(&self.store, graph, go_back)?;
        restore::begin(&*self.store, &self.job, &start, &restore::targets(graph))?;
        Ok(State { store: self.store.clone(), job: self.job.clone(), start })
    }
}

/// What every life of a job begins with.
pub(crate) struct Lives {
    pub(crate) config: Config,
    pub(crate) spawner: Spawner,
    pub(crate) home: Option<Home>,
    pub(crate) describe: Describe,
    pub(crate) heard: Heard,
    pub(crate) told: Told,
}

impl Lives {
    /// Begins the first life, and starts the thread that owns it and those that follow.
    ///
    /// # Errors
    ///
    /// If the first life cannot begin.
    pub(crate) fn start(self, graph: &Graph) -> Result<Running, Error> {
        let first = self.begin(graph)?;
        let steering = Arc::new(Steering::new(first.seen()));
        let its = steering.clone();
        let (tell, ended) = oneshot::channel();
        let (spawner, told) = (self.spawner.clone(), self.told.clone());
        let run = move || {
            let unwound = catch_unwind(AssertUnwindSafe(|| self.run(first, &its)));
            let panicked = |_| Err(Error::Failed("the thread of the job panicked".into()));
            let result = unwound.unwrap_or_else(panicked);
            told.ended(&result);
            its.ended();
            // Whoever dropped the job does not listen.
            let _ = tell.send(result);
        };
        let thread = spawner.spawn(Thread::new("overtake-job", run)).map_err(Error::Thread)?;
        Ok(Running::new(steering, ended, thread))
    }

    fn begin(&self, graph: &Graph) -> Result<Threads, Error> {
        let state = self
            .home
            .as_ref()
            .map(|home| {
                self.told.restore().in_scope(|| {
                    let state = home.begin(graph)?;
                    let restored =
                        state.start.restored.as_ref().map(|restored| restored.manifest().id);
                    self.told.restored(state.start.generation, restored);
                    Ok::<_, Error>(state)
                })
            })
            .transpose()?;
        let (life, coordinator) = begin(&self.config, graph, state.as_ref(), Clock::system());
        let durability = if state.is_some() { Durability::Checkpoints } else { Durability::None };
        // N2: before any worker starts.
        let context = LifeContext {
            run: self.heard.run,
            job: life.job.clone(),
            generation: life.generation,
            durability,
        };
        for listener in &*self.heard.listeners {
            let begun = listener.begin(&context);
            begun.map_err(|why| Error::Flow(why.to_string()))?;
        }
        let outside = Outside {
            targets: restore::targets(graph),
            listeners: self.heard.listeners.clone(),
            told: self.told.clone(),
        };
        Threads::start(
            &self.config,
            &self.spawner,
            life,
            coordinator,
            state,
            outside,
            self.describe.clone(),
        )
    }

    /// The same, with the flow described anew: what it holds of a life has ended with it.
    fn begin_again(&self) -> Result<Threads, Error> {
        let mut threads = None;
        guard(|| {
            threads = Some(self.begin(&describe_graph(&*self.describe)?)?);
            Ok(())
        })?;
        Ok(threads.expect("the guard has let it pass"))
    }

    /// Waits for the end of each life, and begins the next one if there shall be one.
    fn run(self, first: Threads, steering: &Steering) -> Result<Report, Error> {
        let (mut restarts, mut in_a_row) = (0, 0);
        let mut life = Ok(first);
        loop {
            let (why, lasted) = match life.map(Threads::end) {
                Ok((Ended::Finished, lasted)) => return Ok(steering.report(lasted)),
                Ok((Ended::LeftBehind(why), _)) => {
                    steering.failed(&why);
                    return Err(why); // L1
                }
                Ok((Ended::Failed(why), lasted)) => (why, lasted),
                Err(why) => (why, Duration::ZERO),
            };
            steering.failed(&why);
            if !may_pass(&why) {
                return Err(why);
            }
            let Some(again) = self.config.restart.after(in_a_row, lasted) else {
                let last = Box::new(why);
                return Err(if restarts == 0 {
                    *last
                } else {
                    Error::Exhausted { restarts, last }
                });
            };
            if steering.wait(again.delay) >= Wish::Stop {
                return Err(Error::Stopped { last: Box::new(why) });
            }
            (restarts, in_a_row) = (restarts + 1, again.in_a_row);
            self.told.restarted(restarts);
            life = self.begin_again();
            match &life {
                Ok(threads) => steering.restarted(restarts, threads.seen()),
                Err(_) => steering.failed_again(restarts),
            }
        }
    }
}
