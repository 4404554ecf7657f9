//! Jobs that fail and are restarted in their process: the output is that of a job that never
//! failed, every end says why, and nothing is left of a life that has ended.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use overtake::connect::file::{Files, PartFiles};
use overtake::sink::{Prepare, Sink, SinkContext, Target, TransactionId};
use overtake::source::{Emit, Read, Source, SourceContext};
use overtake::{
    BoxError, Error, Flow, Handle, Job, Mode, Output, Restart, Running, Transaction, source,
};
use overtake_bench::billing::job::billing;
use overtake_bench::flights::JANUARY;

use crate::harness::{Place, assert_updates, january, names, until};
use crate::rows::{Line, Numbers, Pace, Row, Rows, assert_exact, failure, line, until_published};

/// Two splits. A life reads some 1,300 records of each until the source is told to go on.
const LENGTHS: [u64; 2] = [30_000; 2];

const SLOW: Duration = Duration::from_micros(20);

/// So long that a test which waits for it hangs.
const NEVER_OVER: Duration = Duration::from_secs(86_400);

const AT_ONCE: Restart = Restart::Fixed { delay: Duration::ZERO, attempts: 100 };

/// What goes wrong, and when.
#[derive(Clone, Default)]
struct Switch(Arc<AtomicU8>);

impl Switch {
    const OFF: u8 = 0;
    const ONCE: u8 = 1;
    const ALWAYS: u8 = 2;

    fn set(&self, when: u8) {
        self.0.store(when, Ordering::SeqCst);
    }

    fn strikes(&self) -> bool {
        let once =
            self.0.compare_exchange(Switch::ONCE, Switch::OFF, Ordering::SeqCst, Ordering::SeqCst);
        once.map_or_else(|now| now == Switch::ALWAYS, |_| true)
    }
}

/// What may go wrong in a job of this file.
#[derive(Clone, Default)]
struct Faults {
    operator: Switch,
    read: Switch,
    write: Switch,
    prepare: Switch,
    commit: Switch,
    /// The source stands still, some way into each life.
    is_held: Switch,
}

/// A source that can fail.
#[derive(Clone)]
struct FragileSource<S> {
    source: S,
    faults: Faults,
    reads: u64,
}

impl<S: Source> Source for FragileSource<S> {
    type Record = S::Record;
    type Position = S::Position;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        self.source.splits()
    }

    fn open(
        &mut self,
        split: &str,
        from: Option<S::Position>,
        context: &SourceContext,
    ) -> Result<(), BoxError> {
        self.source.open(split, from, context)
    }

    fn read(
        &mut self,
        limit: usize,
        now: Duration,
        out: &mut impl Emit<S::Record>,
    ) -> Result<Read, BoxError> {
        if self.reads > 20 && self.faults.is_held.strikes() {
            return Ok(Read::Until(now + Duration::from_millis(1)));
        }
        if self.faults.read.strikes() {
            return Err("the wire is cut".into());
        }
        self.reads += 1;
        self.source.read(limit.min(64), now, out)
    }

    fn positions(&self) -> Vec<(String, S::Position)> {
        self.source.positions()
    }
}

/// A sink that can fail.
#[derive(Clone)]
struct FragileSink<S> {
    sink: S,
    faults: Faults,
}

struct FragileTarget {
    target: Arc<dyn Target>,
    faults: Faults,
}

impl<S: Sink> Sink for FragileSink<S> {
    type Record = S::Record;

    fn target(&self) -> Option<Arc<dyn Target>> {
        let (target, faults) = (self.sink.target()?, self.faults.clone());
        Some(Arc::new(FragileTarget { target, faults }))
    }

    fn open(&mut self, context: SinkContext) -> Result<(), BoxError> {
        self.sink.open(context)
    }

    fn write(&mut self, records: &[S::Record]) -> Result<(), BoxError> {
        if self.faults.write.strikes() {
            return Err("the pen is dry".into());
        }
        self.sink.write(records)
    }

