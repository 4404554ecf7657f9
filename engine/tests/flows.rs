//! Small jobs end to end, without a state directory and with one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use overtake::flow::keyed::Hold;
use overtake::{Job, Mode, source};

type Rows = Arc<Mutex<Vec<(u64, u64)>>>;

/// Describes a flow that refuses a number.
type Describe = fn(&mut overtake::Flow, u64);

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
    assert!(message.contains(" panicked at its record "), "{message}");
    assert!(message.ends_with(": not this one"), "{message}");
}

#[test]
fn a_record_is_named_by_how_many_the_operator_had_processed_before_it() {
    let run = |describe: Describe, wrong| {
        let job = Job::new().workers(1);
        job.run(move |flow| describe(flow, wrong)).err().unwrap().to_string()
    };
    let shapes: [(&str, Describe); 5] = [
        ("fold", |flow, wrong| {
            flow.source("numbers", source::items((0..9_000u64).collect()))
                .key_by(|number| number % 7)
                .fold("fold", move |_: &mut u64, number| assert!(*number != wrong, "not this one"))
                .for_each("nothing", |_| ());
        }),
        ("process", |flow, wrong| {
            flow.source("numbers", source::items((0..9_000u64).collect()))
                .key_by(|number| number % 7)
                .process("process", move |_| {
                    Ok(move |_: &u64, number: &u64, out: &mut overtake::Output<u64>| {
                        assert!(*number != wrong, "not this one");
                        out.emit(*number);
                    })
                })
                .for_each("nothing", |_| ());
        }),
        ("numbers", |flow, wrong| {
            flow.source("numbers", source::items((0..9_000u64).collect()))
                .map(move |number| {
                    assert!(number != wrong, "not this one");
                    number
                })
                .for_each("nothing", |_| ());
        }),
        ("spread", |flow, wrong| {
            flow.source("numbers", source::items((0..9_000u64).collect()))
                .rebalance("spread")
                .filter(move |number| {
                    assert!(*number != wrong, "not this one");
                    true
                })
                .for_each("nothing", |_| ());
        }),
        ("both", |flow, wrong| {
            let none = flow.source("none", source::items(Vec::<u64>::new()));
            flow.source("numbers", source::items((0..9_000u64).collect()))
                .key_by(|number| number % 7)
                .process_with("both", none.key_by(|number| *number), move |_| {
                    let left = move |_: &u64, number: &u64, _: &mut overtake::Output<u64>| {
                        assert!(*number != wrong, "not this one");
                    };
                    Ok((left, |_: &u64, _: &u64, _: &mut overtake::Output<u64>| ()))
                })
                .for_each("nothing", |_| ());
        }),
    ];
    for (name, describe) in shapes {
        for wrong in [0, 1, 127, 128, 130, 4_097, 8_999] {
            let message = run(describe, wrong);
            let at = format!("on worker 0 panicked at its record {wrong}: not this one");
            assert_eq!(message, format!("operator \"{name}\" {at}"));
        }
    }
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

#[test]
fn a_job_that_is_stopped_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let mut last = BTreeMap::new();
    for life in 0..2 {
        let rows = Rows::default();
        let out = rows.clone();
        let running = Job::new()
            .workers(2)
            .state(directory.path().join("state"))
            .start(move |flow| {
                let out = out.clone();
                // Slow in its first life, so that it is stopped before it has ended.
                let rate = if life == 0 { 5_000 } else { u64::MAX };
                let numbers = source::items((0..20_000u64).collect());
                flow.source("numbers", source::paced(numbers, rate, |_, _| ()))
                    .key_by(|number| number % 10)
                    .fold("sums", |sum: &mut u64, number| *sum += number)
                    .for_each("collect", move |row| out.lock().unwrap().push(*row));
            })
            .unwrap();
        let handle = running.handle();
        if life == 0 {
            while handle.processed("sums") == 0 {
                std::thread::yield_now();
            }
            handle.checkpoint().unwrap();
            handle.stop();
        }
        let report = running.join().unwrap();
        assert!(life == 1 || report.processed("sums") < 20_000, "it was stopped too late");
        last.extend(last_of(&rows));
    }
    // The state of the second life goes on from that of the first: no record is lost or doubled.
    let expected = (0..10u64).map(|key| (key, (0..2000).map(|i| i * 10 + key).sum()));
    assert_eq!(last, expected.collect());
}

#[test]
fn a_job_without_a_state_directory_says_that_it_takes_no_checkpoints() {
    let running = Job::new()
        .workers(1)
        .start(|flow| {
            flow.source("numbers", source::items(vec![1u64])).for_each("nothing", |_| ());
        })
        .unwrap();
    let refused = running.handle().checkpoint().unwrap_err().to_string();
    assert!(refused.ends_with("takes no checkpoints: give it one"), "{refused}");
    running.join().unwrap();
}
