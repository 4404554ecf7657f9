//! Whose turn it is: one life of a job on one thread, in an order that the dice draw.
//!
//! Each worker has a stack of its own, so that its turn may end inside an operator. A turn is: to
//! build or to drop a worker's dataflow, one step of it, or a part of one up to a yield point; one
//! event or effect of the director; one snapshot written; one step of publishing; one prepare or
//! commit. The clock counts turns.
//!
//! # Invariants
//!
//! * **S1**: everything is drawn from the dice, and nothing asks a clock or iterates over a map in
//!   a random order: the same seed gives the same run.
//! * **S2**: a crash ends every worker between two turns, wherever it is, one after the other or
//!   all at once. Services are not asked any more.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corosensei::{Coroutine, CoroutineResult, Yielder};
use overtake::simulation::coordinator::Request;
use overtake::simulation::{End, Hook, Late, SimulatedWorker, World, set_hook};
use overtake_state::Memory;
use timely::WorkerConfig;
use timely::communication::{Allocator, Config, initialize};
use timely::worker::Worker as Timely;

use super::disk::land;
use super::oracle;
use super::outside::{Outside, Shared};
use super::plan::{CALM, CRUEL, Faults, PATIENCE, Plan};

/// timely's workers, by how many there are; they are used again where all had the same past.
pub type Pool = BTreeMap<usize, Vec<Timely>>;

/// What the panic says that is a death.
const DEATH: &str = "the process dies";

fn die() -> ! {
    // Not a panic of anybody: the hook that prints panics is not called.
    resume_unwind(Box::new(DEATH))
}

/// What a panic says that is not a death.
pub(super) fn cause_of_death(panic: &(dyn Any + Send)) -> Option<String> {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Some(text.unwrap_or_default()).filter(|text| text != DEATH)
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All is done, or the user stopped it.
    Finished,
    /// It crashed or failed, and shall be restored.
    Dead,
    /// Something is wrong.
    Wrong,
}

/// What a worker does in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Build,
    Step,
    Drop,
}

type Stack = Coroutine<Act, (), Timely>;

thread_local! {
    /// The hook of the worker whose turn it is.
    static RUNNING: RefCell<Option<Rc<WorkerHook>>> = const { RefCell::new(None) };
}

/// A record takes its time: the turn of the worker ends. Without a simulation, nothing.
pub(super) fn pause() {
    if let Some(hook) = RUNNING.with_borrow(Clone::clone) {
        hook.suspend();
    }
}

fn run_as(hook: Option<Rc<WorkerHook>>) {
    set_hook(hook.clone().map(|hook| hook as Rc<dyn Hook>));
    RUNNING.set(hook);
}

/// What yield points do on a worker.
struct WorkerHook {
    shared: Shared,
    yields: u64,
    stale: u64,
    yielder: *const Yielder<Act, ()>,
}

impl WorkerHook {
    fn suspend(&self) {
        // SAFETY: the hook is set only while the body of the coroutine runs that owns the yielder.
        let yielder = unsafe { &*self.yielder };
        if yielder.suspend(()) == Act::Drop {
            die();
        }
    }
}

impl Hook for WorkerHook {
    fn yield_point(&self) {
        let ends = self.shared.lock().dice.one_in(self.yields);
        if ends {
            self.suspend();
        }
    }

    fn stale(&self) -> bool {
        self.shared.lock().dice.one_in(self.stale)
    }

    fn draw(&self, bound: usize) -> usize {
        self.shared.lock().dice.below(bound as u64) as usize
    }

    fn crash_point(&self, step: &str) {
        let mut outside = self.shared.lock();
        outside.stepped += 1;
        outside.note("step", [hash(step), 0, 0]);
        outside.tell(|| format!("  {step}"));
    }
}

/// What crash points do on a service, and while a life begins.
pub(super) struct ServiceHook {
    pub(super) shared: Shared,
    pub(super) memory: Memory,
    pub(super) lates: Rc<RefCell<Vec<Late>>>,
    /// Deaths that are left, while a life begins.
    pub(super) deaths: Cell<u64>,
    pub(super) is_beginning: bool,
}

impl Hook for ServiceHook {
    fn yield_point(&self) {}

    fn stale(&self) -> bool {
        false
    }

    fn draw(&self, _: usize) -> usize {
        0
    }

