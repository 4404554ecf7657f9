//! Whose turn it is, when a checkpoint is due, and when a job crashes.
//!
//! Checkpoints are asked for here, and not by the job's own timer, since a paused job takes none:
//! one is due whenever an interval of running time is over. If the one before is still open, it is
//! asked for as soon as that has ended, as the timer would; several that are due meanwhile are one.
//!
//! A window goes on until no checkpoint is open. So that it is no longer for one mode than for
//! another, all windows hold the longest checkpoint that was seen while the jobs warmed up, and
//! none but the first of a window is asked for when there is no time left for another such one.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use overtake::{CheckpointReport, Config, Epoch, Handle, Job, Outcome, Running, Schedule};

use super::latency::{Open, Slot, Sorted, Span};
use super::probe::{Committed, Drive, Probe, lock};
use super::report::{Checkpoints, Percentiles, Run};
use super::{Build, Digest, Load, Mode, Settings};
use crate::meter::{Mark, Window, uncounted};
use crate::paired::{REST, SETTLE, wait_for_quiet};
use crate::scratch::Directory;
use crate::statistics::{median, quantile};

/// What a user writes.
pub(super) type Describe = dyn Fn(&mut Build<'_>) + Send + Sync;

/// A window, unless the whole time is shorter or an interval longer.
const WINDOW: Duration = Duration::from_secs(1);

/// Before its first window a job fills its tables.
const WARM_UP: Duration = Duration::from_millis(200);

/// An overloaded one fills its channels too: until in such a step it reads no more than this times
/// what it processes, in so many steps at most.
const FILLING: Duration = Duration::from_millis(50);
const FILLING_STEPS_MAX: u32 = 40;
const FULL: f64 = 1.2;

/// A checkpoint may take so many times what one took during the warm-up.
const MARGIN: f64 = 1.25;

/// A window holds so many of the longest checkpoints, if that leaves so many turns.
const CHECKPOINTS_A_WINDOW: f64 = 3.0;
const TURNS_MIN: u32 = 4;

/// A disturbed window is taken again, so often; all windows together at most as often as there are
/// windows.
const TRIES_MAX: u32 = 3;

/// How long to wait for a quiet machine before a window, if that is no longer.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// Looking copies the history, on a core that a worker may need.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Whatever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A checkpoint that takes longer is aborted.
const CHECKPOINT_MAX: Duration = Duration::from_secs(30);

/// How often the job is looked at to find what it can do.
const LOOKS: u32 = 5;

/// A light load is one in so many of what the job can do.
const LIGHT: f64 = 10.0;

/// An overload is so many times what the slowed job can do.
const OVERLOAD: f64 = 1.25;

/// Measures all modes under one load.
pub(super) fn measure(
    settings: &Settings,
    load: Load,
    build: &Arc<Describe>,
) -> anyhow::Result<Vec<Run>> {
    let stage = match load {
        Load::Light => Duration::ZERO,
        Load::Backpressure => Duration::from_micros(u64::from(settings.stage_us)),
    };
    let rate = match settings.rate_rps {
        Some(rate) => u64::from(rate),
        None => {
            let maximum = maximum(settings, stage, build).context("without checkpoints")?;
            let due = match load {
                Load::Light => maximum / LIGHT,
                Load::Backpressure => maximum * OVERLOAD,
            };
            (due as u64).max(1)
        }
    };
    let drive = Drive {
        rate: Some(rate),
        is_overloaded: load == Load::Backpressure,
        stage,
        ..Drive::default()
    };
    let mut sides = Vec::new();
    for &mode in &settings.modes {
        let in_mode = || format!("{load}, {mode}");
        let mut side = Side::start(settings, mode, &drive, build).with_context(in_mode)?;
        side.warm_up().with_context(in_mode)?;
        sides.push(side);
    }
    let longest = sides.iter().map(|side| side.schedule.longest).max().unwrap_or_default();
    let plan = Plan::new(settings, longest);
    sides.iter_mut().for_each(|side| side.repeats_left = plan.windows);
    for _ in 0..plan.windows {
        for side in &mut sides {
            side.take(&plan).with_context(|| format!("{load}, {}", side.mode))?;
        }
    }
    let end = |side: Side<'_>| {
        let mode = side.mode;
        side.end(load, rate).with_context(|| format!("{load}, {mode}"))
    };
    sides.into_iter().map(end).collect()
}