    fn is_ready(&self) -> bool {
        self.sink.is_ready()
    }

    fn cut(&mut self, id: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        let cut = self.sink.cut(id)?;
        let faults = self.faults.clone();
        Ok(cut.map(|(data, prepare)| {
            let prepare: Prepare = Box::new(move || {
                if faults.prepare.strikes() { Err("the seal is broken".into()) } else { prepare() }
            });
            (data, prepare)
        }))
    }
}

impl Target for FragileTarget {
    fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        if self.faults.commit.strikes() {
            return Err("the door is shut".into());
        }
        self.target.commit(transaction)
    }

    fn begin(&self, job: &str, generation: u64, listed: &[Transaction]) -> Result<(), BoxError> {
        self.target.begin(job, generation, listed)
    }

    fn sweep(&self, job: &str, generation: u64) -> Result<(), BoxError> {
        self.target.sweep(job, generation)
    }
}

/// A job whose operator panics, and its sink and source fail, when a test says so.
struct Fragile {
    rows: Rows,
    faults: Faults,
}

impl Fragile {
    /// A job that takes checkpoints when it is asked to.
    fn new(restart: Restart) -> Fragile {
        let mut rows = Rows::new(&LENGTHS);
        rows.pace.set(SLOW);
        rows.config.schedule.interval = NEVER_OVER;
        rows.config.restart = restart;
        // Little in flight, so that aligned checkpoints are fast.
        rows.config.limits.credit = 2;
        let faults = Faults::default();
        faults.is_held.set(Switch::ALWAYS);
        Fragile { rows, faults }
    }

    fn start(&self, workers: usize, mode: Mode) -> Running {
        let (pace, faults, out) =
            (self.rows.pace.clone(), self.faults.clone(), self.rows.place.out());
        let describe =
            move |flow: &mut Flow| count(flow, "count", &pace, &faults, PartFiles::csv(&out));
        self.rows.job(workers, mode).start(describe).unwrap()
    }

    /// Waits until the life that runs has processed something and has a complete checkpoint.
    fn until_checkpoint(&self, running: &Running) {
        let handle = running.handle();
        until(|| handle.processed("count") > 0);
        handle.checkpoint().unwrap();
        until_published(running, |_| true);
    }

    /// Lets an operator panic at the next record that comes.
    fn arm(&self) {
        self.faults.operator.set(Switch::ONCE);
        self.faults.is_held.set(Switch::OFF);
    }

    /// Lets an operator panic once, and waits until the job is restarted.
    fn panic(&self, handle: &Handle) {
        let before = handle.restarts();
        self.arm();
        until(|| handle.restarts() > before);
    }

    /// As fast as it can, to the end.
    fn finish(&self, running: Running) -> overtake::Report {
        self.rows.pace.set(Duration::ZERO);
        self.faults.is_held.set(Switch::OFF);
        let handle = running.handle();
        until(|| {
            handle.checkpoint().unwrap();
            running.has_ended()
        });
        let report = running.join().unwrap();
        assert_exact(&self.rows.place.out(), &[&LENGTHS]);
        report
    }

    /// Nobody has the directory any more, and the output becomes exact.
    fn assert_free_and_exact(&mut self) {
        self.faults = Faults::default();
        self.rows.pace.set(Duration::ZERO);
        self.rows.config.schedule.interval = Duration::from_millis(20);
        self.start(2, Mode::Unaligned).join().unwrap();
        assert_exact(&self.rows.place.out(), &[&LENGTHS]);
    }
}

