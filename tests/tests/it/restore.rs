//! Checkpoints under backpressure, and what is restored from them.

use std::time::Duration;

use overtake::connect::file::PartFiles;
use overtake::flow::keyed::Hold;
use overtake::{CheckpointReport, Flow, Mode, Outcome, Output, Reason};

use crate::harness::{names, until};
use crate::rows::{Line, Numbers, Row, Rows, assert_exact, line, published, until_published};

const ADAPTIVE: Mode = Mode::Adaptive { after: Duration::from_millis(20) };

/// Four splits, of which a slow stage leaves most in flight or unread.
const LONG: [u64; 4] = [20_000; 4];

/// Slow enough for a backlog of a second and more.
const SLOW: Duration = Duration::from_micros(50);

/// In flight, in bytes: several thousand records.
fn is_loaded(checkpoint: &CheckpointReport) -> bool {
    checkpoint.in_flight_bytes() > 100_000
}

#[test]
fn f11_an_unaligned_checkpoint_under_backpressure_restores_on_any_number_of_workers() {
    for (from, to) in [(3, 2), (2, 3), (1, 4), (4, 1)] {
        let rows = Rows::new(&LONG);
        let running = rows.start(from, Mode::Unaligned, SLOW);
        until_published(&running, is_loaded);
        drop(running);
        let checkpoint = rows.newest();
        assert!(checkpoint.statistics.in_flight_bytes > 100_000, "{checkpoint:?}");
        let report = rows.finish(to, Mode::Unaligned);
        assert_eq!(report.restored, Some(checkpoint.id), "from {from} to {to} workers");
    }
}

#[test]
fn f13_f25_f36_a_checkpoint_before_restored_data_is_worked_off_can_be_restored() {
    let rows = Rows::new(&LONG);
    let mut restored = None;
    for (workers, mode) in [(2, Mode::Unaligned), (3, Mode::Unaligned), (4, ADAPTIVE)] {
        // Later lives are slower: they cannot work off what they have restored.
        let pace = if restored.is_none() { SLOW } else { 20 * SLOW };
        let running = rows.start(workers, mode, pace);
        assert_eq!(running.handle().restored(), restored);
        until_published(&running, is_loaded);
        let processed = running.handle().processed("slow");
        drop(running);
        let checkpoint = rows.newest();
        let in_flight = checkpoint.statistics.in_flight_bytes / size_of::<Row>() as u64;
        assert!(restored.is_none() || processed < in_flight / 2, "{processed} of {in_flight}");
        restored = Some(checkpoint.id);
    }
    assert_eq!(rows.finish(1, Mode::Aligned).restored, restored);
}

/// Pointwise, custom, rebalanced, keyed and broadcast edges on the way to a slow stage.
#[test]
fn f04_f11_every_kind_of_edge_is_overtaken_and_restored_on_any_number_of_workers() {
    let rows = Rows::new(&[]);
    let (left, right) = ([8_000, 8_000], [12_000, 50]);
    let start = |workers, pace| {
        rows.pace.set(pace);
        let (pace, out) = (rows.pace.clone(), rows.place.out());
        let describe = move |flow: &mut Flow| {
            let (of_words, of_rows) = (pace.clone(), pace.clone());
            let words = flow.source("words", Numbers::new("words", &[3_000; 2]));
            let right = flow.source("right", Numbers::new("right", &right));
            // Above the keys of the left ones.
            let right = right.map(|row| Row { key: row.key + 100, ..row });
            flow.source("left", Numbers::new("left", &left))
                .union("both", right)
                .exchange("dealt_by_key", |row, workers| row.key as usize % workers)
                .rebalance("dealt_in_turn")
                .key_by(|row| row.key)
                .process_with_broadcast("slow", words, Hold::Never, move |states| {
                    let heard = states.broadcast::<u32, u64>("heard")?;
                    let hear = move |word: &Row| {
                        of_words.spend();
                        _ = heard.insert(&word.key, word.number);
                    };
                    let say = move |_: &u32, row: &Row, out: &mut Output<Line>| {
                        of_rows.spend();
                        // Rebalancing keeps no order.
                        out.emit(line(row, row.number));
                    };
                    Ok((hear, say))
                })
                .sink("rows", PartFiles::csv(out.clone()));
        };
        rows.job(workers, Mode::Unaligned).start(describe).unwrap()
    };
    for workers in [2, 3, 1] {
        let running = start(workers, 2 * SLOW);
        until_published(&running, is_loaded);
        let handle = running.handle();
        assert!(published(&handle).iter().all(CheckpointReport::has_overtaken));
    }
    let report = start(4, Duration::ZERO).join().unwrap();
    assert!(report.restored.is_some());
    let mut lengths = vec![0; 2];
    lengths.extend(right);
    assert_exact(&rows.place.out(), &[&left, &lengths]);
}

