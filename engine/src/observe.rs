//! What others may see of a job: metrics through the facade [`metrics`](https://docs.rs/metrics),
//! spans and events through [`tracing`](https://docs.rs/tracing).
//!
//! The engine installs neither a recorder nor a subscriber, and nothing is measured for them: what
//! is told is what the workers and the coordinator know anyway. The director of a life tells it, at
//! most once a second for records, and when a checkpoint moves; a commit thread tells of commits.
//! No worker does. A recorder that blocks, blocks checkpoints.
//!
//! # Metrics
//!
//! The last word of a name is its unit. Each has the label `job`, the [name](crate::Job::name) of
//! the job, and those that are given here.
//!
//! | name | type | labels | what |
//! |---|---|---|---|
//! | `overtake_processed_records` | counter | `operator`, `worker` | by the head of a chain |
//! | `overtake_completed_checkpoints` | counter | | their manifest is durable |
//! | `overtake_failed_checkpoints` | counter | `reason` | `timeout`, `write` or `built_on` |
//! | `overtake_checkpoint_captured_seconds` | histogram | | trigger to last capture |
//! | `overtake_checkpoint_durable_seconds` | histogram | | trigger to last durable segment |
//! | `overtake_checkpoint_published_seconds` | histogram | | trigger to durable manifest |
//! | `overtake_checkpoint_commit_seconds` | histogram | | announcement to last commit |
//! | `overtake_checkpoint_start_delay_seconds` | histogram | | trigger to the last task's notice |
//! | `overtake_checkpoint_alignment_seconds` | histogram | | a task's longest wait to cut |
//! | `overtake_checkpoint_pause_seconds` | histogram | | a worker's longest, in CPU time |
//! | `overtake_checkpoint_state_bytes` | gauge | | written for the last complete one |
//! | `overtake_checkpoint_in_flight_bytes` | gauge | | in the last complete one |
//! | `overtake_open_transactions` | gauge | | cut, and not confirmed |
//! | `overtake_retried_commits` | counter | `sink` | failed, and tried again |
//! | `overtake_restarts` | counter | | lives begun after one that failed |
//!
//! A record that is processed again after a restart counts again. After a second without a record
//! the next one is told later, by ten seconds at most. A checkpoint that built on one which was
//! aborted has failed too. Histograms have one value for each complete checkpoint; that of commits,
//! only if there are sinks that commit.
//!
//! # Spans and events
//!
//! Their target is `overtake`, and each has the field `job`. Events repeat the fields of their
//! spans, so that a subscriber may leave spans out.
//!
//! * `restore`, info. In it: `a life is restored` (info; `generation`, `from`).
//! * `life`, info; `generation`, `workers`. In it: `a life begins` (info), `a life ends` (info;
//!   `processed`), `a life failed` (warn; `why`).
//! * `checkpoint`, in `life`, debug; `generation`, `epoch`. In it: `captured`, `durable`,
//!   `published`, `announced` (debug), `aborted` (warn; `why`).
//! * `prepare` and `commit`, in `life`, debug; `sink`, `epoch`. In it: `a commit failed and is
//!   tried again` (warn; `why`).
//!
//! In no span: `the job is restarted` (warn; `restarts`), `the job has ended` (info), `the job
//! failed` (error; `why`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram};
use metrics::{gauge, histogram};
use tracing::Span;

use crate::checkpoint::commit;
use crate::checkpoint::coordinator::{CheckpointReport, Outcome, Reason};
use crate::checkpoint::direct::SharedCoordinator;
use crate::checkpoint::time::Epoch;
use crate::error::Error;
use crate::runtime::life::Life;

/// How often records are told. After a time without any, half as often each time, but not less
/// often than that: an idle job sleeps.
const TELL_EVERY: Duration = Duration::from_secs(1);
const TELL_EVERY_MAX: Duration = Duration::from_secs(10);

/// Tells of a job, over all its lives.
#[derive(Clone)]
pub(crate) struct Told {
    job: SharedString,
}

impl Told {
    pub(crate) fn new(job: &str) -> Told {
        describe();
        Told { job: SharedString::from_shared(job.into()) }
    }

