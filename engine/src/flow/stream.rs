//! Streams of records, and what can be done with one record at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use overtake_state::Data;

use crate::checkpoint::plan::EdgeKind;
use crate::error::Error;
use crate::flow::edge::{Custom, Inlet, Pointwise, Rebalance, Route};
use crate::flow::graph::{Graph, TaskSpec};
use crate::flow::install::Install;
use crate::flow::keyed::Keyed;
use crate::operator::chain::{Chain, Logic};
use crate::operator::head::Head;
use crate::operator::head::merge::Merge;
use crate::operator::tail::branch::{AnyBranch, Chained, Fork, Split};
use crate::operator::tail::sink::Sinking;
use crate::operator::tail::{Send, Tail};
pub use crate::operator::transform::Transform;
use crate::operator::transform::{Filter, FlatMap, Identity, Map};
use crate::sink::{Callback, Sink, SinkContext, Target};

/// Records on their way: from where a chain begins, through the transforms that are fused so far.
#[must_use = "a stream that nobody uses is an error of the flow"]
pub struct Stream<O, T> {
    pub(crate) origin: O,
    pub(crate) transform: T,
}

/// Makes a part of a chain on the worker that will run it.
pub(crate) type MakePart<P> = Box<dyn FnOnce(&mut Install<'_>) -> Result<P, Error>>;

/// Where a chain begins.
pub trait Origin: Sized {
    /// What it emits.
    type Record: 'static;

    /// Does the chain share its task with other branches?
    const IS_BRANCH: bool;

    /// The graph to which it belongs.
    fn graph(&self) -> &Rc<RefCell<Graph>>;

    /// The task that will host the chain.
    fn task(&self) -> usize;

    /// Completes the chain.
    fn close(self, end: impl End<Self::Record>, sink: SinkOf);
}

/// The rest of a chain behind its beginning: transforms and a tail.
pub trait End<R>: 'static {
    /// Completes a chain that begins with a head.
    ///
    /// # Errors
    ///
    /// Those of making the tail.
    fn chain<H: Head<Out = R>>(
        self,
        head: H,
        install: &mut Install<'_>,
    ) -> Result<Box<dyn Logic>, Error>;

    /// Completes a branch.
    ///
    /// # Errors
    ///
    /// Those of making the tail.
    fn branch(self, install: &mut Install<'_>) -> Result<AnyBranch<R>, Error>;
}

/// Transforms, and how to make the tail.
struct Ending<T, E> {
    transform: T,
    tail: MakePart<E>,
}

impl<R, T: Transform<R>, E: Tail<T::Out>> End<R> for Ending<T, E> {
    fn chain<H: Head<Out = R>>(
        self,
        head: H,
        install: &mut Install<'_>,
    ) -> Result<Box<dyn Logic>, Error> {
        let tail = (self.tail)(install)?;
        Ok(Box::new(Chain { head, transform: self.transform, tail }))
    }

    fn branch(self, install: &mut Install<'_>) -> Result<AnyBranch<R>, Error> {
        let tail = (self.tail)(install)?;
        Ok(Box::new(Chained { transform: self.transform, tail }))
    }
}

/// The sink in which a chain ends: its name, and what commits.
type SinkOf = Option<(String, Option<Arc<dyn Target>>)>;

/// A chain that begins with a head, in a task of its own.
pub struct Begin<H> {
    graph: Rc<RefCell<Graph>>,
    name: String,
    inputs: Vec<usize>,
    make: MakePart<H>,
}

impl<H: Head> Origin for Begin<H> {
    type Record = H::Out;
    const IS_BRANCH: bool = false;

    fn graph(&self) -> &Rc<RefCell<Graph>> {
        &self.graph
    }

    fn task(&self) -> usize {
        self.graph.borrow().next_task()
    }

    fn close(self, end: impl End<H::Out>, sink: SinkOf) {
        let Begin { graph, name, inputs, make } = self;
        let make = Box::new(move |install: &mut Install<'_>| {
            let head = make(install)?;
            end.chain(head, install)
        });
        let mut graph = graph.borrow_mut();
        graph.used(&name);
        graph.add(TaskSpec { name, sink, make }, &inputs);
    }
}

type Branches<R> = Rc<RefCell<Vec<MakePart<AnyBranch<R>>>>>;

/// A branch of a stream that is used more than once.
pub struct Branching<R> {
    graph: Rc<RefCell<Graph>>,
    task: usize,
    label: String,
    branches: Branches<R>,
}

impl<R> Branching<R> {
    fn new(graph: &Rc<RefCell<Graph>>, task: usize, label: String) -> Branching<R> {
        graph.borrow_mut().expect_use(&label);
        Branching { graph: graph.clone(), task, label, branches: Branches::default() }
    }
}

