//! The command, undisturbed.

use crate::harness::{Place, bill_of, for_each_in_parallel, january, run};

use overtake_bench::flights::JANUARY;

#[test]
fn the_invoices_are_the_reference_s_in_every_mode_on_any_number_of_workers() {
    let bill = bill_of(JANUARY.as_ref(), 3);
    let runs: Vec<String> = ["aligned", "unaligned", "adaptive"]
        .into_iter()
        .flat_map(|mode| (1..=4).map(move |workers| format!("--mode {mode} --workers {workers}")))
        .collect();
    for_each_in_parallel(&runs, |options| {
        let place = Place::new();
        let ended =
            run(place.billing(&format!("{options} --repeat 3 --rate 200000 --interval 25")));
        ended.assert_success();
        assert!(!ended.stdout.contains("going on"), "{options}: {ended:?}");
        place.assert_billed(&bill);
    });
}

#[test]
fn a_job_that_has_ended_ends_again_at_once_with_the_same_bill() {
    let place = Place::new();
    run(place.billing("--workers 2")).assert_success();
    place.assert_billed(january());
    let again = run(place.billing("--workers 3"));
    again.assert_success();
    assert!(again.stdout.contains("going on from checkpoint 1/"), "{again:?}");
    place.assert_billed(january());
}