    /// The span in which a life is restored.
    pub(crate) fn restore(&self) -> Span {
        tracing::info_span!(target: "overtake", "restore", job = &*self.job)
    }

    /// What a life goes on from, within the span of its restore.
    pub(crate) fn restored(&self, generation: u64, from: Option<overtake_state::CheckpointId>) {
        let from = from.map(tracing::field::debug);
        tracing::info!(target: "overtake", job = &*self.job, generation, from, "a life is restored");
    }

    /// A life begins: its observer.
    pub(crate) fn begin(&self, life: &Arc<Life>) -> Arc<Observer> {
        let (job, generation) = (self.job.clone(), life.generation);
        let workers = life.workers;
        let span =
            tracing::info_span!(target: "overtake", "life", job = &*job, generation, workers);
        tracing::info!(
            target: "overtake", parent: &span, job = &*job, generation, workers, "a life begins"
        );
        let told = Mutex::new(life.processed_by_all().collect());
        Arc::new(Observer { job, life: life.clone(), span, told })
    }

    /// The job goes on, after a life that failed.
    pub(crate) fn restarted(&self, restarts: u32) {
        counter!("overtake_restarts", "job" => self.job.clone()).increment(1);
        tracing::warn!(target: "overtake", job = &*self.job, restarts, "the job is restarted");
    }

    /// The job does not go on.
    pub(crate) fn ended<T>(&self, result: &Result<T, Error>) {
        match result {
            Ok(_) => tracing::info!(target: "overtake", job = &*self.job, "the job has ended"),
            Err(why) => {
                tracing::error!(target: "overtake", job = &*self.job, %why, "the job failed");
            }
        }
    }
}

/// Tells of one life.
pub(crate) struct Observer {
    job: SharedString,
    life: Arc<Life>,
    span: Span,
    /// Of each task, how many of its records are told.
    told: Mutex<Vec<u64>>,
}

impl Observer {
    /// Tells what was processed since it was last told. Was there anything?
    pub(crate) fn tell_processed(&self) -> bool {
        let mut told = self.told.lock().expect("no holder panics");
        let mut is_news = false;
        for (task, (told, processed)) in
            told.iter_mut().zip(self.life.processed_by_all()).enumerate()
        {
            if processed == *told {
                continue;
            }
            let (operator, worker) = self.life.name(task);
            let (operator, worker) = (operator.to_owned(), worker.to_string());
            counter!(
                "overtake_processed_records",
                "job" => self.job.clone(), "operator" => operator, "worker" => worker
            )
            .increment(processed - *told);
            (*told, is_news) = (processed, true);
        }
        is_news
    }

    /// The span of a prepare or a commit.
    pub(crate) fn work(&self, work: &commit::Job) -> Span {
        let (job, span) = (&*self.job, &self.span);
        match work {
            commit::Job::Prepare { sink, epoch, .. } => {
                let (sink, epoch) = (&**sink, epoch.0);
                tracing::debug_span!(target: "overtake", parent: span, "prepare", job, sink, epoch)
            }
            commit::Job::Commit { transaction, .. } => {
                let (sink, epoch) = (&*transaction.sink, transaction.epoch);
                tracing::debug_span!(target: "overtake", parent: span, "commit", job, sink, epoch)
            }
        }
    }

    /// A commit has failed, and is tried again.
    pub(crate) fn commit_failed(&self, transaction: &overtake_state::Transaction, why: &str) {
        let (job, sink, epoch) = (&*self.job, &*transaction.sink, transaction.epoch);
        let of = sink.to_owned();
        counter!("overtake_retried_commits", "job" => self.job.clone(), "sink" => of).increment(1);
        let message = "a commit failed and is tried again";
        tracing::warn!(target: "overtake", job, sink, epoch, why, "{message}");
    }

    /// The threads of the life have ended.
    pub(crate) fn ended(&self, failure: Option<&Error>) {
        self.tell_processed();
        let (job, generation, span) = (&*self.job, self.life.generation, &self.span);
        match failure {
            None => {
                let processed: u64 = self.life.processed_by_all().sum();
                tracing::info!(
                    target: "overtake", parent: span, job, generation, processed, "a life ends"
                );
            }
            Some(why) => tracing::warn!(
                target: "overtake", parent: span, job, generation, %why, "a life failed"
            ),
        }
    }
}

