//! The input of an embedded job: producers push, the job reads, and everybody is told what is
//! durable.
//!
//! An input has [`SPLITS`] splits, each a [`Log`] under a lock of its own; a producer belongs to
//! one, so its pushes keep their order, and a position is the number of each producer's last push.
//! Splits are dealt to the workers as those of any source.
//!
//! Not here: pushing, see [`producer`](super::producer); reading, see [`source`](super::source).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event_listener::{Event, Listener as _};
use overtake_state::Data;

use super::durable::Told;
use super::log::{Completed, Log};
use super::producer::Producer;
use super::source::InputSource;
use super::{InputError, Using};
use crate::error::BoxError;
use crate::{Durability, LifeContext, Listener, Waker};

/// Splits of an input: so many workers can read it.
pub const SPLITS: usize = 16;

/// Producers of an input: each one's number is part of every checkpoint.
pub const PRODUCERS_MAX: usize = 4_096;

/// Records that an input holds, if nobody says otherwise: of 64 bytes, half of 128 MiB.
pub const HELD_MAX: usize = 1 << 20;

/// Where a program pushes records into its job. Clones are the same input.
///
/// ```
/// use std::time::Duration;
/// use overtake::connect::embedded::Input;
/// use overtake::Job;
///
/// let directory = tempfile::tempdir()?;
/// let orders = Input::<u64>::new();
/// let its = orders.clone();
/// let job = Job::new()
///     .workers(2)
///     .state(directory.path())
///     .interval(Duration::from_millis(10))
///     .start(move |flow| {
///         flow.source("orders", its.source())
///             .key_by(|order| order % 10)
///             .fold("sums", |sum: &mut u64, order| *sum += order)
///             .for_each("print", |_| ());
///     })?;
///
/// let mut web = orders.open("web")?;
/// assert_eq!(web.durable(), 0); // this job is new: nothing was pushed before
/// let number = web.push(17)?;
/// web.when_durable(number).wait()?; // whatever happens now, it is counted, and once
/// orders.close();
/// job.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Input<R> {
    shared: Arc<Shared<R>>,
}

/// What producers and the source share.
pub(super) struct Shared<R> {
    pub(super) held_max: usize,
    /// Records in all logs, and places reserved for pushes that are about to be done.
    pub(super) held: AtomicUsize,
    /// `held` has become less, or nothing can be pushed any more.
    pub(super) room: Event,
    pub(super) session: Mutex<Session>,
    /// `session` has changed.
    pub(super) changed: Event,
    pub(super) splits: Vec<Locked<R>>,
}

/// A split, and how often it had news, pushes and its end: who knows them all need not lock it.
pub(super) struct Locked<R> {
    pub(super) news: AtomicU64,
    split: Mutex<Split<R>>,
}

/// From the beginning of a job to its end. Locked before any split.
pub(super) struct Session {
    using: Using,
    pub(super) phase: Phase,
    /// Where each producer's pushes go: the split, and the index in it.
    pub(super) producers: BTreeMap<String, (usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The job has not begun, or not opened all splits.
    Opening {
        opened: usize,
    },
    Open,
    Ended,
}

/// A part of an input, with the producers that push into it.
pub(super) struct Split<R> {
    pub(super) log: Log<R>,
    pub(super) producers: Vec<Pushing>,
    pub(super) durability: Durability,
    pub(super) is_closed: bool,
    pub(super) waker: Option<Waker>,
}

/// A producer, as its split sees it.
pub(super) struct Pushing {
    pub(super) pushed: u64,
    pub(super) has_handle: bool,
    pub(super) told: Arc<Told>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing of a user's runs under these locks but the clone of a record.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Data> Input<R> {
    /// An input that holds at most [`HELD_MAX`] records.
    pub fn new() -> Input<R> {
        Input::with_held_max(HELD_MAX)
    }

    /// An input that holds at most so many records: those that are not durable yet, and of a job
    /// without a state directory those that are not read yet. Choose some times as many as are
    /// pushed from one checkpoint to the next, or pushes wait for checkpoints.
    ///
    /// # Panics
    ///
    /// If it may hold none.
    pub fn with_held_max(held_max: usize) -> Input<R> {
        assert!(held_max > 0, "an input that may hold nothing takes nothing");
        let split = || Locked {
            news: AtomicU64::new(0),
            split: Mutex::new(Split {
                log: Log::default(),
                producers: Vec::new(),
                durability: Durability::None,
                is_closed: false,
                waker: None,
            }),
        };
        let session = Session {
            using: Using::default(),
            phase: Phase::Opening { opened: 0 },
            producers: BTreeMap::new(),
        };
        let shared = Shared {
            held_max,
            held: AtomicUsize::new(0),
            room: Event::new(),
            session: Mutex::new(session),
            changed: Event::new(),
            splits: (0..SPLITS).map(|_| split()).collect(),
        };
        Input { shared: Arc::new(shared) }
    }

    /// The source that reads what is pushed: of one job at a time, under one name.
    pub fn source(&self) -> InputSource<R> {
        InputSource::new(self.shared.clone())
    }

