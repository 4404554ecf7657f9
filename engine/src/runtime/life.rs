//! One life of a job: what its workers, coordinator, writer and commit threads share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use overtake_state::{EdgeInfo, Restored, TableInfo};

use crate::channel::lane::Exchange;
use crate::channel::wake::{Wake, Waker, WorkerWake};
use crate::checkpoint::commit::Job;
use crate::checkpoint::control::{Control, Raise};
use crate::checkpoint::coordinator::Event;
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::time::Epoch;
use crate::checkpoint::write::Written;
use crate::config::Limits;
use crate::runtime::asked::{Asked, Awaited, Look};
use crate::runtime::clock::Clock;
use crate::runtime::queue::Queue;
use crate::sync::Padded;

/// See the [module](self).
pub(crate) struct Life {
    pub(crate) job: String,
    pub(crate) generation: u64,
    pub(crate) workers: usize,
    /// The names of the tasks of each worker.
    pub(crate) tasks: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    pub(crate) control: Control,
    pub(crate) exchange: Exchange,
    pub(crate) events: Queue<Event>,
    pub(crate) snapshots: Queue<Snapshot>,
    pub(crate) commits: Queue<Job>,
    /// What this life goes on from, until its threads have ended: it holds the state directory.
    restored: Mutex<Option<Arc<Restored>>>,
    /// Segments that are durable and not yet published.
    pub(crate) written: Mutex<BTreeMap<(Epoch, usize), Written>>,
    /// The tables of each operator, as the workers declare them.
    pub(crate) operators: Mutex<BTreeMap<String, Vec<TableInfo>>>,
    pub(crate) edges: Vec<EdgeInfo>,
    /// Runs of epochs that were aborted together, oldest first.
    pub(crate) aborted: Mutex<Vec<(Epoch, Epoch)>>,
    /// What a commit said when it last failed: it is part of the message if its time runs out.
    pub(crate) commit_error: Mutex<Option<String>>,
    has_checkpoints: bool,
    start: Epoch,
    worker_wakes: Vec<Arc<Padded<WorkerWake>>>,
    /// Of all tasks, counted over all workers.
    wakes: Vec<Arc<Padded<Wake>>>,
    /// The task that each worker is in, plus one; 0 between tasks.
    running: Vec<Padded<AtomicUsize>>,
    processed: Vec<Padded<AtomicU64>>,
    /// What each task takes of memory.
    memory: Vec<Padded<TaskMemory>>,
    /// Looks at the state of each task.
    looks: Vec<Asked<Look>>,
    /// Checkpoints that somebody waits for.
    pub(crate) awaited: Asked<Awaited>,
}

/// What a job takes of memory, as its tasks have told after their last pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of the tables that hold state, without what rows hold elsewhere (the text of a
    /// `String`).
    pub state_bytes: u64,
    /// Bytes of records that are sent and not processed, or wait to be sent, as they lie in
    /// batches.
    pub in_flight_bytes: u64,
}

#[derive(Debug, Default)]
struct TaskMemory {
    state_bytes: AtomicU64,
    in_flight_bytes: AtomicU64,
}

/// How a life begins.
pub(crate) struct Beginning {
    pub(crate) job: String,
    pub(crate) generation: u64,
    pub(crate) workers: usize,
    pub(crate) tasks: Vec<String>,
    pub(crate) edges: Vec<EdgeInfo>,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    pub(crate) restored: Option<Arc<Restored>>,
    pub(crate) has_checkpoints: bool,
}

impl Life {
    pub(crate) fn new(beginning: Beginning) -> Life {
        let Beginning {
            job,
            generation,
            workers,
            tasks,
            edges,
            limits,
            clock,
            restored,
            has_checkpoints,
        } = beginning;
        let restored_epoch =
            Epoch(restored.as_ref().map_or(0, |restored| restored.manifest().id.epoch));
        let worker_wakes: Vec<_> = (0..workers).map(|_| WorkerWake::new(tasks.len())).collect();
        let wakes: Vec<_> = worker_wakes
            .iter()
            .flat_map(|worker| (0..tasks.len()).map(|task| Wake::new(worker.clone(), task)))
            .collect();
        Life {
            control: Control::new(restored_epoch),
            exchange: Exchange::default(),
            events: Queue::default(),
            snapshots: Queue::default(),
            commits: Queue::default(),
            written: Mutex::default(),
            operators: Mutex::default(),
            aborted: Mutex::default(),
            commit_error: Mutex::default(),
            start: restored_epoch.next(),
            running: (0..workers).map(|_| Padded::default()).collect(),
            processed: wakes.iter().map(|_| Padded::default()).collect(),
            memory: wakes.iter().map(|_| Padded::default()).collect(),
            looks: wakes.iter().map(|_| Asked::default()).collect(),
            awaited: Asked::default(),
            job,
            generation,
            workers,
            tasks,
            edges,
            limits,
            clock,
            restored: Mutex::new(restored),
            has_checkpoints,
            worker_wakes,
            wakes,
        }
    }