fn count(flow: &mut Flow, name: &str, pace: &Pace, faults: &Faults, out: PartFiles<Line>) {
    let source = Numbers::new("numbers", &LENGTHS);
    let (pace, of_operator) = (pace.clone(), faults.clone());
    flow.source("numbers", FragileSource { source, faults: faults.clone(), reads: 0 })
        .key_by(|row| row.key)
        .process(name, move |states| {
            let (pace, faults) = (pace.clone(), of_operator.clone());
            let count = states.value::<u32, u64>("count")?;
            Ok(move |key: &u32, row: &Row, out: &mut Output<Line>| {
                pace.spend();
                if faults.operator.strikes() {
                    // The next life stands still until it is told to go on.
                    faults.is_held.set(Switch::ALWAYS);
                    panic!("seat map is upside down");
                }
                let counted = count.update(key, |count| std::mem::replace(count, *count + 1));
                out.emit(line(row, counted));
            })
        })
        .sink("rows", FragileSink { sink: out, faults: faults.clone() });
}

const MODES: [Mode; 2] = [Mode::Aligned, Mode::Unaligned];

/// Each mode on each number of workers.
fn for_each_shape(what: impl Fn(usize, Mode)) {
    for mode in MODES {
        for workers in [1, 3] {
            println!("{workers} workers, {mode:?}");
            what(workers, mode);
        }
    }
}

