//! What jobs tell through `metrics` and `tracing`, in a process of its own: a recorder and a
//! subscriber are global.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use overtake::connect::file::PartFiles;
use overtake::sink::{Prepare, Sink, SinkContext, Target, TransactionId};
use overtake::{
    BoxError, CheckpointReport, Clock, Flow, Job, Outcome, Pinning, Report, Restart, Schedule,
    Transaction, source,
};
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

const RECORDS: u64 = 10_000;

/// A span, or an event.
#[derive(Clone, Debug)]
struct Noted {
    name: String,
    level: Level,
    /// The span that it is in.
    within: Option<&'static str>,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Noted {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.name = format!("{value:?}"),
            name => _ = self.fields.insert(name, format!("{value:?}").trim_matches('"').into()),
        }
    }
}

/// A subscriber that notes everything.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Noticed>>);

#[derive(Clone, Default)]
struct Noticed {
    spans: Vec<Noted>,
    events: Vec<Noted>,
    closed: usize,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        let (of, span) = (attributes.metadata(), context.span(id).unwrap());
        assert_eq!(of.target(), "overtake");
        let within = span.parent().map(|parent| parent.name());
        let mut noted =
            Noted { name: of.name().into(), level: *of.level(), within, fields: BTreeMap::new() };
        attributes.record(&mut noted);
        self.0.lock().unwrap().spans.push(noted);
    }

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let of = event.metadata();
        assert_eq!(of.target(), "overtake");
        let within = context.event_span(event).map(|span| span.name());
        let (name, level, fields) = (String::new(), *of.level(), BTreeMap::new());
        let mut noted = Noted { name, level, within, fields };
        event.record(&mut noted);
        self.0.lock().unwrap().events.push(noted);
    }

    fn on_close(&self, _: span::Id, _: Context<'_, S>) {
        self.0.lock().unwrap().closed += 1;
    }
}

/// A sink whose first commit fails.
#[derive(Clone)]
struct Reluctant {
    sink: PartFiles<(u64, u64)>,
    fails: Arc<AtomicBool>,
}

struct ReluctantTarget(Arc<dyn Target>, Arc<AtomicBool>);

impl Sink for Reluctant {
    type Record = (u64, u64);

    fn target(&self) -> Option<Arc<dyn Target>> {
        Some(Arc::new(ReluctantTarget(self.sink.target()?, self.fails.clone())))
    }

    fn open(&mut self, context: SinkContext) -> Result<(), BoxError> {
        self.sink.open(context)
    }

    fn write(&mut self, records: &[(u64, u64)]) -> Result<(), BoxError> {
        self.sink.write(records)
    }

    fn is_ready(&self) -> bool {
        self.sink.is_ready()
    }

    fn cut(&mut self, id: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        self.sink.cut(id)
    }
}

impl Target for ReluctantTarget {
    fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        match self.1.swap(false, Ordering::SeqCst) {
            true => Err("the door is shut".into()),
            false => self.0.commit(transaction),
        }
    }

    fn begin(&self, job: &str, generation: u64, listed: &[Transaction]) -> Result<(), BoxError> {
        self.0.begin(job, generation, listed)
    }

    fn sweep(&self, job: &str, generation: u64) -> Result<(), BoxError> {
        self.0.sweep(job, generation)
    }
}

/// Sums into a reluctant sink; `look` sees every record.
fn sums(
    out: &Path,
    fails: bool,
    look: impl Fn(u64) + Clone + Send + Sync + 'static,
) -> impl Fn(&mut Flow) + Send + Sync + 'static {
    let (out, fails) = (out.to_owned(), Arc::new(AtomicBool::new(fails)));
    move |flow| {
        let look = look.clone();
        let sink = Reluctant { sink: PartFiles::csv(&out), fails: fails.clone() };
        flow.source("numbers", source::items((0..RECORDS).collect()))
            .key_by(|number| number % 100)
            .fold("sums", move |sum: &mut u64, number| {
                look(*number);
                *sum += number;
            })
            .sink("files", sink);
    }
}

fn spend(time: Duration) {
    let clock = Clock::system();
    while clock.now() < time {
        std::hint::spin_loop();
    }
}

/// A trap for one record, until a checkpoint has failed.
#[derive(Clone, Default)]
struct Trap(Arc<(Mutex<bool>, Condvar)>);

impl Trap {
    fn hold(&self) {
        let is_open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(is_open, |is_open| !*is_open).unwrap());
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// By name, then by labels.
type Metrics = BTreeMap<String, BTreeMap<String, (MetricKind, Option<String>, DebugValue)>>;

/// What three jobs that ran at once have told, and a fourth that failed.
struct World {
    plain: Report,
    restarted: Report,
    stuck: Report,
    hopeless: String,
    noticed: Noticed,
    metrics: Metrics,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let (recorder, notes) = (DebuggingRecorder::new(), Notes::default());
        let snapshotter = recorder.snapshotter();
        recorder.install().unwrap();
        let subscriber = tracing_subscriber::registry().with(notes.clone());
        tracing::subscriber::set_global_default(subscriber).unwrap();

