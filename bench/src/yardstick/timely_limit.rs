//! Plain timely dataflow: a source, its own exchange, a hash map, at most four rounds of the source
//! at once.

use std::cell::Cell;
use std::rc::Rc;
use std::thread;

use hashbrown::HashMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::operator::source;
use timely::dataflow::operators::generic::{Operator, OutputBuilderSession};
use timely::dataflow::operators::probe::{Handle, Probe};
use timely::worker::Worker;

use super::switch::Switch;
use super::{ROUNDS, WORKERS, Yardstick};

type Records = CapacityContainerBuilder<Vec<(u64, u64)>>;

/// Rounds of the source that may be under way.
const ROUNDS_AHEAD: u64 = 4;

/// Starts it, paused, with keys below `keys` and rounds of `batch` records a worker.
pub fn start(keys: u64, batch: usize) -> Yardstick {
    let switch = Switch::new();
    let within = switch.clone();
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let host = thread::spawn(move || {
        let config = timely::Config::process(WORKERS);
        let workers = timely::execute(config, move |worker| {
            let core = cores.get(worker.index() % cores.len().max(1)).copied();
            // Where the machine does not allow pinning, the scheduler decides.
            core.map(core_affinity::set_for_current);
            within.enter();
            work(keys, batch, worker, &within);
        });
        drop(workers.expect("timely starts threads in this process"));
    });
    switch.wait_for_all();
    Yardstick { switch, threads: vec![host] }
}

#[inline]
fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn work(keys: u64, batch: usize, worker: &mut Worker, switch: &Switch) {
    let index = worker.index();
    let has_ended = Rc::new(Cell::new(false));
    let total = Rc::new(Cell::new(0));
    build(keys, batch, worker, has_ended.clone(), total.clone());
    while switch.goes_on() {
        for _ in 0..ROUNDS {
            worker.step();
        }
        switch.count(index, total.get());
    }
    has_ended.set(true);
}

fn build(
    keys: u64,
    batch: usize,
    worker: &mut Worker,
    has_ended: Rc<Cell<bool>>,
    total: Rc<Cell<u64>>,
) {
    let index = worker.index();
    let probe = Handle::new();
    let done = probe.clone();
    worker.dataflow::<u64, _, _>(|scope| {
        let records = source(scope, "Source", move |capability, info| {
            let activator = scope.activator_for(info.address);
            let mut capability = Some(capability);
            let mut x = index as u64 * 7919 + 1;
            let mut round = 0u64;
            move |output: &mut OutputBuilderSession<_, Records>| {
                if has_ended.get() {
                    capability = None;
                    return;
                }
                if let Some(capability) = capability.as_mut()
                    && !done.less_than(&round.saturating_sub(ROUNDS_AHEAD))
                {
                    let mut session = output.session(&*capability);
                    for _ in 0..batch {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                        session.give((x % keys, 1));
                    }
                    drop(session);
                    round += 1;
                    capability.downgrade(&round);
                }
                activator.activate();
            }
        });
        let mut sums: HashMap<u64, u64, foldhash::fast::FixedState> = HashMap::default();
        let by_key = Exchange::new(|record: &(u64, u64)| hash(record.0) >> 33);
        let updates = records.unary::<Records, _, _, _>(by_key, "Sum", move |_, _| {
            move |input, output| {
                input.for_each(|capability, records| {
                    let mut session = output.session(&capability);
                    for (key, value) in records.drain(..) {
                        let sum = sums.entry(key).or_insert(0);
                        *sum += value;
                        session.give((key, *sum));
                    }
                });
            }
        });
        let nothing = updates.unary::<Records, _, _, _>(Pipeline, "Sink", move |_, _| {
            move |input, _output| {
                input.for_each(|_, updates| {
                    total.set(total.get() + updates.len() as u64);
                    updates.clear();
                });
            }
        });
        nothing.probe_with(&probe);
    });
}
