//! A worker: a thread that steps its dataflow, and parks when nobody has anything to do.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use timely::scheduling::Activator;
use timely::worker::Worker as Timely;

use crate::checkpoint::time::Time;
use crate::config::Idle;
use crate::error::{BoxError, Error};
use crate::flow::Flow;
use crate::flow::install::Install;
use crate::runtime::life::Life;

/// A task as its worker sees it.
pub(crate) struct Hosted {
    pub(crate) activator: Activator,
    pub(crate) slot: Rc<Slot>,
}

/// What a task leaves behind after a pass.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) wakes_at: Cell<Option<Duration>>,
    pub(crate) failure: Cell<Option<BoxError>>,
}

/// The dataflow of a job on one worker.
pub(crate) struct Built {
    worker: usize,
    dataflow: usize,
    hosted: Vec<Hosted>,
    life: Arc<Life>,
}

impl Built {
    /// Describes the flow anew on this worker, and installs it.
    ///
    /// # Errors
    ///
    /// See [`Install::all`]. What was built is dropped.
    pub(crate) fn new(
        timely: &mut Timely,
        life: &Arc<Life>,
        describe: &dyn Fn(&mut Flow),
    ) -> Result<Built, Error> {
        let mut flow = Flow::new();
        describe(&mut flow);
        let dataflow = timely.next_dataflow_index();
        let graph = flow.into_graph();
        let hosted = timely.dataflow::<Time, _, _>(|scope| Install::all(graph, life, scope));
        let hosted = match hosted {
            Ok(hosted) => hosted,
            Err(why) => {
                timely.drop_dataflow(dataflow);
                return Err(why);
            }
        };
        hosted.iter().for_each(|task| task.activator.activate());
        Ok(Built { worker: timely.index(), dataflow, hosted, life: life.clone() })
    }

    /// Takes the wake-ups that have come, steps once, and parks for at most `patience` if there is
    /// nothing to do.
    ///
    /// # Errors
    ///
    /// What an operator says; a panic in one.
    pub(crate) fn step(
        &self,
        timely: &mut Timely,
        patience: Option<Duration>,
    ) -> Result<(), Error> {
        let wake = self.life.worker_wake(self.worker);
        wake.take(|task| self.hosted[task].activator.activate());
        let patience = self.wake_who_is_due(patience);
        catch_unwind(AssertUnwindSafe(|| timely.step_or_park(patience)))
            .map_err(|panic| self.panicked(panic))?;
        for (task, hosted) in self.hosted.iter().enumerate() {
            if let Some(cause) = hosted.slot.failure.take() {
                // What has an error of its own says all that there is to say.
                let cause = match cause.downcast::<Error>() {
                    Ok(error) => return Err(*error),
                    Err(cause) => cause,
                };
                let (name, worker) = (self.life.tasks[task].clone(), self.worker);
                let record = self.life.processed(self.life.index(worker, task));
                return Err(Error::Operator { name, worker, record, cause });
            }
        }
        Ok(())
    }

    /// Activates the tasks whose time has come, and shortens `patience` to the next.
    fn wake_who_is_due(&self, mut patience: Option<Duration>) -> Option<Duration> {
        let deadlines = || self.hosted.iter().filter_map(|task| task.slot.wakes_at.get());
        if deadlines().next().is_none() {
            return patience;
        }
        let now = self.life.clock.now();
        for task in &self.hosted {
            if let Some(due) = task.slot.wakes_at.get() {
                if due <= now {
                    task.slot.wakes_at.set(None);
                    task.activator.activate();
                }
                let wait = due.saturating_sub(now);
                patience = Some(patience.map_or(wait, |patience| patience.min(wait)));
            }
        }
        patience
    }

    fn panicked(&self, panic: Box<dyn Any + Send>) -> Error {
        let running = self.life.running(self.worker);
        let name = running.map_or("timely", |task| self.life.name(task).0);
        let record = running.map(|task| self.life.processed(task));
        // It is not stuck there, whatever else is.
        running.into_iter().for_each(|task| self.life.leave(task));
        let message = message(&*panic);
        Error::Panicked { name: name.to_owned(), worker: self.worker, record, message }
    }

    /// Drops the dataflow: between steps, never inside one.
    pub(crate) fn drop(self, timely: &mut Timely) {
        timely.drop_dataflow(self.dataflow);
    }

    /// Steps until the job stops.
    ///
    /// # Errors
    ///
    /// See [`step`](Built::step).
    pub(crate) fn run(self, timely: &mut Timely, idle: Idle) -> Result<(), Error> {
        let patience = match idle {
            Idle::Park => None,
            Idle::Spin => Some(Duration::ZERO),
        };
        let mut result = Ok(());
        while result.is_ok() && !self.life.control.is_stopping() {
            result = self.step(timely, patience);
        }
        self.drop(timely);
        result
    }
}

/// Runs what users wrote on a worker outside of a step, such as the closure that describes the
/// flow.
///
/// # Errors
///
/// A panic.
pub(crate) fn guard(run: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let name = "the description of the flow".to_owned();
        Err(Error::Panicked { name, worker: 0, record: None, message: message(&*panic) })
    })
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
