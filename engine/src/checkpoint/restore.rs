//! How a life begins: which checkpoint it goes on from, and what is done before its workers start.
//!
//! ```text
//!   open the store ──▶ job record ──▶ choose ──▶ life g ──▶ mark ──▶ commit what is listed ──▶
//!   abort the rest ──▶ workers start
//! ```
//!
//! # Invariants
//!
//! * **E6**: what the restored checkpoint lists is committed, the rest aborted, before a worker
//!   starts. Each step may be the last: the next life repeats it.
//! * **L2**, **L3**: a life is recorded before it writes, commits or aborts anything; the mark
//!   before the first commit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use overtake_state::{
    CheckpointId, Chosen, GoBack, History, RestoreError, Restored, Store, Transaction, begin_life,
    choose, write_mark,
};

use crate::error::Error;
use crate::flow::graph::Graph;
use crate::sink::Target;
use crate::sync::{self, Fault, fault};

/// What a new life goes on from.
pub(crate) struct Start {
    pub(crate) generation: u64,
    pub(crate) history: History,
    pub(crate) restored: Option<Arc<Restored>>,
    /// Newer checkpoints that could not be read, and why.
    pub(crate) passed_over: Vec<(CheckpointId, String)>,
}

/// Chooses the checkpoint, and checks that it fits the flow. Nothing is changed yet.
///
/// # Errors
///
/// If none can be used safely, or it does not fit.
pub(crate) fn prepare(
    store: &Arc<dyn Store>,
    graph: &Graph,
    go_back: GoBack,
) -> Result<Start, Error> {
    let history = History::read(&**store)?;
    let (seen, go_back) = planted(&history, go_back);
    let Chosen { from, passed_over } = choose(&seen, go_back, |id| Restored::open(store, id))?;
    if fault(Fault::AnyMark)
        && let Some(mark) = history.marks.last().copied()
        && from.as_ref().is_none_or(|(id, _)| *id < mark)
    {
        return Err(RestoreError::BehindMark { mark, why: "a fault is planted".into() }.into());
    }
    let restored = from.map(|(_, restored)| Arc::new(restored));
    if let Some(restored) = &restored {
        let operators: Vec<&str> = graph.tasks.iter().map(|task| task.name.as_str()).collect();
        let edges: Vec<&str> = graph.edges.iter().map(|edge| edge.name.as_str()).collect();
        restored.check_graph(&operators, &edges)?;
        let listed = &restored.manifest().transactions;
        let sinks: BTreeMap<_, _> = targets(graph);
        if let Some(gone) = listed.iter().find(|listed| !sinks.contains_key(&listed.sink)) {
            return Err(Error::Flow(format!(
                "the checkpoint lists a transaction of sink \"{}\", which the job does not have: \
                 add it, or name it as it was named before",
                gone.sink
            )));
        }
    }
    let passed_over = passed_over.into_iter().map(|(id, why)| (id, why.to_string())).collect();
    Ok(Start { generation: history.next_generation(), history, restored, passed_over })
}

/// The past as a planted fault sees it; without one, as it is.
fn planted(history: &History, go_back: GoBack) -> (Cow<'_, History>, GoBack) {
    let mut seen = Cow::Borrowed(history);
    if fault(Fault::LifeIgnored) {
        forget_the_line(seen.to_mut());
    }
    if fault(Fault::NewestWithAny) {
        let newest = history.manifests.last().map_or(0, |id| id.generation);
        seen.to_mut().lives.retain(|generation, _| *generation <= newest);
    }
    (seen, if fault(Fault::NoMark) { GoBack::Allowed } else { go_back })
}

/// As if each life had gone on from the newest checkpoint of the one before: a planted fault.
pub(crate) fn forget_the_line(history: &mut History) {
    for (generation, from) in &mut history.lives {
        *from = Some(CheckpointId { generation: *generation - 1, epoch: u64::MAX });
    }
}

/// What commits, by the name of the sink.
pub(crate) fn targets(graph: &Graph) -> BTreeMap<String, Arc<dyn Target>> {
    graph.targets().map(|(_, name, target)| (name.to_owned(), target.clone())).collect()
}

/// Begins the life: records it, commits what the checkpoint lists, aborts what older lives left.
///
/// # Errors
///
/// If the store or a target fails; starting again repeats it.
pub(crate) fn begin(
    store: &dyn Store,
    job: &str,
    start: &Start,
    targets: &BTreeMap<String, Arc<dyn Target>>,
) -> Result<(), Error> {
    let from = start.restored.as_ref().map(|restored| restored.manifest().id);
    let is_late = fault(Fault::LifeLate);
    sync::crash_point("begin life");
    if !is_late {
        begin_life(store, start.generation, from)?;
    }
    sync::crash_point("mark at restore");
    if let Some(id) = from {
        write_mark(store, id)?;
    }
    let none = Vec::new();
    let restored = start.restored.as_ref();
    let listed = restored.map_or(&none, |restored| &restored.manifest().transactions);
    for transaction in listed {
        sync::crash_point("commit at restore");
        let target = &targets[&transaction.sink];
        target.commit(transaction).map_err(|cause| sink_error(&transaction.sink, cause))?;
    }
    for (sink, target) in targets {
        sync::crash_point("abort at restore");
        let of_sink = listed.iter().filter(|listed| listed.sink == *sink);
        let of_sink: Vec<Transaction> = of_sink.cloned().collect();
        let begun = target.begin(job, start.generation, &of_sink);
        begun.map_err(|cause| sink_error(sink, cause))?;
    }
    if is_late {
        begin_life(store, start.generation, from)?;
    }
    Ok(())
}

fn sink_error(name: &str, cause: crate::error::BoxError) -> Error {
    Error::Sink { name: name.to_owned(), cause }
}
