use super::*;

const KEYS: u64 = 1000;

fn all(batch: usize) -> [Yardstick; 3] {
    [ring_limit::start(KEYS, batch), tuned::start(KEYS, batch), timely_limit::start(KEYS, batch)]
}

/// Lets `side` run until it has processed something more.
fn advance(side: &Yardstick) -> u64 {
    let before = side.processed();
    side.resume();
    while side.processed() == before {
        std::thread::yield_now();
    }
    side.pause();
    side.processed()
}

#[test]
fn each_yardstick_begins_paused_runs_pauses_and_runs_again() {
    for side in all(256) {
        assert_eq!(side.processed(), 0);
        let first = advance(&side);
        assert!(first > 0);
        assert!(advance(&side) > first);
    }
}

#[test]
fn each_yardstick_ends_when_it_is_dropped_paused_or_not() {
    for side in all(256) {
        advance(&side);
        drop(side);
    }
    for side in all(256) {
        side.resume();
        drop(side);
    }
    drop(all(256));
}
