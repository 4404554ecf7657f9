use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::error::RestoreError;
use crate::hash::{hash, owner};
use crate::lives::CheckpointId;
use crate::manifest::{EdgeInfo, Manifest, OperatorInfo, publish, tests::manifest};
use crate::segment::{FlightHead, Place, write_flight};
use crate::store::{Memory, Store};
use crate::{Broadcast, Entries, List, Map, Value, layout};

const ID: CheckpointId = CheckpointId { generation: 1, epoch: 1 };
const EDGE: &str = "flights>bill#0";

/// All kinds of tables of one operator on one worker.
struct Tables {
    states: States,
    sums: Value<u64, i64>,
    names: Value<String, String>,
    held: List<u64, String>,
    fares: Map<(u32, String), u16, i64>,
    planes: Broadcast<String, u16>,
    splits: Entries,
}

impl Tables {
    fn new(
        worker: usize,
        workers: usize,
        restored: Option<Arc<Restored>>,
    ) -> Result<Tables, RestoreError> {
        let mut states = States::new("bill", worker, workers, restored);
        let (sums, names) = (states.value("sums")?, states.value("names")?);
        let (held, fares) = (states.list("held")?, states.map("fares")?);
        let (planes, splits) = (states.broadcast("planes")?, states.entries("splits")?);
        states.check_all_restored()?;
        Ok(Tables { states, sums, names, held, fares, planes, splits })
    }
}

/// What all workers should hold together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    sums: BTreeMap<u64, i64>,
    names: BTreeMap<String, String>,
    held: BTreeMap<u64, VecDeque<String>>,
    fares: BTreeMap<(u32, String), BTreeMap<u16, i64>>,
    planes: BTreeMap<String, u16>,
    splits: BTreeMap<String, (u64, String)>,
}

/// What the workers do hold; each row once, each broadcast row everywhere.
fn gathered(tables: &[Tables]) -> Model {
    fn once<K: Ord, V>(into: &mut BTreeMap<K, V>, key: K, value: V) {
        assert!(into.insert(key, value).is_none(), "a row is on two workers");
    }
    let mut all = Model::default();
    for (worker, on) in tables.iter().enumerate() {
        let mine = |hash| assert_eq!(owner(hash, tables.len()), worker, "N1");
        let (keys, values) = on.sums.0.borrow().columns();
        keys.iter().for_each(|key| mine(hash(key)));
        keys.into_iter().zip(values).for_each(|(k, v)| once(&mut all.sums, k, v));
        let (keys, values) = on.names.0.borrow().columns();
        keys.iter().for_each(|key| mine(hash(key)));
        keys.into_iter().zip(values).for_each(|(k, v)| once(&mut all.names, k, v));
        let (keys, values) = on.held.0.borrow().columns();
        keys.into_iter().zip(values).for_each(|(k, v)| once(&mut all.held, k, v));
        let (keys, values) = on.fares.0.borrow().columns();
        keys.into_iter().zip(values).for_each(|(k, v)| once(&mut all.fares, k, v));
        let (keys, values) = on.planes.0.borrow().columns();
        let planes = keys.into_iter().zip(values).collect();
        assert!(worker == 0 || all.planes == planes, "the copies differ");
        all.planes = planes;
        for id in on.splits.ids() {
            mine(hash(&id));
            let value = on.splits.get(&id).unwrap().unwrap();
            once(&mut all.splits, id, value);
        }
    }
    all
}

/// Puts every row where it belongs.
fn spread(model: &Model, workers: usize) -> Vec<Tables> {
    let tables: Vec<_> = (0..workers).map(|w| Tables::new(w, workers, None).unwrap()).collect();
    let at = |hash| &tables[owner(hash, workers)];
    for (key, value) in &model.sums {
        at(hash(key)).sums.set(key, *value);
    }
    for (key, value) in &model.names {
        at(hash(key)).names.set(key, value.clone());
    }
    for (key, values) in &model.held {
        values.iter().for_each(|value| at(hash(key)).held.push(key, value.clone()));
    }
    for (key, entries) in &model.fares {
        for (entry, value) in entries {
            at(hash(key)).fares.insert(key, *entry, *value);
        }
    }
    for (key, value) in &model.planes {
        for on in &tables {
            on.planes.insert(key, *value);
        }
    }
    for (id, value) in &model.splits {
        at(hash(id)).splits.set(id, value);
    }
    tables
}

/// Takes a checkpoint: freezes on each worker, writes on another thread, publishes.
fn checkpoint(store: &Memory, tables: &[Tables]) -> Result<(), WriteError> {
    let mut segments = vec![];
    for (worker, on) in tables.iter().enumerate() {
        let frozen = on.states.freeze();
        let mut writer = SegmentWriter::create(store, ID, worker)?;
        let write = move || {
            frozen.into_iter().try_for_each(|table| table.write(&mut writer))?;
            let place = Place::Inbox { from: 0 };
            let (operator, edge) = ("bill".into(), EDGE.into());
            let head = FlightHead { operator, edge, place, epoch: 1, event: 2 };
            write_flight(&mut writer, head, &[worker as u64, 77])?;
            writer.finish()
        };
        segments.push(std::thread::spawn(write).join().unwrap()?);
    }
    let operators = vec![OperatorInfo { name: "bill".into(), tables: tables[0].states.tables() }];
    let edges = vec![EdgeInfo { name: EDGE.into(), record: layout::<u64>() }];
    let published = publish(store, &Manifest { operators, edges, ..manifest(ID, segments) })?;
    assert_eq!(published.id(), ID);
    Ok(())
}

