//! A job while it runs, over all its lives: who watches it, who steers it, who waits for its end.
//!
//! Not here: the threads of a life, see [`threads`](super::threads); the lives one after the other,
//! see [`lives`](super::lives).

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use oneshot::Receiver;
use overtake_state::{CheckpointId, Key, States, hash, owner};

use crate::checkpoint::control::Raise;
use crate::checkpoint::coordinator::{CheckpointReport, Event, Request};
use crate::checkpoint::direct::SharedCoordinator;
use crate::error::Error;
use crate::runtime::asked::{Awaited, Look};
use crate::runtime::clock::Clock;
use crate::runtime::life::{Life, Memory};
use crate::runtime::pending::{Answer, Pending};

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
    /// That it reads no further, and ends when everything is processed.
    Drain,
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
    phase: Phase,
    wish: Wish,
    /// Checkpoints that were asked for between two lives: the next one takes them.
    wanted: Vec<(Request, Answer<CheckpointId>)>,
    restarts: u32,
    /// Why the last life failed that did.
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A life runs.
    Running,
    /// The last one has failed, and another may begin.
    Between,
    /// No other will.
    Over,
}

impl Now {
    fn tell(&self, event: Event) {
        self.seen.life.events.push(event);
    }

    /// Asks the life that runs for a checkpoint.
    fn ask(&self, request: Request, answer: Answer<CheckpointId>) {
        let life = &self.seen.life;
        let awaited = Awaited { request, since: life.clock.now(), answer };
        // A life that is over tells nobody: the answer, dropped, says so.
        if life.awaited.ask(awaited).is_ok() {
            self.tell(Event::Requested(request));
        }
    }

    /// Tells the life that runs what is wished.
    fn pass_on(&self) {
        match self.wish {
            Wish::GoOn => {}
            Wish::Drain => self.seen.life.raise(Raise::Drain),
            Wish::Stop => self.tell(Event::Requested(Request::Stop)),
            Wish::Drop => {
                self.tell(Event::WorkerFailed { why: "the job was dropped".into() });
            }
        }
    }
}