        let directory = tempfile::tempdir().unwrap();
        let (plain, restarted, stuck) = run_at_once(&directory);
        let hopeless = Job::new().name("hopeless").workers(1).run(|flow| {
            flow.source("numbers", source::items(vec![7u64]))
                .for_each("nothing", |_| panic!("seven"));
        });
        let hopeless = hopeless.err().unwrap().to_string();

        let mut metrics = Metrics::new();
        for (key, unit, description, value) in snapshotter.snapshot().into_vec() {
            let (kind, key) = key.into_parts();
            assert!(description.is_some(), "{key:?} is not described");
            let mut labels: Vec<_> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            labels.sort();
            let unit = unit.map(|unit| unit.as_str().to_owned());
            let of = metrics.entry(key.name().to_owned()).or_default();
            of.insert(labels.join(","), (kind, unit, value));
        }
        let noticed = notes.0.lock().unwrap().clone();
        World { plain, restarted, stuck, hopeless, noticed, metrics }
    })
}

fn run_at_once(directory: &TempDir) -> (Report, Report, Report) {
    let job = |name: &str| {
        let config = overtake::Config { pinning: Pinning::Free, ..Default::default() };
        let job = Job::new().config(config).name(name).workers(2);
        job.interval(Duration::from_millis(20)).state(directory.path().join(name))
    };
    let out = |name: &str| directory.path().join(format!("{name}-out"));
    let slow = |_| spend(Duration::from_micros(20));
    let plain = job("plain").start(sums(&out("plain"), false, slow)).unwrap();

    let (may_panic, panics) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let armed = may_panic.clone();
    let restarted = job("restarted")
        .restart(Restart::Fixed { delay: Duration::ZERO, attempts: 3 })
        .start(sums(&out("restarted"), true, move |_| {
            spend(Duration::from_micros(20));
            let is_due = may_panic.load(Ordering::SeqCst) && panics.swap(false, Ordering::SeqCst);
            assert!(!is_due, "once");
        }))
        .unwrap();

    let trap = Trap::default();
    let its = trap.clone();
    let mut config = overtake::Config { pinning: Pinning::Free, ..Default::default() };
    config.schedule = Schedule {
        timeout: Duration::from_millis(100),
        failures_tolerated: u32::MAX,
        ..config.schedule
    };
    let stuck = job("stuck").config(config).name("stuck").workers(1);
    let stuck = stuck.interval(Duration::from_millis(20)).start(sums(
        &out("stuck"),
        false,
        move |number| {
            if number == RECORDS / 2 {
                its.hold();
            }
        },
    ));
    let stuck = stuck.unwrap();

    let until = |mut is_so: Box<dyn FnMut() -> bool>| {
        let clock = Clock::system();
        while !is_so() {
            assert!(clock.now() < Duration::from_secs(60), "it never happens");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    };
    let handle = restarted.handle();
    until(Box::new(move || handle.history().iter().any(is_published)));
    armed.store(true, Ordering::SeqCst);
    let handle = stuck.handle();
    until(Box::new(move || {
        handle.history().iter().any(|c| matches!(c.outcome, Outcome::Aborted { .. }))
    }));
    trap.open();
    (plain.join().unwrap(), restarted.join().unwrap(), stuck.join().unwrap())
}

fn is_published(checkpoint: &CheckpointReport) -> bool {
    matches!(checkpoint.outcome, Outcome::Published { .. })
}

impl World {
    fn metric(&self, name: &str, labels: &str) -> Option<&DebugValue> {
        self.metrics.get(name)?.get(labels).map(|(_, _, value)| value)
    }

    fn count(&self, name: &str, labels: &str) -> u64 {
        match self.metric(name, labels) {
            None => 0,
            Some(DebugValue::Counter(count)) => *count,
            Some(other) => panic!("{name} is no counter: {other:?}"),
        }
    }

    fn gauge(&self, name: &str, labels: &str) -> f64 {
        match self.metric(name, labels) {
            Some(DebugValue::Gauge(value)) => value.into_inner(),
            other => panic!("{name} is no gauge: {other:?}"),
        }
    }

    fn histogram(&self, name: &str, labels: &str) -> Vec<f64> {
        match self.metric(name, labels) {
            Some(DebugValue::Histogram(values)) => {
                let mut values: Vec<f64> = values.iter().map(|v| v.into_inner()).collect();
                values.sort_by(f64::total_cmp);
                values
            }
            other => panic!("{name} is no histogram: {other:?}"),
        }
    }

    fn processed(&self, job: &str, operator: &str) -> u64 {
        let of = |worker| format!("job={job},operator={operator},worker={worker}");
        (0..2).map(|worker| self.count("overtake_processed_records", &of(worker))).sum()
    }

    fn spans(&self, name: &str, job: &str) -> Vec<&Noted> {
        of(&self.noticed.spans, name, job)
    }

    fn events(&self, name: &str, job: &str) -> Vec<&Noted> {
        of(&self.noticed.events, name, job)
    }
}

fn of<'a>(noted: &'a [Noted], name: &str, job: &str) -> Vec<&'a Noted> {
    noted.iter().filter(|noted| noted.name == name && noted.fields["job"] == job).collect()
}