#[test]
fn f07_a_source_is_held_up_by_credit_and_not_by_memory() {
    let rows = Rows::new(&[1_000_000; 2]);
    let running = rows.start(2, Mode::Unaligned, 4 * SLOW);
    let handle = running.handle();
    until(|| published(&handle).len() >= 3);
    let limits = &rows.config.limits;
    // Of each of four channels: the batches that credit allows, an open one, one in work.
    let bound = 4 * (limits.credit as u64 + 2) * limits.batch_records_max as u64;
    let read = handle.processed("numbers") - handle.processed("slow");
    assert!(read <= bound, "{read} records between source and slow stage, and {bound} allowed");
}

#[test]
fn f01_f38_an_aligned_checkpoint_outlasts_its_time_out_where_overtaking_ones_do_not() {
    let mut rows = Rows::new(&LONG);
    rows.config.schedule.timeout = Duration::from_millis(1_500);
    rows.config.schedule.failures_tolerated = 10;

    let running = rows.start(2, Mode::Aligned, 4 * SLOW);
    let handle = running.handle();
    until(|| !handle.history().is_empty());
    let timed_out = |c: &CheckpointReport| match &c.outcome {
        Outcome::Aborted { why, .. } => matches!(why, Reason::TimedOut { .. }),
        _ => false,
    };
    assert!(handle.history().iter().all(timed_out), "{:?}", handle.history());
    drop(running);

    for mode in [ADAPTIVE, Mode::Unaligned] {
        let running = rows.start(2, mode, 4 * SLOW);
        until_published(&running, is_loaded);
        let handle = running.handle();
        assert!(!handle.history().iter().any(timed_out), "{mode:?}: {:?}", handle.history());
        assert!(published(&handle).iter().all(CheckpointReport::has_overtaken));
    }
    rows.finish(3, Mode::Aligned);
}

/// Two sources of which one has nearly nothing; both count into the state of their common keys.
#[test]
fn f08_f21_sources_that_end_at_different_times_hold_up_no_checkpoint_and_lose_no_row() {
    for mode in [Mode::Aligned, Mode::Unaligned, ADAPTIVE] {
        let rows = Rows::new(&[]);
        // An aligned checkpoint waits for all that the channels hold before the slow stage: the
        // long source must outlast two of them.
        let (short, long) = ([120, 7], [240_000, 0, 3_000]);
        let start = |workers, pace| {
            rows.pace.set(pace);
            let (pace, out) = (rows.pace.clone(), rows.place.out());
            let describe = move |flow: &mut Flow| {
                let pace = pace.clone();
                let short = flow.source("short", Numbers::new("short", &short));
                // The short source's records are counted apart: its keys are those above.
                let short = short.map(|row| Row { key: row.key + 1_000, ..row });
                flow.source("long", Numbers::new("long", &long))
                    .key_by(|row| row.key)
                    .process_with("both", short.key_by(|row| row.key), move |states| {
                        let count = states.value::<u32, u64>("count")?;
                        let other = count.clone();
                        let add = move |key: &u32, row: &Row, out: &mut Output<Line>| {
                            pace.spend();
                            let next = |n: &mut u64| std::mem::replace(n, *n + 1);
                            out.emit(line(row, count.update(key, next)));
                        };
                        let add_short = move |key: &u32, row: &Row, out: &mut Output<Line>| {
                            let next = |n: &mut u64| std::mem::replace(n, *n + 1);
                            out.emit(line(row, other.update(key, next)));
                        };
                        Ok((add, add_short))
                    })
                    .sink("rows", PartFiles::csv(out.clone()));
            };
            rows.job(workers, mode).start(describe).unwrap()
        };
        let running = start(2, SLOW);
        let handle = running.handle();
        until(|| handle.processed("short") == 127);
        let before = published(&handle).len();
        // One may be under way that began before.
        until(|| published(&handle).len() >= before + 2 || running.has_ended());
        assert!(
            !running.has_ended(),
            "{mode:?}: the long source has ended: the test shows nothing"
        );
        drop(running);

        let report = start(3, Duration::ZERO).join().unwrap();
        assert!(report.restored.is_some());
        let mut lengths = vec![0; 20];
        lengths.extend(short);
        assert_exact(&rows.place.out(), &[&long, &lengths]);
    }
}