    fn crash_point(&self, step: &str) {
        let mut outside = self.shared.lock();
        if outside.is_late {
            return;
        }
        if step == "announce" {
            outside.stepped += 1;
        }
        outside.note("step", [hash(step), 1, 0]);
        outside.tell(|| format!("  {step}"));
        let dies = if self.is_beginning {
            while outside.dice.one_in(3) && arrive(&mut outside, &self.memory) {}
            let is_next = outside.dice.one_in(3);
            drop(outside);
            if is_next {
                arrive_job(&self.shared, &self.lates);
            }
            outside = self.shared.lock();
            let dies = self.deaths.get() > 0 && outside.dice.one_in(5);
            self.deaths.set(self.deaths.get() - u64::from(dies));
            dies
        } else {
            let Faults { die, die_published, die_committed, .. } = outside.faults;
            outside.dice.one_in(match step {
                "published" | "mark" => die_published.max(die),
                "committed" => die_committed.max(die),
                _ => die,
            })
        };
        if dies {
            outside.count(if self.is_beginning { "deaths at a restore" } else { "deaths" });
            outside.note("death", [hash(step), 0, 0]);
            drop(outside);
            die();
        }
    }
}

fn hash(step: &str) -> u64 {
    step.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

/// A put that hangs lands. Was there one?
fn arrive(outside: &mut Outside, memory: &Memory) -> bool {
    if outside.puts.is_empty() {
        return false;
    }
    let chosen = outside.dice.below(outside.puts.len() as u64) as usize;
    let (name, bytes) = outside.puts.remove(chosen);
    outside.note("late put", [hash(&name), 0, 0]);
    outside.tell(|| format!("  late: {name}"));
    outside.count("puts landed late");
    // Whoever puts the same object now is told that it exists.
    outside.injected += 1;
    outside.is_late = true;
    land(memory, outside, &name, &bytes);
    outside.is_late = false;
    true
}

/// A prepare or commit of a dead process arrives.
fn arrive_job(shared: &Shared, lates: &Rc<RefCell<Vec<Late>>>) {
    let mut outside = shared.lock();
    let mut waiting = lates.borrow_mut();
    if waiting.is_empty() {
        return;
    }
    let chosen = outside.dice.below(waiting.len() as u64) as usize;
    let late = waiting.remove(chosen);
    outside.note("late job", [0; 3]);
    outside.count("works arrived late");
    outside.injected += 1;
    outside.is_late = true;
    drop((outside, waiting));
    late.arrive();
    shared.lock().is_late = false;
}

/// The scheduler of one life.
pub(super) struct Turns<'a> {
    pub(super) plan: &'a Plan,
    pub(super) shared: &'a Shared,
    pub(super) memory: &'a Memory,
    pub(super) world: Rc<RefCell<World>>,
    pub(super) micros: Arc<AtomicU64>,
    pub(super) workers: usize,
    /// The turn of the crash.
    pub(super) crash_at: u64,
    pub(super) hook: Rc<ServiceHook>,
    pub(super) turn: u64,
    /// How often each worker and service has its turn; 0 for who has ended.
    weights: Vec<u64>,
    is_staggered: bool,
    /// Checkpoints are aborted faster than they can be captured: all the same, rows are read.
    is_cruel: bool,
    is_crashing: bool,
    is_wrong: bool,
    has_finished: bool,
    /// When something happened last, and when a record was processed last.
    moved: (u64, u64),
    processed: (u64, u64),
}