/// The windows, the same ones for all modes.
#[derive(Debug, PartialEq)]
struct Plan {
    length: Duration,
    windows: u32,
    /// When in a window the first checkpoint is due.
    first: Duration,
}

impl Plan {
    /// Windows for checkpoints of which the longest takes so long.
    fn new(settings: &Settings, longest: Duration) -> Plan {
        let (interval, seconds) = (settings.interval(), Duration::from_secs_f64(settings.seconds));
        let longest = longest.mul_f64(MARGIN);
        let some = longest.mul_f64(CHECKPOINTS_A_WINDOW).min(seconds / TURNS_MIN);
        let needed = WINDOW.min(seconds).max(longest).max(some);
        let intervals = (needed.as_secs_f64() / interval.as_secs_f64()).ceil().max(1.0);
        let length = interval.mul_f64(intervals);
        Plan {
            length,
            windows: (settings.seconds / length.as_secs_f64()).ceil() as u32,
            first: interval.saturating_sub(longest).min(interval / 2),
        }
    }
}

/// Records a second that the job reads when all are due at once and no checkpoints are taken.
fn maximum(settings: &Settings, stage: Duration, build: &Arc<Describe>) -> anyhow::Result<f64> {
    let drive = Drive { stage, ..Drive::default() };
    let mut side = Side::start(settings, Mode::Off, &drive, build)?;
    side.probe.resume();
    side.wait_for_rows()?;
    sleep(WARM_UP);
    side.fill();
    // Whoever disturbs the machine makes the job slower, never faster: the best of some looks.
    let look = Duration::from_secs_f64((settings.seconds / 2.0).clamp(0.1, 1.0)) / LOOKS;
    let mut best = 0.0f64;
    for _ in 0..LOOKS {
        let (began, before) = (Instant::now(), side.probe.records());
        sleep(look);
        let rate = (side.probe.records() - before) as f64 / began.elapsed().as_secs_f64();
        best = best.max(rate);
    }
    side.check()?;
    Ok(best)
}

/// One mode of the job.
struct Side<'a> {
    settings: &'a Settings,
    build: &'a Arc<Describe>,
    mode: Mode,
    probe: Arc<Probe>,
    handle: Handle,
    // The job ends before the directory of its checkpoints does.
    job: Option<Running>,
    state: Option<Directory>,
    schedule: Due,
    repeats_left: u32,
    figures: Figures,
}

/// Which checkpoint is due when, in running time, and which have ended.
struct Due {
    next: Duration,
    /// One is due and not asked for.
    is_wanted: bool,
    /// One was asked for and has not ended.
    is_open: bool,
    look_at: Duration,
    newest: Option<Epoch>,
    /// From trigger to end.
    longest: Duration,
}

/// A window, and what belongs to it.
struct Taken {
    window: Window,
    /// What its beginning is: not looked at.
    settling: Span,
    due: u64,
    checkpoints: Vec<(Open, CheckpointReport)>,
    slots: Vec<Slot>,
}

/// What the windows that count have shown.
#[derive(Default)]
struct Figures {
    windows: Vec<Window>,
    disturbed: u32,
    due: u64,
    /// All that were ever open, also in windows that do not count.
    opened: Vec<Open>,
    /// Those of windows that count, by their place among all.
    checkpoints: Vec<(usize, CheckpointReport)>,
    settling: Vec<Span>,
    sorted: Sorted,
}

/// What a crash has shown.
struct Crash {
    restore: Duration,
    replayed: u64,
}