/// The epoch whose segment cannot be written.
const FAILING: u64 = 8;

#[test]
fn f35_a_failed_checkpoint_between_two_good_ones_is_told_and_delays_what_it_prepared() {
    for mode in [Mode::Aligned, Mode::Unaligned] {
        for is_stopped_at_once in [false, true] {
            let mut rows = Rows::new(&[200_000; 2]);
            // Little in flight, so that aligned checkpoints are fast.
            rows.config.limits.credit = 2;
            let running = rows.start(2, mode, Duration::from_micros(20));
            let segment = put_in_the_way(&rows);
            let handle = running.handle();
            let good_after = || published(&handle).iter().any(|c| c.epoch.0 > FAILING);
            let failed = || handle.history().into_iter().find(|c| c.epoch.0 == FAILING);
            until(|| {
                let is_reached = failed().is_some() && (is_stopped_at_once || good_after());
                is_reached || running.has_ended()
            });
            drop(running);
            let Outcome::Aborted { why, .. } = failed().expect("it has ended").outcome else {
                panic!("{mode:?}: it is no failure: {:?}", handle.history());
            };
            let Reason::WriteFailed { worker: 1, why } = &why else { panic!("{why:?}") };
            assert!(why.contains(&segment) && why.contains("exists already"), "{why}");
            assert!(published(&handle).iter().any(|c| c.epoch.0 < FAILING));
            assert!(is_stopped_at_once || good_after());
            rows.finish(1, mode);
        }
    }
}

/// Puts a file in the way of the segment that worker 1 will write some epochs later.
fn put_in_the_way(rows: &Rows) -> String {
    let segments = rows.place.state().join("segments");
    until(|| segments.is_dir());
    let segment = segments.join(format!("{:020}-{FAILING:020}-{:05}", 1, 1));
    std::fs::File::create_new(&segment).expect("it is not there yet");
    segment.display().to_string()
}

#[test]
fn f09_f29_a_checkpoint_is_one_file_a_worker_and_a_manifest_and_old_ones_are_deleted() {
    let rows = Rows::new(&LONG);
    let running = rows.start(3, Mode::Unaligned, SLOW);
    let handle = running.handle();
    until(|| published(&handle).len() >= 6);
    drop(running);
    let state = rows.place.state();
    let count = |folder: &str| names(&state.join(folder)).len();
    // Two are kept; one more may have been published and not been followed by its pruning.
    assert!((2..=3).contains(&count("manifests")), "{:?}", names(&state.join("manifests")));
    // One a worker; and those of at most two checkpoints that were being written.
    assert!(count("segments") <= 3 * (3 + 2), "{:?}", names(&state.join("segments")));
    rows.finish(2, Mode::Unaligned);
    assert!(count("segments") <= 3 * 3 + 2 * 2, "{:?}", names(&state.join("segments")));
}
