//! The graph that a flow describes: tasks and edges by name, before anything runs.
//!
//! The closure that describes a flow runs once on the starting thread, so that names and edges can
//! be checked before anything is touched, and once on each worker, which installs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use overtake_state::{Data, Layout, layout};

use crate::Listener;
use crate::error::Error;
use crate::flow::install::Install;
use crate::operator::chain::Logic;
use crate::sink::Target;

/// Makes the chain of a task, on the worker that will run it.
pub(crate) type Make = Box<dyn FnOnce(&mut Install<'_>) -> Result<Box<dyn Logic>, Error>>;

/// One fused chain.
pub(crate) struct TaskSpec {
    /// The name of the operator at its head.
    pub(crate) name: String,
    /// The name of its sink and what commits, if it ends in one.
    pub(crate) sink: Option<(String, Option<Arc<dyn Target>>)>,
    pub(crate) make: Make,
}

/// One edge between two tasks.
#[derive(Clone, Debug)]
pub(crate) struct EdgeSpec {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// `from>to#port`.
    pub(crate) name: String,
    pub(crate) record: Layout,
}

/// All of a job.
#[derive(Default)]
pub struct Graph {
    pub(crate) tasks: Vec<TaskSpec>,
    pub(crate) edges: Vec<EdgeSpec>,
    /// Edges whose receiver is not described yet: the sender, and the record's layout.
    open: Vec<(usize, Layout)>,
    operators: BTreeSet<String>,
    sinks: BTreeSet<String>,
    /// Streams that nobody has used yet, by the name of their task.
    unused: BTreeSet<String>,
    errors: Vec<String>,
    /// Who is told of lives and checkpoints (N1).
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
}

impl Graph {
    /// Takes the name of an operator or a source.
    pub(crate) fn claim(&mut self, name: &str) {
        if let Err(why) = check_name(name) {
            self.errors.push(why);
        }
        if !self.operators.insert(name.to_owned()) {
            self.errors.push(format!("two operators are named \"{name}\": rename one"));
        }
    }

    pub(crate) fn claim_sink(&mut self, name: &str) {
        if let Err(why) = check_name(name) {
            self.errors.push(why);
        }
        if !self.sinks.insert(name.to_owned()) {
            self.errors.push(format!("two sinks are named \"{name}\": rename one"));
        }
    }

    pub(crate) fn expect_use(&mut self, stream: &str) {
        self.unused.insert(stream.to_owned());
    }

    pub(crate) fn used(&mut self, stream: &str) {
        self.unused.remove(stream);
    }

    /// The index that the next task will have.
    pub(crate) fn next_task(&self) -> usize {
        self.tasks.len()
    }

    /// Opens an edge from a task; its receiver is described later.
    pub(crate) fn open_edge<R: Data>(&mut self, from: usize) -> usize {
        self.open.push((from, layout::<R>()));
        self.open.len() - 1
    }

    /// Adds a task that receives on these edges.
    pub(crate) fn add(&mut self, task: TaskSpec, inputs: &[usize]) -> usize {
        let to = self.tasks.len();
        for (port, edge) in inputs.iter().enumerate() {
            let (from, record) = self.open[*edge].clone();
            let name = format!("{}>{}#{port}", self.tasks[from].name, task.name);
            if self.edges.len() <= *edge {
                let unknown = EdgeSpec { from, to: 0, name: String::new(), record: record.clone() };
                self.edges.resize(edge + 1, unknown);
            }
            self.edges[*edge] = EdgeSpec { from, to, name, record };
        }
        self.tasks.push(task);
        to
    }

    /// Is the whole of it sound?
    pub(crate) fn check(&self) -> Result<(), Error> {
        let unused = self.unused.iter().map(|name| {
            format!("nobody uses what comes out of \"{name}\": give it a sink, or leave it out")
        });
        let empty = self.tasks.is_empty().then(|| "the flow has no operators".to_owned());
        match self.errors.iter().cloned().chain(unused).chain(empty).next() {
            Some(why) => Err(Error::Flow(why)),
            None => Ok(()),
        }
    }

    /// Tasks that commit.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (usize, &str, &Arc<dyn Target>)> {
        self.tasks.iter().enumerate().filter_map(|(i, task)| {
            let (name, target) = task.sink.as_ref()?;
            Some((i, name.as_str(), target.as_ref()?))
        })
    }
}

/// Names become parts of file names and of edge names.
fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(format!(
        "the name \"{name}\" is not allowed: use 1 to {NAME_BYTES_MAX} letters, digits, '_' or '.'"
    ))
}

/// Longest name of an operator or a sink: it is part of file names.
const NAME_BYTES_MAX: usize = 64;
