//! Small jobs end to end, without a state directory and with one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use overtake::flow::keyed::Hold;
use overtake::{Job, Mode, source};

type Rows = Arc<Mutex<Vec<(u64, u64)>>>;

fn last_of(rows: &Rows) -> BTreeMap<u64, u64> {
    rows.lock().expect("nobody panics").iter().copied().collect()
}

#[test]
fn a_fold_sees_every_record_of_a_key_in_order() {
    let rows = Rows::default();
    let out = rows.clone();
    let report = Job::new()
        .workers(2)
        .run(move |flow| {
            let out = out.clone();
            flow.source("numbers", source::items((0..100_000u64).collect()))
                .map(|number| (number % 100, number))
                .key_by(|record| record.0)
                .fold("sums", |sum: &mut u64, record| *sum += record.1)
                .for_each("collect", move |row| out.lock().unwrap().push(*row));
        })
        .unwrap();
    assert_eq!(report.processed("sums"), 100_000);
    let expected = (0..100u64).map(|key| (key, (0..1000).map(|i| i * 100 + key).sum()));
    assert_eq!(last_of(&rows), expected.collect());
}

#[test]
fn every_shape_of_edge_passes_every_record_once() {
    let rows = Rows::default();
    let out = rows.clone();
    Job::new()
        .workers(3)
        .run(move |flow| {
            let out = out.clone();
            let numbers = flow.source("numbers", source::items((0..1000u64).collect()));
            let forked = numbers.rebalance("spread").fork();
            let even = forked.stream().filter(|n| n % 2 == 0);
            let (small, large) = forked
                .stream()
                .filter(|n| n % 2 == 1)
                .split(|n| if n < 500 { Ok(n) } else { Err(n) });
            let table =
                flow.source("table", source::items((0..10u64).map(|k| (k, k + 1)).collect()));
            small
                .union("small.and.large", large)
                .union("all", even)
                .exchange("custom", |n, workers| *n as usize % workers)
                .key_by(|n| n % 10)
                .process_with_broadcast("factors", table, Hold::UntilEnd, |states| {
                    let factors = states.broadcast::<u64, u64>("factors")?;
                    let table = factors.clone();
                    Ok((
                        move |row: &(u64, u64)| _ = factors.insert(&row.0, row.1),
                        move |key: &u64, n: &u64, out: &mut overtake::Output<(u64, u64)>| {
                            out.emit((*n, table.get(key).unwrap()));
                        },
                    ))
                })
                .for_each("collect", move |row| out.lock().unwrap().push(*row));
        })
        .unwrap();
    let mut rows = rows.lock().unwrap().clone();
    rows.sort_unstable();
    assert_eq!(rows, (0..1000).map(|n| (n, n % 10 + 1)).collect::<Vec<_>>());
}

#[test]
fn a_job_with_a_state_directory_ends_with_a_last_checkpoint_and_goes_on_from_it() {
    let directory = tempfile::tempdir().unwrap();
    for (life, mode) in [(1, Mode::Unaligned), (2, Mode::Aligned)] {
        let rows = Rows::default();
        let out = rows.clone();
        let report = Job::new()
            .workers(2)
            .state(directory.path().join("state"))
            .mode(mode)
            .interval(Duration::from_millis(10))
            .run(move |flow| {
                let out = out.clone();
                flow.source("numbers", source::items((0..200_000u64).collect()))
                    .key_by(|number| number % 10)
                    .fold("sums", |sum: &mut u64, number| *sum += number)
                    .for_each("collect", move |row| out.lock().unwrap().push(*row));
            })
            .unwrap();
        assert_eq!(report.generation, life);
        assert_eq!(report.processed("sums"), if life == 1 { 200_000 } else { 0 });
        assert_eq!(report.restored.is_some(), life == 2);
        assert!(!report.history.is_empty());
    }
}

#[test]
fn a_panic_in_an_operator_names_it() {
    let message = Job::new()
        .workers(2)
        .run(|flow| {
            flow.source("numbers", source::items((0..1000u64).collect()))
                .key_by(|number| *number)
                .fold("odd, one", |_: &mut u64, number| assert!(*number != 500, "not this one"))
                .for_each("nothing", |_| ());
        })
        .err()
        .unwrap()
        .to_string();
    assert!(message.contains("is not allowed"), "{message}");
    let message = Job::new()
        .workers(2)
        .run(|flow| {
            flow.source("numbers", source::items((0..1000u64).collect()))
                .key_by(|number| *number)
                .fold("fold", |_: &mut u64, number| assert!(*number != 500, "not this one"))
                .for_each("nothing", |_| ());
        })
        .err()
        .unwrap()
        .to_string();
    assert!(message.contains("operator \"fold\" on worker"), "{message}");
    assert!(message.contains("panicked: not this one"), "{message}");
}

#[test]
fn a_flow_that_contradicts_itself_is_refused_before_it_runs() {
    let refused = |describe: fn(&mut overtake::Flow)| {
        Job::new().workers(1).run(describe).err().unwrap().to_string()
    };
    assert_eq!(refused(|_| ()), "flow: the flow has no operators");
    assert_eq!(
        refused(|flow| {
            flow.source("a", source::items(vec![1u64])).for_each("x", |_| ());
            flow.source("a", source::items(vec![1u64])).for_each("y", |_| ());
        }),
        "flow: two operators are named \"a\": rename one"
    );
    assert_eq!(
        refused(|flow| drop(flow.source("a", source::items(vec![1u64])).map(|n| n))),
        "flow: nobody uses what comes out of \"a\": give it a sink, or leave it out"
    );
}
