//! The engine's side of `keyed-count`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use overtake::{Config, Flow, Handle, Job, Outcome, Running, Schedule};

use crate::generator::{Generator, Tap};
use crate::meter::allocations;
use crate::paired::Side;
use crate::scratch::Directory;
use crate::statistics::quantile;

/// Whether checkpoints are taken while the side runs.
pub(super) enum Checkpoints<'a> {
    Off,
    /// One a window, in its middle, in a directory below `base`.
    Every {
        window: Duration,
        base: &'a Path,
    },
}

/// The job, paused at first.
pub(super) struct Engine {
    job: Option<Running>,
    handle: Handle,
    tap: Arc<Tap>,
    /// Tells the thread that asks for checkpoints whether the side runs; dropped, it ends it.
    asking: Option<(Sender<bool>, JoinHandle<()>)>,
    state: Option<Directory>,
    started: Mutex<Started>,
    asked: Arc<AtomicU64>,
}

/// What was counted while the side ran.
#[derive(Default)]
struct Started {
    at_resume: (u64, u64),
    allocations: u64,
    records: u64,
}

impl Engine {
    pub(super) fn start(keys: u64, checkpoints: Checkpoints<'_>) -> anyhow::Result<Engine> {
        let tap = Arc::new(Tap::default());
        let of_flow = tap.clone();
        let flow = move |flow: &mut Flow| {
            flow.source("numbers", Generator::new(keys, 2, &of_flow))
                .key_by(|record: &(u64, u64)| record.0)
                .fold("sums", |sum: &mut u64, record| *sum += record.1)
                .for_each("nowhere", |_| ());
        };
        // Checkpoints come when they are asked for: a paused side takes none.
        let schedule =
            Schedule { interval: Duration::from_secs(86_400), ..Config::default().schedule };
        let config = Config { workers: 2, schedule, ..Config::default() };
        let mut job = Job::new().config(config);
        let mut state = None;
        if let Checkpoints::Every { base, .. } = &checkpoints {
            let directory = Directory::new(base)?;
            job = job.state(directory.path());
            state = Some(directory);
        }
        let job = job.start(flow)?;
        let handle = job.handle();
        let asked = Arc::default();
        let asking = match checkpoints {
            Checkpoints::Off => None,
            Checkpoints::Every { window, .. } => {
                let (tell, told) = channel();
                let (job, asked) = (handle.clone(), Arc::clone(&asked));
                Some((tell, std::thread::spawn(move || ask(&job, &told, window, &asked))))
            }
        };
        let job = Some(job);
        Ok(Engine { job, handle, tap, asking, state, started: Mutex::default(), asked })
    }

    /// What the checkpoints were like.
    pub(super) fn checkpoints(&self) -> anyhow::Result<String> {
        let history = self.handle.history();
        let asked = self.asked.load(Ordering::Relaxed);
        let complete: Vec<_> =
            history.iter().filter(|c| matches!(c.outcome, Outcome::Published { .. })).collect();
        anyhow::ensure!(!complete.is_empty(), "no checkpoint was completed of {asked} asked for");
        let figure = |of: &dyn Fn(&overtake::CheckpointReport) -> f64| {
            let all: Vec<f64> = complete.iter().map(|c| of(c)).collect();
            let at = |q| quantile(&all, q).unwrap_or_default();
            format!("{:.2}/{:.2}/{:.2}", at(0.5), at(0.99), at(1.0))
        };
        let since = |c: &overtake::CheckpointReport, at: Option<Duration>| {
            at.unwrap_or_default().saturating_sub(c.triggered).as_secs_f64() * 1e3
        };
        Ok(format!(
            "checkpoints: {} of {asked} asked for; p50/p99/max: captured {} ms, durable {} ms, \
             pause {} µs of CPU time, state {} MB, in flight {} KB",
            complete.len(),
            figure(&|c| since(c, c.captured)),
            figure(&|c| since(c, c.durable)),
            figure(&|c| c.pause().as_secs_f64() * 1e6),
            figure(&|c| c.state_bytes() as f64 / 1e6),
            figure(&|c| c.in_flight_bytes() as f64 / 1e3),
        ))
    }

    /// What was allocated while the side ran.
    pub(super) fn allocations(&self) -> String {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        format!(
            "without checkpoints: {} allocations for {:.0} M records, by timely and all",
            started.allocations,
            started.records as f64 / 1e6
        )
    }
}

/// Asks for a checkpoint in the middle of each window while the side runs.
fn ask(job: &Handle, told: &Receiver<bool>, window: Duration, asked: &AtomicU64) {
    let mut wait = None;
    loop {
        let news = match wait {
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(wait) => told.recv_timeout(wait),
        };
        match news {
            Ok(is_running) => wait = is_running.then_some(window / 2),
            Err(RecvTimeoutError::Timeout) => {
                asked.fetch_add(1, Ordering::Relaxed);
                job.checkpoint().expect("the job was given a state directory");
                wait = Some(window);
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Side for Engine {
    fn resume(&self) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.at_resume = (allocations(), self.processed());
        if let Some((tell, _)) = &self.asking {
            let _ = tell.send(true);
        }
        self.tap.open();
    }

    fn pause(&self) {
        if let Some((tell, _)) = &self.asking {
            let _ = tell.send(false);
        }
        self.tap.close();
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, records) = started.at_resume;
        started.allocations += allocations() - before;
        started.records += self.processed() - records;
    }

    fn processed(&self) -> u64 {
        self.handle.processed("sums")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some((tell, thread)) = self.asking.take() {
            drop(tell);
            let _ = thread.join();
        }
        // The job ends before the directory of its checkpoints does.
        drop(self.job.take());
        drop(self.state.take());
    }
}
