//! The simulation: a thousand seeds, the same seed twice, every planted fault, real threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use overtake::simulation::{Fault, plant};
use overtake_tests::simulation::{Options, Outcome, Pool, run, run_on_threads};

const SEEDS: u64 = 1_000;

/// A fault is to be found in so many seeds.
const SEEDS_PER_FAULT: usize = 600;

/// Does something with each of so many numbers, on all cores.
fn on_all_cores(count: u64, work: impl Fn(u64, &mut Pool) + Sync) {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut pool = Pool::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    work(number, &mut pool);
                }
            });
        }
    });
}

#[test]
fn a_thousand_seeds_give_every_row_once_and_every_checkpoint_is_whole() {
    let failed = Mutex::new(Vec::new());
    let seen = Mutex::new(BTreeMap::new());
    on_all_cores(SEEDS, |seed, pool| {
        let outcome = run(seed, &Options::default(), pool);
        let mut all = seen.lock().unwrap();
        outcome.seen.iter().for_each(|(what, times)| *all.entry(*what).or_insert(0) += times);
        if !outcome.wrong.is_empty() {
            failed.lock().unwrap().push(outcome);
        }
    });
    let failed = failed.into_inner().unwrap();
    let seen = seen.into_inner().unwrap();
    println!("{seen:#?}");
    assert!(failed.is_empty(), "{} of {SEEDS} are wrong, first\n{}", failed.len(), failed[0]);
    // What did not happen was not tested.
    for what in [
        "checkpoints aborted",
        "cuts aligned",
        "cuts dry",
        "cuts overtaken",
        "cuts with rows in flight",
        "deaths",
        "deaths at a restore",
        "deaths inside an operator",
        "older checkpoints restored",
        "prepares or commits hung",
        "puts landed late",
        "restores refused by the mark",
        "savepoints",
        "transactions aborted",
        "works arrived late",
        "writes hung",
    ] {
        assert!(seen.get(what).is_some_and(|times| *times >= 20), "too few {what}: {seen:#?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let facts = |outcome: Outcome| (outcome.hash, outcome.turns, outcome.lives, outcome.seen);
    let mut used = Pool::new();
    for seed in 0..40 {
        // timely's workers are new in one of the runs.
        let one = facts(run(seed, &Options::default(), &mut Pool::new()));
        assert_eq!(one, facts(run(seed, &Options::default(), &mut used)), "seed {seed}");
    }
}

/// The seeds of the profile that is most likely to show it.
fn seeds(fault: Fault) -> impl Iterator<Item = u64> {
    use Fault::*;
    let (first, step) = match fault {
        PrepareHangs => (1, 4),
        Unfair | ServedLater | DryWaits | DryAlone | KeepVoidWrites | AbortPublishing => (2, 4),
        NoMark | MarkLate | AnyMark | LifeIgnored | NewestWithAny | LifeLate | RetainByName
        | AbortOnce => (3, 4),
        _ => (0, 1),
    };
    (first..).step_by(step).take(SEEDS_PER_FAULT)
}

#[test]
fn every_planted_fault_is_found() {
    let missed = Mutex::new(Vec::new());
    on_all_cores(Fault::ALL.len() as u64, |number, pool| {
        let fault = Fault::ALL[number as usize];
        plant(Some(fault));
        let mut is_wrong = |seed| !run(seed, &Options::default(), pool).wrong.is_empty();
        let tried = seeds(fault).position(&mut is_wrong);
        plant(None);
        match tried {
            Some(tried) => println!("{fault:?}: found after {} seeds", tried + 1),
            None => missed.lock().unwrap().push(fault),
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found in {SEEDS_PER_FAULT} seeds: {missed:?}");
}

#[test]
fn a_thread_for_each_worker_gives_the_same_rows() {
    for seed in 0..12 {
        let directory = tempfile::tempdir().unwrap();
        let wrong = run_on_threads(seed, &Options::default(), directory.path());
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
    }
}
