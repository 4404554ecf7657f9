//! The examples do what they say.

use std::fs;
use std::process::Command;

use crate::harness::{Place, Running, names, run};

#[test]
fn word_count_counts_words() {
    let ended = run(Command::new(env!("CARGO_BIN_EXE_example_word_count")));
    let expected = "  1 and\n  3 barrier\n  3 data\n  1 does\n  1 for\n  1 no\n  1 not\n  \
                    1 overtakes\n  4 the\n  2 waits\n";
    assert_eq!(ended.assert_success().stdout, expected);
}

#[test]
fn exactly_once_sums_every_payment_once_and_reads_none_again() {
    let place = Place::new();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example_exactly_once"));
        command.env("TMPDIR", place.path(""));
        let ended = run(command);
        ended.assert_success().stdout.clone()
    };
    assert!(start().starts_with("100000 payments in this life; "));
    let balances = place.path("overtake-exactly-once/balances");
    let mut last = std::collections::BTreeMap::new();
    let mut updates = 0;
    for name in names(&balances) {
        for line in fs::read_to_string(balances.join(name)).unwrap().lines().skip(1) {
            let (account, cents) = line.split_once(',').unwrap();
            let cents: i64 = cents.parse().unwrap();
            let of = last.entry(account.to_owned()).or_insert(cents);
            *of = cents.max(*of);
            updates += 1;
        }
    }
    assert_eq!((updates, last.len()), (100_000, 100));
    assert_eq!(last.values().sum::<i64>(), (0..100_000).sum::<i64>());
    assert!(start().starts_with("0 payments in this life; "));
}

#[test]
fn own_connectors_write_each_average_once_also_when_they_are_killed() {
    let place = Place::new();
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example_own_connectors"));
        command.arg(place.path("job"));
        command
    };
    for life in 0..6 {
        let mut running = Running::start(command());
        let lasts = std::time::Duration::from_millis(30 * life);
        if running.end_within(lasts).is_none() {
            running.kill();
        }
    }
    run(command()).assert_success();
    let averages = place.path("job/averages");
    let mut lines = Vec::new();
    for name in names(&averages) {
        assert!(name.starts_with("averages-"), "{name} is left behind");
        let text = fs::read_to_string(averages.join(name)).unwrap();
        lines.extend(text.lines().map(str::to_owned));
    }
    lines.sort();
    let of = |sensor: u32, i: u64| {
        let celsius = 20.0 + f64::from(sensor) + 0.45;
        format!("{sensor} {} {celsius:.2}", i * 1_000 - 1)
    };
    let mut expected: Vec<_> = (0..8).flat_map(|s| (1..=50).map(move |i| of(s, i))).collect();
    expected.sort();
    assert_eq!(lines, expected);
}