    /// Opens the input for a producer, whose name is stored in every checkpoint from now on. Waits
    /// until the job has opened it, so that [`Producer::durable`] is true.
    ///
    /// # Errors
    ///
    /// If the producer has a handle already, if there are [`PRODUCERS_MAX`], or if the job has
    /// ended or could not start.
    pub fn open(&self, producer: &str) -> Result<Producer<R>, InputError> {
        loop {
            let listener = self.shared.changed.listen();
            match self.try_open(producer) {
                Some(opened) => return opened,
                None => listener.wait(),
            }
        }
    }

    /// [`open`](Input::open), for a future.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn open_async(&self, producer: &str) -> Result<Producer<R>, InputError> {
        loop {
            let listener = self.shared.changed.listen();
            match self.try_open(producer) {
                Some(opened) => return opened,
                None => listener.await,
            }
        }
    }

    /// None if the job has not opened the input yet.
    fn try_open(&self, producer: &str) -> Option<Result<Producer<R>, InputError>> {
        let mut session = lock(&self.shared.session);
        match session.phase {
            Phase::Opening { .. } => return None,
            Phase::Ended => return Some(Err(InputError::NotRunning)),
            Phase::Open => {}
        }
        let (split, index) = match session.producers.get(producer) {
            Some(known) => *known,
            None if session.producers.len() >= PRODUCERS_MAX => {
                return Some(Err(InputError::TooMany(PRODUCERS_MAX)));
            }
            None => {
                let fewest = (0..SPLITS).min_by_key(|i| self.shared.split(*i).producers.len());
                let split = fewest.expect("there are splits");
                let index = self.shared.split(split).add(producer, 0);
                session.producers.insert(producer.to_owned(), (split, index));
                (split, index)
            }
        };
        let mut of = self.shared.split(split);
        let pushing = &mut of.producers[index];
        if std::mem::replace(&mut pushing.has_handle, true) {
            return Some(Err(InputError::OpenTwice(producer.to_owned())));
        }
        let (shared, told) = (self.shared.clone(), pushing.told.clone());
        Some(Ok(Producer::new(shared, (split, index), told, pushing.pushed)))
    }

    /// No more is pushed, by any producer: the source ends when everything is read, and if all
    /// others end too, so does the job, with all committed. After the end of a job there is nothing
    /// to close.
    pub fn close(&self) {
        if lock(&self.shared.session).phase != Phase::Ended {
            self.shared.close();
        }
    }
}

impl<R: Data> Default for Input<R> {
    fn default() -> Self {
        Input::new()
    }
}

impl<R> Clone for Input<R> {
    fn clone(&self) -> Self {
        Input { shared: self.shared.clone() }
    }
}

impl<R> Split<R> {
    /// A producer that this process did not know.
    pub(super) fn add(&mut self, name: &str, durable: u64) -> usize {
        let told = Told::new(name, durable, self.durability);
        self.producers.push(Pushing { pushed: durable, has_handle: false, told });
        self.producers.len() - 1
    }
}

impl<R> Shared<R> {
    pub(super) fn split(&self, index: usize) -> MutexGuard<'_, Split<R>> {
        lock(&self.splits[index].split)
    }

    /// So many records are not held any more.
    pub(super) fn release(&self, count: usize) {
        if count > 0 {
            self.held.fetch_sub(count, Ordering::AcqRel);
            self.room.notify(usize::MAX);
        }
    }

    pub(super) fn close(&self) {
        for index in 0..SPLITS {
            let mut split = self.split(index);
            split.is_closed = true;
            self.splits[index].news.fetch_add(1, Ordering::Release);
            split.waker.iter().for_each(Waker::wake);
        }
        self.room.notify(usize::MAX);
    }
}

impl<R: Data> Listener for Shared<R> {
    fn begin(&self, life: &LifeContext) -> Result<(), BoxError> {
        let mut session = lock(&self.session);
        session.using.begin(life, "this input")?;
        if session.phase != Phase::Open {
            session.phase = Phase::Opening { opened: 0 };
        }
        (0..SPLITS).for_each(|index| self.split(index).durability = life.durability);
        Ok(())
    }

    /// N5: what is let go of is dropped, and callbacks run, outside of any lock.
    fn completed(&self, epoch: u64) {
        for index in 0..SPLITS {
            let mut split = self.split(index);
            let Completed { dropped, released, durable } = split.log.completed(epoch);
            let told: Vec<_> = split.producers.iter().map(|p| p.told.clone()).collect();
            drop(split);
            drop(dropped);
            self.release(released);
            told.iter().zip(durable).for_each(|(told, durable)| told.raise(durable));
        }
    }

    fn ended(&self, run: u64) {
        let mut session = lock(&self.session);
        if !session.using.end(run) {
            return;
        }
        session.phase = Phase::Ended;
        session.producers.clear();
        let mut gone = Vec::new();
        for index in 0..SPLITS {
            let mut split = self.split(index);
            let log = std::mem::take(&mut split.log);
            gone.append(&mut split.producers);
            (split.is_closed, split.waker) = (false, None);
            drop(split);
            self.release(log.held());
        }
        drop(session);
        gone.iter().for_each(|pushing| pushing.told.end());
        self.room.notify(usize::MAX);
        self.changed.notify(usize::MAX);
    }
}
