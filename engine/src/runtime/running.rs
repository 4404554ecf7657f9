//! A job while it runs, over all its lives: who watches it, who steers it, who waits for its end.
//!
//! Not here: the threads of a life, see [`threads`](super::threads); the lives one after the other,
//! see [`lives`](super::lives).

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use overtake_state::CheckpointId;

use crate::checkpoint::coordinator::{CheckpointReport, Event, Request};
use crate::checkpoint::direct::SharedCoordinator;
use crate::error::Error;
use crate::runtime::clock::Clock;
use crate::runtime::life::Life;

/// What is seen of a life from outside.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) life: Arc<Life>,
    pub(crate) coordinator: SharedCoordinator,
    pub(crate) restored: Option<CheckpointId>,
    pub(crate) passed_over: Vec<(CheckpointId, String)>,
}

impl Seen {
    fn history(&self) -> Vec<CheckpointReport> {
        let coordinator = self.coordinator.lock().expect("no holder panics");
        let shared: Vec<_> = coordinator.history().cloned().collect();
        drop(coordinator);
        shared.into_iter().map(Arc::unwrap_or_clone).collect()
    }
}

/// What a user wants of the job, each outdoing the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    /// That it goes on.
    GoOn,
    /// One more checkpoint, and the end.
    Stop,
    /// The end at once.
    Drop,
}

/// What the job's thread and its handles share.
pub(crate) struct Steering {
    now: Mutex<Now>,
    wished: Condvar,
}

struct Now {
    /// The life that runs, or the last one.
    seen: Seen,
    /// That life has failed, and no other has begun yet.
    is_between: bool,
    wish: Wish,
    /// A checkpoint was asked for between two lives: the next one takes it.
    wants_checkpoint: bool,
    restarts: u32,
    /// Why the last life failed that did.
    failure: Option<String>,
}

impl Now {
    fn tell(&self, event: Event) {
        self.seen.life.events.push(event);
    }
}

impl Steering {
    pub(crate) fn new(seen: Seen) -> Steering {
        let now = Now {
            seen,
            is_between: false,
            wish: Wish::GoOn,
            wants_checkpoint: false,
            restarts: 0,
            failure: None,
        };
        Steering { now: Mutex::new(now), wished: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no holder panics")
    }

    /// Ends the job, one way or the other: the life that runs, or the wait for the next one.
    fn wish(&self, wish: Wish) {
        let mut now = self.lock();
        now.wish = now.wish.max(wish);
        now.tell(event(wish));
        self.wished.notify_all();
    }

    /// The life that is seen has failed.
    pub(crate) fn failed(&self, why: &Error) {
        let mut now = self.lock();
        now.is_between = true;
        now.failure = Some(why.to_string());
    }

    /// The job was restarted so often; the last time no thread could be started.
    pub(crate) fn failed_again(&self, restarts: u32) {
        self.lock().restarts = restarts;
    }

    /// Waits so long, or until the user wants an end. Answers what is wanted.
    pub(crate) fn wait(&self, delay: Duration) -> Wish {
        let goes_on = |now: &mut Now| now.wish == Wish::GoOn;
        let waited = self.wished.wait_timeout_while(self.lock(), delay, goes_on);
        waited.expect("no holder panics").0.wish
    }

    /// A new life runs: it is told what was wanted while none did.
    pub(crate) fn restarted(&self, restarts: u32, seen: Seen) {
        let mut now = self.lock();
        (now.seen, now.restarts, now.is_between) = (seen, restarts, false);
        if std::mem::take(&mut now.wants_checkpoint) {
            now.tell(Event::Requested(Request::Checkpoint));
        }
        if now.wish != Wish::GoOn {
            now.tell(event(now.wish));
        }
    }

    /// How the job has ended.
    pub(crate) fn report(&self, lasted: Duration) -> Report {
        let now = self.lock();
        let Seen { life, restored, passed_over, .. } = now.seen.clone();
        Report {
            generation: life.generation,
            life,
            lasted,
            restored,
            passed_over,
            history: now.seen.history(),
            restarts: now.restarts,
            has_ended: now.seen.coordinator.lock().expect("no holder panics").is_complete(),
        }
    }
}

fn event(wish: Wish) -> Event {
    match wish {
        Wish::GoOn => Event::Tick,
        Wish::Stop => Event::Requested(Request::Stop),
        Wish::Drop => Event::WorkerFailed { why: "the job was dropped".into() },
    }
}

/// Watches and steers a job, from any thread, over all its lives.
///
/// What it tells of a life is told of the one that runs: of the last one that did, while the job
/// waits to be [restarted](crate::Restart) and when it has ended. Two questions may be answered of
/// two lives.
#[derive(Clone)]
pub struct Handle {
    steering: Arc<Steering>,
}

impl Handle {
    /// Asks for a checkpoint now, whenever the next one would be due; while the job waits to be
    /// restarted, as soon as it is. It may fail, as any, and with its life; the history tells.
    ///
    /// # Errors
    ///
    /// If the job has no state directory.
    pub fn checkpoint(&self) -> Result<(), Error> {
        let mut now = self.steering.lock();
        if !now.seen.life.has_checkpoints() {
            let why = "a job without a state directory takes no checkpoints: give it one";
            return Err(Error::Flow(why.into()));
        }
        if now.is_between {
            now.wants_checkpoint = true;
        } else {
            now.tell(Event::Requested(Request::Checkpoint));
        }
        Ok(())
    }

