use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::lives::{GoBack, begin_life, choose, write_mark};
use crate::manifest::{publish, tests::manifest};
use crate::segment::SegmentWriter;
use crate::snapshot::Restored;
use crate::store::{Fault, Memory};

const WORKERS: usize = 2;

fn write_segments(store: &Memory, id: CheckpointId) -> Vec<crate::SegmentInfo> {
    let write = |worker| SegmentWriter::create(store, id, worker).unwrap().finish().unwrap();
    (0..WORKERS).map(write).collect()
}

/// Everything that retained checkpoints need is there and whole.
fn check_retained(store: &Memory, retained: &[CheckpointId]) {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    for id in retained {
        Restored::open(&store, *id).unwrap_or_else(|error| panic!("{id}: {error}"));
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A checkpoint is written whole and published; then pruned, with so many operations before a
    /// crash, if any.
    Publish { epoch_in_use: u64, mark: bool, crash: Option<usize> },
    /// A checkpoint's segments are written, and nothing more: it is aborted, or under way.
    Write,
    /// A new life, going on from the checkpoint after so many passed over.
    Die { passed_over: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0u64..4, any::<bool>(), prop::option::of(0usize..12)).prop_map(
            |(epoch_in_use, mark, crash)| Step::Publish { epoch_in_use, mark, crash }
        ),
        2 => Just(Step::Write),
        2 => (0usize..3).prop_map(|passed_over| Step::Die { passed_over }),
    ]
}

/// Fails everything after so many operations: the process is dead.
fn dying(store: &Memory, operations: usize) -> Memory {
    let done = AtomicUsize::new(0);
    store.with_faults(Arc::new(move |_| {
        let dead = done.fetch_add(1, Ordering::Relaxed) >= operations;
        if dead { Fault::Fail } else { Fault::None }
    }))
}

proptest! {
    #[test]
    fn p1_p2_nothing_that_is_needed_is_deleted_and_nothing_else_stays(
        steps in prop::collection::vec(step(), 0..30), keep in 1usize..4,
    ) {
        let store = Memory::new();
        begin_life(&store, 1, None).unwrap();
        let (mut generation, mut epoch) = (1, 0);
        let mut history = History::default();
        // Segments of this life that no checkpoint names yet.
        let mut under_way = BTreeSet::new();
        for step in steps {
            match step {
                Step::Publish { epoch_in_use, mark, crash } => {
                    epoch += 1;
                    let id = CheckpointId { generation, epoch };
                    let published = publish(&store, &manifest(id, write_segments(&store, id)));
                    prop_assert_eq!(published.unwrap().id(), id);
                    if mark {
                        write_mark(&store, id).unwrap();
                    }
                    // Written before the newest one was complete, and never completed.
                    under_way.clear();
                    epoch += 1;
                    let next = CheckpointId { generation, epoch };
                    under_way.extend(write_segments(&store, next).into_iter().map(|s| s.name));
                    let epoch_in_use = id.epoch.saturating_sub(epoch_in_use);
                    let retention = Retention { keep, generation, epoch_in_use };
                    if let Some(operations) = crash {
                        let mut unsure = history.clone();
                        let _ = prune(&dying(&store, operations), &mut unsure, retention);
                        store.crash();
                        let after = History::read(&store).unwrap();
                        // P2: whatever manifest is left on the line is whole.
                        check_retained(&store, &after.candidates());
                    }
                    let mut before = History::read(&store).unwrap();
                    let retained = retention.retained(&before);
                    let marked = before.mark();
                    prune(&store, &mut history, retention).unwrap();
                    before = History::read(&store).unwrap();
                    prop_assert_eq!(&before.candidates(), &retained);
                    prop_assert_eq!(before.mark(), marked);
                    prop_assert!(before.marks.len() <= 1);
                    check_retained(&store, &retained);
                    let named: BTreeSet<String> = retained
                        .iter()
                        .flat_map(|id| Manifest::open(&store, *id).unwrap().segments)
                        .map(|segment| segment.name)
                        .chain(under_way.iter().cloned())
                        .collect();
                    let there = BTreeSet::from_iter(store.list("segments/").unwrap());
                    prop_assert_eq!(there, named);
                }
                Step::Write => {
                    epoch += 1;
                    write_segments(&store, CheckpointId { generation, epoch });
                }
                Step::Die { mut passed_over } => {
                    let before = History::read(&store).unwrap();
                    let damaged = || crate::Damage::Missing { file: String::new() }.into();
                    let chosen = choose(&before, GoBack::Refused, |id| {
                        if passed_over > 0 {
                            passed_over -= 1;
                            return Err(damaged());
                        }
                        Ok(id)
                    });
                    let Ok(chosen) = chosen else { continue };
                    generation = before.next_generation();
                    let from = chosen.from.map(|x| x.0);
                    begin_life(&store, generation, from).unwrap();
                    epoch = from.map_or(0, |from| from.epoch);
                    history = History::read(&store).unwrap();
                }
            }
        }
    }
}

#[test]
fn p1_what_a_newer_life_writes_is_not_ours_to_judge() {
    let store = Memory::new();
    begin_life(&store, 1, None).unwrap();
    begin_life(&store, 2, None).unwrap();
    let newer = CheckpointId { generation: 2, epoch: 1 };
    let published = publish(&store, &manifest(newer, write_segments(&store, newer)));
    assert_eq!(published.unwrap().id(), newer);
    let retention = Retention { keep: 1, generation: 1, epoch_in_use: 1 };
    let plan = prune(&store, &mut History::default(), retention).unwrap();
    assert_eq!(plan, Plan::default());
}

#[test]
fn p1_the_segments_of_a_retained_manifest_that_is_damaged_stay() {
    let store = Memory::new();
    begin_life(&store, 1, None).unwrap();
    for epoch in 1..=2 {
        let id = CheckpointId { generation: 1, epoch };
        let published = publish(&store, &manifest(id, write_segments(&store, id)));
        assert_eq!(published.unwrap().id(), id);
    }
    let damaged = CheckpointId { generation: 1, epoch: 1 };
    store.tamper(&Manifest::name(damaged), Some(vec![]));
    let retention = Retention { keep: 2, generation: 1, epoch_in_use: 2 };
    assert_eq!(prune(&store, &mut History::default(), retention).unwrap(), Plan::default());
}

#[test]
fn files_that_are_not_ours_stay() {
    let store = Memory::new();
    begin_life(&store, 1, None).unwrap();
    for name in ["segments/notes", "manifests/1-1", "marks/x", "manifests/copy of 1"] {
        store.put_new(name, b"").unwrap();
    }
    let retention = Retention { keep: 1, generation: 1, epoch_in_use: 1 };
    assert_eq!(prune(&store, &mut History::default(), retention).unwrap(), Plan::default());
}