impl<'a> Turns<'a> {
    #[allow(clippy::too_many_arguments, reason = "all that a life is made of, at its one place")]
    pub(super) fn new(
        plan: &'a Plan,
        memory: &'a Memory,
        world: World,
        micros: Arc<AtomicU64>,
        (workers, crash_at): (usize, u64),
        hook: Rc<ServiceHook>,
        shared: &'a Shared,
        is_cruel: bool,
    ) -> Turns<'a> {
        let dice = &mut shared.lock().dice;
        let worker_weights: Vec<_> = (0..workers).map(|_| dice.pick(&[2, 8, 32])).collect();
        let service_weights = (0..4).map(|_| dice.pick(&[1, 4, 16]));
        let weights = worker_weights.into_iter().chain(service_weights).collect();
        let is_staggered = dice.one_in(2);
        let world = Rc::new(RefCell::new(world));
        Turns {
            plan,
            shared,
            memory,
            world,
            micros,
            workers,
            crash_at,
            hook,
            turn: 0,
            weights,
            is_staggered,
            is_cruel,
            is_crashing: false,
            is_wrong: false,
            has_finished: false,
            moved: (0, 0),
            processed: (0, 0),
        }
    }

    /// Lives. The world is given back: things may still be under way in it.
    pub(super) fn live(mut self, pool: &mut Pool) -> (Ended, u64, World) {
        let timely = pool.remove(&self.workers).unwrap_or_else(|| timely_workers(self.workers));
        let failures = Rc::new(RefCell::new(Vec::new()));
        let hooks = Rc::new(RefCell::new(vec![None; self.workers]));
        let mut stacks: Vec<Option<Stack>> = timely
            .into_iter()
            .enumerate()
            .map(|(me, timely)| Some(self.stack(me, timely, &hooks, &failures)))
            .collect();
        let mut back: Vec<Option<Timely>> = stacks.iter().map(|_| None).collect();
        let mut is_built = vec![false; self.workers];
        while stacks.iter().any(Option::is_some) {
            self.pass_time();
            let i = self.shared.lock().dice.weighed(&self.weights);
            if i >= self.workers {
                self.serve(i - self.workers);
                continue;
            }
            let act = self.act(&mut is_built[i]);
            self.shared.lock().note("turn", [i as u64, act as u64, self.turn]);
            let stack = stacks[i].as_mut().expect("only who is there has a weight");
            run_as(hooks.borrow()[i].clone());
            let result = stack.resume(act);
            run_as(None);
            if let CoroutineResult::Return(timely) = result {
                (back[i], stacks[i], self.weights[i]) = (Some(timely), None, 0);
            }
            self.hear(&failures);
        }
        drop(stacks);
        // Who was never built has counted fewer dataflows than the others.
        if is_built.into_iter().all(|is_built| is_built) {
            pool.insert(self.workers, back.into_iter().flatten().collect());
        }
        let world = Rc::into_inner(self.world).expect("all stacks have ended").into_inner();
        let ended = match (self.is_wrong, self.has_finished) {
            (true, _) => Ended::Wrong,
            (_, true) => Ended::Finished,
            _ => Ended::Dead,
        };
        (ended, self.turn, world)
    }

    /// A worker, on a stack of its own.
    fn stack(
        &self,
        me: usize,
        mut timely: Timely,
        hooks: &Rc<RefCell<Vec<Option<Rc<WorkerHook>>>>>,
        failures: &Rc<RefCell<Vec<String>>>,
    ) -> Stack {
        let (world, hooks, failures) = (self.world.clone(), hooks.clone(), failures.clone());
        let Plan { yields, stale, .. } = *self.plan;
        let shared = self.shared.clone();
        Coroutine::new(move |yielder: &Yielder<Act, ()>, mut act| {
            let mut worker: Option<SimulatedWorker> = None;
            loop {
                let result = match (act, &worker) {
                    (Act::Drop, _) => break,
                    (Act::Step, Some(worker)) => worker.step(&mut timely),
                    (Act::Step, None) => Ok(()),
                    (Act::Build, _) => {
                        let shared = shared.clone();
                        let hook = WorkerHook { shared, yields, stale, yielder };
                        hooks.borrow_mut()[me] = Some(Rc::new(hook));
                        world.borrow().build(&mut timely).map(|built| worker = Some(built))
                    }
                };
                if let Err(why) = result {
                    failures.borrow_mut().push(why.to_string());
                    break;
                }
                act = yielder.suspend(());
            }
            run_as(None);
            hooks.borrow_mut()[me] = None;
            if let Some(worker) = worker {
                worker.drop(&mut timely);
            }
            timely
        })
    }

    /// What a worker's turn is.
    fn act(&mut self, is_built: &mut bool) -> Act {
        let is_over = self.is_crashing || self.has_finished;
        if is_over && (!self.is_staggered || self.shared.lock().dice.one_in(3)) {
            Act::Drop
        } else if !std::mem::replace(is_built, true) {
            Act::Build
        } else {
            Act::Step
        }
    }

    /// A worker has ended: by the death of its process, or by what it found wrong.
    fn hear(&mut self, failures: &Rc<RefCell<Vec<String>>>) {
        for why in failures.take() {
            if why.contains(" panicked") && why.ends_with(&format!(": {DEATH}")) {
                self.shared.lock().count("deaths inside an operator");
            } else {
                self.give_up(why);
            }
        }
        if !self.is_wrong && !self.shared.lock().wrong.is_empty() {
            self.give_up_silently();
        }
    }

    fn give_up(&mut self, why: String) {
        self.shared.lock().wrong(why);
        self.give_up_silently();
    }

    fn give_up_silently(&mut self) {
        (self.is_wrong, self.is_crashing, self.is_staggered) = (true, true, false);
    }

    /// Time passes: what is due happens.
    fn pass_time(&mut self) {
        self.turn += 1;
        self.micros.store(self.turn, Ordering::Relaxed);
        if self.turn >= self.crash_at {
            self.is_crashing = true;
        }
        let mut outside = self.shared.lock();
        if self.turn == CALM {
            outside.faults = Faults::default();
        }
        if outside.processed != self.processed.0 {
            self.processed = (outside.processed, self.turn);
        }
        let moved = outside.processed + outside.stepped;
        if moved != self.moved.0 {
            self.moved = (moved, self.turn);
        }
        if self.is_crashing || self.has_finished {
            return;
        }
        if outside.dice.one_in(100) {
            arrive(&mut outside, self.memory);
        }
        let is_asked = outside.dice.one_in(self.plan.requests);
        let arrives = outside.dice.one_in(100);
        if is_asked {
            let all = [
                Request::Checkpoint,
                Request::Savepoint,
                Request::Savepoint,
                Request::StopWithSavepoint,
                Request::Stop,
            ];
            let request = outside.dice.pick(&all);
            outside.note("request", [request as u64, 0, 0]);
            self.world.borrow().request(request);
        }
        drop(outside);
        if arrives {
            arrive_job(self.shared, &self.hook.lates);
        }
        let patience = if self.is_cruel { CRUEL / 2 } else { 3 * PATIENCE };
        let is_starved = self.turn - self.processed.1 > patience
            && (!self.is_cruel || self.shared.lock().left > 0);
        if self.turn - self.moved.1 > PATIENCE || is_starved {
            let last = self.shared.lock().complete.last().copied();
            let under_way = self.world.borrow().with_coordinator(|coordinator| {
                coordinator.under_way().map(|report| format!("{report:?}")).collect::<Vec<_>>()
            });
            let turn = self.turn;
            self.shared.lock().tell(|| format!("under way: {under_way:?}"));
            self.give_up(format!("stuck at turn {turn}, last complete checkpoint {last:?}"));
        }
    }

    /// A turn of a service.
    fn serve(&mut self, service: usize) {
        if self.is_crashing || self.has_finished {
            return;
        }
        let (shared, world) = (self.shared.clone(), self.world.clone());
        let choose = |count: usize| shared.lock().dice.below(count as u64) as usize;
        let fails = |one_in: fn(&Faults) -> u64, what| shared.lock().fails(one_in, what);
        set_hook(Some(self.hook.clone()));
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut world = world.borrow_mut();
            match service {
                0 => return world.direct(),
                1 => world.write(choose, || fails(|faults| faults.hang_write, "writes hung")),
                2 => world.publish(),
                _ => {
                    world.commit(choose, || fails(|faults| faults.hang, "prepares or commits hung"))
                }
            }
            None
        }));
        set_hook(None);
        match result {
            Ok(None) => {}
            Ok(Some(End::Finished)) => self.has_finished = true,
            Ok(Some(End::Failed(failure))) => {
                let mut outside = self.shared.lock();
                outside.count("lives that failed");
                outside.tell(|| format!("  failed: {failure}"));
                self.is_crashing = true;
            }
            Err(panic) => match cause_of_death(&*panic) {
                None => self.is_crashing = true,
                Some(text) => self.give_up(format!("a service panicked: {text}")),
            },
        }
        self.look_at_segments();
        oracle::look(self.memory, self.shared, self.plan);
        if !self.shared.lock().wrong.is_empty() {
            self.give_up_silently();
        }
    }
}

impl Turns<'_> {
    /// E9: nothing is written any more of what was aborted.
    fn look_at_segments(&self) {
        let begun = std::mem::take(&mut self.shared.lock().begun);
        let world = self.world.borrow();
        for id in begun.into_iter().filter(|id| world.is_aborted(id.epoch)) {
            self.shared.lock().wrong(format!("{id} was aborted and is written nevertheless"));
        }
    }
}

/// An allocator on its way from the thread that built it.
struct Moved(Allocator);

// SAFETY: a fresh allocator owns all its `Rc`s alone, and the thread that built it keeps none.
unsafe impl Send for Moved {}

fn timely_workers(workers: usize) -> Vec<Timely> {
    let guards = initialize(Config::Process(workers), Moved).expect("threads can be started");
    let config = || WorkerConfig::default().idle_spin(std::time::Duration::ZERO);
    let allocators = guards.join().into_iter().map(|moved| moved.expect("it only builds").0);
    allocators.map(|allocator| Timely::new(config(), allocator, None)).collect()
}