impl<'a> Side<'a> {
    fn start(
        settings: &'a Settings,
        mode: Mode,
        drive: &Drive,
        build: &'a Arc<Describe>,
    ) -> anyhow::Result<Side<'a>> {
        let state = match mode {
            Mode::Off => None,
            _ => Some(Directory::new(&settings.state).with_context(|| {
                format!("cannot keep checkpoints in \"{}\"", settings.state.display())
            })?),
        };
        let drive = Drive { is_transactional: state.is_some(), ..drive.clone() };
        let probe = Probe::new(drive, &Arc::new(Committed::default()));
        let path = state.as_ref().map(Directory::path);
        let job = start(settings, mode, settings.workers, path, &probe, build)?;
        let handle = job.handle();
        probe.start(handle.clock());
        Ok(Side {
            settings,
            build,
            mode,
            probe,
            handle,
            job: Some(job),
            state,
            schedule: Due::new(),
            repeats_left: 0,
            figures: Figures::default(),
        })
    }

    /// Whether the job still runs; if not, why.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.job.take_if(|job| job.has_ended()) {
            None => Ok(()),
            Some(job) => {
                job.join()?;
                anyhow::bail!("the job has ended: a job that is measured goes on")
            }
        }
    }

    fn wait(&mut self, what: &str, done: impl Fn(&mut Self) -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            self.check()?;
            let patience = PATIENCE.as_secs();
            anyhow::ensure!(Instant::now() < deadline, "{what} within {patience} s");
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn wait_for_rows(&mut self) -> anyhow::Result<()> {
        self.wait("no row reached the sink", |side| side.probe.rows() > 0)
    }

    fn warm_up(&mut self) -> anyhow::Result<()> {
        self.probe.resume();
        self.wait_for_rows()?;
        sleep(WARM_UP);
        if self.probe.drive.is_overloaded {
            self.probe.next_phase(true);
            self.fill();
            self.probe.next_phase(false);
        }
        if self.mode != Mode::Off {
            self.checkpoint()?;
        }
        self.probe.pause();
        sleep(REST);
        self.probe.take_slots();
        Ok(())
    }

    /// Waits until the channels are full, or so it seems.
    fn fill(&self) {
        let now = || (self.probe.records(), self.probe.rows());
        let mut before = now();
        for _ in 0..FILLING_STEPS_MAX {
            sleep(FILLING);
            let after = now();
            let (read, rows) = (after.0 - before.0, after.1 - before.1);
            if read as f64 <= FULL * rows as f64 {
                return;
            }
            before = after;
        }
    }

    /// Takes one checkpoint.
    fn checkpoint(&mut self) -> anyhow::Result<()> {
        self.handle.checkpoint()?;
        self.schedule.is_open = true;
        self.wait("a checkpoint did not end", |side| {
            side.schedule.look(&side.handle, &mut Vec::new());
            !side.schedule.is_open
        })
    }

    /// Takes a window that counts: again, if it was disturbed and may be repeated.
    fn take(&mut self, plan: &Plan) -> anyhow::Result<()> {
        for attempt in 1.. {
            wait_for_quiet(Instant::now() + QUIET_MAX.min(plan.length));
            let taken = self.window(plan)?;
            let is_quiet = taken.window.is_quiet();
            let is_last = attempt == TRIES_MAX || self.repeats_left == 0;
            if is_quiet || is_last {
                self.figures.keep(taken);
                break;
            }
            self.repeats_left -= 1;
            self.figures.pass_over(taken);
        }
        Ok(())
    }

    fn window(&mut self, plan: &Plan) -> anyhow::Result<Taken> {
        let resumed = self.probe.running();
        self.probe.resume();
        sleep(SETTLE);
        let mark = Mark::new(self.probe.rows());
        let began = self.probe.running();
        let end = began + plan.length;
        self.schedule.begin(self.mode, began + plan.first);
        let (mut reports, mut due) = (Vec::new(), 0);
        loop {
            let now = self.probe.running();
            due += self.ask(now, end, due == 0, &mut reports)?;
            if now >= end && !self.schedule.is_open {
                break;
            }
            self.check()?;
            anyhow::ensure!(now < end + PATIENCE, "a checkpoint does not end");
            sleep(self.schedule.rest(now, end));
        }
        let window = mark.end(self.probe.rows());
        self.probe.pause();
        sleep(REST);
        let span = |from: Duration, to: Duration| Span {
            from_ns: from.as_nanos() as u64,
            to_ns: to.as_nanos() as u64,
        };
        let offset = self.probe.offset();
        let open = |report: CheckpointReport| {
            let since = |at: Duration| at.saturating_sub(offset);
            let span = span(since(report.triggered), since(ended_at(&report)));
            (Open { span, worst_ns: None }, report)
        };
        Ok(Taken {
            window,
            settling: span(resumed, began),
            due,
            checkpoints: reports.into_iter().map(open).collect(),
            slots: self.probe.take_slots(),
        })
    }

    /// Asks for a checkpoint if one is due, none is open and there is time for it before the end of
    /// the window, or it is the first. Answers how many have become due.
    fn ask(
        &mut self,
        now: Duration,
        end: Duration,
        is_first: bool,
        reports: &mut Vec<CheckpointReport>,
    ) -> anyhow::Result<u64> {
        let interval = self.settings.interval();
        let schedule = &mut self.schedule;
        let mut due = 0;
        while schedule.next <= now && schedule.next < end {
            (schedule.next, schedule.is_wanted) = (schedule.next + interval, true);
            due += 1;
        }
        let is_looked_for = schedule.is_wanted || now >= end || schedule.look_at <= now;
        if schedule.is_open && is_looked_for {
            schedule.look(&self.handle, reports);
            schedule.look_at = now + interval / 2;
        }
        let is_time_left = is_first || now + schedule.longest <= end;
        if schedule.is_wanted && !schedule.is_open && is_time_left {
            self.handle.checkpoint()?;
            (schedule.is_wanted, schedule.is_open) = (false, true);
            schedule.look_at = now + interval / 2;
        }
        Ok(due)
    }

    /// Lets the job die in the middle between two checkpoints, and a new life go on.
    fn crash(&mut self) -> anyhow::Result<Crash> {
        self.probe.resume();
        self.checkpoint()?;
        sleep(self.settings.interval() / 2);
        self.check()?;
        drop(self.job.take());
        let (read, splits) = (self.probe.records(), self.probe.read().len());

        let next = Probe::new(self.probe.drive.clone(), &self.probe.committed);
        next.resume();
        let path = self.state.as_ref().map(Directory::path);
        let began = Instant::now();
        let job = start(self.settings, self.mode, self.settings.workers, path, &next, self.build)?;
        (self.handle, self.job, self.probe) = (job.handle(), Some(job), next);
        // A restored row may reach the sink before another worker has opened its splits.
        self.wait("no row after the restore", |side| {
            side.probe.first_row.get().is_some() && side.probe.read().len() == splits
        })?;
        let first_row = self.probe.first_row.get().expect("this was waited for");
        let restore = first_row.saturating_duration_since(began);
        Ok(Crash { restore, replayed: read.saturating_sub(self.probe.restored()) })
    }

    /// Crashes the job if it has checkpoints, ends it, and tells all there is to tell.
    fn end(mut self, load: Load, rate_rps: u64) -> anyhow::Result<Run> {
        let crash = match self.mode {
            Mode::Off => None,
            _ => Some(self.crash()?),
        };
        sleep(WARM_UP);
        self.check()?;
        self.probe.finish();
        let job = self.job.take().context("the job has ended")?;
        let report = job.join()?;
        anyhow::ensure!(report.has_ended(), "the job was stopped before its input ended");
        let output = self.probe.digest().to_string();
        let reference = self.reference()?.to_string();
        let Side { settings, mode, figures, probe, .. } = self;
        let records = figures.windows.iter().map(|window| window.records).sum();
        let seconds: f64 = figures.windows.iter().map(|window| window.seconds).sum();
        Ok(Run {
            job: settings.job.clone(),
            load,
            mode,
            guarantee: mode.guarantee().to_owned(),
            workers: settings.workers,
            interval_ms: settings.interval_ms,
            rate_rps,
            stage_us: probe.drive.stage.as_micros() as u32,
            records,
            throughput_rps: records as f64 / seconds,
            latency_us: figures.sorted.all(),
            latency_during_checkpoint_us: figures.sorted.during(),
            latency_outside_us: figures.sorted.outside(),
            worst_per_checkpoint_us_p50: figures.worst_us(),
            checkpoints: figures.checkpoints(),
            restore_ms: crash.as_ref().map(|crash| crash.restore.as_secs_f64() * 1e3),
            replayed_records: crash.map(|crash| crash.replayed),
            output_equals_reference: output == reference,
            output_digest: output,
            reference_digest: reference,
            windows: figures.windows.len() as u32,
            windows_disturbed: figures.disturbed,
        })
    }

    /// What must have come out of what was read.
    fn reference(&self) -> anyhow::Result<Digest> {
        let (read, context) = (self.probe.read(), self.probe.context.get());
        let program = lock(&self.probe.reference).clone();
        if let (Some(program), Some(context)) = (program, context) {
            let digest = program(&read, context);
            return digest.map_err(|error| anyhow::anyhow!("the reference: {error}"));
        }
        let drive = Drive { ends: Some(read), ..Drive::default() };
        let probe = Probe::new(drive, &Arc::default());
        probe.resume();
        start(self.settings, Mode::Off, 1, None, &probe, self.build)?.join()?;
        Ok(probe.digest())
    }
}

