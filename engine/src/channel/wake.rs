//! Who runs again, and when: a bit per task in its worker's words, and an unpark of the worker.
//!
//! ```text
//!   publisher                        task, about to go idle            its worker
//!   push | give back | raise | …     arm:  armed = true                loop: take bits, activate
//!   notify: fence                          fence                             step the tasks
//!           armed? take it down      look again: anything?                   nothing to do: park
//!           raise the bit            yes: disarm, and run on
//!           unpark the worker
//! ```
//!
//! Nothing wakes who runs: a notification of a task that is not armed costs a fence and a load.
//!
//! # Invariants
//!
//! * **W1**: one of the two fences is first. If the publisher's is, the task's second look finds
//!   what was published; if the task's is, the publisher finds it armed. A task that is armed and
//!   found nothing is woken by what comes.
//! * **W2**: who takes `armed` down raises the bit, once. Who takes the bit sees what was published
//!   before it.
//! * **W3**: the bit is raised before the worker is unparked, and the worker looks at its words
//!   between two parks. An unpark that comes before the park makes that return at once, so no bit
//!   sleeps.
//! * **W4**: a worker is adopted by its thread before any of its tasks arms; who finds a task armed
//!   finds the thread. In the simulation no thread adopts it: the bit is all.
//!
//! Not here: what a task looks at again; that is each task's own (`operator/`).

use std::fmt;
use std::sync::Arc;

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicBool, AtomicU64, OnceLock, Padded, fence, yield_point};

/// One per worker: which of its tasks are to run, and the thread that parks when none is.
#[derive(Debug)]
pub(crate) struct WorkerWake {
    words: Box<[AtomicU64]>,
    thread: OnceLock<Thread>,
}

impl WorkerWake {
    /// Of a worker with so many tasks.
    pub(crate) fn new(tasks: usize) -> Arc<Padded<WorkerWake>> {
        let words = (0..tasks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Padded(WorkerWake { words, thread: OnceLock::new() }))
    }

    /// The calling thread is the worker's: it is unparked when a bit is raised.
    pub(crate) fn adopt(&self) {
        assert!(self.thread.set(thread::current()).is_ok(), "a worker has one thread");
    }

