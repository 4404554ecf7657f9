//! The threads of a life that are no workers: director, writer, publisher, commits.
//!
//! Each takes its work from a queue and sleeps while that is empty. A panic in one stops the job.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::checkpoint::commit::{self, Done};
use crate::checkpoint::coordinator::Event;
use crate::checkpoint::direct::{Director, Outcome};
use crate::checkpoint::publish::{Publication, Publisher, Turn};
use crate::checkpoint::write::Writer;
use crate::error::Error;
use crate::observe::{Observer, Watch};
use crate::runtime::life::Life;
use crate::runtime::queue::Queue;
use crate::runtime::spawn::{Spawner, Thread};

/// Threads that prepare and commit: one that hangs does not hold up the other.
const COMMIT_THREADS: usize = 2;

/// How long a step that failed waits before it is tried again: a commit, a manifest.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long the writer waits for the other snapshots of a checkpoint. Where every core has a
/// worker, it would take the core from one that has yet to capture, for a scheduler's slice.
const GATHER_FOR: Duration = Duration::from_millis(2);

/// Tells all services of a life to end.
#[derive(Default)]
pub(crate) struct Closing {
    is_closing: AtomicBool,
    lock: Mutex<()>,
    told: Condvar,
}

impl Closing {
    pub(crate) fn tell(&self) {
        let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_closing.store(true, Ordering::Release);
        self.told.notify_all();
    }

    fn is_told(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Waits so long, or until it is told.
    fn pause(&self, time: Duration) {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.told.wait_timeout_while(lock, time, |()| !self.is_told());
    }
}

/// Starts a thread of the job. When it ends, by itself or by a panic, `ended` is told its name.
pub(crate) fn spawn(
    name: &'static str,
    life: &Arc<Life>,
    ended: &Sender<&'static str>,
    spawner: &Spawner,
    run: impl FnOnce() + Send + 'static,
) -> Result<Option<JoinHandle<()>>, Error> {
    let (life, ended) = (life.clone(), ended.clone());
    let body = move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            let what = panic.downcast_ref::<String>().cloned();
            let what = what.or_else(|| panic.downcast_ref::<&str>().map(|w| (*w).to_owned()));
            let why = format!("thread {name} panicked: {}", what.unwrap_or_default());
            life.events.push(Event::WorkerFailed { why });
        }
        // Nobody listens any more if the job has given this thread up.
        let _ = ended.send(name);
    };
    spawner.spawn(Thread::new(name, body)).map_err(Error::Thread)
}

/// Obeys and listens until the life is over.
pub(crate) fn direct(mut director: Director, mut watch: Watch) -> Outcome {
    loop {
        let event = (!director.has_effects()).then(|| director.wait(watch.patience()));
        let outcome = director.turn(event);
        if outcome.is_some() || !director.has_effects() {
            watch.look();
        }
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
}

pub(crate) fn write(mut writer: Writer, life: &Life, closing: &Closing) {
    let of_a_checkpoint = life.workers * life.tasks.len();
    while !closing.is_told() {
        for snapshot in life.snapshots.gather(of_a_checkpoint, GATHER_FOR) {
            if closing.is_told() {
                return;
            }
            writer.turn(snapshot);
        }
    }
}

pub(crate) fn publish(mut publisher: Publisher, from: &Queue<Publication>, closing: &Closing) {
    while !closing.is_told() {
        if publisher.is_idle() {
            match from.pop_within(None) {
                Some(publication) => publisher.begin(publication),
                None => continue,
            }
        }
        if publisher.turn() == Turn::Again {
            closing.pause(RETRY_AFTER);
        }
    }
    publisher.close();
}

pub(crate) fn commit(life: &Life, observer: &Observer, closing: &Closing) {
    while !closing.is_told() {
        let Some(job) = life.commits.pop_within(None) else { continue };
        let span = observer.work(&job).entered();
        if let Done::Again { job, why } = commit::run(job, &life.events) {
            if let commit::Job::Commit { transaction, .. } = &job {
                observer.commit_failed(transaction, &why);
            }
            drop(span);
            *life.commit_error.lock().expect("no holder panics") = Some(why);
            closing.pause(RETRY_AFTER);
            life.commits.push(job);
        }
    }
}

/// The names of the commit threads.
pub(crate) const COMMITS: [&str; COMMIT_THREADS] = ["overtake-commit-0", "overtake-commit-1"];