impl Due {
    fn new() -> Due {
        Due {
            next: Duration::MAX,
            is_wanted: false,
            is_open: false,
            look_at: Duration::ZERO,
            newest: None,
            longest: Duration::ZERO,
        }
    }

    /// A window begins, and the first checkpoint is due then, if the mode takes any.
    fn begin(&mut self, mode: Mode, first: Duration) {
        self.next = if mode == Mode::Off { Duration::MAX } else { first };
        self.is_wanted = false;
    }

    /// Takes the reports of the checkpoints that have ended since.
    fn look(&mut self, handle: &Handle, reports: &mut Vec<CheckpointReport>) {
        for report in uncounted(|| handle.history()) {
            if self.newest < Some(report.epoch) {
                (self.newest, self.is_open) = (Some(report.epoch), false);
                let took = ended_at(&report).saturating_sub(report.triggered);
                self.longest = self.longest.max(took);
                reports.push(report);
            }
        }
    }

    /// How long nothing needs to be done in a window that ends then.
    fn rest(&self, now: Duration, end: Duration) -> Duration {
        if self.is_open && (self.is_wanted || now >= end) {
            return LOOK_EVERY;
        }
        let mut next = end.min(self.next);
        if self.is_open {
            next = next.min(self.look_at);
        }
        next.saturating_sub(now)
    }
}

