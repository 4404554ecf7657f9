//! What a user writes: sources, operators on streams, sinks.
//!
//! A flow is described by a closure. It runs once on the starting thread, which checks names, and
//! once on each worker, which installs what it describes; so it must describe the same flow each
//! time. Consecutive operators with one input are fused into one loop; a record leaves its worker
//! only where a stream is keyed, rebalanced, broadcast or partitioned.

pub(crate) mod edge;
pub(crate) mod graph;
pub(crate) mod install;
pub mod keyed;
pub mod stream;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::checkpoint::plan;
use crate::error::{BoxError, Error};
use crate::flow::graph::Graph;
use crate::flow::install::Install;
use crate::flow::stream::{Begin, Stream};
use crate::operator::head::reading::Reading;
use crate::operator::transform::Identity;
use crate::source::{Source, SourceContext};

/// Collects what a job does. See [`Job::run`](crate::Job::run).
pub struct Flow {
    graph: Rc<RefCell<Graph>>,
}

impl Flow {
    pub(crate) fn new() -> Flow {
        Flow { graph: Rc::default() }
    }

    pub(crate) fn into_graph(self) -> Graph {
        Rc::try_unwrap(self.graph).ok().expect("streams end with the closure").into_inner()
    }

    /// Reads a source. Its splits are dealt to the workers; their positions are stored in every
    /// checkpoint under this name.
    pub fn source<S: Source>(
        &mut self,
        name: &str,
        source: S,
    ) -> Stream<Begin<Reading<S>>, Identity> {
        self.graph.borrow_mut().listeners.extend(source.listener());
        let open_name = name.to_owned();
        let make = move |install: &mut Install<'_>| {
            open(source, install).map_err(|cause| Error::Source { name: open_name, cause })
        };
        Stream::begin(&self.graph, name, Vec::new(), Box::new(make))
    }
}

/// Opens a source's splits on the worker that is being installed, at their stored positions.
fn open<S: Source>(mut source: S, install: &mut Install<'_>) -> Result<Reading<S>, BoxError> {
    let (worker, workers) = (install.worker, install.life.workers);
    let context = SourceContext { worker, workers, waker: install.waker() };
    let splits = source.splits()?;
    let gone = Cell::new(None);
    let mine = plan::splits(splits.iter().map(String::as_str), worker, workers);
    let positions = install.states().entries_where("positions", |split| {
        if splits.iter().all(|known| known != split) {
            gone.set(Some(split.to_owned()));
        }
        mine.contains(&split)
    })?;
    if let Some(split) = gone.take() {
        return Err(format!("split \"{split}\" of the checkpoint is gone: put it back").into());
    }
    for split in mine {
        source.open(split, positions.get(split)?, &context)?;
    }
    Ok(Reading::new(source, positions))
}