    /// The first epoch of this life.
    pub(crate) fn start(&self) -> Epoch {
        self.start
    }

    /// Does the job have a state directory?
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.has_checkpoints
    }

    /// A task of a worker, counted over all workers.
    pub(crate) fn index(&self, worker: usize, task: usize) -> usize {
        worker * self.tasks.len() + task
    }

    /// The name of a task, and the worker that hosts it.
    pub(crate) fn name(&self, index: usize) -> (&str, usize) {
        (&self.tasks[index % self.tasks.len()], index / self.tasks.len())
    }

    pub(crate) fn wake(&self, index: usize) -> &Arc<Padded<Wake>> {
        &self.wakes[index]
    }

    pub(crate) fn waker(&self, index: usize) -> Waker {
        Waker::new(self.wakes[index].clone())
    }

    /// The wake-ups of one task on each worker.
    pub(crate) fn wakes_of(&self, task: usize) -> Vec<Arc<Padded<Wake>>> {
        (0..self.workers).map(|worker| self.wakes[self.index(worker, task)].clone()).collect()
    }

    pub(crate) fn worker_wake(&self, worker: usize) -> &Arc<Padded<WorkerWake>> {
        &self.worker_wakes[worker]
    }

    /// Raises a part of the control word and tells every task.
    pub(crate) fn raise(&self, raise: Raise) {
        self.control.raise(raise);
        self.wakes.iter().for_each(|wake| wake.notify());
    }

    /// Is this epoch's checkpoint aborted?
    pub(crate) fn is_aborted(&self, epoch: Epoch) -> bool {
        let aborted = self.aborted.lock().expect("no holder panics");
        aborted.iter().any(|(from, to)| (*from..=*to).contains(&epoch))
    }

    /// What this life goes on from.
    pub(crate) fn restored(&self) -> Option<Arc<Restored>> {
        self.restored.lock().expect("no holder panics").clone()
    }

    /// All its threads have ended. What it was restored from and what they have left undone hold
    /// files and memory, and who still watches the life needs neither.
    pub(crate) fn close(&self) {
        let restored = self.restored.lock().expect("no holder panics").take();
        drop(restored);
        self.hang_up();
        self.snapshots.clear();
        self.commits.clear();
        self.events.clear();
    }

    /// Nobody answers any more what is asked of this life.
    pub(crate) fn hang_up(&self) {
        self.looks.iter().for_each(Asked::close);
        self.awaited.close();
    }

    /// A worker has declared the tables of an operator; all declare the same.
    pub(crate) fn declare(&self, operator: &str, tables: Vec<TableInfo>) {
        let mut operators = self.operators.lock().expect("no holder panics");
        operators.insert(operator.to_owned(), tables);
    }

    /// A worker enters a task.
    pub(crate) fn enter(&self, index: usize) {
        self.running[index / self.tasks.len()].store(index + 1, Ordering::Relaxed);
    }

    /// A worker leaves a task.
    pub(crate) fn leave(&self, index: usize) {
        self.running[index / self.tasks.len()].store(0, Ordering::Relaxed);
    }

    /// The task that a worker is in.
    pub(crate) fn running(&self, worker: usize) -> Option<usize> {
        self.running[worker].load(Ordering::Relaxed).checked_sub(1)
    }

    /// Looks at the state of a task.
    pub(crate) fn looks(&self, index: usize) -> &Asked<Look> {
        &self.looks[index]
    }

    /// What a task takes of memory now: its tables, and what it holds in flight.
    pub(crate) fn set_memory(&self, index: usize, memory: Memory) {
        self.memory[index].state_bytes.store(memory.state_bytes, Ordering::Relaxed);
        self.memory[index].in_flight_bytes.store(memory.in_flight_bytes, Ordering::Relaxed);
    }

    /// What all tasks take of memory.
    pub(crate) fn memory(&self) -> Memory {
        let sum = |of: fn(&TaskMemory) -> &AtomicU64| {
            self.memory.iter().map(|task| of(task).load(Ordering::Relaxed)).sum()
        };
        Memory {
            state_bytes: sum(|task| &task.state_bytes),
            in_flight_bytes: sum(|task| &task.in_flight_bytes),
        }
    }

    /// A task has processed so many records in this life. Exact after each pass, and when the task
    /// has failed; while it works, what it had processed before its chunk.
    pub(crate) fn set_processed(&self, index: usize, records: u64) {
        self.processed[index].store(records, Ordering::Relaxed);
    }

    /// Records that a task has processed in this life.
    pub(crate) fn processed(&self, index: usize) -> u64 {
        self.processed[index].load(Ordering::Relaxed)
    }

    /// The same of every task, counted over all workers.
    pub(crate) fn processed_by_all(&self) -> impl Iterator<Item = u64> {
        self.processed.iter().map(|records| records.load(Ordering::Relaxed))
    }
}
