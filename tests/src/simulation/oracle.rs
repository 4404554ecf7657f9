//! What must be true: of every complete checkpoint, and in the end.
//!
//! A checkpoint is right if every row before the positions is somewhere, so many times as it will
//! have copies: committed, listed, in flight, held; and if each sum is that of the rows behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use overtake::flow::keyed::Hold;
use overtake::{RestoreError, States};
use overtake_state::{Content, Memory, Place, Restored, Store, decode_vec};

use super::graph::{Graph, Sinks};
use super::outside::{Outside, Shared};
use super::plan::Plan;
use super::rows::{DIMENSIONS, FIRST_DIMENSION, Row};

/// Rows by where they are: the stage that they are on their way to.
type Places = Vec<(usize, Row)>;

/// Looks at the checkpoints that have become complete.
pub(super) fn look(memory: &Memory, shared: &Shared, plan: &Plan) {
    let fresh = std::mem::take(&mut shared.lock().fresh);
    if fresh.is_empty() {
        return;
    }
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    for id in fresh {
        let mut outside = shared.lock();
        let verdict = Restored::open(&store, id)
            .and_then(|restored| check(Arc::new(restored), &mut outside, &plan.graph));
        if let Err(why) = verdict {
            outside.wrong(format!("checkpoint {id}: {why}"));
        }
    }
}

fn check(
    restored: Arc<Restored>,
    outside: &mut Outside,
    graph: &Graph,
) -> Result<(), RestoreError> {
    let id = restored.manifest().id;
    let mut places = in_flight(&restored, graph)?;
    let states = |name: &str| States::new(name, 0, 1, Some(restored.clone()));
    for (i, stage) in graph.stages.iter().enumerate() {
        let name = format!("s{i}");
        let has_table = restored.manifest().operator(&name).is_some();
        if has_table && stage.joins() && stage.hold() == Hold::UntilEnd {
            let held = states(&name).list::<u64, Row>("held")?;
            while let Some(key) = held.any_key() {
                places.extend(held.take(&key).into_iter().map(|row| (i, row)));
            }
        }
    }
    let done = graph.stages.len() + 1;
    places.extend(outside.committed.values().flatten().map(|row| (done, *row)));
    for listed in &restored.manifest().transactions {
        let handle = (listed.sink.clone(), listed.generation, listed.epoch, listed.worker);
        match outside.prepared.get(&handle) {
            Some(rows) => places.extend(rows.iter().map(|row| (done, *row))),
            None if outside.committed.contains_key(&handle) => {}
            None => outside.wrong(format!("checkpoint {id} lists {handle:?}: not prepared")),
        }
    }
    check_rows(&restored, &places, outside, graph)?;
    check_sums(&restored, &places, outside, graph)?;
    check_broadcast(&restored, outside, graph)
}

/// The rows that are in flight, without those of the broadcast stream.
fn in_flight(restored: &Restored, graph: &Graph) -> Result<Places, RestoreError> {
    let mut places = Places::new();
    for (_, edge, _, rows) in flights(restored)? {
        let stage = graph.stage_of(receiver(&edge));
        let rows = rows.into_iter().filter(|row| row.split < FIRST_DIMENSION);
        places.extend(rows.map(|row| (stage, row)));
    }
    Ok(places)
}

/// The task that an edge leads to.
fn receiver(edge: &str) -> &str {
    let to = edge.split('>').nth(1).unwrap_or_default();
    to.split('#').next().unwrap_or_default()
}

type Flights = Vec<(usize, String, Place, Vec<Row>)>;

/// What is in flight: the worker that captured it, the edge, where it was.
fn flights(restored: &Restored) -> Result<Flights, RestoreError> {
    let mut flights = Vec::new();
    for worker in 0..restored.workers() {
        let segment = restored.segment(worker);
        for frame in segment.frames() {
            if let Content::Flight { place, .. } = frame.head.content {
                let rows = decode_vec::<Row>(&segment.payload(frame)?);
                let rows = rows.expect("every edge carries rows");
                flights.push((worker, frame.head.name.to_string(), place, rows));
            }
        }
    }
    Ok(flights)
}

/// How far a source has read, by split.
fn positions(restored: &Arc<Restored>, source: &str) -> Result<BTreeMap<u64, u64>, RestoreError> {
    let mut states = States::new(source, 0, 1, Some(restored.clone()));
    let entries = states.entries("positions")?;
    let mut positions = BTreeMap::new();
    for split in entries.ids() {
        let position = entries.get::<u64>(&split)?.unwrap_or(0);
        positions.insert(split.parse().expect("splits are numbers"), position);
    }
    Ok(positions)
}

