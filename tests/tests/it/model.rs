//! Every state of the model within its bounds, and every planted fault.
//!
//! Bounds: two or three tasks a worker; a batch of one record and credit 1, so that two batches of
//! a channel are under way; three records, or two where three would make too many states; three
//! epochs, one failed write and a crash at any moment on one worker; two epochs and the crash on
//! two workers, or from one to two and from two to one. Within these, all orders of passes, writes,
//! prepares, commits, publishing and announcing are visited. Each exploration prints how many
//! states it has (`--nocapture` shows it): a million in all, a minute of two cores.

use std::time::Duration;

use overtake::simulation::coordinator::Mode;
use overtake::simulation::plan::Scale;
use overtake_tests::model::{Action, Bounds, Fault, Reading, Shape, World};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// A bounded world, as the checker wants it.
#[derive(Clone, Debug)]
struct Exploration(Bounds);

impl Model for Exploration {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.0)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(world.actions(&self.0));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        world.after(&self.0, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RIGHT, |_, world: &World| world.wrong.is_none()),
            Property::always(MOVING, |Exploration(bounds), world: &World| !world.is_stuck(bounds)),
            Property::sometimes("a job ends", |_, world: &World| world.is_over()),
            Property::sometimes("a restored job ends", |Exploration(bounds), world: &World| {
                bounds.restores == 0 || (world.is_over() && world.is_restored())
            }),
        ]
    }
}

const RIGHT: &str = "nothing is wrong";
const MOVING: &str = "nobody is stuck";

const ALIGNED: Mode = Mode::Aligned;
const UNALIGNED: Mode = Mode::Unaligned;
const ADAPTIVE: Mode = Mode::Adaptive { after: Duration::from_secs(1) };

/// Of each split, in order.
const THREE_RECORDS: [&[usize]; 2] = [&[0, 0], &[1]];
const TWO_RECORDS: [&[usize]; 2] = [&[0, 0], &[]];
/// A sink owes a slice before it cuts: then two of the key are in flight.
const ONE_KEY: [&[usize]; 2] = [&[0, 0, 0], &[]];

fn short(mode: Mode) -> Bounds {
    Bounds {
        shape: Shape::Short,
        scale: Scale { old: 1, new: 1 },
        mode,
        keys: THREE_RECORDS,
        epochs: 3,
        aborts: 1,
        restores: 1,
        reading: Reading::Whole,
        fault: None,
    }
}

fn counted(mode: Mode) -> Bounds {
    Bounds { shape: Shape::Counted, ..short(mode) }
}

fn rescaled(bounds: Bounds, old: usize, new: usize) -> Bounds {
    Bounds { scale: Scale { old, new }, epochs: 2, aborts: 0, ..bounds }
}

#[test]
fn no_order_within_the_bounds_breaks_an_invariant() {
    let torn = Bounds { reading: Reading::Torn, keys: TWO_RECORDS, ..counted(ALIGNED) };
    let all = [
        short(ALIGNED),
        Bounds { keys: ONE_KEY, ..short(UNALIGNED) },
        short(ADAPTIVE),
        Bounds { restores: 0, ..torn },
        counted(ALIGNED),
        Bounds { keys: TWO_RECORDS, ..counted(UNALIGNED) },
        rescaled(short(ALIGNED), 2, 2),
        rescaled(short(UNALIGNED), 2, 1),
        rescaled(short(UNALIGNED), 1, 2),
    ];
    let mut states = 0;
    for bounds in all {
        let checker = Exploration(bounds.clone()).checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        let Bounds { shape, scale, mode, reading, keys, epochs, aborts, restores, .. } = bounds;
        let (found, records) = (checker.unique_state_count(), keys.concat().len());
        let Scale { old, new } = scale;
        println!(
            "{found:>8} states: {shape:?}, {mode:?}, {reading:?}, workers {old} to {new}, \
             {records} records, {epochs} epochs, {aborts} aborts, {restores} restores"
        );
        states += found;
    }
    println!("{states:>8} states");
    assert!(states > 500_000, "the bounds have become too small to say anything");
}

#[test]
fn every_planted_fault_is_found() {
    let torn = Bounds { reading: Reading::Torn, keys: TWO_RECORDS, ..counted(ALIGNED) };
    let faults = [
        (Fault::NoOutbox, short(UNALIGNED)),
        (Fault::NoLateCapture, short(UNALIGNED)),
        (Fault::NoRestored, short(UNALIGNED)),
        (Fault::CapturedAtOnce, short(UNALIGNED)),
        (Fault::NoGate, short(ALIGNED)),
        (Fault::Undrained, short(ALIGNED)),
        (Fault::OldStamp, Bounds { keys: TWO_RECORDS, ..counted(UNALIGNED) }),
        (Fault::ReadOrder, torn),
        (Fault::EarlyCommit, short(ALIGNED)),
        (Fault::DroppedHandles, short(ALIGNED)),
        (Fault::Unlisted, short(ALIGNED)),
        (Fault::EarlyAnnouncement, short(ALIGNED)),
        (Fault::AbortsOne, counted(ALIGNED)),
        (Fault::EndsUnsent, short(ALIGNED)),
        (Fault::DryWaits, Bounds { aborts: 2, ..short(ALIGNED) }),
        (Fault::Unfiltered, rescaled(short(UNALIGNED), 1, 2)),
        (Fault::PlanReversed, Bounds { keys: ONE_KEY, ..short(UNALIGNED) }),
    ];
    for (fault, bounds) in faults {
        let broken = Exploration(Bounds { fault: Some(fault), ..bounds });
        let checker = broken.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
        let checker = checker.spawn_bfs().join();
        let found = checker.discovery(RIGHT).or_else(|| checker.discovery(MOVING));
        let path = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        let says = path.last_state().wrong.clone().unwrap_or_else(|| MOVING.into());
        let states = checker.unique_state_count();
        println!("{fault:?}: {says}, after {states} states, in {} steps", path.into_vec().len());
    }
}
