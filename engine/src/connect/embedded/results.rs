//! The results of an embedded job: committed, in order per key, held until they are acknowledged.
//!
//! ```text
//!   processed ──cut──▶ pending ──complete──▶ committed ──next──▶ shown ──acknowledge──▶ forgotten
//!   └──── in the sink's state, so in every checkpoint, until it is acknowledged ──────┘
//! ```
//!
//! How the [contract of sinks](crate::sink) is kept: by writing ahead (K7). What is processed in an
//! epoch lies in the state of its worker, under the id of the epoch, and may be shown when a
//! checkpoint is complete that holds it. After a restore what the checkpoint holds is shown first:
//! it was complete, and perhaps not acknowledged.
//!
//! # Invariants
//!
//! * **V1**: nothing is shown that could be processed again: only what a complete checkpoint holds.
//! * **V2**: results are shown in the order of their checkpoints, and those of one checkpoint at
//!   once; the results of a key are made by one worker at a time, and keep their order.
//! * **V3**: nothing is shown twice to a reader in one process, and what was acknowledged before a
//!   checkpoint is not shown after a restore from it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event_listener::{Event, Listener as _};
use overtake_state::{CheckpointId, Data, Entries, RestoreError, States};

use super::{ResultsError, Using};
use crate::error::BoxError;
use crate::sink::{Prepare, Sink, SinkContext, Target, TransactionId};
use crate::{Clock, Durability, LifeContext, Listener, Waker};

/// Results that are held, if nobody says otherwise.
pub const RESULTS_HELD_MAX: usize = 1 << 20;

/// Where a program reads what its job has committed. Clones are the same results.
///
/// ```
/// use std::time::Duration;
/// use overtake::connect::embedded::Results;
/// use overtake::{Job, source};
///
/// let directory = tempfile::tempdir()?;
/// let sums = Results::<(u64, u64)>::new();
/// let its = sums.clone();
/// let job = Job::new()
///     .workers(2)
///     .state(directory.path())
///     .interval(Duration::from_millis(10))
///     .start(move |flow| {
///         flow.source("numbers", source::items((0..100u64).collect()))
///             .key_by(|number| number % 10)
///             .fold("sums", |sum: &mut u64, number| *sum += number)
///             .sink("sums", its.sink());
///     })?;
///
/// let mut reader = sums.reader()?;
/// let mut read = 0;
/// while let Some(committed) = reader.next() {
///     read += committed.records.len();
///     // What was made of them is safe now:
///     reader.acknowledge(committed.checkpoint);
/// }
/// assert_eq!(read, 100);
/// job.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Results<R> {
    shared: Arc<Shared<R>>,
}

/// What one checkpoint has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<R> {
    /// The checkpoint whose epoch it was processed in. They only grow, also over restarts and new
    /// starts: whoever keeps the last one with what was made of it knows what it has seen.
    pub checkpoint: CheckpointId,
    /// The results, in order per key.
    pub records: Vec<R>,
}

struct Shared<R> {
    held_max: usize,
    held: Mutex<Held<R>>,
    /// There may be something to show, or never again.
    news: Event,
}

struct Held<R> {
    phase: Phase,
    using: Using,
    /// The job whose results were last shown, and its life.
    job: String,
    generation: u64,
    /// In no complete checkpoint yet, or restored by some workers and not by all.
    pending: BTreeMap<CheckpointId, BTreeMap<usize, Vec<R>>>,
    /// What can be shown, in order (V2).
    committed: VecDeque<Committed<R>>,
    /// The newest that was ever committed in this process.
    last: Option<CheckpointId>,
    /// Shown and not acknowledged: the checkpoint, and how many results.
    shown: VecDeque<(CheckpointId, usize)>,
    acknowledged: Option<CheckpointId>,
    /// Results that are committed and not acknowledged.
    count: usize,
    has_reader: bool,
    wakers: Vec<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A life has begun, and some workers have not opened the sink.
    Opening {
        opened: usize,
    },
    Open,
    Ended,
}

impl<R> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, Held<R>> {
        // Nothing of a user's runs under this lock.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Held<R> {
    /// Commits what is pending up to this checkpoint, which is complete (V1), unless it was
    /// acknowledged already (V3).
    fn commit(&mut self, up_to: CheckpointId) {
        let later = self.pending.split_off(&CheckpointId { epoch: up_to.epoch + 1, ..up_to });
        for (checkpoint, of_workers) in std::mem::replace(&mut self.pending, later) {
            self.last = Some(checkpoint);
            if self.last > self.acknowledged {
                let records: Vec<R> = of_workers.into_values().flatten().collect();
                self.count += records.len();
                self.committed.push_back(Committed { checkpoint, records });
            }
        }
    }

    fn acknowledge(&mut self, checkpoint: CheckpointId) {
        self.acknowledged = self.acknowledged.max(Some(checkpoint));
        while self.shown.front().is_some_and(|(id, _)| *id <= checkpoint) {
            self.count -= self.shown.pop_front().map_or(0, |(_, count)| count);
        }
        while self.committed.front().is_some_and(|next| next.checkpoint <= checkpoint) {
            self.count -= self.committed.pop_front().map_or(0, |next| next.records.len());
        }
        self.wakers.iter().for_each(Waker::wake);
    }
}

