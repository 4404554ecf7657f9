//! Keyed streams: operators with state per key.

use std::cell::RefCell;
use std::rc::Rc;

use overtake_state::{Data, Key, RestoreError, States};

use crate::checkpoint::plan::EdgeKind;
use crate::error::Error;
use crate::flow::edge::{Broadcast, ByKey, Inlet, owner_by_key};
use crate::flow::graph::Graph;
use crate::flow::install::Install;
use crate::flow::stream::{Begin, Origin, Stream};
use crate::operator::head::Output;
use crate::operator::head::keyed::{Fold, Process, Single};
use crate::operator::head::two::{Functions, Two};
use crate::operator::transform::{Identity, Transform};

/// A stream whose records are grouped by a key.
#[must_use = "a stream that nobody uses is an error of the flow"]
pub struct Keyed<O, T, F> {
    pub(crate) stream: Stream<O, T>,
    pub(crate) key: Rc<F>,
}

/// What happens to keyed records that arrive before the broadcast input has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// They wait in keyed state until it has ended, in order per key.
    UntilEnd,
    /// They are processed as they come.
    Never,
}

// Streams that begin with one or two inputs.
type Folded<R, K, V, F, A> = Stream<Begin<Single<R, Fold<K, V, F, A>>>, Identity>;
type Joined<A, B, K, U, L, R, F> = Stream<Begin<Two<A, B, K, U, L, R, F>>, Identity>;
type Processed<R, F, P, U> = Stream<Begin<Single<R, Process<F, P, U>>>, Identity>;

impl<O, T, K, F> Keyed<O, T, F>
where
    O: Origin,
    T: Transform<O::Record>,
    T::Out: Data,
    K: Key,
    F: Fn(&T::Out) -> K + 'static,
{
    fn graph(&self) -> Rc<RefCell<Graph>> {
        self.stream.origin.graph().clone()
    }

    fn connect(self) -> (Inlet<T::Out>, Rc<F>) {
        let Keyed { stream, key } = self;
        let route = key.clone();
        let edge = stream.connect(move |_| ByKey(route));
        let owner = Some(owner_by_key(&key));
        (Inlet { edge, kind: EdgeKind::Keyed, owner }, key)
    }

    /// Folds each key's records into a value, and emits key and value after every record.
    pub fn fold<V, A>(self, name: &str, add: A) -> Folded<T::Out, K, V, F, A>
    where
        V: Data + Default,
        A: FnMut(&mut V, &T::Out) + 'static,
    {
        let graph = self.graph();
        let (inlet, key) = self.connect();
        let edges = vec![inlet.edge];
        let make = move |install: &mut Install<'_>| {
            let state = install.states().value::<K, V>("fold")?;
            Ok(Single::new(install.input(&inlet)?, Fold { state, key, add }))
        };
        Stream::begin(&graph, name, edges, Box::new(make))
    }

    /// Processes each record with a function of key and record. `make` declares the state that the
    /// function holds; it is called once on each worker.
    pub fn process<P, U, M>(self, name: &str, make: M) -> Processed<T::Out, F, P, U>
    where
        U: 'static,
        P: FnMut(&K, &T::Out, &mut Output<U>) + 'static,
        M: FnOnce(&mut States) -> Result<P, RestoreError> + 'static,
    {
        let graph = self.graph();
        let (inlet, key) = self.connect();
        let edges = vec![inlet.edge];
        let make = move |install: &mut Install<'_>| {
            let function = make(install.states())?;
            let output = Output(Vec::new());
            Ok(Single::new(install.input(&inlet)?, Process { key, function, output }))
        };
        Stream::begin(&graph, name, edges, Box::new(make))
    }

    /// Processes the records of two keyed streams with one state: `make` answers a function for
    /// the records of this one, and one for those of the other.
    #[allow(clippy::type_complexity, reason = "nobody writes this type: it is inferred")]
    pub fn process_with<O2, T2, F2, L, R, U, M>(
        self,
        name: &str,
        other: Keyed<O2, T2, F2>,
        make: M,
    ) -> Joined<T::Out, T2::Out, K, U, impl FnMut(&T::Out, &mut Output<U>) + 'static, R, F2>
    where
        O2: Origin,
        T2: Transform<O2::Record>,
        T2::Out: Data,
        F2: Fn(&T2::Out) -> K + 'static,
        U: 'static,
        L: FnMut(&K, &T::Out, &mut Output<U>) + 'static,
        R: FnMut(&K, &T2::Out, &mut Output<U>) + 'static,
        M: FnOnce(&mut States) -> Result<(L, R), RestoreError> + 'static,
    {
        let graph = self.graph();
        let ((left, left_key), (right, right_key)) = (self.connect(), other.connect());
        let edges = vec![left.edge, right.edge];
        let make = move |install: &mut Install<'_>| {
            let (mut of_left, of_right) = make(install.states())?;
            let of_left = move |record: &T::Out, out: &mut Output<U>| {
                of_left(&left_key(record), record, out);
            };
            let functions = Functions { left: of_left, right: of_right, right_key };
            let (left, right) = (install.input(&left)?, install.input(&right)?);
            Ok(Two::new(left, right, functions, None))
        };
        Stream::begin(&graph, name, edges, Box::new(make))
    }

    /// Processes keyed records beside a broadcast stream, which every worker has whole. `make`
    /// answers a function for broadcast records, which changes broadcast state only, and one for
    /// keyed records.
    #[allow(clippy::type_complexity, reason = "nobody writes this type: it is inferred")]
    pub fn process_with_broadcast<O2, T2, L, R, U, M>(
        self,
        name: &str,
        broadcast: Stream<O2, T2>,
        hold: Hold,
        make: M,
    ) -> Joined<T2::Out, T::Out, K, U, impl FnMut(&T2::Out, &mut Output<U>) + 'static, R, F>
    where
        O2: Origin,
        T2: Transform<O2::Record>,
        T2::Out: Data,
        U: 'static,
        L: FnMut(&T2::Out) + 'static,
        R: FnMut(&K, &T::Out, &mut Output<U>) + 'static,
        M: FnOnce(&mut States) -> Result<(L, R), RestoreError> + 'static,
    {
        let graph = self.graph();
        let edge = broadcast.connect(|_| Broadcast);
        let left = Inlet { edge, kind: EdgeKind::Broadcast, owner: None };
        let (right, right_key) = self.connect();
        let edges = vec![left.edge, right.edge];
        let make = move |install: &mut Install<'_>| {
            let held = match hold {
                Hold::UntilEnd => Some(install.states().list::<K, T::Out>("held")?),
                Hold::Never => None,
            };
            let (mut of_left, of_right) = make(install.states())?;
            let of_left = move |record: &T2::Out, _: &mut Output<U>| of_left(record);
            let functions = Functions { left: of_left, right: of_right, right_key };
            let (left, right) = (install.input(&left)?, install.input(&right)?);
            Ok::<_, Error>(Two::new(left, right, functions, held))
        };
        Stream::begin(&graph, name, edges, Box::new(make))
    }
}