/// Every row before the positions is somewhere, and no other is.
fn check_rows(
    restored: &Arc<Restored>,
    places: &Places,
    outside: &mut Outside,
    graph: &Graph,
) -> Result<(), RestoreError> {
    let mut found: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (stage, row) in places {
        *found.entry(row.id()).or_default() += graph.copies_from(*stage);
    }
    let sources = if graph.has_fan_in { &["left", "right"][..] } else { &["rows"] };
    for source in sources {
        for (split, to) in positions(restored, source)? {
            for pos in 0..to {
                let copies = found.remove(&(split, pos)).unwrap_or(0);
                let due = graph.copies_from(0);
                if copies != due {
                    let id = restored.manifest().id;
                    let what = format!("row {pos} of split {split}: {copies} of {due}");
                    outside.wrong(format!("checkpoint {id}: {what}"));
                }
            }
        }
    }
    if let Some((row, _)) = found.first_key_value() {
        let id = restored.manifest().id;
        outside.wrong(format!("checkpoint {id}: row {row:?} was not read yet"));
    }
    Ok(())
}

/// The sums of every stage that adds up are those of the rows that have passed it.
fn check_sums(
    restored: &Arc<Restored>,
    places: &Places,
    outside: &mut Outside,
    graph: &Graph,
) -> Result<(), RestoreError> {
    if graph.copies_from(0) > 1 {
        return Ok(());
    }
    for (i, stage) in graph.stages.iter().enumerate() {
        if !stage.counts() {
            continue;
        }
        let mut states = States::new(&format!("s{i}"), 0, 1, Some(restored.clone()));
        let sums = states.value::<u64, u64>("sums")?;
        let mut due: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, row) in places.iter().filter(|(stage, _)| *stage > i) {
            *due.entry(row.key).or_default() += row.val;
        }
        for (key, due) in due {
            let found = sums.get(&key).unwrap_or(0);
            if found != due {
                let id = restored.manifest().id;
                outside.wrong(format!("checkpoint {id}: s{i} key {key}: {found}, not {due}"));
            }
        }
    }
    Ok(())
}

/// Every worker has every broadcast record, in its state or in flight.
fn check_broadcast(
    restored: &Arc<Restored>,
    outside: &mut Outside,
    graph: &Graph,
) -> Result<(), RestoreError> {
    let workers = restored.workers();
    for (i, stage) in graph.stages.iter().enumerate() {
        if !stage.joins() {
            continue;
        }
        let (task, source) = (format!("s{i}"), format!("s{i}.dimensions"));
        let relay = format!("s{i}.relay");
        let read = positions(restored, &source)?;
        let flights = flights(restored)?;
        for worker in 0..workers {
            let mut states = States::new(&task, worker, workers, Some(restored.clone()));
            let table = states.broadcast::<u64, u64>("dimensions")?;
            for split in FIRST_DIMENSION..FIRST_DIMENSION + DIMENSIONS {
                let here = flights.iter().filter(|(holder, edge, place, _)| {
                    let to = match place {
                        Place::Outbox { to } => *to as usize,
                        _ => *holder,
                    };
                    // What is on its way to the relay is on its way to everybody.
                    receiver(edge) == relay || receiver(edge) == task && to == worker
                });
                let rows = here.flat_map(|flight| &flight.3).filter(|row| row.split == split);
                let found = table.get(&split).unwrap_or(0) + rows.count() as u64;
                let due = read.get(&split).copied().unwrap_or(0);
                if found != due {
                    let id = restored.manifest().id;
                    let what = format!("worker {worker} has {found} of {due} of split {split}");
                    outside.wrong(format!("checkpoint {id}: broadcast of {task}: {what}"));
                }
            }
        }
    }
    Ok(())
}

/// In the end every row is committed, with all its copies, and the sums have no gaps.
pub(super) fn check_end(outside: &mut Outside, graph: &Graph, records: u64) {
    for sink in graph.sinks() {
        let mut found: Vec<_> =
            committed(outside, &[sink]).iter().map(|row| (row.split, row.pos, row.copy)).collect();
        found.sort_unstable();
        let mut due = graph.expected(sink, records);
        due.sort_unstable();
        if found != due {
            let (found, due) = (found.len(), due.len());
            outside.wrong(format!("end: sink {sink} has {found} rows of {due}, or others"));
        }
    }
    if graph.sinks == Sinks::Both {
        for sink in graph.sinks() {
            check_gaps(outside, graph, &[sink]);
        }
    } else {
        check_gaps(outside, graph, graph.sinks());
    }
    let left = outside.prepared.len();
    if left > 0 {
        outside.wrong(format!("end: {left} transactions are neither committed nor aborted"));
    }
}

fn committed(outside: &Outside, sinks: &[&str]) -> Vec<Row> {
    let of = outside.committed.iter().filter(|(handle, _)| sinks.contains(&handle.0.as_str()));
    of.flat_map(|(_, rows)| rows.iter().copied()).collect()
}

/// The sums of a key are those of its rows, one after the other.
fn check_gaps(outside: &mut Outside, graph: &Graph, sinks: &[&str]) {
    if graph.last_count().is_none() {
        return;
    }
    let mut rows = committed(outside, sinks);
    if graph.copies_after_count() {
        rows.retain(|row| row.copy == 0);
    }
    rows.sort_by_key(|row| (row.key, row.sum));
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for Row { key, val, sum, .. } in rows {
        let due = sums.entry(key).or_default();
        *due += val;
        if *due != sum {
            let due = *due;
            return outside.wrong(format!("end: key {key} has sum {sum}, not {due}"));
        }
    }
}