impl<R: Data> Results<R> {
    /// Results of which at most [`RESULTS_HELD_MAX`] are committed and not acknowledged.
    pub fn new() -> Results<R> {
        Results::with_held_max(RESULTS_HELD_MAX)
    }

    /// Results of which at most so many are committed and not acknowledged, and what one checkpoint
    /// commits beyond that. Then the sink takes no input until the reader acknowledges: a job in
    /// mode [`Aligned`](crate::Mode::Aligned) completes no checkpoint meanwhile.
    ///
    /// # Panics
    ///
    /// If none may be held.
    pub fn with_held_max(held_max: usize) -> Results<R> {
        assert!(held_max > 0, "results that may not be held are never shown");
        let held = Held {
            phase: Phase::Opening { opened: 0 },
            using: Using::default(),
            job: String::new(),
            generation: 0,
            pending: BTreeMap::new(),
            committed: VecDeque::new(),
            last: None,
            shown: VecDeque::new(),
            acknowledged: None,
            count: 0,
            has_reader: false,
            wakers: Vec::new(),
        };
        Results {
            shared: Arc::new(Shared { held_max, held: Mutex::new(held), news: Event::new() }),
        }
    }

    /// The sink that makes them: of one job at a time, under one name. The job needs a state
    /// directory.
    pub fn sink(&self) -> ResultsSink<R> {
        ResultsSink { shared: self.shared.clone(), part: None, records: Vec::new() }
    }

    /// The reader. What an earlier one was shown and did not acknowledge is not shown again in this
    /// process, unless the job is started anew.
    ///
    /// # Errors
    ///
    /// If there is one already.
    pub fn reader(&self) -> Result<Reader<R>, ResultsError> {
        if std::mem::replace(&mut self.shared.lock().has_reader, true) {
            return Err(ResultsError::OpenTwice);
        }
        Ok(Reader { shared: self.shared.clone() })
    }
}

impl<R: Data> Default for Results<R> {
    fn default() -> Self {
        Results::new()
    }
}

impl<R> Clone for Results<R> {
    fn clone(&self) -> Self {
        Results { shared: self.shared.clone() }
    }
}

/// Reads [`Results`].
pub struct Reader<R> {
    shared: Arc<Shared<R>>,
}

/// What a look has found.
enum Look<R> {
    Found(Committed<R>),
    Nothing,
    End,
}

impl<R: Data> Reader<R> {
    /// What the next checkpoint that has results has committed. Waits for it; answers none when the
    /// job has ended and everything was shown.
    #[allow(clippy::should_implement_trait, reason = "a reader acknowledges between two of them")]
    pub fn next(&mut self) -> Option<Committed<R>> {
        loop {
            let listener = self.shared.news.listen();
            match self.look() {
                Look::Found(committed) => return Some(committed),
                Look::End => return None,
                Look::Nothing => listener.wait(),
            }
        }
    }

    /// [`next`](Reader::next), for a future. One that is dropped before it is ready has taken
    /// nothing.
    pub async fn next_async(&mut self) -> Option<Committed<R>> {
        loop {
            let listener = self.shared.news.listen();
            match self.look() {
                Look::Found(committed) => return Some(committed),
                Look::End => return None,
                Look::Nothing => listener.await,
            }
        }
    }

    /// The same, if it is there within so long.
    pub fn next_within(&mut self, timeout: Duration) -> Option<Committed<R>> {
        let clock = Clock::system();
        loop {
            let listener = self.shared.news.listen();
            match (self.look(), timeout.checked_sub(clock.now())) {
                (Look::Found(committed), _) => return Some(committed),
                (Look::Nothing, Some(left)) => _ = listener.wait_timeout(left),
                (Look::End, _) | (Look::Nothing, None) => return None,
            }
        }
    }

    fn look(&mut self) -> Look<R> {
        let mut held = self.shared.lock();
        match held.committed.pop_front() {
            Some(committed) => {
                held.shown.push_back((committed.checkpoint, committed.records.len()));
                Look::Found(committed)
            }
            None if held.phase == Phase::Ended => Look::End,
            None => Look::Nothing,
        }
    }

    /// What was committed up to this checkpoint need not be shown, or not again. That is durable
    /// with the next checkpoint, and until then a new start may show it once more: whoever knows
    /// the last one that it has seen acknowledges it before the job is started, and is shown what
    /// followed.
    pub fn acknowledge(&mut self, checkpoint: CheckpointId) {
        self.shared.lock().acknowledge(checkpoint);
    }
}

impl<R> Drop for Reader<R> {
    fn drop(&mut self) {
        self.shared.lock().has_reader = false;
    }
}