impl Steering {
    pub(crate) fn new(seen: Seen) -> Steering {
        let now = Now {
            seen,
            phase: Phase::Running,
            wish: Wish::GoOn,
            wanted: Vec::new(),
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
        now.pass_on();
        self.wished.notify_all();
    }

    /// The life that is seen has failed.
    pub(crate) fn failed(&self, why: &Error) {
        let mut now = self.lock();
        now.phase = Phase::Between;
        now.failure = Some(why.to_string());
    }

    /// The job was restarted so often; the last time no thread could be started.
    pub(crate) fn failed_again(&self, restarts: u32) {
        self.lock().restarts = restarts;
    }

    /// The job has ended: what was wanted of the next life will not be.
    pub(crate) fn ended(&self) {
        let mut now = self.lock();
        now.phase = Phase::Over;
        let wanted = std::mem::take(&mut now.wanted);
        drop((now, wanted));
    }

    /// Waits so long, or until the user wants an end. Answers what is wanted.
    pub(crate) fn wait(&self, delay: Duration) -> Wish {
        let goes_on = |now: &mut Now| now.wish < Wish::Stop;
        let waited = self.wished.wait_timeout_while(self.lock(), delay, goes_on);
        waited.expect("no holder panics").0.wish
    }

    /// A new life runs: it is told what was wanted while none did.
    pub(crate) fn restarted(&self, restarts: u32, seen: Seen) {
        let mut now = self.lock();
        (now.seen, now.restarts, now.phase) = (seen, restarts, Phase::Running);
        for (request, answer) in std::mem::take(&mut now.wanted) {
            now.ask(request, answer);
        }
        now.pass_on();
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
    /// restarted, as soon as it is. The answer comes when one that was triggered after this is
    /// complete: all that was processed before is in it.
    ///
    /// ```
    /// # use overtake::{Job, connect::embedded::Input};
    /// # let directory = tempfile::tempdir()?;
    /// # let numbers = Input::<u64>::new();
    /// # let its = numbers.clone();
    /// let job = Job::new().workers(1).state(directory.path()).start(move |flow| {
    ///     flow.source("numbers", its.source()).for_each("print", |_| ());
    /// })?;
    /// let handle = job.handle();
    /// let first = handle.checkpoint()?.wait()?; // or: .await
    /// let kept = handle.savepoint()?.wait()?;
    /// assert!(kept > first);
    /// handle.stop();
    /// job.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the job has no state directory. The answer's: [`Error::Checkpoint`] if it was aborted,
    /// and [`Error::Ended`].
    pub fn checkpoint(&self) -> Result<Pending<CheckpointId>, Error> {
        self.ask(Request::Checkpoint)
    }

    /// Asks for a savepoint: a checkpoint that is aligned in every mode, and kept whatever others
    /// are taken, until its record in `savepoints/` of the state directory is deleted. Its
    /// transactions are committed as those of any checkpoint. It waits until the checkpoint before
    /// it is complete and committed.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Handle::checkpoint).
    pub fn savepoint(&self) -> Result<Pending<CheckpointId>, Error> {
        self.ask(Request::Savepoint)
    }

    /// Asks the job to take a [savepoint](Handle::savepoint), commit what it lists, and end, as
    /// [`stop`](Handle::stop) does. A savepoint that is aborted is tried again.
    ///
    /// # Errors
    ///
    /// If the job has no state directory. The answer's: [`Error::Ended`] if the job failed first;
    /// it is restarted as if this had not been asked.
    pub fn stop_with_savepoint(&self) -> Result<Pending<CheckpointId>, Error> {
        self.ask(Request::StopWithSavepoint)
    }

    fn ask(&self, request: Request) -> Result<Pending<CheckpointId>, Error> {
        let mut now = self.steering.lock();
        if !now.seen.life.has_checkpoints() {
            let why = "a job without a state directory takes no checkpoints: give it one";
            return Err(Error::Flow(why.into()));
        }
        let (answer, pending) = Pending::new();
        match now.phase {
            Phase::Running => now.ask(request, answer),
            Phase::Between => now.wanted.push((request, answer)),
            Phase::Over => drop(answer),
        }
        Ok(pending)
    }

    /// Asks the job to read no further and to end when everything is processed that was read, with
    /// all of it committed, as if its input had ended there: each operator is told that its inputs
    /// have ended. An embedded [input](crate::connect::embedded::Input) takes no more pushes, and
    /// what it was given is processed. A later start goes on behind what was read.
    ///
    /// A job that fails meanwhile is restarted, if it shall be, and drained again. It waits for
    /// whoever reads its [results](crate::connect::embedded::Results), if they are full.
    pub fn drain(&self) {
        self.steering.wish(Wish::Drain);
    }

    /// The value of a key in a table of an operator, as it is when its worker, between two slices
    /// of work, looks: within some 50 µs, or one record. It may be of records whose effects are not
    /// committed yet. Of a table of values and of a broadcast table `V` is the value, of lists a
    /// [`VecDeque`](std::collections::VecDeque), of maps a
    /// [`BTreeMap`](std::collections::BTreeMap); the table of
    /// [`fold`](crate::flow::keyed::Keyed::fold) is `"fold"`.
    ///
    /// ```
    /// # use overtake::{Job, connect::embedded::Input};
    /// # let numbers = Input::<u64>::new();
    /// # let its = numbers.clone();
    /// let job = Job::new().workers(2).start(move |flow| {
    ///     flow.source("numbers", its.source())
    ///         .key_by(|number| number % 10)
    ///         .fold("sums", |sum: &mut u64, number| *sum += number)
    ///         .for_each("print", |_| ());
    /// })?;
    /// let sum = job.handle().read::<u64, u64>("sums", "fold", 7)?.wait()?; // or: .await
    /// assert_eq!(sum, None); // no number has come
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no such operator. The answer's: [`Error::Read`] if there is no such table, or of
    /// other types, and [`Error::Ended`] also while the job is being restarted.
    pub fn read<K: Key, V: Clone + std::marker::Send + 'static>(
        &self,
        operator: &str,
        table: &str,
        key: K,
    ) -> Result<Pending<Option<V>>, Error> {
        let life = self.steering.lock().seen.life.clone();
        let Some(task) = life.tasks.iter().position(|name| name == operator) else {
            let known = life.tasks.join("\", \"");
            return Err(Error::Flow(format!(
                "the job has no operator \"{operator}\", but \"{known}\""
            )));
        };
        let index = life.index(owner(hash(&key), life.workers), task);
        let (answer, pending) = Pending::new();
        let table = table.to_owned();
        let look: Look = Box::new(move |states: &States| {
            let _ = answer.send(states.read::<K, V>(&table, &key).map_err(Error::from));
        });
        // One that is given back was told by being dropped.
        if life.looks(index).ask(look).is_ok() {
            life.waker(index).wake();
        }
        Ok(pending)
    }

    /// What the job takes of memory: of its state, and of what is in flight in it. Both have
    /// [limits](crate::Limits).
    pub fn memory(&self) -> Memory {
        let life = self.steering.lock().seen.life.clone();
        life.memory()
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
    /// What the thread that owns its lives says when it ends, until it was asked.
    ended: Option<Receiver<Result<Report, Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn new(
        steering: Arc<Steering>,
        ended: Receiver<Result<Report, Error>>,
        thread: Option<JoinHandle<()>>,
    ) -> Running {
        Running { steering, ended: Some(ended), thread }
    }

    /// Watches and steers the job from elsewhere.
    pub fn handle(&self) -> Handle {
        Handle { steering: self.steering.clone() }
    }

    /// Has the job ended, and is not restarted? Then [`join`](Running::join) does not wait.
    pub fn has_ended(&self) -> bool {
        self.ended.as_ref().is_none_or(|ended| ended.has_message() || ended.is_closed())
    }

    /// Waits until the job has ended. It is [restarted](crate::Restart) whether somebody waits or
    /// not.
    ///
    /// # Errors
    ///
    /// Why it could not go on.
    pub fn join(mut self) -> Result<Report, Error> {
        let ended = self.ended.take().expect("it is taken here and when it is dropped");
        let result = ended.recv().unwrap_or(Err(Error::Ended));
        // It has said good-bye: joining does not wait.
        self.thread.take().map(JoinHandle::join);
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.steering.wish(Wish::Drop);
            // Whatever is wrong now, nobody is left to be told.
            let _ = ended.recv();
            self.thread.take().map(JoinHandle::join);
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
