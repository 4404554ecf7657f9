//! `overtake compare`: every figure is there, for both jobs, and every output is the reference.
//!
//! Figures are not asserted here, only that they are told: the machine of the tests is busy.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Ended, Place, for_each_in_parallel, names, run};

fn compare(options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_billing"));
    command.arg("compare").args(options.split_whitespace());
    command
}

/// Runs the command with `--json`; what it wrote, and how it ended.
fn compared(place: &Place, options: &str) -> (Value, Ended) {
    let file = place.path("figures.json");
    let mut command = compare(options);
    command.arg("--json").arg(&file);
    let ended = run(command);
    ended.assert_success();
    let text = std::fs::read_to_string(file).expect("the figures");
    (serde_json::from_str(&text).expect("JSON"), ended)
}

const MODES: [&str; 4] = ["off", "aligned", "unaligned", "adaptive"];

#[test]
fn every_mode_of_both_jobs_is_measured_under_both_loads_and_loses_nothing() {
    for_each_in_parallel(&["billing", "keyed-count"], |job| {
        let place = Place::new();
        let options = "--seconds 0.2 --interval 100 --workers 2 --busy 3";
        let (figures, ended) = compared(&place, &format!("{options} --job {job}"));
        assert!(figures["machine"]["cores"].as_u64().unwrap() > 0);
        let settings = &figures["settings"];
        assert_eq!((&settings["job"], &settings["interval_ms"]), (&(*job).into(), &100.into()));
        let runs = figures["runs"].as_array().unwrap();
        let of = |load| runs.iter().filter(move |run| run["load"] == load);
        for load in ["light", "backpressure"] {
            assert!(of(load).map(|run| &run["mode"]).eq(MODES), "{job} {load}");
            let first = of(load).next().unwrap();
            for run in of(load) {
                assert_eq!((&run["job"], &run["rate_rps"]), (&(*job).into(), &first["rate_rps"]));
                assert_run(run);
            }
            assert!(of(load).all(|run| run["stage_us"] == if load == "light" { 0 } else { 3 }));
        }
        for told in MODES.iter().chain(&["exactly once", "alignment", "backpressure: ", "replayed"])
        {
            assert!(ended.stdout.contains(told), "not a word of {told:?}: {ended:?}");
        }
    });
}

/// Every field is there, and says what it must of the mode.
fn assert_run(run: &Value) {
    let has_checkpoints = run["mode"] != "off";
    let guarantee = if has_checkpoints { "exactly once" } else { "at most once" };
    assert_eq!(run["guarantee"], guarantee, "{run:#}");
    assert_eq!((&run["workers"], &run["interval_ms"]), (&2.into(), &100.into()));
    assert_eq!(run["output_equals_reference"], true, "{run:#}");
    assert_eq!(run["output_digest"], run["reference_digest"], "{run:#}");
    assert_eq!(run["output_digest"].as_str().unwrap().len(), 48, "{run:#}");
    let is_positive = |value: &Value| value.as_f64().is_some_and(|figure| figure > 0.0);
    for field in ["records", "throughput_rps", "windows", "rate_rps"] {
        assert!(is_positive(&run[field]), "{field} of {run:#}");
    }
    assert!(run["windows_disturbed"].is_u64(), "{run:#}");
    let percentiles = |value: &Value, names: &[&str], what: &str| {
        let figures: Vec<f64> =
            names.iter().map(|name| value[name].as_f64().expect("a figure")).collect();
        assert!(figures.is_sorted(), "{what} of {run:#}");
    };
    const OF_LATENCY: [&str; 5] = ["p50", "p90", "p99", "p999", "max"];
    percentiles(&run["latency_us"], &OF_LATENCY, "latency_us");
    let checkpoints = run["checkpoints"].as_object().unwrap();
    let of_checkpoints = ["captured_ms", "durable_ms", "pause_us", "alignment_ms"];
    let bytes = ["state_bytes_p50", "inflight_bytes_p50"];
    if !has_checkpoints {
        let none = ["latency_during_checkpoint_us", "worst_per_checkpoint_us_p50", "restore_ms"];
        assert!(none.iter().all(|field| run[field].is_null()), "{run:#}");
        assert!(run["replayed_records"].is_null(), "{run:#}");
        let counts = ["due", "completed", "failed"];
        assert!(counts.iter().all(|field| checkpoints[*field] == 0), "{run:#}");
        let others = of_checkpoints.iter().chain(&bytes);
        assert!(others.clone().all(|field| checkpoints[*field].is_null()), "{run:#}");
        return;
    }
    percentiles(&run["latency_during_checkpoint_us"], &OF_LATENCY, "during");
    let outside = &run["latency_outside_us"];
    // Checkpoints that take longer than an interval follow one another, and leave nothing outside.
    if !outside.is_null() {
        percentiles(outside, &OF_LATENCY, "outside");
    }
    assert!(is_positive(&run["restore_ms"]), "{run:#}");
    // Behind a slow stage on a busy machine, what is due during a checkpoint may be processed only
    // after the window, and then nothing is known of it.
    let worst = &run["worst_per_checkpoint_us_p50"];
    let is_unknown = run["load"] == "backpressure" && worst.is_null();
    assert!(is_positive(worst) || is_unknown, "{run:#}");
    assert!(run["replayed_records"].is_u64(), "{run:#}");
    let count = |field: &str| checkpoints[field].as_u64().expect("a count");
    assert!(count("completed") > 0 && count("failed") == 0, "{run:#}");
    assert!(count("due") >= count("completed"), "{run:#}");
    for field in of_checkpoints {
        percentiles(&checkpoints[field], &["p50", "p99", "max"], field);
    }
    assert!(bytes.iter().all(|field| checkpoints[*field].is_u64()), "{run:#}");
    assert!(run["mode"] != "aligned" || count("inflight_bytes_p50") == 0, "{run:#}");
}

#[test]
fn modes_loads_a_rate_and_where_checkpoints_go_can_be_chosen() {
    let place = Place::new();
    let state = place.path("");
    let options = "--job keyed-count --modes unaligned,off --load light --seconds 0.2 \
                   --interval 100 --workers 3 --rate 5000";
    let options = format!("{options} --state {}", state.display());
    let (figures, ended) = compared(&place, &options);
    assert_eq!(figures["settings"]["state"], state.display().to_string());
    assert!(ended.stdout.contains(&format!("checkpoints in {}", state.display())), "{ended:?}");
    assert_eq!(names(&state), ["figures.json"], "the checkpoints are left behind");
    let runs = figures["runs"].as_array().unwrap();
    assert!(runs.iter().map(|run| &run["mode"]).eq(["unaligned", "off"]));
    assert!(runs.iter().all(|run| run["rate_rps"] == 5_000 && run["workers"] == 3));
    assert!(ended.stdout.contains("light: 5.00 k records/s due"), "{ended:?}");
}

#[test]
fn a_place_that_cannot_be_written_is_named_in_one_line() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    let below = place.path("file/below");
    let named = below.display().to_string();
    let options = "--seconds 0.1 --rate 1000 --load light --modes aligned";
    let mut no_state = compare(options);
    no_state.arg("--state").arg(&below);
    let keeps = format!("error: light, aligned: cannot keep checkpoints in \"{named}\": ");
    run(no_state).assert_refusal(&[&keeps, "Not a directory"]);
    let mut no_json = compare(options);
    no_json.arg("--json").arg(&below);
    let writes = format!("error: cannot write \"{named}\": ");
    run(no_json).assert_refusal(&[&writes, "Not a directory"]);
}
