use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use super::drive::{Turn, alternate};
use super::*;

/// A quiet window of a second in which two cores processed `records`.
fn window(records: u64) -> Window {
    Window { seconds: 1.0, records, cpu_seconds: 2.0, others: 0.0, steal: 0.0, allocations: 0 }
}

fn pair(before: u64, between: u64, after: u64) -> Pair {
    Pair { before: window(before), between: window(between), after: window(after) }
}

/// Thirty pairs whose ratios are `middle`, more or less by up to 0.03.
fn around(middle: u64) -> Comparison {
    let pairs = (0..30).map(|i| pair(1000, middle + i % 7 * 10 - 30, 1000)).collect();
    Comparison { pairs }
}

#[test]
fn the_ratio_of_a_pair_is_b_over_the_mean_of_its_two_a_p1() {
    assert_eq!(pair(90, 150, 110).rate_ratio(), 1.5);
    // The same CPU time was spent on half as many records again.
    assert!((pair(90, 150, 110).cpu_ratio() - 1.0 / 1.5).abs() < 1e-12);
}

#[test]
fn a_pair_counts_if_its_windows_are_quiet_and_its_a_alike_p2() {
    assert!(pair(91, 500, 100).counts());
    assert!(!pair(90, 500, 100).counts());
    let disturbed = Window { others: 0.02, ..window(100) };
    let pair = pair(100, 100, 100);
    assert!(!Pair { before: disturbed, ..pair }.counts());
    assert!(!Pair { between: disturbed, ..pair }.counts());
    assert!(!Pair { after: disturbed, ..pair }.counts());
}

#[test]
fn a_verdict_needs_the_whole_interval_on_one_side_of_the_bar_p3() {
    let comparison = around(1000);
    let ratio = comparison.rate_ratio().unwrap();
    assert!(ratio.low < 1.0 && 1.0 < ratio.high && ratio.median == 1.0, "{ratio}");
    assert_eq!(comparison.verdict(0.9), Verdict::Met);
    assert_eq!(comparison.verdict(1.0), Verdict::Undecided);
    assert_eq!(comparison.verdict(1.1), Verdict::Missed);
}

#[test]
fn too_few_counted_pairs_decide_nothing_p3() {
    let mut comparison = around(2000);
    assert_eq!(comparison.verdict(1.0), Verdict::Met);
    comparison.pairs[7].after.steal = 0.5;
    assert_eq!(comparison.counted().count(), 29);
    assert_eq!(comparison.verdict(1.0), Verdict::Undecided);
}

#[test]
fn pairs_that_do_not_count_change_no_figure() {
    let clean = around(1500);
    let mut dirty = clean.clone();
    dirty.pairs.push(pair(1000, 9000, 500));
    assert_eq!(dirty.rate_ratio(), clean.rate_ratio());
    assert_eq!(dirty.cpu_ratio(), clean.cpu_ratio());
    assert_eq!(dirty.rate_of_a(), clean.rate_of_a());
    assert_eq!(dirty.rate_of_b(), clean.rate_of_b());
}

#[test]
fn nothing_measured_says_nothing() {
    let nothing = Comparison::default();
    assert_eq!((nothing.rate_ratio(), nothing.rate_of_a()), (None, None));
    assert_eq!(nothing.verdict(0.0), Verdict::Undecided);
}

#[test]
fn turns_alternate_and_neighbours_share_their_a() {
    let mut turns = vec![];
    let mut measure = |turn| {
        turns.push(turn);
        window(1000 + turns.len() as u64)
    };
    let comparisons = alternate(2, 2, &mut measure, &mut || false);
    let [a, b1, b2] = [Turn::A, Turn::B(0), Turn::B(1)];
    assert_eq!(turns, [a, b1, a, b2, a, b1, a, b2, a]);
    assert_eq!(comparisons[0].pairs, [pair(1001, 1002, 1003), pair(1005, 1006, 1007)]);
    assert_eq!(comparisons[1].pairs, [pair(1003, 1004, 1005), pair(1007, 1008, 1009)]);
}

#[test]
fn a_side_is_measured_until_enough_of_its_pairs_count() {
    let mut windows_of_b1 = 0;
    let mut measure = |turn| {
        windows_of_b1 += u32::from(turn == Turn::B(0));
        let is_disturbed = turn == Turn::B(0) && windows_of_b1 <= 3;
        Window { others: if is_disturbed { 0.5 } else { 0.0 }, ..window(1000) }
    };
    let comparisons = alternate(2, 2, &mut measure, &mut || false);
    assert_eq!(comparisons.iter().map(|c| c.pairs.len()).collect::<Vec<_>>(), [5, 2]);
    assert!(comparisons.iter().all(|comparison| comparison.counted().count() == 2));
}

#[test]
fn measuring_ends_with_the_time_whatever_counts() {
    let looks = Cell::new(0);
    let mut is_over = || looks.replace(looks.get() + 1) == 5;
    let mut measure = |_| Window { steal: 0.5, ..window(1000) };
    let comparisons = alternate(1, 30, &mut measure, &mut is_over);
    assert_eq!((comparisons[0].pairs.len(), comparisons[0].counted().count()), (5, 0));
}

/// A side that is not allowed to run while another one does.
struct Alone<'a> {
    is_anyone_running: &'a AtomicBool,
    windows: AtomicU64,
}

impl Side for Alone<'_> {
    fn resume(&self) {
        assert!(!self.is_anyone_running.swap(true, SeqCst), "two sides run at once");
        self.windows.fetch_add(1, SeqCst);
    }

    fn pause(&self) {
        assert!(self.is_anyone_running.swap(false, SeqCst), "paused twice");
    }

    fn processed(&self) -> u64 {
        self.windows.load(SeqCst)
    }
}

#[test]
fn one_side_runs_at_a_time_and_none_is_left_running() {
    let is_anyone_running = AtomicBool::new(false);
    let side = || Alone { is_anyone_running: &is_anyone_running, windows: AtomicU64::new(0) };
    let (a, b) = (side(), side());
    let plan = Plan { window: Duration::from_millis(1), pairs: 1, time_max: Duration::ZERO };
    let comparisons = compare(&a, &[&b], plan);
    assert!(!is_anyone_running.load(SeqCst));
    // With no time at all there is the first window of each, and A's before the clock is looked at.
    assert!(comparisons[0].pairs.is_empty());
    assert_eq!((a.processed(), b.processed()), (2, 1));
}