impl<R: 'static> Origin for Branching<R> {
    type Record = R;
    const IS_BRANCH: bool = true;

    fn graph(&self) -> &Rc<RefCell<Graph>> {
        &self.graph
    }

    fn task(&self) -> usize {
        self.task
    }

    fn close(self, end: impl End<R>, _: SinkOf) {
        self.graph.borrow_mut().used(&self.label);
        self.branches.borrow_mut().push(Box::new(move |install| end.branch(install)));
    }
}

/// Makes all branches of a task, in the order in which they were described.
fn make_branches<R>(
    branches: &Branches<R>,
    install: &mut Install<'_>,
) -> Result<Vec<AnyBranch<R>>, Error> {
    branches.take().into_iter().map(|make| make(install)).collect()
}

impl<H: Head> Stream<Begin<H>, Identity> {
    /// A stream that begins with a head.
    pub(crate) fn begin(
        graph: &Rc<RefCell<Graph>>,
        name: &str,
        inputs: Vec<usize>,
        make: MakePart<H>,
    ) -> Self {
        graph.borrow_mut().claim(name);
        graph.borrow_mut().expect_use(name);
        let origin = Begin { graph: graph.clone(), name: name.to_owned(), inputs, make };
        Stream { origin, transform: Identity }
    }
}

impl<O: Origin, T: Transform<O::Record>> Stream<O, T> {
    /// One record for each record.
    pub fn map<B, F>(self, function: F) -> Stream<O, Map<T, F>>
    where
        F: FnMut(T::Out) -> B + 'static,
    {
        Stream { origin: self.origin, transform: Map { before: self.transform, function } }
    }

    /// The records for which the condition holds.
    pub fn filter<F>(self, condition: F) -> Stream<O, Filter<T, F>>
    where
        F: FnMut(&T::Out) -> bool + 'static,
    {
        Stream { origin: self.origin, transform: Filter { before: self.transform, condition } }
    }

    /// Any number of records for each record.
    pub fn flat_map<I, F>(self, function: F) -> Stream<O, FlatMap<T, F>>
    where
        I: IntoIterator,
        F: FnMut(T::Out) -> I + 'static,
    {
        Stream { origin: self.origin, transform: FlatMap { before: self.transform, function } }
    }

    /// Closes the chain with an edge.
    pub(crate) fn connect<P: Route<T::Out>>(
        self,
        route: impl FnOnce(&Install<'_>) -> P + 'static,
    ) -> usize
    where
        T::Out: Data,
    {
        let from = self.origin.task();
        let edge = self.origin.graph().borrow_mut().open_edge::<T::Out>(from);
        let tail = move |install: &mut Install<'_>| {
            let route = route(install);
            Ok(Send::new(install.output(edge), route))
        };
        self.origin.close(Ending { transform: self.transform, tail: Box::new(tail) }, None);
        edge
    }