    /// Takes all bits down and names their tasks. Called by the worker before each step, so also
    /// between two parks.
    #[inline]
    pub(crate) fn take(&self, mut activate: impl FnMut(usize)) {
        for (index, word) in self.words.iter().enumerate() {
            // Relaxed: a bit that is missed here is followed by an unpark (W3), and most looks find
            // none.
            if word.load(Relaxed) == 0 {
                continue;
            }
            // Acquire: what was published before the bit (W2); pairs with the fence in `notify`.
            let mut bits = word.swap(0, Acquire);
            while bits != 0 {
                activate(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    fn raise(&self, task: usize) {
        // Relaxed: the fence in `notify` has released what was published (W2).
        self.words[task / 64].fetch_or(1 << (task % 64), Relaxed);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// One per task: whether it waits to be woken.
#[derive(Debug)]
pub(crate) struct Wake {
    armed: AtomicBool,
    /// Something was finished elsewhere that the task cannot see by looking at its ports.
    signalled: AtomicBool,
    worker: Arc<Padded<WorkerWake>>,
    task: usize,
}

impl Wake {
    /// Of the worker's task with this index.
    pub(crate) fn new(worker: Arc<Padded<WorkerWake>>, task: usize) -> Arc<Padded<Wake>> {
        assert!(task < worker.words.len() * 64, "task {task} is not one of its worker's");
        let (armed, signalled) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Padded(Wake { armed, signalled, worker, task }))
    }

    /// Something was published for the task. Wakes it if it is armed.
    #[inline]
    pub(crate) fn notify(&self) {
        // What was published comes before the look at `armed`; pairs with the fence in `arm` (W1).
        fence(SeqCst);
        // Relaxed: a look that spares who runs the exchange; the fences make it fresh (W1).
        if !self.armed.load(Relaxed) {
            return;
        }
        // Acquire: the worker's thread (W4); pairs with the release in `arm`. Who finds it down
        // already (relaxed) writes nothing over a later arming.
        if self.armed.compare_exchange(true, false, Acquire, Relaxed).is_ok() {
            self.worker.raise(self.task);
        }
    }

    /// Notifies the task of something that only this tells it.
    pub(crate) fn signal(&self) {
        // Release: what was finished; pairs with the acquire in `take_signal`.
        self.signalled.store(true, Release);
        self.notify();
    }

    /// Was the task signalled since this was last asked? Part of the look after arming.
    #[inline]
    pub(crate) fn take_signal(&self) -> bool {
        self.signalled.load(Relaxed) && self.signalled.swap(false, Acquire)
    }

    /// The task is about to go idle. It must look once more at all that could wake it, after this.
    #[inline]
    pub(crate) fn arm(&self) {
        // Release: the worker's thread (W4); pairs with the acquire in `notify`.
        self.armed.store(true, Release);
        // The look that follows comes after `armed`; pairs with the fence in `notify` (W1).
        fence(SeqCst);
        yield_point();
    }

    /// The second look found something. A notification may have come before this: then the task
    /// runs once in vain.
    #[inline]
    pub(crate) fn disarm(&self) {
        // Relaxed: who still finds it armed wakes a task that runs, which is legal.
        self.armed.store(false, Relaxed);
    }
}

/// Wakes one task, from any thread: for sources, sinks and whatever works for a task elsewhere.
///
/// First make what you have visible (send it, store it, unlock it), then call
/// [`wake`](Waker::wake): the task looks at everything again before it goes idle, so a wake that
/// comes while it runs is not lost, and costs next to nothing.
#[derive(Clone)]
pub struct Waker(Arc<Padded<Wake>>);

impl Waker {
    pub(crate) fn new(task: Arc<Padded<Wake>>) -> Waker {
        Waker(task)
    }

    /// Wakes the task, if it waits.
    pub fn wake(&self) {
        self.0.signal();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").field("task", &self.0.task).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::channel::credit::credit;
    use crate::channel::ring::ring;

    fn taken(worker: &WorkerWake) -> Vec<usize> {
        let mut tasks = Vec::new();
        worker.take(|task| tasks.push(task));
        tasks
    }

    #[test]
    fn an_armed_task_is_woken_once() {
        let worker = WorkerWake::new(130);
        let wakes: Vec<_> = (0..130).map(|task| Wake::new(worker.clone(), task)).collect();
        for task in [129, 0, 64, 63] {
            wakes[task].arm();
            wakes[task].notify();
            wakes[task].notify();
        }
        assert_eq!(taken(&worker), [0, 63, 64, 129]);
        assert!(taken(&worker).is_empty());
        wakes[64].notify();
        assert!(taken(&worker).is_empty(), "a notification takes the arming down");
    }

    #[test]
    fn nothing_wakes_a_task_that_runs() {
        let worker = WorkerWake::new(1);
        let wake = Wake::new(worker.clone(), 0);
        wake.notify();
        assert!(taken(&worker).is_empty());
        wake.arm();
        wake.disarm();
        Waker::new(wake).wake();
        assert!(taken(&worker).is_empty());
    }

    #[test]
    #[should_panic(expected = "task 64 is not one of its worker's")]
    fn a_task_belongs_to_its_worker() {
        Wake::new(WorkerWake::new(64), 64);
    }

    /// Sender and receiver go idle at every chance, each woken by the other: a lost wake-up hangs
    /// this test.
    #[test]
    fn batches_and_credit_wake_two_parked_workers() {
        const BATCHES: usize = 50_000;
        let (workers, wakes): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let worker = WorkerWake::new(1);
                (worker.clone(), Wake::new(worker, 0))
            })
            .unzip();
        let (mut producer, mut consumer) = ring(2);
        let (mut credit, mut returned) = credit(2);
        let idle = |worker: &WorkerWake| {
            while taken(worker).is_empty() {
                thread::park();
            }
        };

        std::thread::scope(|scope| {
            scope.spawn(|| {
                workers[0].adopt();
                for batch in 0..BATCHES {
                    while !credit.has() {
                        wakes[0].arm();
                        if credit.look() {
                            wakes[0].disarm();
                        } else {
                            idle(&workers[0]);
                        }
                    }
                    credit.take();
                    producer.push(batch).unwrap();
                    wakes[1].notify();
                }
            });
            scope.spawn(|| {
                workers[1].adopt();
                for batch in 0..BATCHES {
                    let received = loop {
                        if let Some(received) = consumer.pop() {
                            break received;
                        }
                        wakes[1].arm();
                        if consumer.is_empty() {
                            idle(&workers[1]);
                        } else {
                            wakes[1].disarm();
                        }
                    };
                    assert_eq!(received, batch);
                    returned.give_back();
                    wakes[0].notify();
                }
            });
        });
    }
}