/// `operator "…" on worker <w> … at its record <r>: …` without the numbers, which it must have.
fn without_numbers(why: &str) -> String {
    let words = why.split(' ').map(|word| {
        let (number, rest) = word.split_at(word.trim_end_matches(':').len());
        if number.parse::<u64>().is_ok() { format!("<n>{rest}") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

const PANICKED: &str =
    "operator \"count\" on worker <n> panicked at its record <n>: seat map is upside down";

#[test]
fn a_panic_is_survived_though_nobody_waits_and_each_record_is_there_once() {
    for_each_shape(|workers, mode| {
        let mut job = Fragile::new(AT_ONCE);
        job.rows.config.schedule.interval = Duration::from_millis(30);
        let running = job.start(workers, mode);
        let handle = running.handle();
        assert_eq!((handle.restarts(), handle.last_failure()), (0, None));
        until_published(&running, |_| true);
        job.panic(&handle);
        assert_eq!(handle.restored().unwrap().generation, 1);
        assert_eq!(without_numbers(&handle.last_failure().unwrap()), PANICKED);
        let report = job.finish(running);
        assert_eq!((report.restarts, report.generation), (1, 2));
    });
}

#[test]
fn two_panics_with_a_checkpoint_in_between_and_one_before_the_next_are_survived() {
    for_each_shape(|workers, mode| {
        let job = Fragile::new(AT_ONCE);
        let running = job.start(workers, mode);
        let handle = running.handle();
        job.until_checkpoint(&running);
        job.panic(&handle);
        job.until_checkpoint(&running);
        job.panic(&handle);
        assert_eq!(handle.restored().unwrap().generation, 2);
        // No checkpoint of the third life: the fourth goes on from that of the second, too.
        job.panic(&handle);
        assert_eq!(handle.restored().unwrap().generation, 2);
        assert!(handle.history().is_empty(), "{:?}", handle.history());
        let report = job.finish(running);
        assert_eq!((report.restarts, report.generation), (3, 4));
    });
}

#[test]
fn a_panic_before_the_first_checkpoint_starts_from_the_beginning() {
    for_each_shape(|workers, mode| {
        let job = Fragile::new(AT_ONCE);
        job.faults.operator.set(Switch::ONCE);
        let running = job.start(workers, mode);
        let handle = running.handle();
        until(|| handle.restarts() == 1);
        assert_eq!(handle.restored(), None);
        assert_eq!(job.finish(running).restarts, 1);
    });
}

/// Bills January with something that fails once, after a checkpoint; answers why.
fn bill(workers: usize, mode: Mode, fail: impl Fn(&Faults)) -> String {
    let (place, faults) = (Place::new(), Faults::default());
    faults.is_held.set(Switch::ALWAYS);
    let config = Rows::new(&[]).config;
    let job = Job::new().config(config).state(place.state()).workers(workers).mode(mode);
    let job = job.interval(Duration::from_millis(20)).restart(AT_ONCE);
    let (of_flow, out) = (faults.clone(), place.out());
    let describe = move |flow: &mut Flow| {
        let (source, faults) = (Files::csv([JANUARY]), of_flow.clone());
        let flights = FragileSource { source, faults, reads: 0 };
        let (sink, faults) = (PartFiles::csv(&out), of_flow.clone());
        let flights = flow.source("flights", flights);
        billing(flow, flights, FragileSink { sink, faults });
    };
    let running = job.start(describe).unwrap();
    let handle = running.handle();
    until_published(&running, |_| handle.processed("invoices") > 0);
    fail(&faults);
    faults.is_held.set(Switch::OFF);
    let report = running.join().unwrap();
    assert_eq!(report.restarts, 1);
    assert_eq!(report.restored.unwrap().generation, 1);
    assert_updates(&place.out(), january());
    without_numbers(&handle.last_failure().unwrap())
}

#[test]
fn an_error_of_a_source_is_survived_and_the_bill_is_that_of_the_reference() {
    for_each_shape(|workers, mode| {
        let why = bill(workers, mode, |faults| faults.read.set(Switch::ONCE));
        assert_eq!(why, "operator \"flights\" on worker <n> at its record <n>: the wire is cut");
    });
}

#[test]
fn an_error_of_a_sink_is_survived_and_the_bill_is_that_of_the_reference() {
    for_each_shape(|workers, mode| {
        let why = bill(workers, mode, |faults| faults.write.set(Switch::ONCE));
        assert_eq!(why, "operator \"invoices\" on worker <n> at its record <n>: the pen is dry");
        let why = bill(workers, mode, |faults| faults.prepare.set(Switch::ONCE));
        assert!(why.contains("could not prepare what it wrote in epoch <n>: the seal"), "{why}");
    });
}

#[test]
fn a_commit_that_fails_is_repeated_by_the_restart_however_often_that_fails_too() {
    for mode in MODES {
        let mut job = Fragile::new(AT_ONCE);
        job.rows.config.schedule.commit_timeout = Duration::from_millis(100);
        let running = job.start(2, mode);
        let handle = running.handle();
        job.faults.commit.set(Switch::ALWAYS);
        job.until_checkpoint(&running);
        // The first restart and the second fail, since they commit what the checkpoint lists.
        until(|| handle.restarts() >= 2);
        let why = handle.last_failure().unwrap();
        assert_eq!(why, "sink \"rows\": the door is shut");
        job.faults.commit.set(Switch::OFF);
        let report = job.finish(running);
        assert_eq!(report.restored.unwrap().generation, 1);
    }
}

#[test]
fn more_failed_checkpoints_than_are_tolerated_are_survived() {
    let mut job = Fragile::new(AT_ONCE);
    job.rows.config.schedule.failures_tolerated = 0;
    let running = job.start(2, Mode::Unaligned);
    let handle = running.handle();
    job.until_checkpoint(&running);
    let epoch = handle.history()[0].epoch.0 + 1;
    let segment = job.rows.place.state().join(format!("segments/{:020}-{epoch:020}-00001", 1));
    std::fs::File::create_new(segment).unwrap();
    handle.checkpoint().unwrap();
    until(|| handle.restarts() == 1);
    let why = handle.last_failure().unwrap();
    assert!(
        why.starts_with(&format!("1 checkpoints failed in a row; checkpoint {epoch}")),
        "{why}"
    );
    assert_eq!(job.finish(running).restarts, 1);
}

#[test]
fn a_strategy_that_is_exhausted_says_how_often_it_restarted_and_what_failed_last() {
    let last = "operator \"count\" on worker 0 panicked at its record 0: seat map is upside down";
    let nanosecond = Duration::from_nanos(1);
    let backoff =
        Restart::Backoff { first: nanosecond, max: SLOW, attempts: 2, reset_after: NEVER_OVER };
    let fixed = |attempts| Restart::Fixed { delay: Duration::ZERO, attempts };
    let strategies = [
        (Restart::Never, 0, String::new()),
        (fixed(1), 1, "restarted once; ".to_owned()),
        (fixed(3), 3, "restarted 3 times; ".to_owned()),
        (backoff, 2, "restarted 2 times; ".to_owned()),
    ];
    for (strategy, restarts, said) in strategies {
        let mut job = Fragile::new(strategy);
        job.faults.operator.set(Switch::ALWAYS);
        let running = job.start(1, Mode::Unaligned);
        let handle = running.handle();
        let why = failure(running);
        assert_eq!(why.to_string(), format!("{said}{last}"));
        assert_eq!((handle.restarts(), handle.last_failure().as_deref()), (restarts, Some(last)));
        job.assert_free_and_exact();
    }
}

#[test]
fn the_record_of_a_panic_is_counted_on_its_worker_in_its_life() {
    let run = |wrong: u64| {
        let place = Place::new();
        let job = Job::new().workers(1).state(place.state()).interval(NEVER_OVER);
        let job = job.restart(Restart::Fixed { delay: Duration::ZERO, attempts: 3 });
        let ended = job.run(move |flow| {
            flow.source("numbers", source::items((0..5_000u64).collect()))
                .key_by(|number| number % 10)
                .fold("x", move |sum: &mut u64, number| {
                    assert!(*number != wrong, "message");
                    *sum += number;
                })
                .for_each("nothing", |_| ());
        });
        ended.err().unwrap().to_string()
    };
    for record in [0, 41, 4_999] {
        let last = format!("operator \"x\" on worker 0 panicked at its record {record}: message");
        assert_eq!(run(record), format!("restarted 3 times; {last}"));
    }
}

#[test]
fn a_stop_or_a_drop_while_the_job_waits_ends_it_at_once() {
    for is_dropped in [false, true] {
        let mut job = Fragile::new(Restart::Fixed { delay: NEVER_OVER, attempts: 1 });
        let running = job.start(2, Mode::Unaligned);
        let handle = running.handle();
        job.until_checkpoint(&running);
        job.arm();
        until(|| handle.last_failure().is_some());
        assert!(!running.has_ended(), "it waits");
        assert_eq!(handle.history().len(), 1, "of the last life that ran");
        if is_dropped {
            drop(running);
        } else {
            handle.stop();
            let why = without_numbers(&failure(running).to_string());
            assert_eq!(why, format!("stopped instead of restarted; {PANICKED}"));
        }
        assert_eq!(handle.restarts(), 0);
        job.assert_free_and_exact();
    }
}

#[test]
fn a_job_that_was_told_to_stop_and_fails_at_it_is_not_restarted() {
    let mut job = Fragile::new(AT_ONCE);
    job.faults.prepare.set(Switch::ALWAYS);
    let running = job.start(2, Mode::Unaligned);
    let handle = running.handle();
    until(|| handle.processed("count") > 0);
    handle.stop();
    let why = failure(running);
    let Error::Stopped { last } = &why else { panic!("{why}") };
    assert!(last.to_string().contains(": the seal is broken"), "{why}");
    assert_eq!(handle.restarts(), 0);
    job.assert_free_and_exact();
}

#[test]
fn a_stop_of_a_restarted_job_takes_one_more_checkpoint() {
    let mut job = Fragile::new(AT_ONCE);
    let running = job.start(3, Mode::Aligned);
    let handle = running.handle();
    job.until_checkpoint(&running);
    job.panic(&handle);
    handle.stop();
    let report = running.join().unwrap();
    assert_eq!((report.restarts, report.generation, report.history.len()), (1, 2, 1));
    job.assert_free_and_exact();
}

#[test]
fn a_restore_that_is_refused_is_not_tried_again() {
    // The operator has another name in the second life.
    let job = Fragile::new(AT_ONCE);
    let (pace, faults, out) = (job.rows.pace.clone(), job.faults.clone(), job.rows.place.out());
    let is_renamed = Switch::default();
    let renamed = is_renamed.clone();
    let describe = move |flow: &mut Flow| {
        let name = if renamed.strikes() { "tally" } else { "count" };
        count(flow, name, &pace, &faults, PartFiles::csv(&out));
    };
    let running = job.rows.job(2, Mode::Unaligned).start(describe).unwrap();
    let handle = running.handle();
    job.until_checkpoint(&running);
    is_renamed.set(Switch::ALWAYS);
    job.arm();
    let why = failure(running);
    assert!(matches!(why, Error::Restore(_)), "{why}");
    assert!(why.to_string().contains("state of operator \"count\""), "{why}");
    assert_eq!(handle.restarts(), 1);
}

#[test]
fn a_job_that_leaves_a_thread_behind_is_not_restarted() {
    let mut job = Fragile::new(AT_ONCE);
    job.rows.config.schedule.timeout = Duration::from_millis(200);
    job.rows.config.schedule.failures_tolerated = 0;
    job.rows.config.limits.stop_timeout = Duration::from_millis(200);
    let is_stuck = Switch::default();
    is_stuck.set(Switch::ALWAYS);
    let stuck = is_stuck.clone();
    let describe = move |flow: &mut Flow| {
        let stuck = stuck.clone();
        flow.source("numbers", Numbers::new("numbers", &LENGTHS))
            .key_by(|row| row.key)
            .fold("hang", move |_: &mut u64, _| {
                while stuck.strikes() {
                    std::thread::park_timeout(Duration::from_millis(1));
                }
            })
            .for_each("nothing", |_| ());
    };
    let running = job.rows.job(1, Mode::Unaligned).start(describe).unwrap();
    let handle = running.handle();
    handle.checkpoint().unwrap();
    let why = failure(running);
    assert_eq!(
        why.to_string(),
        "operator \"hang\" on worker 0 is stuck in record 0; end the process"
    );
    assert_eq!((handle.restarts(), handle.last_failure()), (0, Some(why.to_string())));
    is_stuck.set(Switch::OFF);
}

#[test]
fn a_job_without_a_state_directory_is_not_restarted_and_says_so_at_once() {
    let job = Job::new().workers(1).restart(AT_ONCE);
    let refused = job.run(|flow| {
        flow.source("numbers", source::items(vec![1u64])).for_each("nothing", |_| ());
    });
    assert_eq!(
        refused.err().unwrap().to_string(),
        "setting \"restart\": a strategy for a job without a state directory is not allowed, \
         expected Restart::Never, or a state directory to go on from: give the job one"
    );
}

/// Threads of this process, and its open files.
fn held() -> (usize, usize) {
    let count = |of: &str| names(std::path::Path::new(of)).len();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// In a process of its own: other tests have threads and files, too.
#[test]
fn ten_restarts_leave_no_thread_and_no_open_file_behind() {
    const ALONE: &str = "OVERTAKE_ALONE";
    const NAME: &str = "restart::ten_restarts_leave_no_thread_and_no_open_file_behind";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let ended = alone.args(["--exact", NAME, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{ended:?}");
        return;
    }
    let before = held();
    let job = Fragile::new(AT_ONCE);
    let running = job.start(3, Mode::Unaligned);
    let handle = running.handle();
    job.until_checkpoint(&running);
    job.panic(&handle);
    job.until_checkpoint(&running);
    let after_one = held();
    for _ in 0..9 {
        job.panic(&handle);
        job.until_checkpoint(&running);
    }
    // A thread that was joined is listed for a moment longer.
    until(|| held().0 == after_one.0 && held().1 <= after_one.1);
    let report = job.finish(running);
    assert_eq!((report.restarts, report.generation), (10, 11));
    drop((report, handle));
    until(|| held() == before);
}
