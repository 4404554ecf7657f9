//! Rows that are no flights: counted and left out, or told in a side output, exactly once.

use std::collections::BTreeMap;

use crate::harness::{Place, Running, bill_of, first_flights, names, run, write_gz};

/// Rows of the input.
const ROWS: usize = 8_000;

/// The flights with every 50th row spoiled: in the last column that is read, in a number of fields,
/// in a number.
struct Spoiled {
    place: Place,
    /// The lines that are no flights, from 1.
    bad: Vec<usize>,
}

impl Spoiled {
    fn new() -> Spoiled {
        let place = Place::new();
        let (mut spoiled, mut right, mut bad) = (String::new(), String::new(), Vec::new());
        for (i, line) in first_flights(ROWS).lines().enumerate() {
            let mut fields: Vec<&str> = line.split(',').collect();
            match (i > 0 && i % 50 == 0, i % 3) {
                (false, _) => right += &(line.to_owned() + "\n"),
                (true, 0) => fields[15] = "far",
                (true, 1) => _ = fields.pop(),
                (true, _) => fields[0] = "MMXIII",
            }
            if i > 0 && i % 50 == 0 {
                bad.push(i + 1);
            }
            spoiled += &(fields.join(",") + "\n");
        }
        write_gz(&place.path("spoiled.csv.gz"), &spoiled);
        write_gz(&place.path("right.csv.gz"), &right);
        Spoiled { place, bad }
    }

    fn options(&self, what: &str) -> String {
        let input = self.place.path("spoiled.csv.gz");
        format!("--bad-records {what} --interval 20 --input {}", input.display())
    }

    fn assert_billed(&self) {
        self.place.assert_billed(&bill_of(&self.place.path("right.csv.gz"), 1));
    }

    /// How often each line is in the visible files of the side output.
    fn told(&self) -> BTreeMap<usize, usize> {
        let (directory, mut told) = (self.place.out().join("bad-records"), BTreeMap::new());
        for name in names(&directory) {
            assert!(name.starts_with("part-"), "{name} is left behind");
            let mut rows = csv::Reader::from_path(directory.join(name)).unwrap();
            assert_eq!(rows.headers().unwrap(), &["file", "line", "column", "reason"][..]);
            for row in rows.records() {
                let row = row.unwrap();
                assert!(row[0].ends_with("spoiled.csv.gz"), "{row:?}");
                let column = row[2].to_owned();
                let line: usize = row[1].parse().unwrap();
                let (expected, reason) = match (line - 1) % 3 {
                    0 => ("16 (distance)", "\"far\""),
                    1 => ("19 (time_hour)", "the row has 18 fields, the header has 19"),
                    _ => ("1 (year)", "\"MMXIII\""),
                };
                assert_eq!(column, expected, "{row:?}");
                assert!(row[3].contains(reason), "{row:?}");
                *told.entry(line).or_insert(0) += 1;
            }
        }
        told
    }
}

#[test]
fn a_side_output_tells_each_bad_row_exactly_once_over_lives_that_are_killed() {
    let spoiled = Spoiled::new();
    for (workers, published) in [(1, 2), (3, 4), (2, 7)] {
        let options = format!("{} --workers {workers} --rate 16000", spoiled.options("side"));
        let running = Running::start(spoiled.place.billing(&options));
        let before = spoiled.place.checkpoints();
        let newest = || names(&spoiled.place.state().join("manifests")).pop();
        let (mut seen, mut last) = (0, newest());
        running.wait_until(|| {
            seen += usize::from(newest() != last);
            last = newest();
            seen >= published
        });
        running.kill();
        assert!(spoiled.place.checkpoints() >= before.min(1), "checkpoints were lost");
    }
    run(spoiled.place.billing(&spoiled.options("side"))).assert_success();
    spoiled.assert_billed();
    let once = spoiled.bad.iter().map(|line| (*line, 1)).collect::<BTreeMap<_, _>>();
    assert_eq!(spoiled.told(), once);
}

#[test]
fn rows_that_are_skipped_are_counted_and_the_rest_is_billed() {
    let spoiled = Spoiled::new();
    let ended = run(spoiled.place.billing(&spoiled.options("skip")));
    let said = format!("rows that are no flights, left out in this life: {}", spoiled.bad.len());
    assert!(ended.assert_success().stdout.contains(&said), "{ended:?}");
    spoiled.assert_billed();
    assert!(!spoiled.place.out().join("bad-records").exists());
}

#[test]
fn a_job_that_stops_at_a_bad_row_goes_on_when_it_is_told_to_skip_it() {
    let spoiled = Spoiled::new();
    let refused = run(spoiled.place.billing(&spoiled.options("stop")));
    refused.assert_refusal(&["spoiled.csv.gz", "line 51, column 1 (year): ", "\"MMXIII\""]);
    run(spoiled.place.billing(&spoiled.options("skip"))).assert_success();
    spoiled.assert_billed();
}