    /// A task that passes on what it is sent along these edges.
    fn merge(
        graph: &Rc<RefCell<Graph>>,
        name: &str,
        inlets: Vec<Inlet<T::Out>>,
    ) -> Stream<Begin<Merge<T::Out>>, Identity>
    where
        T::Out: Data,
    {
        let edges = inlets.iter().map(|inlet| inlet.edge).collect();
        let make = move |install: &mut Install<'_>| {
            let inboxes = inlets.iter().map(|inlet| install.input(inlet));
            Ok(Merge::new(inboxes.collect::<Result<_, _>>()?))
        };
        Stream::begin(graph, name, edges, Box::new(make))
    }

    fn connect_pointwise(self) -> Inlet<T::Out>
    where
        T::Out: Data,
    {
        let edge = self.connect(|install| Pointwise { worker: install.worker });
        Inlet { edge, kind: EdgeKind::Pointwise, owner: None }
    }

    /// The records of this stream and of another one. Order is kept within each.
    pub fn union<O2, T2>(
        self,
        name: &str,
        other: Stream<O2, T2>,
    ) -> Stream<Begin<Merge<T::Out>>, Identity>
    where
        T::Out: Data,
        O2: Origin,
        T2: Transform<O2::Record, Out = T::Out>,
    {
        let graph = self.origin.graph().clone();
        let inlets = vec![self.connect_pointwise(), other.connect_pointwise()];
        Self::merge(&graph, name, inlets)
    }

    /// Deals the records to the workers in turn. Order is not kept.
    pub fn rebalance(self, name: &str) -> Stream<Begin<Merge<T::Out>>, Identity>
    where
        T::Out: Data,
    {
        let graph = self.origin.graph().clone();
        let edge = self.connect(|install| Rebalance { next: install.worker });
        let inlet = Inlet { edge, kind: EdgeKind::Rebalance, owner: None };
        Self::merge(&graph, name, vec![inlet])
    }

    /// Sends each record to the worker that a function of the record and of the number of workers
    /// names. The function is applied again when in-flight records are restored.
    ///
    /// # Panics
    ///
    /// A worker that does not exist stops the job.
    pub fn exchange<F>(self, name: &str, partition: F) -> Stream<Begin<Merge<T::Out>>, Identity>
    where
        T::Out: Data,
        F: Fn(&T::Out, usize) -> usize + 'static,
    {
        let graph = self.origin.graph().clone();
        let partition = Rc::new(partition);
        let route = partition.clone();
        let edge = self.connect(move |_| Custom(route));
        let inlet = Inlet { edge, kind: EdgeKind::Custom, owner: Some(partition) };
        Self::merge(&graph, name, vec![inlet])
    }

    /// A stream that can be used more than once: each [`Forked::stream`] has every record.
    pub fn fork(self) -> Forked<T::Out>
    where
        T::Out: Clone + 'static,
    {
        let (graph, task) = (self.origin.graph().clone(), self.origin.task());
        let branches = Branches::default();
        let forked = Forked { graph, task, branches: branches.clone(), streams: Cell::new(0) };
        let tail =
            move |install: &mut Install<'_>| Ok(Fork::new(make_branches(&branches, install)?));
        self.origin.close(Ending { transform: self.transform, tail: Box::new(tail) }, None);
        forked
    }

    /// Two streams: what the function calls `Ok`, and a side output with what it calls `Err`.
    /// Both must be used.
    pub fn split<A, B, F>(self, function: F) -> (BranchOf<A>, BranchOf<B>)
    where
        A: 'static,
        B: 'static,
        T::Out: 'static,
        F: FnMut(T::Out) -> Result<A, B> + 'static,
    {
        let (graph, task) = (self.origin.graph().clone(), self.origin.task());
        let main = Branching::new(&graph, task, format!("main output {task}"));
        let side = Branching::new(&graph, task, format!("side output {task}"));
        let (mains, sides) = (main.branches.clone(), side.branches.clone());
        let tail = move |install: &mut Install<'_>| {
            let missing = "an output that nobody uses is found before anything is installed";
            let main = make_branches(&mains, install)?.pop().expect(missing);
            let side = make_branches(&sides, install)?.pop().expect(missing);
            Ok(Split { function, main, side })
        };
        self.origin.close(Ending { transform: self.transform, tail: Box::new(tail) }, None);
        let stream = |origin| Stream { origin, transform: Identity };
        (stream(main), Stream { origin: side, transform: Identity })
    }

    /// Groups the records by a key: each key belongs to one worker, and its records keep their
    /// order.
    pub fn key_by<K, F>(self, key: F) -> Keyed<O, T, F>
    where
        F: Fn(&T::Out) -> K + 'static,
    {
        Keyed { stream: self, key: Rc::new(key) }
    }

    /// Writes the records to a sink.
    pub fn sink<S: Sink<Record = T::Out>>(self, name: &str, sink: S)
    where
        T::Out: Data,
    {
        let graph = self.origin.graph().clone();
        graph.borrow_mut().claim_sink(name);
        if O::IS_BRANCH {
            // A sink has a task of its own books: it shares none with other branches.
            let inlet = self.connect_pointwise();
            let merged = Self::merge(&graph, &format!("sink.{name}"), vec![inlet]);
            merged.close_with(name, sink);
        } else {
            self.close_with(name, sink);
        }
    }

    fn close_with<S: Sink<Record = T::Out>>(self, name: &str, mut sink: S)
    where
        T::Out: Data,
    {
        let target = sink.target();
        self.origin.graph().borrow_mut().listeners.extend(sink.listener());
        let of = Some((name.to_owned(), target));
        let name = name.to_owned();
        let tail = move |install: &mut Install<'_>| {
            let context = SinkContext {
                job: install.life.job.clone(),
                name: name.clone(),
                generation: install.life.generation,
                worker: install.worker,
                workers: install.life.workers,
                waker: install.waker(),
            };
            sink.restore(install.states())?;
            sink.open(context).map_err(|cause| Error::Sink { name: name.clone(), cause })?;
            Ok(Sinking::new(sink, &name, install.worker, install.index(), &install.life))
        };
        self.origin.close(Ending { transform: self.transform, tail: Box::new(tail) }, of);
    }

    /// Calls a function for every record. After a restart it is called again for what followed the
    /// last checkpoint: at least once, and before anything is committed.
    pub fn for_each<F>(self, name: &str, function: F)
    where
        T::Out: Data,
        F: FnMut(&T::Out) + 'static,
    {
        self.sink(name, Callback::new(function));
    }
}

/// A branch of a stream.
pub type BranchOf<R> = Stream<Branching<R>, Identity>;

/// A stream that can be used more than once. One that is not used at all goes nowhere.
pub struct Forked<R> {
    graph: Rc<RefCell<Graph>>,
    task: usize,
    branches: Branches<R>,
    streams: Cell<usize>,
}

impl<R: 'static> Forked<R> {
    /// One more use of the stream.
    pub fn stream(&self) -> BranchOf<R> {
        self.streams.set(self.streams.get() + 1);
        let label = format!("branch {} of task {}", self.streams.get(), self.task);
        let mut origin = Branching::new(&self.graph, self.task, label);
        origin.branches = self.branches.clone();
        Stream { origin, transform: Identity }
    }
}