impl Figures {
    fn keep(&mut self, taken: Taken) {
        self.windows.push(taken.window);
        self.disturbed += u32::from(!taken.window.is_quiet());
        self.due += taken.due;
        self.settling.push(taken.settling);
        for (open, report) in taken.checkpoints {
            self.checkpoints.push((self.opened.len(), report));
            self.opened.push(open);
        }
        self.sorted.add(&taken.slots, &mut self.opened, &self.settling);
    }

    /// A window that does not count. Records that were due in it may be seen in later ones.
    fn pass_over(&mut self, taken: Taken) {
        self.settling.push(taken.settling);
        self.opened.extend(taken.checkpoints.into_iter().map(|(open, _)| open));
    }

    fn published(&self) -> impl Iterator<Item = &(usize, CheckpointReport)> {
        let is_published = |(_, report): &&(usize, CheckpointReport)| {
            matches!(report.outcome, Outcome::Published { .. })
        };
        self.checkpoints.iter().filter(is_published)
    }

    fn worst_us(&self) -> Option<f64> {
        let worst = self.published().filter_map(|(place, _)| self.opened[*place].worst_ns);
        median(&worst.map(|ns| ns as f64 / 1e3).collect::<Vec<_>>())
    }

    fn checkpoints(&self) -> Checkpoints {
        let values = |of: &dyn Fn(&CheckpointReport) -> f64| -> Vec<f64> {
            self.published().map(|(_, report)| of(report)).collect()
        };
        let percentiles = |of: &dyn Fn(&CheckpointReport) -> f64| {
            let values = values(of);
            let at = |q| quantile(&values, q);
            Some(Percentiles { p50: at(0.5)?, p99: at(0.99)?, max: at(1.0)? })
        };
        let bytes = |of: &dyn Fn(&CheckpointReport) -> u64| {
            median(&values(&|report| of(report) as f64)).map(|bytes| bytes as u64)
        };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let completed = self.published().count();
        Checkpoints {
            due: self.due,
            completed: completed as u64,
            failed: (self.checkpoints.len() - completed) as u64,
            captured_ms: percentiles(&|report| ms(captured(report))),
            durable_ms: percentiles(
                &|report| ms(ended_at(report).saturating_sub(report.triggered)),
            ),
            pause_us: percentiles(&|report| report.pause().as_secs_f64() * 1e6),
            alignment_ms: percentiles(&|report| {
                let tasks = report.tasks.values();
                ms(tasks.map(|task| task.stats.alignment()).max().unwrap_or_default())
            }),
            state_bytes_p50: bytes(&CheckpointReport::state_bytes),
            inflight_bytes_p50: bytes(&CheckpointReport::in_flight_bytes),
        }
    }
}

