//! Ctrl-C: the command stops after one more checkpoint, or at once.

use std::fs;
use std::process::Command;

use overtake_bench::flights::JANUARY;

use crate::harness::{Place, Running, bill_of, names, run};

fn interrupt(running: &Running) {
    let pid = running.id().to_string();
    let kill = Command::new("kill").args(["-INT", &pid]).status();
    assert!(kill.expect("there is a kill").success());
}

/// Has the first invoice been written?
fn bills(place: &Place) -> bool {
    !names(&place.out()).is_empty()
}

/// Does the command catch the signal already? Its mask is in the status of the process.
fn listens(running: &Running) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (SIGINT - 1) & 1 == 1)
}

const SIGINT: u32 = 2;

/// Slow enough that the end of the input is far away.
const SLOWLY: &str = "--workers 2 --rate 5000 --interval 60000";

/// A job that is under way, and can be interrupted.
fn start(place: &Place) -> Running {
    let running = Running::start(place.billing(SLOWLY));
    assert!(running.wait_until(|| bills(place) && listens(&running)));
    running
}

#[test]
fn an_interrupted_job_takes_one_more_checkpoint_and_goes_on_exactly_there() {
    let place = Place::new();
    let running = start(&place);
    interrupt(&running);
    let ended = running.join();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let mut said = ended.stderr.lines();
    let first = "stopping after one more checkpoint; once more ends the command at once";
    assert_eq!(said.next(), Some(first), "{ended:?}");
    let last = said.next().expect("it says how far it came");
    assert!(last.starts_with("stopped after ") && last.ends_with(" to go on"), "{ended:?}");
    // Due in a minute, it was taken because of the interruption.
    assert_eq!(place.checkpoints(), 1);
    assert!(!place.out().join("invoices.csv").exists(), "half a month was billed as a whole");
    let ended = run(place.billing("--workers 3"));
    assert!(ended.assert_success().stdout.contains("going on from checkpoint"), "{ended:?}");
    place.assert_billed(&bill_of(JANUARY.as_ref(), 1));
}

#[test]
fn a_job_that_is_interrupted_twice_ends_at_once_and_is_exact_later() {
    let place = Place::new();
    let running = start(&place);
    interrupt(&running);
    interrupt(&running);
    assert_eq!(running.join().status.code(), Some(130));
    run(place.billing("--workers 2")).assert_success();
    place.assert_billed(&bill_of(JANUARY.as_ref(), 1));
}
