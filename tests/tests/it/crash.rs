//! A crash at every step of a checkpoint and of a restore, with real processes and real files.
//!
//! `OVERTAKE_CRASH_AT=step:n` aborts the process when it reaches that step for the n-th time.

use crate::harness::{Place, for_each_in_parallel, january, run};

/// Slow enough for some ten checkpoints.
const SLOWED: &str = "--rate 30000";

/// The steps of a checkpoint in their order, each with the time at which it is taken: the first
/// ones of a life, or some way into it, where commits and prepares of several epochs overlap.
const STEPS: [(&str, u64); 18] = [
    ("trigger", 1),
    ("trigger", 4),
    ("cut", 9),
    ("capture", 9),
    ("write", 9),
    ("fsync", 5),
    ("prepare", 4),
    ("publish", 1),
    ("publish", 3),
    ("published", 1),
    ("published", 3),
    ("mark", 3),
    ("tell", 3),
    ("announce", 3),
    ("commit", 1),
    ("commit", 4),
    ("committed", 4),
    ("prune", 2),
];

/// What the restart is told; the mode may change, and so may the number of workers.
fn another(i: usize) -> String {
    let mode = ["aligned", "unaligned", "adaptive"][i % 3];
    format!("--workers {} --mode {mode} --interval 25", 1 + i % 4)
}

fn crash(place: &Place, (step, time): (&str, u64), options: &str) {
    let mut command = place.billing(options);
    command.env("OVERTAKE_CRASH_AT", format!("{step}:{time}"));
    println!("{step}:{time} {options}");
    run(command).assert_crash();
}

#[test]
fn f12_f19_f24_a_crash_at_any_step_of_a_checkpoint_leaves_the_invoices_exact() {
    let steps: Vec<(usize, (&str, u64))> = STEPS.into_iter().enumerate().collect();
    for_each_in_parallel(&steps, |(i, step)| {
        let place = Place::new();
        crash(&place, *step, &format!("{} {SLOWED}", another(i + 1)));
        run(place.billing(&another(*i))).assert_success();
        place.assert_billed(january());
    });
}

/// The steps of a restore. The third one, the first commit, is there if the checkpoint lists a
/// transaction.
const RESTORE_STEPS: [(&str, u64); 5] = [
    ("begin life", 1),
    ("mark at restore", 1),
    ("commit at restore", 1),
    ("commit at restore", 2),
    ("abort at restore", 1),
];

#[test]
fn f34_a_crash_at_any_step_of_a_restore_leaves_the_invoices_exact() {
    let steps: Vec<(usize, (&str, u64))> = RESTORE_STEPS.into_iter().enumerate().collect();
    for_each_in_parallel(&steps, |(i, step)| {
        let place = Place::new();
        // Two workers' transactions are prepared, published and not committed: not in the first
        // checkpoints of a busy machine, which has yet to read the aircraft then.
        crash(&place, ("published", 8), &format!("{} {SLOWED}", another(1)));
        crash(&place, *step, &another(*i));
        crash(&place, *step, &another(i + 1));
        run(place.billing(&another(*i))).assert_success();
        place.assert_billed(january());
    });
}

#[test]
fn f34_a_crash_before_the_first_life_begins_leaves_a_directory_that_can_be_used() {
    let place = Place::new();
    crash(&place, ("begin life", 1), "--workers 2");
    crash(&place, ("abort at restore", 1), "--workers 2");
    run(place.billing("--workers 2")).assert_success();
    place.assert_billed(january());
}

#[test]
fn f34_crashes_twice_in_a_row_leave_the_invoices_exact() {
    let pairs = [
        [("published", 2), ("cut", 2)],
        [("capture", 9), ("prepare", 1)],
        [("commit", 3), ("publish", 1)],
        [("tell", 2), ("commit", 1)],
        [("write", 7), ("write", 1)],
        [("mark", 2), ("mark", 1)],
    ];
    let pairs: Vec<_> = pairs.into_iter().enumerate().collect();
    for_each_in_parallel(&pairs, |(i, pair)| {
        let place = Place::new();
        for (life, step) in pair.iter().enumerate() {
            crash(&place, *step, &format!("{} {SLOWED}", another(i + life)));
        }
        run(place.billing(&another(i + 2))).assert_success();
        place.assert_billed(january());
    });
}