/// When it was known how the checkpoint had ended.
fn ended_at(report: &CheckpointReport) -> Duration {
    match report.outcome {
        Outcome::Published { at } | Outcome::Aborted { at, .. } => at,
        Outcome::UnderWay => report.triggered,
    }
}

/// From the trigger to the last stamp of any task: the coordinator may see it later.
fn captured(report: &CheckpointReport) -> Duration {
    let last = report.tasks.values().map(|task| task.stats.captured).max();
    last.unwrap_or_default().saturating_sub(report.triggered)
}

/// Starts a life of the job.
fn start(
    settings: &Settings,
    mode: Mode,
    workers: usize,
    state: Option<&Path>,
    probe: &Arc<Probe>,
    build: &Arc<Describe>,
) -> anyhow::Result<Running> {
    let schedule = Schedule {
        mode: match mode {
            Mode::Aligned => overtake::Mode::Aligned,
            Mode::Adaptive => overtake::Mode::Adaptive { after: settings.adaptive_after() },
            Mode::Off | Mode::Unaligned => overtake::Mode::Unaligned,
        },
        interval: Duration::from_secs(86_400),
        timeout: CHECKPOINT_MAX,
        failures_tolerated: u32::MAX,
        ..Config::default().schedule
    };
    let mut job = Job::new().config(Config { workers, schedule, ..Config::default() });
    if let Some(state) = state {
        job = job.state(state);
    }
    let (probe, build) = (probe.clone(), build.clone());
    Ok(job.start(move |flow| build(&mut Build::new(flow, &probe)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seconds: f64, interval_ms: u32, longest_ms: u64) -> Plan {
        let settings = Settings { seconds, interval_ms, ..Settings::default() };
        Plan::new(&settings, Duration::from_millis(longest_ms))
    }

    #[test]
    fn a_window_is_a_second_of_whole_intervals_with_checkpoints_in_their_middle() {
        let ms = Duration::from_millis;
        assert_eq!(plan(10.0, 500, 4), Plan { length: ms(1_000), windows: 10, first: ms(250) });
        assert_eq!(plan(0.4, 100, 4), Plan { length: ms(400), windows: 1, first: ms(50) });
        assert_eq!(plan(3.0, 2_000, 4), Plan { length: ms(2_000), windows: 2, first: ms(1_000) });
    }

    /// The thread that measures spun through such windows, on a core that a worker needed.
    #[test]
    fn nothing_is_to_be_done_in_a_window_without_checkpoints_until_it_ends() {
        let ms = Duration::from_millis;
        let mut schedule = Due::new();
        schedule.begin(Mode::Off, ms(250));
        assert_eq!(
            [0, 100, 700].map(|now| schedule.rest(ms(now), ms(1_000))),
            [1_000, 900, 300].map(ms)
        );
        schedule.begin(Mode::Aligned, ms(250));
        assert_eq!(schedule.rest(ms(100), ms(1_000)), ms(150));
        (schedule.is_open, schedule.look_at, schedule.next) = (true, ms(500), ms(750));
        assert_eq!(schedule.rest(ms(250), ms(1_000)), ms(250));
        // It is late, or the window is: it is looked for.
        assert_eq!(schedule.rest(ms(1_000), ms(1_000)), LOOK_EVERY);
        schedule.is_wanted = true;
        assert_eq!(schedule.rest(ms(800), ms(1_000)), LOOK_EVERY);
    }

    #[test]
    fn a_window_holds_checkpoints_that_take_long() {
        let ms = Duration::from_millis;
        // The last one of a window begins early enough to end in it.
        assert_eq!(plan(10.0, 500, 320), Plan { length: ms(1_500), windows: 7, first: ms(100) });
        assert_eq!(plan(60.0, 500, 2_000), Plan { length: ms(7_500), windows: 8, first: ms(0) });
        assert_eq!(plan(10.0, 500, 2_000), Plan { length: ms(2_500), windows: 4, first: ms(0) });
        assert_eq!(plan(1.0, 500, 2_000), Plan { length: ms(2_500), windows: 1, first: ms(0) });
    }
}