/// Makes [`Results`]. Made by [`Results::sink`].
pub struct ResultsSink<R> {
    shared: Arc<Shared<R>>,
    part: Option<Part>,
    /// Of the epoch that is open.
    records: Vec<R>,
}

/// The sink on one worker.
struct Part {
    entries: Entries,
    generation: u64,
    worker: usize,
}

/// The table in which a sink keeps its results.
const TABLE: &str = "sink.results";

/// The entry of an epoch on a worker. No two workers have the same, in any life.
fn entry(id: CheckpointId, worker: usize) -> String {
    format!("{}.{}.{worker}", id.generation, id.epoch)
}

fn parse(entry: &str) -> Option<(CheckpointId, usize)> {
    let mut parts = entry.split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    let (generation, epoch, worker): (u64, u64, u64) = (next()?, next()?, next()?);
    Some((CheckpointId { generation, epoch }, worker as usize))
}

impl<R> Clone for ResultsSink<R> {
    fn clone(&self) -> Self {
        ResultsSink { shared: self.shared.clone(), part: None, records: Vec::new() }
    }
}

impl<R: Data> Sink for ResultsSink<R> {
    type Record = R;

    fn target(&self) -> Option<Arc<dyn Target>> {
        None
    }

    fn listener(&self) -> Option<Arc<dyn Listener>> {
        Some(self.shared.clone())
    }

    fn restore(&mut self, states: &mut States) -> Result<(), RestoreError> {
        let entries = states.entries(TABLE)?;
        let mut held = self.shared.lock();
        for id in entries.ids() {
            let Some((checkpoint, worker)) = parse(&id) else { continue };
            if Some(checkpoint) <= held.acknowledged {
                entries.remove(&id);
            } else if Some(checkpoint) > held.last
                && let Some(records) = entries.get::<Vec<R>>(&id)?
            {
                held.pending.entry(checkpoint).or_default().insert(worker, records);
            }
        }
        self.part = Some(Part { entries, generation: 0, worker: 0 });
        Ok(())
    }

    fn open(&mut self, context: SinkContext) -> Result<(), BoxError> {
        let part = self.part.as_mut().expect("a sink is restored before it is opened");
        (part.generation, part.worker) = (context.generation, context.worker);
        let mut held = self.shared.lock();
        held.wakers.push(context.waker);
        if let Phase::Opening { opened } = held.phase {
            held.phase = Phase::Opening { opened: opened + 1 };
            if opened + 1 == context.workers {
                // All that is pending was restored, and is complete.
                held.phase = Phase::Open;
                let generation = context.generation.saturating_sub(1);
                held.commit(CheckpointId { generation, epoch: u64::MAX - 1 });
                drop(held);
                self.shared.news.notify(usize::MAX);
            }
        }
        Ok(())
    }

    fn write(&mut self, records: &[R]) -> Result<(), BoxError> {
        self.records.extend_from_slice(records);
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.shared.lock().count < self.shared.held_max
    }

    fn cut(&mut self, _: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        Ok(None)
    }

    fn store(&mut self, epoch: u64) {
        let part = self.part.as_ref().expect("a sink is opened before it is cut");
        let mut held = self.shared.lock();
        for id in part.entries.ids() {
            if parse(&id).is_some_and(|(checkpoint, _)| Some(checkpoint) <= held.acknowledged) {
                part.entries.remove(&id);
            }
        }
        if !self.records.is_empty() {
            let records = std::mem::take(&mut self.records);
            let checkpoint = CheckpointId { generation: part.generation, epoch };
            part.entries.set(&entry(checkpoint, part.worker), &records);
            held.pending.entry(checkpoint).or_default().insert(part.worker, records);
        }
    }
}

impl<R: Data> Listener for Shared<R> {
    fn begin(&self, life: &LifeContext) -> Result<(), BoxError> {
        if life.durability == Durability::None {
            let why = "results are committed with checkpoints: give the job a state directory";
            return Err(why.into());
        }
        let mut held = self.lock();
        held.using.begin(life, "these results")?;
        if !held.job.is_empty() && held.job != life.job {
            // Checkpoints of another job say nothing of this one's.
            held.acknowledged = None;
        }
        if held.phase == Phase::Ended {
            // Another job, or a new start: what was not acknowledged is shown from its checkpoint.
            held.committed.clear();
            held.shown.clear();
            (held.last, held.count) = (held.acknowledged, 0);
        }
        held.phase = Phase::Opening { opened: 0 };
        (held.job, held.generation) = (life.job.clone(), life.generation);
        held.pending.clear();
        held.wakers.clear();
        Ok(())
    }

    fn completed(&self, epoch: u64) {
        let mut held = self.lock();
        let generation = held.generation;
        held.commit(CheckpointId { generation, epoch });
        drop(held);
        self.news.notify(usize::MAX);
    }

    fn ended(&self, run: u64) {
        let mut held = self.lock();
        if !held.using.end(run) {
            return;
        }
        held.phase = Phase::Ended;
        held.pending.clear();
        held.wakers.clear();
        drop(held);
        self.news.notify(usize::MAX);
    }
}