    /// Asks the job to take one more checkpoint, commit what it lists, and end. Without a state
    /// directory it ends at once. Time does not move: a later start goes on from there.
    ///
    /// A job that fails before it has done so is not restarted, and one that waits to be restarted
    /// ends at once: both with [`Error::Stopped`], and a later start goes on from the last complete
    /// checkpoint.
    pub fn stop(&self) {
        self.steering.wish(Wish::Stop);
    }

    /// Records that an operator or source has processed in this life, over all workers.
    pub fn processed(&self, operator: &str) -> u64 {
        let life = self.steering.lock().seen.life.clone();
        processed(&life, operator)
    }

    /// The time since this life began: the clock of all that it reports.
    pub fn clock(&self) -> Clock {
        self.steering.lock().seen.life.clock.clone()
    }

    /// The checkpoint that this life went on from.
    pub fn restored(&self) -> Option<CheckpointId> {
        self.steering.lock().seen.restored
    }

    /// Newer checkpoints that could not be read when this life began, and why.
    pub fn passed_over(&self) -> Vec<(CheckpointId, String)> {
        self.steering.lock().seen.passed_over.clone()
    }

    /// The checkpoints of this life that have ended, oldest first. Those of earlier lives are not
    /// among them: their times are of other clocks, and their epochs may come again.
    pub fn history(&self) -> Vec<CheckpointReport> {
        let seen = self.steering.lock().seen.clone();
        seen.history()
    }

    /// How often the job was restarted since it was started.
    pub fn restarts(&self) -> u32 {
        self.steering.lock().restarts
    }

    /// Why the last life failed that did.
    pub fn last_failure(&self) -> Option<String> {
        self.steering.lock().failure.clone()
    }
}

/// A job that runs. Dropped, it is stopped at once, as if the process had died.
pub struct Running {
    steering: Arc<Steering>,
    /// The thread that owns its lives.
    job: Option<JoinHandle<Result<Report, Error>>>,
}

impl Running {
    pub(crate) fn new(steering: Arc<Steering>, job: JoinHandle<Result<Report, Error>>) -> Running {
        Running { steering, job: Some(job) }
    }

    /// Watches and steers the job from elsewhere.
    pub fn handle(&self) -> Handle {
        Handle { steering: self.steering.clone() }
    }

    /// Has the job ended, and is not restarted? Then [`join`](Running::join) does not wait.
    pub fn has_ended(&self) -> bool {
        self.job.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the job has ended. It is [restarted](crate::Restart) whether somebody waits or
    /// not.
    ///
    /// # Errors
    ///
    /// Why it could not go on.
    pub fn join(mut self) -> Result<Report, Error> {
        let job = self.job.take().expect("it is taken here and when it is dropped");
        job.join().unwrap_or_else(|_| Err(Error::Failed("the thread of the job panicked".into())))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.steering.wish(Wish::Drop);
            // Whatever is wrong now, nobody is left to be told.
            let _ = job.join();
        }
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
    /// The number of its last life.
    pub generation: u64,
    /// How long that lasted.
    pub lasted: Duration,
    /// The checkpoint that it went on from.
    pub restored: Option<CheckpointId>,
    /// Newer checkpoints that could not be read, and why.
    pub passed_over: Vec<(CheckpointId, String)>,
    /// Its checkpoints, oldest first.
    pub history: Vec<CheckpointReport>,
    /// How often the job was restarted before.
    pub restarts: u32,
    has_ended: bool,
}

impl Report {
    /// Has all input been processed, and everything that it made been committed? If not, the job
    /// was stopped, and another life goes on.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Records that an operator or source has processed in the last life, over all workers.
    pub fn processed(&self, operator: &str) -> u64 {
        processed(&self.life, operator)
    }
}
