//! An operator that does not return from a record until it is released: checkpoints time out and
//! say who held them up, and the job goes on.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use overtake::connect::file::PartFiles;
use overtake::{Error, Flow, Handle, Holder, Mode, Outcome, Output, Reason, Running};

use crate::harness::until;
use crate::rows::{Line, Numbers, Row, Rows, assert_exact, failure, line, published};

const LENGTHS: [u64; 2] = [20_000; 2];

const TIMEOUT: Duration = Duration::from_millis(100);

/// A record that takes until it is released.
#[derive(Clone, Default)]
struct Trap(Arc<(Mutex<Caught>, Condvar)>);

#[derive(Default)]
struct Caught {
    /// Records that the operator had begun, on the worker whose record it is.
    begun: Option<u64>,
    is_released: bool,
}

impl Trap {
    fn hold(&self, begun: u64) {
        let (caught, released) = &*self.0;
        let mut caught = caught.lock().unwrap();
        caught.begun = Some(begun);
        drop(released.wait_while(caught, |caught| !caught.is_released).unwrap());
    }

    fn release(&self) {
        self.0.0.lock().unwrap().is_released = true;
        self.0.1.notify_all();
    }

    fn has_caught(&self) -> bool {
        self.0.0.lock().unwrap().begun.is_some()
    }

    /// How many records came before the one that is held.
    fn before(&self) -> u64 {
        self.0.0.lock().unwrap().begun.expect("it has been caught") - 1
    }
}

/// A job, one of whose records is a trap.
struct Stuck {
    rows: Rows,
    trap: Trap,
}

impl Stuck {
    fn new(tolerated: u32) -> Stuck {
        let mut rows = Rows::new(&[]);
        rows.config.schedule.timeout = TIMEOUT;
        rows.config.schedule.failures_tolerated = tolerated;
        // A job that has failed waits for the test to release its worker.
        rows.config.limits.stop_timeout = crate::harness::PATIENCE;
        Stuck { rows, trap: Trap::default() }
    }

    fn start(&self, workers: usize, mode: Mode) -> Running {
        let describe = describe(self.rows.place.out(), self.trap.clone());
        self.rows.job(workers, mode).start(describe).unwrap()
    }

    /// Asserts that this holder is the operator, in the record that is held.
    fn assert_held(&self, holder: &Holder) {
        let Holder { operator, record, is_inside, .. } = holder;
        assert_eq!((operator.as_str(), *is_inside), ("slow", true));
        // It tells how far it is after each chunk.
        let before = self.trap.before();
        assert!((before.saturating_sub(2_047)..=before).contains(record), "{record}, {before}");
    }
}

fn describe(out: PathBuf, trap: Trap) -> impl Fn(&mut Flow) + Send + Sync + 'static {
    move |flow| {
        let trap = trap.clone();
        flow.source("numbers", Numbers::new("numbers", &LENGTHS))
            .key_by(|row| row.key)
            .process("slow", move |states| {
                let count = states.value::<u32, u64>("count")?;
                let mut begun = 0;
                Ok(move |key: &u32, row: &Row, out: &mut Output<Line>| {
                    begun += 1;
                    if (row.key, row.number) == (7, 100) {
                        trap.hold(begun);
                    }
                    let next = |n: &mut u64| std::mem::replace(n, *n + 1);
                    out.emit(line(row, count.update(key, next)));
                })
            })
            .key_by(|line| line.0 / 4)
            .process("ordered", |_| Ok(|_: &u32, line: &Line, out: &mut Output<_>| out.emit(*line)))
            .sink("rows", PartFiles::csv(&out));
    }
}

/// Why checkpoints of this life timed out while tasks had not captured them.
fn timed_out(handle: &Handle) -> Vec<Reason> {
    let history = handle.history().into_iter();
    let reasons = history.filter_map(|checkpoint| match checkpoint.outcome {
        Outcome::Aborted { why, .. } => Some(why),
        _ => None,
    });
    reasons
        .filter(|why| matches!(why, Reason::TimedOut { uncaptured, .. } if !uncaptured.is_empty()))
        .collect()
}

#[test]
fn checkpoints_of_a_stuck_operator_time_out_and_name_it_and_the_job_goes_on() {
    for mode in [Mode::Aligned, Mode::Unaligned] {
        for workers in [1, 3] {
            let stuck = Stuck::new(u32::MAX);
            let running = stuck.start(workers, mode);
            let handle = running.handle();
            until(|| stuck.trap.has_caught());
            let earlier = timed_out(&handle).len();
            until(|| timed_out(&handle).len() >= earlier + 2);
            for why in timed_out(&handle).iter().skip(earlier + 1) {
                let Reason::TimedOut { after, uncaptured, holders } = why else { unreachable!() };
                assert_eq!(*after, TIMEOUT);
                stuck.assert_held(&holders[0]);
                assert!(uncaptured.contains(&holders[0].task), "{why}");
                let said = why.to_string();
                let worker = holders[0].worker;
                let expected = format!(
                    "timed out after 100ms, held up by operator \"slow\" on worker {worker}, at or \
                     after its record {}",
                    holders[0].record
                );
                assert!(said.starts_with(&expected), "{said}");
                assert!(said.ends_with(" had not captured it"), "who waited is missing: {said}");
            }
            let before = published(&handle).len();
            stuck.trap.release();
            let report = running.join().unwrap();
            let complete =
                |c: &&overtake::CheckpointReport| matches!(c.outcome, Outcome::Published { .. });
            assert!(report.history.iter().filter(complete).count() > before, "{mode:?}");
            assert_exact(&stuck.rows.place.out(), &[&LENGTHS]);
        }
    }
}

#[test]
fn too_many_time_outs_end_the_job_with_an_error_that_names_who_held_them_up() {
    for mode in [Mode::Aligned, Mode::Unaligned] {
        let mut stuck = Stuck::new(1);
        // The operator has long been caught when the first checkpoint is due.
        stuck.rows.config.schedule.interval = Duration::from_secs(1);
        let running = stuck.start(1, mode);
        let handle = running.handle();
        until(|| timed_out(&handle).len() >= 2);
        let last = handle.history().pop().unwrap();
        let Outcome::Aborted { why, .. } = last.outcome else { panic!("{last:?}") };
        stuck.trap.release();
        let error = failure(running);
        assert!(matches!(error, Error::Failed(_)), "{error}");
        let Reason::TimedOut { holders, .. } = &why else { panic!("{why}") };
        stuck.assert_held(&holders[0]);
        let record = holders[0].record;
        let expected = format!(
            "2 checkpoints failed in a row; checkpoint {}: timed out after 100ms, held up by \
             operator \"slow\" on worker 0, at or after its record {record}; 2 other tasks had not \
             captured it; start the job again to go on from the last checkpoint",
            last.epoch
        );
        assert_eq!(error.to_string(), expected);

        stuck.rows.config.schedule = Rows::new(&[]).config.schedule;
        let report = stuck.start(2, mode).join().unwrap();
        assert!(report.has_ended());
        assert_exact(&stuck.rows.place.out(), &[&LENGTHS]);
    }
}
