//! The simulation: whole jobs of the real engine under a scheduler, a clock, a disk, a target and
//! deaths that are all drawn from one seed, compared with what must come out.
//!
//! ```text
//!   seed ─▶ plan: job, settings, faults
//!        ─▶ life, life, life … each: restore ─▶ turns ─▶ crash, failure, stop or end
//!        ─▶ verdicts: at every complete checkpoint, in operators, in the end
//! ```
//!
//! Not here: the real disk, real threads, real processes: they have tests of their own.

mod dice;
mod disk;
mod graph;
mod operators;
mod oracle;
mod outside;
mod plan;
mod rows;
mod target;
mod turns;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use overtake::simulation::{Late, World, set_hook};
use overtake::{CheckpointId, Cut, Error, Flow, Job, RestoreError};
use overtake_state::{Memory, Store};

use dice::Dice;
use disk::Disk;
use outside::Shared;
use plan::{CRUEL, Faults, Plan};
use turns::{Ended, ServiceHook, Turns};

pub use turns::Pool;

/// What is run of a seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows of each of the four splits.
    pub records: u64,
    /// Is everything that happens written down?
    pub has_log: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { records: 30, has_log: false }
    }
}

/// What came of a seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Of everything that happened, in order.
    pub hash: u64,
    /// How many lives the job had.
    pub lives: u64,
    /// How many turns.
    pub turns: u64,
    /// What went wrong; empty is right.
    pub wrong: Vec<String>,
    /// How often things happened.
    pub seen: BTreeMap<&'static str, u64>,
    /// The job and its settings.
    pub plan: String,
    /// What happened, if it was to be written down.
    pub log: Vec<String>,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { seed, lives, turns, wrong, plan, .. } = self;
        writeln!(f, "seed {seed}: {lives} lives, {turns} turns")?;
        writeln!(f, "  {plan}")?;
        wrong.iter().try_for_each(|what| writeln!(f, "  wrong: {what}"))?;
        write!(f, "  replay: scripts/simulate.sh --seed {seed}")
    }
}

/// More lives than any seed asks for.
const LIVES_MAX: u64 = 100;

/// After the lives that end by crashes, so many still have faults.
const LIVES_WITH_FAULTS: u64 = 8;

/// Runs a seed.
pub fn run(seed: u64, options: &Options, pool: &mut Pool) -> Outcome {
    let mut dice = Dice::new(seed);
    let plan = Plan::draw(seed, &mut dice, options.records);
    let shared = Shared::new(dice, options.has_log);
    let mut lives = Lives::new(&plan, &shared);
    lives.run(pool);
    let Lives { lives, turns, .. } = lives;
    let mut outside = shared.lock();
    if outside.wrong.is_empty() {
        oracle::check_end(&mut outside, &plan.graph, plan.records);
    }
    Outcome {
        seed,
        hash: outside.hash,
        lives,
        turns,
        wrong: outside.wrong.clone(),
        seen: outside.seen.clone(),
        plan: format!("{plan:?}"),
        log: outside.log.take().unwrap_or_default(),
    }
}

/// Runs the job of a seed on real threads and real files, without faults: one life is stopped, the
/// next one ends by itself. Answers what went wrong.
pub fn run_on_threads(seed: u64, options: &Options, directory: &Path) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let plan = Plan::draw(seed, &mut dice, options.records);
    let shared = Shared::new(dice, options.has_log);
    for is_stopped in [true, false] {
        let workers = plan.workers(&mut shared.lock().dice);
        let (graph, context) = (plan.graph.clone(), plan.context(&shared));
        let job = Job::new().config(plan.config_of_threads(workers)).state(directory);
        let running = job.start(move |flow| graph.describe(flow, &context));
        let ended = running.and_then(|running| {
            if is_stopped {
                running.handle().stop();
            }
            running.join()
        });
        if let Err(why) = ended {
            shared.lock().wrong(why.to_string());
        }
    }
    let outside = &mut *shared.lock();
    oracle::check_end(outside, &plan.graph, plan.records);
    std::mem::take(&mut outside.wrong)
}

/// The lives of one job.
struct Lives<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    memory: Memory,
    describe: Arc<dyn Fn(&mut Flow)>,
    lates: Rc<RefCell<Vec<Late>>>,
    deaths: u64,
    /// Objects that were damaged, as they were.
    damaged: Vec<(String, Vec<u8>)>,
    /// The next life begins without a fault: this one could not begin.
    is_well: bool,
    /// Lives, also those that ended while they began.
    lives: u64,
    begun: u64,
    turns: u64,
}

