use proptest::prelude::*;

use super::*;
use crate::store::Memory;

fn id(generation: u64, epoch: u64) -> CheckpointId {
    CheckpointId { generation, epoch }
}

fn damaged() -> RestoreError {
    Damage::Missing { file: "segments/x".into() }.into()
}

/// The drawing in the module's head: life 2 went on from 1/2, life 3 from 2/3, while 1/3 and 2/4
/// are there.
fn drawing() -> History {
    History {
        lives: BTreeMap::from([(1, None), (2, Some(id(1, 2))), (3, Some(id(2, 3)))]),
        manifests: BTreeSet::from([id(1, 1), id(1, 2), id(1, 3), id(2, 3), id(2, 4)]),
        marks: BTreeSet::from([id(1, 1)]),
    }
}

#[test]
fn l1_only_the_line_counts() {
    assert_eq!(drawing().candidates(), [id(2, 3), id(1, 2), id(1, 1)]);
    assert_eq!(History::default().candidates(), []);
}

#[test]
fn l1_a_mark_off_the_line_does_not_count() {
    let mut history = drawing();
    history.marks.extend([id(1, 3), id(2, 4)]);
    assert_eq!(history.mark(), Some(id(1, 1)));
    history.marks.insert(id(2, 3));
    assert_eq!(history.mark(), Some(id(2, 3)));
}

#[test]
fn an_older_checkpoint_is_chosen_and_said_where_that_is_safe() {
    let open = |at| if at == id(2, 3) { Err(damaged()) } else { Ok(at) };
    let chosen = choose(&drawing(), GoBack::Refused, open).unwrap();
    assert_eq!(chosen.from, Some((id(1, 2), id(1, 2))));
    assert_eq!(chosen.passed_over.len(), 1);
    assert_eq!(chosen.passed_over[0].0, id(2, 3));
}

#[test]
fn l3_nothing_older_than_the_mark_is_chosen_unless_allowed() {
    let mut history = drawing();
    history.marks.insert(id(2, 3));
    let open = |at| if at == id(2, 3) { Err(damaged()) } else { Ok(()) };
    let error = choose(&history, GoBack::Refused, open).unwrap_err().to_string();
    assert!(error.starts_with("what checkpoint 2/3 prepared may be committed already"), "{error}");
    assert!(error.contains("\"segments/x\" is missing"), "{error}");
    let chosen = choose(&history, GoBack::Allowed, open).unwrap();
    assert_eq!(chosen.from, Some((id(1, 2), ())));
}

#[test]
fn l3_a_marked_checkpoint_whose_manifest_is_gone_is_missed() {
    let mut history = drawing();
    history.marks.insert(id(2, 3));
    history.manifests.remove(&id(2, 3));
    let error = choose(&history, GoBack::Refused, Ok).unwrap_err().to_string();
    assert!(error.contains(&Manifest::name(id(2, 3))), "{error}");
}

#[test]
fn l3_the_very_beginning_is_older_than_any_mark() {
    let nothing = |_| Err::<(), _>(damaged());
    choose(&drawing(), GoBack::Refused, nothing).unwrap_err();
    let mut history = drawing();
    history.marks.clear();
    let chosen = choose(&history, GoBack::Refused, nothing).unwrap();
    assert!(chosen.from.is_none());
    assert_eq!(chosen.passed_over.len(), 3);
}

#[test]
fn l2_a_lost_record_of_a_life_is_named() {
    let lost = |generation: u64| {
        let store = Memory::new();
        begin_life(&store, 1, None).unwrap();
        begin_life(&store, 2, None).unwrap();
        begin_life(&store, 3, Some(id(1, 4))).unwrap();
        store.put_new(&Manifest::name(id(3, 5)), b"").unwrap();
        store.tamper(&life_name(generation), None);
        History::read(&store).unwrap_err().to_string()
    };
    for generation in 1..=3 {
        let says = format!("\"{}\" is missing: put back a copy of it", life_name(generation));
        assert_eq!(lost(generation), says);
    }
}