fn open(store: &Memory) -> Result<Arc<Restored>, RestoreError> {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    Restored::open(&store, ID).map(Arc::new)
}

fn restore(store: &Memory, workers: usize) -> Result<Vec<Tables>, RestoreError> {
    let restored = open(store)?;
    (0..workers).map(|w| Tables::new(w, workers, Some(Arc::clone(&restored)))).collect()
}

fn models() -> impl Strategy<Value = Model> {
    use prop::collection::{btree_map, vec, vec_deque};
    let text = || "[a-zé]{0,12}";
    let entry = (any::<u64>(), text());
    (
        btree_map(any::<u64>(), any::<i64>(), 0..60),
        btree_map(text(), text(), 0..30),
        btree_map(any::<u64>(), vec_deque(text(), 1..6), 0..20),
        btree_map((any::<u32>(), text()), btree_map(any::<u16>(), any::<i64>(), 1..20), 0..20),
        btree_map(text(), any::<u16>(), 0..20),
        vec((text(), entry), 0..8),
    )
        .prop_map(|(sums, names, held, fares, planes, splits)| {
            let splits = splits.into_iter().collect();
            Model { sums, names, held, fares, planes, splits }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn n1_everything_is_restored_at_any_number_of_workers(
        model in models(), before in 1usize..5, after in 1usize..5,
    ) {
        let store = Memory::new();
        let tables = spread(&model, before);
        prop_assert_eq!(&gathered(&tables), &model);
        checkpoint(&store, &tables).unwrap();
        prop_assert_eq!(gathered(&restore(&store, after).unwrap()), model);
    }

    #[test]
    fn a_damaged_checkpoint_is_an_error_that_names_the_file_or_the_same_state(
        model in models(), before in 1usize..3, after in 1usize..3, file: prop::sample::Index,
        at: prop::sample::Index, damage in 0usize..4,
    ) {
        let store = Memory::new();
        checkpoint(&store, &spread(&model, before)).unwrap();
        let names = store.list("").unwrap();
        let name = &names[file.index(names.len())];
        let mut bytes = store.read(name).unwrap();
        let at = at.index(bytes.len());
        match damage {
            0 => bytes[at] ^= 1 << (at % 8),
            1 => bytes.truncate(at),
            2 => bytes.clear(),
            _ => {}
        }
        store.tamper(name, (damage < 3).then_some(bytes));
        match restore(&store, after) {
            Ok(tables) => prop_assert_eq!(gathered(&tables), model),
            Err(error) => prop_assert!(error.to_string().contains(name), "{}", error),
        }
    }
}

#[test]
fn a_large_table_is_cut_by_hash_and_read_in_part() {
    let store = Memory::new();
    let tables = spread(&Model::default(), 1);
    let records: Vec<u64> = (0..400_000).collect();
    tables[0].sums.update_each(&records, |r| *r, |_, sum, r| *sum += *r as i64);
    checkpoint(&store, &tables).unwrap();
    let restored = open(&store).unwrap();
    let pieces = restored.frames(0, "bill", "sums").count();
    assert!(pieces >= 6, "{pieces} pieces");
    let after = restore(&store, 3).unwrap();
    assert_eq!(after.iter().map(|on| on.sums.len()).sum::<usize>(), records.len());
    for record in records {
        assert_eq!(after[owner(hash(&record), 3)].sums.get(&record), Some(record as i64));
    }
}

#[test]
fn what_is_frozen_does_not_change() {
    let on = Tables::new(0, 1, None).unwrap();
    on.sums.set(&1, 10);
    let frozen = on.states.freeze();
    on.sums.set(&1, 20);
    on.sums.set(&2, 20);
    let store = Memory::new();
    let mut writer = SegmentWriter::create(&store, ID, 0).unwrap();
    assert_eq!(frozen[0].bytes(), 16);
    frozen.into_iter().for_each(|table| table.write(&mut writer).unwrap());
    let segments = vec![writer.finish().unwrap()];
    let operators = vec![OperatorInfo { name: "bill".into(), tables: on.states.tables() }];
    let published = publish(&store, &Manifest { operators, ..manifest(ID, segments) });
    assert_eq!(published.unwrap().id(), ID);
    let restored = restore(&store, 1).unwrap();
    assert_eq!((restored[0].sums.get(&1), restored[0].sums.get(&2)), (Some(10), None));
}

#[test]
fn a_key_of_another_worker_is_an_error_at_the_checkpoint() {
    let tables = spread(&Model::default(), 2);
    let foreign = (0..).find(|key: &u64| owner(hash(key), 2) == 1).unwrap();
    tables[0].sums.set(&foreign, 1);
    let error = checkpoint(&Memory::new(), &tables).unwrap_err();
    assert!(matches!(error, WriteError::ForeignKey { worker: 0, .. }), "{error}");
}

#[test]
fn a_copy_is_restored_from_the_old_worker_of_its_number() {
    let store = Memory::new();
    let tables = spread(&Model::default(), 2);
    tables[0].planes.insert(&"old 0".into(), 0);
    tables[1].planes.insert(&"old 1".into(), 1);
    checkpoint(&store, &tables).unwrap();
    let has = |on: &Tables| [0, 1].map(|old| on.planes.get(&format!("old {old}")).is_some());
    let after: Vec<_> = restore(&store, 3).unwrap().iter().map(has).collect();
    assert_eq!(after, [[true, false], [false, true], [true, false]]);
}

#[test]
fn entries_go_where_the_operator_says() {
    let store = Memory::new();
    let splits = ["a", "b", "c"].map(|id| (id.to_owned(), (1, id.to_owned())));
    let model = Model { splits: splits.into_iter().collect(), ..Model::default() };
    checkpoint(&store, &spread(&model, 2)).unwrap();
    let restored = open(&store).unwrap();
    let mut states = States::new("bill", 0, 2, Some(restored));
    let mine = states.entries_where("splits", |id| id != "b").unwrap();
    assert_eq!(mine.ids(), ["a", "c"]);
    let error = mine.get::<u64>("a").unwrap_err().to_string();
    assert!(error.contains("is stored as (u64, String) (16 bytes, aligned to 8)"), "{error}");
    assert!(mine.remove("a") && !mine.remove("a"));
}

#[test]
fn flights_are_restored_by_place() {
    let store = Memory::new();
    checkpoint(&store, &spread(&Model::default(), 2)).unwrap();
    let restored = open(&store).unwrap();
    let read = |place| restored.flights::<u64>(1, "bill", EDGE, place);
    let flights = read(Place::Inbox { from: 0 }).unwrap();
    assert_eq!(flights.len(), 1);
    assert_eq!((flights[0].epoch, flights[0].event), (1, 2));
    assert_eq!(flights[0].records, [1, 77]);
    assert_eq!(read(Place::Inbox { from: 1 }).unwrap(), []);
    let place = Place::Inbox { from: 0 };
    let error = restored.flights::<i64>(1, "bill", EDGE, place).unwrap_err();
    assert!(matches!(error, RestoreError::RecordChanged { .. }), "{error}");
}

#[test]
fn n2_f32_what_the_job_does_not_have_any_more_is_named() {
    let store = Memory::new();
    checkpoint(&store, &spread(&Model::default(), 1)).unwrap();
    let restored = open(&store).unwrap();
    restored.check_graph(&["bill", "new"], &[EDGE]).unwrap();
    let error = restored.check_graph(&["billing"], &[EDGE]).unwrap_err();
    assert!(matches!(error, RestoreError::OperatorGone { ref operator } if operator == "bill"));
    let error = restored.check_graph(&["bill"], &["other"]).unwrap_err();
    assert!(matches!(error, RestoreError::EdgeGone { ref edge } if edge == EDGE));

    let mut states = States::new("bill", 0, 1, Some(restored));
    let _ = states.value::<u64, i64>("sums").unwrap();
    let error = states.check_all_restored().unwrap_err();
    assert!(matches!(error, RestoreError::TableGone { ref table, .. } if table == "names"));
}

#[test]
fn n2_f33_a_table_that_became_something_else_is_named_with_both_types() {
    let store = Memory::new();
    checkpoint(&store, &spread(&Model::default(), 1)).unwrap();
    let mut states = States::new("bill", 0, 1, Some(open(&store).unwrap()));
    let error = states.value::<u64, i32>("sums").err().unwrap().to_string();
    let says = "the value of table \"sums\" of operator \"bill\" is stored as i64 (8 bytes, aligned \
                to 8) and declared as i32 (4 bytes, aligned to 4): declare it as it was, or give \
                the table another name";
    assert_eq!(error, says);
    let error = states.map::<(u32, String), u32, i64>("fares").err().unwrap().to_string();
    assert!(error.starts_with("the entry of table \"fares\""), "{error}");
    let error = states.list::<u64, i64>("sums").err().unwrap().to_string();
    assert!(error.contains("is stored as values and declared as lists"), "{error}");
}

#[test]
fn a_table_is_declared_once() {
    let mut states = States::new("bill", 0, 1, None);
    let _ = states.value::<u64, i64>("sums").unwrap();
    let error = states.entries("sums").err().unwrap();
    assert!(matches!(error, RestoreError::DeclaredTwice { .. }), "{error}");
    let names: BTreeSet<_> = states.tables().into_iter().map(|table| table.name).collect();
    assert_eq!(names, BTreeSet::from(["sums".to_owned()]));
}

#[test]
fn a_new_table_of_an_old_operator_begins_empty() {
    let store = Memory::new();
    checkpoint(&store, &spread(&Model::default(), 1)).unwrap();
    let mut states = States::new("bill", 0, 1, Some(open(&store).unwrap()));
    assert!(states.value::<u64, i64>("more").unwrap().is_empty());
}