impl<'a> Lives<'a> {
    fn new(plan: &'a Plan, shared: &'a Shared) -> Lives<'a> {
        let (graph, context) = (plan.graph.clone(), plan.context(shared));
        Lives {
            plan,
            shared,
            memory: Memory::new(),
            describe: Arc::new(move |flow| graph.describe(flow, &context)),
            lates: Rc::default(),
            deaths: plan.deaths,
            damaged: Vec::new(),
            is_well: false,
            lives: 0,
            begun: 0,
            turns: 0,
        }
    }

    fn run(&mut self, pool: &mut Pool) {
        loop {
            self.lives += 1;
            if self.lives > LIVES_MAX {
                return self.shared.lock().wrong(format!("more than {LIVES_MAX} lives"));
            }
            if self.live(pool) || !self.shared.lock().wrong.is_empty() {
                return;
            }
        }
    }

    /// One life. Was it the last?
    fn live(&mut self, pool: &mut Pool) -> bool {
        let is_last = self.begun >= self.plan.crashes;
        let mut faults;
        let (workers, crash_at) = {
            let outside = &mut *self.shared.lock();
            let far = outside.dice.pick(self.plan.lasting);
            let crash_at = outside.dice.below(far);
            // In the end nothing fails any more, or there would be none.
            let is_calm = self.begun >= self.plan.crashes + LIVES_WITH_FAULTS;
            faults = if is_calm { Faults::default() } else { self.plan.faults };
            if is_last {
                let Faults { die, die_published, die_committed, .. } = &mut faults;
                [die, die_published, die_committed].into_iter().for_each(|die| *die = 0);
            }
            outside.left = 0;
            outside.faults = if self.is_well { Faults::default() } else { faults };
            (self.plan.workers(&mut outside.dice), if is_last { u64::MAX } else { crash_at })
        };
        let micros = Arc::new(AtomicU64::new(0));
        let hook = |is_beginning, deaths| {
            let (shared, memory, lates) =
                (self.shared.clone(), self.memory.clone(), self.lates.clone());
            Rc::new(ServiceHook { shared, memory, lates, deaths: Cell::new(deaths), is_beginning })
        };
        let beginning = hook(true, self.deaths);
        let serving = hook(false, 0);
        let is_cruel = self.plan.is_cruel && self.begun == 0;
        let crash_at = if is_cruel { CRUEL } else { crash_at };
        let Some(world) = self.begin(workers, is_last, &micros, beginning) else { return false };
        self.begun += 1;
        self.shared.lock().faults = faults;
        let turns = Turns::new(
            self.plan,
            &self.memory,
            world,
            micros,
            (workers, crash_at),
            serving,
            self.shared,
            is_cruel,
        );
        let (ended, turns, world) = turns.live(pool);
        self.turns += turns;
        self.judge(&world);
        match ended {
            Ended::Wrong => true,
            Ended::Finished => self.finish(world),
            Ended::Dead => {
                self.memory.crash();
                if self.plan.is_haunted {
                    self.lates.borrow_mut().extend(world.into_late());
                } else {
                    self.shared.lock().puts.clear();
                }
                false
            }
        }
    }

    /// Restores; none if the process died meanwhile, or could not go on.
    fn begin(
        &mut self,
        workers: usize,
        is_last: bool,
        micros: &Arc<AtomicU64>,
        hook: Rc<ServiceHook>,
    ) -> Option<World> {
        self.damage();
        let is_cruel = self.plan.is_cruel && self.begun == 0;
        let config = self.plan.config(workers, is_last, is_cruel);
        let store: Arc<dyn Store> =
            Arc::new(Disk::new(&self.memory, self.shared, self.plan.retention));
        let injected = self.shared.lock().injected;
        set_hook(Some(hook.clone()));
        let begun = catch_unwind(AssertUnwindSafe(|| {
            World::begin(&config, &store, self.describe.clone(), micros)
        }));
        set_hook(None);
        self.deaths = hook.deaths.get();
        self.is_well = false;
        let begun = match begun {
            Ok(begun) => begun,
            Err(panic) => {
                if let Some(text) = turns::cause_of_death(&*panic) {
                    self.shared.lock().wrong(format!("a restore panicked: {text}"));
                }
                self.memory.crash();
                return None;
            }
        };
        match begun {
            Ok(world) => {
                let mut outside = self.shared.lock();
                outside.note("life", [world.generation(), workers as u64, 0]);
                if world.has_passed_over() {
                    outside.count("older checkpoints restored");
                }
                Some(world)
            }
            Err(Error::Restore(RestoreError::BehindMark { mark, why })) => {
                let mut outside = self.shared.lock();
                outside.note("refused", [mark.generation, mark.epoch, 0]);
                outside.tell(|| format!("  refused: behind {mark}: {why}"));
                outside.count("restores refused by the mark");
                self.is_well = true;
                None
            }
            Err(why) => {
                let mut outside = self.shared.lock();
                outside.tell(|| format!("  cannot begin: {why}"));
                if outside.injected == injected {
                    outside.wrong(format!("life {} cannot begin: {why}", self.lives));
                }
                self.is_well = true;
                None
            }
        }
    }

    /// Some checkpoints cannot be read this time: they are damaged, or the disk refuses.
    fn damage(&mut self) {
        for (name, bytes) in self.damaged.drain(..) {
            if self.memory.len(&name).is_ok() {
                self.memory.tamper(&name, Some(bytes));
            }
        }
        let outside = &mut *self.shared.lock();
        outside.unreadable.clear();
        let one_in = if self.is_well { 0 } else { self.plan.faults.read };
        let manifests = self.memory.list("manifests/").expect("without faults");
        for (age, manifest) in manifests.into_iter().rev().enumerate() {
            // The newest first of all: then an older one may do.
            if !outside.dice.one_in(if age == 0 { one_in } else { 4 * one_in }) {
                continue;
            }
            outside.count("checkpoints unreadable");
            outside.injected += 1;
            let of_it = manifest.replace("manifests/", "segments/");
            let mut names = self.memory.list(&of_it).expect("without faults");
            names.push(manifest);
            let name = outside.dice.below(names.len() as u64);
            let name = names.swap_remove(name as usize);
            if outside.dice.one_in(2) {
                outside.unreadable.insert(name);
                continue;
            }
            let Ok(bytes) = self.memory.read(&name) else { continue };
            let mut flipped = bytes.clone();
            let at = outside.dice.below(bytes.len() as u64) as usize;
            flipped[at] ^= 1;
            self.memory.tamper(&name, Some(flipped));
            self.damaged.push((name, bytes));
        }
    }

    /// What the history of a life must show.
    fn judge(&self, world: &World) {
        world.with_coordinator(|coordinator| {
            for report in coordinator.history() {
                let is_savepoint = report.is_savepoint();
                if is_savepoint && report.tasks.values().any(|task| task.cut != Cut::Aligned) {
                    let epoch = report.epoch;
                    self.shared.lock().wrong(format!("savepoint {epoch} was not aligned"));
                }
                let mut outside = self.shared.lock();
                if is_savepoint {
                    outside.count("savepoints");
                }
                for task in report.tasks.values() {
                    outside.count(match task.cut {
                        Cut::Aligned => "cuts aligned",
                        Cut::Overtaken => "cuts overtaken",
                        Cut::Dry => "cuts dry",
                    });
                    if task.stats.in_flight_bytes > 0 {
                        outside.count("cuts with rows in flight");
                    }
                }
                if matches!(report.outcome, overtake::Outcome::Aborted { .. }) {
                    outside.count("checkpoints aborted");
                    let (generation, epoch) = (world.generation(), report.epoch.0);
                    if outside.complete.contains(&CheckpointId { generation, epoch }) {
                        outside.wrong(format!("checkpoint {epoch} was aborted and is complete"));
                    }
                }
            }
        });
    }

    /// A life has ended well. If the user stopped it, another one goes on.
    fn finish(&mut self, world: World) -> bool {
        self.shared.lock().faults = Faults::default();
        world.close();
        let newest = self.shared.lock().complete.last().copied();
        let store: Arc<dyn Store> = Arc::new(self.memory.clone());
        let is_over = newest.is_some_and(|id| {
            overtake_state::Manifest::open(&*store, id).is_ok_and(|manifest| manifest.ended)
        });
        self.shared.lock().count("lives that finished");
        is_over
    }
}