/// Looks at the coordinator of a life, and tells what has changed since it last looked.
pub(crate) struct Watch {
    observer: Arc<Observer>,
    coordinator: SharedCoordinator,
    /// Of the checkpoints under way.
    open: BTreeMap<Epoch, Open>,
    /// Complete checkpoints whose commits are not all confirmed, and since when they are allowed.
    announced: BTreeMap<Epoch, Duration>,
    /// The last one that had ended.
    newest: Option<Arc<CheckpointReport>>,
    transactions: Option<usize>,
    /// When records are told again.
    due: Duration,
    every: Duration,
}

struct Open {
    span: Span,
    is_captured: bool,
    is_durable: bool,
}

impl Watch {
    pub(crate) fn new(observer: &Arc<Observer>, coordinator: &SharedCoordinator) -> Watch {
        Watch {
            observer: observer.clone(),
            coordinator: coordinator.clone(),
            open: BTreeMap::new(),
            announced: BTreeMap::new(),
            newest: None,
            transactions: None,
            due: TELL_EVERY,
            every: TELL_EVERY,
        }
    }

    /// How long until it should look, whatever happens before.
    pub(crate) fn patience(&self) -> Duration {
        self.due.saturating_sub(self.observer.life.clock.now())
    }

    /// Tells what is new. To be called when the effects of all that has happened are obeyed.
    pub(crate) fn look(&mut self) {
        let now = self.observer.life.clock.now();
        if now >= self.due {
            let is_news = self.observer.tell_processed();
            self.every = if is_news { TELL_EVERY } else { TELL_EVERY_MAX.min(self.every * 2) };
            self.due = now + self.every;
        }
        let coordinator = self.coordinator.lock().expect("the director alone changes it");
        let under_way: Vec<_> =
            coordinator.under_way().map(|c| (c.epoch, c.captured.is_some())).collect();
        let publishing: Vec<Epoch> = coordinator.publishing().collect();
        let is_newest = |c: &Arc<CheckpointReport>| {
            self.newest.as_ref().is_some_and(|newest| Arc::ptr_eq(newest, c))
        };
        let mut ended: Vec<_> =
            coordinator.history().rev().take_while(|c| !is_newest(c)).cloned().collect();
        let announced: BTreeMap<_, _> = coordinator.announced().collect();
        let transactions = coordinator.open_transactions();
        drop(coordinator);

        for (epoch, is_captured) in under_way {
            self.reached(epoch, is_captured, publishing.contains(&epoch));
        }
        ended.reverse();
        for report in ended {
            self.ended(&report);
            self.newest = Some(report);
        }
        let job = &self.observer.job;
        let confirmed = self.announced.iter().filter(|(epoch, _)| !announced.contains_key(epoch));
        for (_, since) in confirmed {
            let took = now.saturating_sub(*since).as_secs_f64();
            histogram!("overtake_checkpoint_commit_seconds", "job" => job.clone()).record(took);
        }
        self.announced = announced;
        if self.transactions != Some(transactions) {
            self.transactions = Some(transactions);
            gauge!("overtake_open_transactions", "job" => job.clone()).set(transactions as f64);
        }
    }

    fn open(&mut self, epoch: Epoch) -> &mut Open {
        let observer = &self.observer;
        self.open.entry(epoch).or_insert_with(|| {
            let (job, generation, epoch) = (&*observer.job, observer.life.generation, epoch.0);
            let span = tracing::debug_span!(
                target: "overtake", parent: &observer.span, "checkpoint", job, generation, epoch
            );
            Open { span, is_captured: false, is_durable: false }
        })
    }

    /// How far a checkpoint has come.
    fn reached(&mut self, epoch: Epoch, is_captured: bool, is_durable: bool) {
        let job = self.observer.job.clone();
        let open = self.open(epoch);
        let (job, span, epoch) = (&*job, &open.span, epoch.0);
        if is_captured && !std::mem::replace(&mut open.is_captured, true) {
            tracing::debug!(target: "overtake", parent: span, job, epoch, "captured");
        }
        if is_durable && !std::mem::replace(&mut open.is_durable, true) {
            tracing::debug!(target: "overtake", parent: span, job, epoch, "durable");
        }
    }

