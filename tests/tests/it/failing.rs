//! Operators that fail, and programs that changed: every error names who it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use overtake::connect::file::PartFiles;
use overtake::{Error, Flow, Mode, Output};

use crate::rows::{Line, Numbers, Row, Rows, assert_exact, failure, line, until_published};

/// One split: enough for some checkpoints.
const LENGTH: u64 = 20_000;

/// A keyed count with a name and a type of its state, which calls a function for every record.
fn counting<N>(
    operator: &'static str,
    table: &'static str,
    out: std::path::PathBuf,
    look: impl Fn(&Row) + Clone + Send + Sync + 'static,
) -> impl Fn(&mut Flow) + Send + Sync + 'static
where
    N: overtake::Data + Default + Copy + std::ops::AddAssign<N> + From<u8> + Into<u64>,
{
    move |flow| {
        let look = look.clone();
        flow.source("numbers", Numbers::new("numbers", &[LENGTH]))
            .key_by(|row| row.key)
            .process(operator, move |states| {
                let count = states.value::<u32, N>(table)?;
                Ok(move |key: &u32, row: &Row, out: &mut Output<Line>| {
                    look(row);
                    let counted = count.update(key, |count: &mut N| {
                        let before = *count;
                        *count += N::from(1);
                        before
                    });
                    out.emit(line(row, counted.into()));
                })
            })
            .sink("rows", PartFiles::csv(out.clone()));
    }
}

#[test]
fn a_panic_in_an_operator_is_named_and_the_job_goes_on_when_it_is_started_again() {
    let rows = Rows::new(&[]);
    let has_checkpoint = Arc::new(AtomicBool::new(false));
    let (pace, may_panic) = (rows.pace.clone(), has_checkpoint.clone());
    pace.set(Duration::from_micros(20));
    let look = move |_: &Row| {
        pace.spend();
        assert!(!may_panic.load(Ordering::Relaxed), "seat map of row 17 is upside down");
    };
    let describe = counting::<u64>("count", "count", rows.place.out(), look);
    let running = rows.job(3, Mode::Unaligned).start(describe).unwrap();
    until_published(&running, |_| true);
    has_checkpoint.store(true, Ordering::Relaxed);
    let why = failure(running);
    let Error::Panicked { name, worker, message, .. } = &why else { panic!("{why}") };
    assert_eq!((name.as_str(), message.as_str()), ("count", "seat map of row 17 is upside down"));
    assert!(*worker < 3);

    let describe = counting::<u64>("count", "count", rows.place.out(), |_| ());
    let report = rows.job(2, Mode::Unaligned).run(describe).unwrap();
    assert!(report.restored.is_some());
    assert_exact(&rows.place.out(), &[&[LENGTH]]);
}

#[test]
fn an_operator_that_never_returns_is_told_as_stuck_and_keeps_its_directory() {
    let mut rows = Rows::new(&[]);
    rows.config.schedule.timeout = Duration::from_millis(200);
    rows.config.schedule.failures_tolerated = 0;
    rows.config.limits.stop_timeout = Duration::from_millis(200);
    let is_released = Arc::new(AtomicBool::new(false));
    let released = is_released.clone();
    let look = move |row: &Row| {
        while row.number == 3 && !released.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    };
    let describe = counting::<u64>("count", "count", rows.place.out(), look);
    let running = rows.job(2, Mode::Unaligned).start(describe).unwrap();
    let why = failure(running);
    assert!(matches!(&why, Error::Stuck { name, .. } if name == "count"), "{why}");

    let describe = || counting::<u64>("count", "count", rows.place.out(), |_| ());
    let Err(in_use) = rows.job(2, Mode::Unaligned).start(describe()) else {
        panic!("two lives in one directory")
    };
    let expected = format!("is in use by process {}: stop that process first", std::process::id());
    assert!(in_use.to_string().contains(&expected), "{in_use}");

    // Its threads end when they can, and nothing of theirs counts.
    is_released.store(true, Ordering::Relaxed);
}

/// Takes a checkpoint of a job that counts in `u64`, and stops it.
fn interrupted() -> Rows {
    let rows = Rows::new(&[]);
    let pace = rows.pace.clone();
    pace.set(Duration::from_micros(50));
    let look = move |_: &Row| pace.spend();
    let describe = counting::<u64>("count", "count", rows.place.out(), look);
    let running = rows.job(2, Mode::Unaligned).start(describe).unwrap();
    until_published(&running, |_| true);
    drop(running);
    rows
}

#[test]
fn f32_renamed_operators_and_tables_are_refused_by_name_and_go_on_under_the_old_ones() {
    let rows = interrupted();
    let start = |operator, table| {
        let describe = counting::<u64>(operator, table, rows.place.out(), |_| ());
        rows.job(2, Mode::Unaligned).run(describe)
    };
    let Err(why) = start("tally", "count") else { panic!("its state is dropped silently") };
    assert!(why.to_string().contains("state of operator \"count\""), "{why}");
    let Err(why) = start("count", "tally") else { panic!("its state is dropped silently") };
    assert!(why.to_string().contains("table \"count\" of operator \"count\""), "{why}");
    start("count", "count").unwrap();
    assert_exact(&rows.place.out(), &[&[LENGTH]]);
}

#[test]
fn f33_a_type_that_changed_is_named_with_both_its_forms() {
    let rows = interrupted();
    let describe = counting::<u32>("count", "count", rows.place.out(), |_| ());
    let Err(why) = rows.job(2, Mode::Unaligned).run(describe) else { panic!("garbage is read") };
    let why = why.to_string();
    for word in ["table \"count\" of operator \"count\"", "u64", "u32"] {
        assert!(why.contains(word), "{why}");
    }
    let describe = counting::<u64>("count", "count", rows.place.out(), |_| ());
    rows.job(1, Mode::Unaligned).run(describe).unwrap();
    assert_exact(&rows.place.out(), &[&[LENGTH]]);
}