fn seconds(report: &Report, of: impl Fn(&CheckpointReport) -> Option<Duration>) -> Vec<f64> {
    let published = report.history.iter().filter(|c| is_published(c));
    let mut seconds: Vec<f64> = published.map(|c| of(c).unwrap().as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

#[test]
fn records_are_counted_for_each_job_operator_and_worker() {
    let world = world();
    for operator in ["numbers", "sums"] {
        assert_eq!(world.plain.processed(operator), RECORDS);
        assert_eq!(world.processed("plain", operator), RECORDS);
        assert_eq!(world.processed("stuck", operator), RECORDS);
        // What is processed again counts again.
        let of_last_life = world.restarted.processed(operator);
        let counted = world.processed("restarted", operator);
        assert!(counted > of_last_life && counted >= RECORDS, "{counted}, {of_last_life}");
    }
}

#[test]
fn each_complete_checkpoint_is_measured_once_as_the_history_tells_it() {
    let world = world();
    for (name, report) in [("plain", &world.plain), ("stuck", &world.stuck)] {
        let job = format!("job={name}");
        let published: Vec<_> = report.history.iter().filter(|c| is_published(c)).collect();
        assert!(!published.is_empty());
        let count = world.count("overtake_completed_checkpoints", &job);
        assert_eq!(count, published.len() as u64);
        let histogram =
            |what| world.histogram(&format!("overtake_checkpoint_{what}_seconds"), &job);
        let since = |at: Option<Duration>, c: &CheckpointReport| Some(at? - c.triggered);
        assert_eq!(histogram("captured"), seconds(report, |c| since(c.captured, c)));
        assert_eq!(histogram("durable"), seconds(report, |c| since(c.durable, c)));
        let published_at = |c: &CheckpointReport| match c.outcome {
            Outcome::Published { at } => Some(at),
            _ => None,
        };
        assert_eq!(histogram("published"), seconds(report, |c| since(published_at(c), c)));
        assert_eq!(histogram("start_delay"), seconds(report, |c| Some(c.start_delay())));
        assert_eq!(histogram("alignment"), seconds(report, |c| Some(c.alignment())));
        assert_eq!(histogram("pause"), seconds(report, |c| Some(c.pause())));
        assert_eq!(histogram("commit").len(), published.len());
        let gauge = |what: &str| world.gauge(&format!("overtake_{what}"), &job);
        let last = published.last().unwrap();
        assert_eq!(gauge("checkpoint_state_bytes"), last.state_bytes() as f64);
        assert_eq!(gauge("checkpoint_in_flight_bytes"), last.in_flight_bytes() as f64);
        assert_eq!(gauge("open_transactions"), 0.0);
    }
}

#[test]
fn failures_are_counted_with_their_reason() {
    let world = world();
    let aborted = |report: &Report| report.history.iter().filter(|c| !is_published(c)).count();
    let failed = |job, reason| {
        let labels = format!("job={job},reason={reason}");
        world.count("overtake_failed_checkpoints", &labels)
    };
    let of_stuck = failed("stuck", "timeout") + failed("stuck", "built_on");
    assert_eq!(of_stuck, aborted(&world.stuck) as u64);
    assert!(failed("stuck", "timeout") > 0);
    assert_eq!(failed("plain", "timeout"), aborted(&world.plain) as u64);
    assert_eq!(world.count("overtake_restarts", "job=restarted"), 1);
    assert_eq!(world.count("overtake_restarts", "job=plain"), 0);
    let retried = "job=restarted,sink=files";
    assert_eq!(world.count("overtake_retried_commits", retried), 1);
}

#[test]
fn every_metric_is_documented_with_its_type_and_unit() {
    let table = include_str!("../src/observe.rs");
    let world = world();
    assert_eq!(world.metrics.len(), 15);
    for (name, of) in &world.metrics {
        let row = table.lines().find(|line| line.starts_with(&format!("//! | `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} is not documented"));
        for (labels, (kind, unit, _)) in of {
            let kind = format!("{kind:?}").to_lowercase();
            assert!(row.contains(&format!("| {kind} |")), "{name} is a {kind}");
            let last = name.rsplit('_').next().unwrap();
            match unit.as_deref().unwrap() {
                "count" => assert!(!["seconds", "bytes"].contains(&last), "{name}"),
                unit => assert_eq!(unit, last, "{name}"),
            }
            let documented = |label: &str| label == "job" || row.contains(&format!("`{label}`"));
            let mut keys = labels.split(',').map(|label| label.split('=').next().unwrap());
            assert!(keys.all(documented), "{name}: {labels}");
        }
    }
}

#[test]
fn each_life_and_each_checkpoint_is_a_span_that_ends() {
    let world = world();
    assert_eq!(world.noticed.closed, world.noticed.spans.len());
    for (job, lives) in [("plain", 1), ("restarted", 2), ("stuck", 1)] {
        let (restores, begun) = (world.spans("restore", job), world.spans("life", job));
        assert_eq!((restores.len(), begun.len()), (lives, lives), "{job}");
        assert!(restores.iter().chain(&begun).all(|span| span.level == Level::INFO));
        let generations: Vec<_> = begun.iter().map(|span| &span.fields["generation"]).collect();
        assert_eq!(generations, ["1", "2"][..lives].iter().collect::<Vec<_>>());
        assert_eq!(world.events("a life is restored", job)[0].within, Some("restore"));
        assert_eq!(world.events("a life begins", job)[0].within, Some("life"));
        assert_eq!(world.events("a life ends", job)[0].within, Some("life"));
        assert_eq!(world.events("the job has ended", job)[0].level, Level::INFO);
    }
    for (job, report) in [("plain", &world.plain), ("stuck", &world.stuck)] {
        let spans = world.spans("checkpoint", job);
        // One that was under way at the end is in no history.
        assert!(spans.len() - report.history.len() <= 1);
        for checkpoint in &report.history {
            let epoch = checkpoint.epoch.to_string();
            let span = spans.iter().find(|span| span.fields["epoch"] == epoch).unwrap();
            assert_eq!((span.level, span.within), (Level::DEBUG, Some("life")));
            let steps: Vec<_> = world
                .noticed
                .events
                .iter()
                .filter(|event| {
                    event.within == Some("checkpoint")
                        && (&*event.fields["job"], &event.fields["epoch"]) == (job, &epoch)
                })
                .collect();
            let names: Vec<_> = steps.iter().map(|step| &*step.name).collect();
            match &checkpoint.outcome {
                Outcome::Aborted { why, .. } => {
                    let last = steps.last().unwrap();
                    assert_eq!((&*last.name, last.level), ("aborted", Level::WARN));
                    assert_eq!(last.fields["why"], why.to_string());
                    assert_eq!(names.contains(&"captured"), checkpoint.captured.is_some());
                }
                _ => assert_eq!(names, ["captured", "durable", "published", "announced"]),
            }
        }
        for work in ["prepare", "commit"] {
            let spans = world.spans(work, job);
            assert!(!spans.is_empty(), "no {work} of {job}");
            for span in spans {
                assert_eq!((span.level, span.within), (Level::DEBUG, Some("life")));
                assert_eq!(span.fields["sink"], "files");
                assert!(span.fields["epoch"].parse::<u64>().unwrap() > 0);
            }
        }
    }
}

#[test]
fn what_goes_wrong_is_a_warning_and_the_end_of_a_job_an_error() {
    let world = world();
    let [failed] = world.events("a life failed", "restarted")[..] else { panic!("one fails") };
    assert_eq!((failed.level, failed.within), (Level::WARN, Some("life")));
    assert!(failed.fields["why"].contains("operator \"sums\" on worker "), "{failed:?}");
    let [restarted] = world.events("the job is restarted", "restarted")[..] else { panic!("once") };
    assert_eq!((restarted.level, &*restarted.fields["restarts"]), (Level::WARN, "1"));
    let retried = world.events("a commit failed and is tried again", "restarted");
    let [retried] = retried[..] else { panic!("one is retried") };
    assert_eq!((retried.level, retried.within), (Level::WARN, Some("commit")));
    assert_eq!(retried.fields["why"], "the door is shut");
    let [ended] = world.events("the job failed", "hopeless")[..] else { panic!("one ends so") };
    assert_eq!((ended.level, &ended.fields["why"]), (Level::ERROR, &world.hopeless));
    let errors = world.noticed.events.iter().filter(|event| event.level == Level::ERROR);
    assert_eq!(errors.count(), 1);
}