    fn ended(&mut self, report: &CheckpointReport) {
        let is_published = matches!(report.outcome, Outcome::Published { .. });
        self.reached(report.epoch, report.captured.is_some(), is_published);
        let span = self.open.remove(&report.epoch).map_or_else(Span::none, |open| open.span);
        let (job, epoch) = (&*self.observer.job, report.epoch.0);
        match &report.outcome {
            Outcome::UnderWay => {}
            Outcome::Published { at } => {
                self.published(report, *at);
                tracing::debug!(target: "overtake", parent: &span, job, epoch, "published");
                tracing::debug!(target: "overtake", parent: &span, job, epoch, "announced");
            }
            Outcome::Aborted { why, .. } => {
                let reason = match why {
                    Reason::TimedOut { .. } => "timeout",
                    Reason::WriteFailed { .. } => "write",
                    Reason::BuiltOn(_) => "built_on",
                };
                let of = self.observer.job.clone();
                counter!("overtake_failed_checkpoints", "job" => of, "reason" => reason)
                    .increment(1);
                tracing::warn!(target: "overtake", parent: &span, job, epoch, %why, "aborted");
            }
        }
    }

    fn published(&self, report: &CheckpointReport, at: Duration) {
        let job = &self.observer.job;
        let since = |then: Option<Duration>| {
            then.unwrap_or_default().saturating_sub(report.triggered).as_secs_f64()
        };
        counter!("overtake_completed_checkpoints", "job" => job.clone()).increment(1);
        let seconds = |name: &'static str, took: f64| {
            histogram!(name, "job" => job.clone()).record(took);
        };
        seconds("overtake_checkpoint_captured_seconds", since(report.captured));
        seconds("overtake_checkpoint_durable_seconds", since(report.durable));
        seconds("overtake_checkpoint_published_seconds", since(Some(at)));
        seconds("overtake_checkpoint_start_delay_seconds", report.start_delay().as_secs_f64());
        seconds("overtake_checkpoint_alignment_seconds", report.alignment().as_secs_f64());
        seconds("overtake_checkpoint_pause_seconds", report.pause().as_secs_f64());
        let bytes = |name: &'static str, bytes: u64| {
            gauge!(name, "job" => job.clone()).set(bytes as f64);
        };
        bytes("overtake_checkpoint_state_bytes", report.state_bytes());
        bytes("overtake_checkpoint_in_flight_bytes", report.in_flight_bytes());
    }
}

/// Tells the recorder, if there is one, what will come.
fn describe() {
    let count = |name: &'static str, what: &'static str| {
        describe_counter!(name, Unit::Count, what);
    };
    count("overtake_processed_records", "records that an operator or source has processed");
    count("overtake_completed_checkpoints", "checkpoints whose manifest is durable");
    count("overtake_failed_checkpoints", "checkpoints that were aborted");
    count("overtake_retried_commits", "commits that failed and are tried again");
    count("overtake_restarts", "lives that were begun after one that failed");
    let seconds = |name: &'static str, what: &'static str| {
        describe_histogram!(name, Unit::Seconds, what);
    };
    seconds("overtake_checkpoint_captured_seconds", "from trigger to the last capture");
    seconds("overtake_checkpoint_durable_seconds", "from trigger to the last durable segment");
    seconds("overtake_checkpoint_published_seconds", "from trigger to the durable manifest");
    seconds("overtake_checkpoint_commit_seconds", "from announcement to the last commit");
    seconds("overtake_checkpoint_start_delay_seconds", "until the last task saw the trigger");
    seconds("overtake_checkpoint_alignment_seconds", "the longest wait of a task to align");
    seconds("overtake_checkpoint_pause_seconds", "the longest pause of a worker, in CPU time");
    describe_gauge!(
        "overtake_checkpoint_state_bytes",
        Unit::Bytes,
        "state that the last complete checkpoint wrote"
    );
    describe_gauge!(
        "overtake_checkpoint_in_flight_bytes",
        Unit::Bytes,
        "what was in flight in the last complete checkpoint"
    );
    describe_gauge!(
        "overtake_open_transactions",
        Unit::Count,
        "transactions that are cut and not confirmed"
    );
}