#[test]
fn a_damaged_record_is_an_error_that_names_it() {
    let store = Memory::new();
    begin_life(&store, 1, None).unwrap();
    write_mark(&store, id(1, 4)).unwrap();
    let whole = History::read(&store).unwrap();
    assert_eq!(whole.mark(), Some(id(1, 4)));
    for name in store.list("").unwrap() {
        let bytes = store.read(&name).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            store.tamper(&name, Some(flipped));
            let error = History::read(&store).unwrap_err();
            assert!(matches!(error, OpenError::Damaged(_)), "{error}");
            assert!(error.to_string().contains(&name), "{error}");
        }
        for len in 0..bytes.len() {
            store.tamper(&name, Some(bytes[..len].to_vec()));
            History::read(&store).unwrap_err();
        }
        store.tamper(&name, Some(bytes));
    }
    // Under another name.
    store.tamper(&life_name(2), Some(store.read(&life_name(1)).unwrap()));
    assert!(History::read(&store).unwrap_err().to_string().contains("of another one"));
}

#[test]
fn copies_that_people_make_are_not_ours() {
    let store = Memory::new();
    begin_life(&store, 1, None).unwrap();
    store.put_new("lives/1", b"?").unwrap();
    store.put_new(&format!("{}~", life_name(2)), b"?").unwrap();
    store.put_new(&format!("{}.old", mark_name(id(1, 1))), b"?").unwrap();
    assert_eq!(History::read(&store).unwrap().lives, BTreeMap::from([(1, None)]));
}

#[derive(Clone, Debug)]
enum Step {
    Publish,
    Mark,
    /// A new life, after so many of the newest checkpoints were unreadable.
    Die(usize),
    /// What a killed life had under way lands late: a manifest and a mark of an older life.
    Late(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Publish),
        2 => Just(Step::Mark),
        2 => (0usize..3).prop_map(Step::Die),
        1 => (0u64..5, 1u64..20).prop_map(|(life, epoch)| Step::Late(life, epoch)),
    ]
}

proptest! {
    /// The line is what a job that remembers everything would say it is.
    #[test]
    fn l1_the_line_is_what_the_job_built_on(steps in prop::collection::vec(step(), 0..40)) {
        let store = Memory::new();
        begin_life(&store, 1, None).unwrap();
        let (mut generation, mut epoch) = (1, 0);
        let mut line: Vec<CheckpointId> = vec![];
        let mut mark = None;
        for step in steps {
            match step {
                Step::Publish => {
                    epoch += 1;
                    store.put_new(&Manifest::name(id(generation, epoch)), b"").unwrap();
                    line.push(id(generation, epoch));
                }
                Step::Mark => if let Some(newest) = line.last() {
                    write_mark(&store, *newest).unwrap();
                    mark = Some(*newest);
                }
                Step::Die(unreadable) => {
                    let history = History::read(&store).unwrap();
                    let mut left = unreadable;
                    let chosen = choose(&history, GoBack::Refused, |_| {
                        let failed = left > 0;
                        left = left.saturating_sub(1);
                        if failed { Err(damaged()) } else { Ok(()) }
                    });
                    let keep = line.len().saturating_sub(unreadable);
                    if line[..keep].last().copied() < mark {
                        prop_assert!(chosen.is_err());
                        continue;
                    }
                    line.truncate(keep);
                    let from = chosen.unwrap().from.map(|x| x.0);
                    prop_assert_eq!(from, line.last().copied());
                    generation = history.next_generation();
                    epoch = from.map_or(0, |from| from.epoch);
                    begin_life(&store, generation, from).unwrap();
                }
                Step::Late(back, ahead) => if back > 0 && back < generation {
                    // Later than anything that its life had published, so off the line.
                    let late = id(generation - back, 1000 + ahead);
                    store.put_new(&Manifest::name(late), b"").unwrap();
                    write_mark(&store, late).unwrap();
                }
            }
            let history = History::read(&store).unwrap();
            prop_assert!(history.candidates().iter().eq(line.iter().rev()));
            prop_assert_eq!(history.mark(), mark);
        }
    }
}
