//! Every order of events that two and three epochs of a source and a sink allow.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

/// How much of the world is visited.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    mode: Mode,
    epochs: u64,
    /// What may be asked for, besides what is due.
    requests: &'static [Request],
    /// May a sink be dry, and may a step take too long?
    has_trouble: bool,
}

/// What the world may do next. Reports may be lost, repeated and late; but a manifest is published
/// when it was asked for, and a commit follows its announcement: those are promises.
#[derive(Clone, Copy, Debug)]
enum Step {
    Tick,
    Wait,
    Captured { task: usize, epoch: u64, has_ended: bool },
    Durable(u64),
    WriteFailed(u64),
    Prepared(u64),
    Published(u64),
    Committed(u64),
    Dry(u64),
    Requested(Request),
}

fn steps(world: &World, bounds: Bounds) -> Vec<Step> {
    let last = world.last().0;
    let mut steps: Vec<_> = bounds.requests.iter().copied().map(Step::Requested).collect();
    if last < bounds.epochs {
        steps.push(Step::Tick);
    }
    for epoch in last.saturating_sub(1).max(1)..=last {
        let has_ended = epoch == bounds.epochs;
        steps.extend([SOURCE, SINK].map(|task| Step::Captured { task, epoch, has_ended }));
        steps.extend([Step::Durable(epoch), Step::WriteFailed(epoch), Step::Prepared(epoch)]);
    }
    if bounds.has_trouble {
        steps.extend([Step::Wait, Step::Dry(last)]);
    }
    let asked = world.checkpoints.iter().find(|(_, c)| c.is_publishing && !c.is_published);
    steps.extend(asked.map(|(epoch, _)| Step::Published(epoch.0)));
    steps.push(Step::Committed(world.complete().0));
    steps
}

fn take(world: &mut World, step: Step) -> Vec<Effect> {
    match step {
        Step::Tick => world.send(Event::Tick),
        Step::Wait => world.wait(),
        Step::Captured { task, epoch, has_ended } => world.reported(task, epoch, has_ended),
        Step::Durable(epoch) => world.durable(epoch),
        Step::WriteFailed(epoch) => world.write_failed(epoch),
        Step::Prepared(epoch) => world.prepared(epoch),
        Step::Published(epoch) => world.published(epoch),
        Step::Committed(epoch) => world.committed(epoch),
        Step::Dry(epoch) => world.dry(epoch),
        Step::Requested(request) => world.send(Event::Requested(request)),
    }
}

/// A world in which nothing is lost any more, and whose tasks have ended.
fn end(mut world: World) -> u64 {
    let mut rounds = 0;
    while world.verdict.is_none() {
        rounds += 1;
        assert!(rounds < 20, "stuck: {world:#?}");
        for epoch in 1..=world.last().0 {
            world.prepared(epoch);
            world.reported(SOURCE, epoch, true);
            world.reported(SINK, epoch, true);
            world.durable(epoch);
            if world.checkpoints[&Epoch(epoch)].is_publishing {
                world.published(epoch);
            }
        }
        world.committed(world.complete().0);
        if world.verdict.is_none() {
            world.wait();
        }
    }
    assert_eq!(world.verdict, Some(Effect::Stop), "nothing fails any more");
    rounds
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Visits every state within the bounds, and ends the job from each. Returns how many there are.
fn visit(bounds: Bounds) -> usize {
    // Time passes in `Wait` only, which is for the time-outs: a trigger is always due.
    let schedule = Schedule { interval: Duration::ZERO, ..schedule(bounds.mode) };
    let first = World::new(config(Some(schedule)));
    let mut seen = HashSet::from([fingerprint(&first)]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        for step in steps(&world, bounds) {
            let mut next = world.clone();
            take(&mut next, step);
            let is_within = next.last().0 <= bounds.epochs && next.verdict.is_none();
            if is_within && seen.insert(fingerprint(&next)) {
                end(next.clone());
                open.push(next);
            }
        }
    }
    seen.len()
}

#[test]
fn every_order_of_two_checkpoints_keeps_the_invariants_and_leads_to_an_end() {
    let all: &[Request] = &[Request::Savepoint, Request::Stop];
    let kept: &[Request] = &[Request::StopWithSavepoint];
    let adaptive = Mode::Adaptive { after: SECOND };
    let modes = [(Mode::Aligned, all), (Mode::Unaligned, all), (adaptive, &[]), (adaptive, kept)];
    for (mode, requests) in modes {
        let states = visit(Bounds { mode, epochs: 2, requests, has_trouble: true });
        println!("{mode:?}: {states} states");
        assert!(states > 5_000, "{states} states: the world is too small to say anything");
    }
}

#[test]
fn every_order_of_three_checkpoints_keeps_the_invariants_and_leads_to_an_end() {
    let mode = Mode::Aligned;
    let states = visit(Bounds { mode, epochs: 3, requests: &[], has_trouble: false });
    println!("{states} states");
    assert!(states > 5_000, "{states} states: the world is too small to say anything");
}
