use overtake_state::{OpenError, RestoreError, StoreError, WriteError};

use super::*;

const MS: Duration = Duration::from_millis(1);

const BACKOFF: Restart =
    Restart::Backoff { first: MS, max: Duration::from_millis(5), attempts: 5, reset_after: RESET };

const RESET: Duration = Duration::from_millis(100);

/// The delays of a job whose lives last so long, until it is not started again.
fn delays(restart: Restart, lives: &[Duration]) -> Vec<Duration> {
    let mut in_a_row = 0;
    let mut delays = Vec::new();
    for lasted in lives {
        let Some(again) = restart.after(in_a_row, *lasted) else { break };
        in_a_row = again.in_a_row;
        delays.push(again.delay);
    }
    delays
}

#[test]
fn ag2_every_decision_of_every_strategy() {
    let fixed = |attempts| Restart::Fixed { delay: 7 * MS, attempts };
    let again = |delay, in_a_row| Some(Again { delay: delay * MS, in_a_row });
    let (short, long) = (RESET - MS, RESET);
    // Strategy, starts in a row so far, how long the life lasted, what is decided.
    let table = [
        (Restart::Never, 0, short, None),
        (Restart::Never, 0, long, None),
        (Restart::Never, u32::MAX, long, None),
        (fixed(1), 0, short, again(7, 1)),
        (fixed(1), 1, short, None),
        (fixed(1), 1, Duration::MAX, None),
        (fixed(2), 1, Duration::ZERO, again(7, 2)),
        (fixed(2), 2, short, None),
        (fixed(u32::MAX), u32::MAX - 1, short, again(7, u32::MAX)),
        (fixed(u32::MAX), u32::MAX, short, None),
        (BACKOFF, 0, short, again(1, 1)),
        (BACKOFF, 1, short, again(2, 2)),
        (BACKOFF, 2, short, again(4, 3)),
        (BACKOFF, 3, short, again(5, 4)),
        (BACKOFF, 4, short, again(5, 5)),
        (BACKOFF, 5, short, None),
        (BACKOFF, 0, long, again(1, 1)),
        (BACKOFF, 1, long, again(1, 1)),
        (BACKOFF, 4, long, again(1, 1)),
        (BACKOFF, 5, long, again(1, 1)),
        (BACKOFF, u32::MAX, Duration::MAX, again(1, 1)),
    ];
    for (strategy, in_a_row, lasted, expected) in table {
        let decided = strategy.after(in_a_row, lasted);
        assert_eq!(decided, expected, "{strategy:?} after {in_a_row} and {lasted:?}");
    }
}

#[test]
fn ag2_no_strategy_starts_more_often_in_a_row_or_waits_longer_than_it_says() {
    for attempts in 1..=40 {
        for first in [1, 3, 1_000_000_000_000] {
            for max in [first, 2 * first, 1000 * first, u64::MAX] {
                let (first, max) = (Duration::from_nanos(first), Duration::from_nanos(max));
                let backoff = Restart::Backoff { first, max, attempts, reset_after: RESET };
                let all = delays(backoff, &[Duration::ZERO; 50]);
                assert_eq!(all.len(), attempts as usize);
                assert!(all[0] == first && all.iter().all(|delay| *delay <= max), "{all:?}");
                let doubles = |pair: &[Duration]| pair[1] == (2 * pair[0]).min(max);
                assert!(all.windows(2).all(doubles), "{all:?}");
            }
        }
        let fixed = Restart::Fixed { delay: MS, attempts };
        assert_eq!(delays(fixed, &[Duration::MAX; 50]), vec![MS; attempts as usize]);
    }
}

#[test]
fn a_life_that_lasted_long_enough_starts_the_count_anew() {
    let lives = [MS, MS, RESET, MS, MS, MS, MS, MS, RESET];
    assert_eq!(delays(BACKOFF, &lives), [1, 2, 1, 2, 4, 5, 5].map(|ms| ms * MS));
}

#[test]
fn a_value_out_of_range_is_named() {
    let (first, max, reset_after) = (2 * MS, 4 * MS, RESET);
    let backoff = |first, max, attempts, reset_after| {
        Restart::Backoff { first, max, attempts, reset_after }.check()
    };
    let refused = [
        (Restart::Fixed { delay: MS, attempts: 0 }.check(), "attempts\": 0 is not", "at least 1"),
        (backoff(first, max, 0, reset_after), "attempts\": 0 is not", "at least 1"),
        (backoff(Duration::ZERO, max, 1, reset_after), "first\": 0 s", "longer than 0"),
        (backoff(first, MS, 1, reset_after), "max\": 1ms", "at least as long as restart.first"),
        (backoff(first, max, 1, Duration::ZERO), "reset_after\": 0 s", "longer than 0"),
    ];
    for (refused, name, allowed) in refused {
        let why = refused.unwrap_err().to_string();
        assert!(why.starts_with(&format!("setting \"restart.{name}")), "{why}");
        assert!(why.contains(&format!("expected {allowed}")), "{why}");
    }
    assert!(backoff(first, first, 1, MS).is_ok());
    assert!(Restart::Fixed { delay: Duration::ZERO, attempts: 1 }.check().is_ok());
    assert!(Restart::Never.check().is_ok());
}

#[test]
fn ag1_what_a_new_life_cannot_change_is_not_tried_again() {
    let cause = || "a cause".into();
    let name = || "a name".to_owned();
    let store = || StoreError::Missing { file: name() };
    let passing = [
        Error::Source { name: name(), cause: cause() },
        Error::Sink { name: name(), cause: cause() },
        Error::Operator { name: name(), worker: 0, record: 0, cause: cause() },
        Error::Panicked { name: name(), worker: 0, record: None, message: name() },
        Error::Write(WriteError::Store(store())),
        Error::Failed(name()),
    ];
    for why in passing {
        assert!(may_pass(&why), "{why}");
    }
    let last = || Box::new(Error::Failed(name()));
    let lasting = [
        Error::Flow(name()),
        Error::Setting { name: "a name", found: name(), allowed: "another" },
        Error::Open(OpenError::Store(store())),
        Error::Restore(RestoreError::Store(store())),
        Error::Stuck { name: name(), worker: 0, record: 0 },
        Error::Thread(std::io::Error::other("a cause")),
        Error::Exhausted { restarts: 1, last: last() },
        Error::Stopped { last: last() },
    ];
    for why in lasting {
        assert!(!may_pass(&why), "{why}");
    }
}
