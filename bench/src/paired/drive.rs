//! Whose turn it is, and the clock: takes the windows of a comparison, one after the other.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Comparison, PAIRS_MIN, Pair, Side};
use crate::meter::{Mark, Window};

/// After it resumes, a side runs this long before its window begins.
pub(crate) const SETTLE: Duration = Duration::from_millis(30);

/// After it pauses, a side has this long to come to rest.
pub(crate) const REST: Duration = Duration::from_millis(5);

/// Before a window, all sides are parked until others are quiet for one such look, at most so many
/// times.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = 100;

/// The kernel counts whole ticks of 10 ms: on two cores one tick of a look is already 5 %.
const LOOK_DISTURBANCE_MAX: f64 = 0.051;

/// A disturbed window is repeated, at most so often: what lies too far apart is no pair.
const TRIES_MAX: u32 = 8;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The length of a window.
    pub window: Duration,
    /// Counted pairs that each B needs.
    pub pairs: usize,
    /// When to stop although some B have fewer.
    pub time_max: Duration,
}

impl Default for Plan {
    /// Thirty pairs of one second for each B, within a quarter of an hour.
    fn default() -> Plan {
        Plan {
            window: Duration::from_secs(1),
            pairs: PAIRS_MIN,
            time_max: Duration::from_secs(900),
        }
    }
}

/// Compares each side of `others`, as B, with `a`, all of them paused. They are paused again when
/// it returns.
pub fn compare(a: &dyn Side, others: &[&dyn Side], plan: Plan) -> Vec<Comparison> {
    let end = Instant::now() + plan.time_max;
    // The first window of each side fills its tables and its caches: it is not looked at.
    for side in [a].iter().chain(others) {
        window(*side, plan.window);
    }
    let mut measure = |turn| {
        let side = match turn {
            Turn::A => a,
            Turn::B(index) => others[index],
        };
        undisturbed(side, plan.window, end)
    };
    alternate(others.len(), plan.pairs, &mut measure, &mut || Instant::now() >= end)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    A,
    B(usize),
}

/// Takes turns, A B1 A B2 … A, until each B has `wanted` pairs that count or the time is over. A B
/// that has them is not measured again.
pub(super) fn alternate(
    others: usize,
    wanted: usize,
    measure: &mut dyn FnMut(Turn) -> Window,
    is_over: &mut dyn FnMut() -> bool,
) -> Vec<Comparison> {
    let mut comparisons = vec![Comparison::default(); others];
    let lacks = |comparison: &Comparison| comparison.counted().count() < wanted;
    let mut before = measure(Turn::A);
    while comparisons.iter().any(lacks) {
        for (index, comparison) in comparisons.iter_mut().enumerate() {
            if !lacks(comparison) {
                continue;
            }
            if is_over() {
                return comparisons;
            }
            let (between, after) = (measure(Turn::B(index)), measure(Turn::A));
            comparison.pairs.push(Pair { before, between, after });
            before = after;
        }
    }
    comparisons
}

/// Measures a window when the machine is quiet, and again if it was not quiet after all and there
/// is time.
fn undisturbed(side: &dyn Side, length: Duration, end: Instant) -> Window {
    let mut tries = 1;
    loop {
        wait_for_quiet(end);
        let window = window(side, length);
        if window.is_quiet() || tries == TRIES_MAX || Instant::now() >= end {
            return window;
        }
        tries += 1;
    }
}

/// Waits until others are quiet, but not beyond `end`.
pub(crate) fn wait_for_quiet(end: Instant) {
    for _ in 0..LOOKS_MAX {
        if Instant::now() >= end {
            return;
        }
        let mark = Mark::new(0);
        sleep(LOOK);
        let look = mark.end(0);
        if look.others < LOOK_DISTURBANCE_MAX && look.steal < LOOK_DISTURBANCE_MAX {
            return;
        }
    }
}

fn window(side: &dyn Side, length: Duration) -> Window {
    side.resume();
    sleep(SETTLE);
    let mark = Mark::new(side.processed());
    sleep(length);
    let window = mark.end(side.processed());
    side.pause();
    sleep(REST);
    window
}
