//! What a person sees of a comparison: a table for each load, the modes as its columns, and what
//! the figures say.
//!
//! Not here: measuring. What is printed is a function of the value.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::report::{Comparison, Latency, Percentiles, Run};
use super::{Load, Mode};

/// The comparison as text.
pub fn print(comparison: &Comparison) -> String {
    let Comparison { machine, settings, runs } = comparison;
    let mut text = String::new();
    let disturbed: u32 = runs.iter().map(|run| run.windows_disturbed).sum();
    let windows: u32 = runs.iter().map(|run| run.windows).sum();
    let cpu = if machine.cpu.is_empty() { "unknown processor" } else { &machine.cpu };
    let _ = writeln!(
        text,
        "compare: {}, {} worker(s) on {} cores ({cpu}), a checkpoint due every {} ms of running \
         time, adaptive waits {} ms, checkpoints in {}; windows alternate between the \
         modes, {disturbed} of {windows} were disturbed",
        settings.job,
        settings.workers,
        machine.cores,
        settings.interval_ms,
        settings.adaptive_after().as_millis(),
        settings.state.display(),
    );
    for &load in &settings.loads {
        let runs: Vec<&Run> = runs.iter().filter(|run| run.load == load).collect();
        if runs.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{}\n{}\n", heading(load, runs[0]), table(&runs));
        findings(&runs).iter().for_each(|finding| _ = writeln!(text, "{finding}"));
    }
    text
}

fn heading(load: Load, run: &Run) -> String {
    let rate = count(run.rate_rps as f64);
    match load {
        Load::Light => format!("light: {rate} records/s due"),
        Load::Backpressure => format!(
            "backpressure: {rate} records/s due, the sink busy for {} µs with each row; what is \
             late at the end of a window is forgiven, and latency is mostly waiting",
            run.stage_us
        ),
    }
}

/// A figure that may not exist.
const NONE: &str = "-";

fn table(runs: &[&Run]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(
        std::iter::once(String::new()).chain(runs.iter().map(|run| run.mode.to_string())),
    );
    let mut row = |name: &str, figure: &dyn Fn(&Run) -> Option<String>| {
        let figures = runs.iter().map(|run| figure(run).unwrap_or_else(|| NONE.to_owned()));
        table.add_row(std::iter::once(name.to_owned()).chain(figures));
    };
    row("guarantee", &|run| Some(run.guarantee.clone()));
    row("throughput, records/s", &|run| Some(count(run.throughput_rps)));
    row("latency, p50/p99/p99.9/max", &|run| run.latency_us.map(latency));
    row("due during a checkpoint", &|run| run.latency_during_checkpoint_us.map(latency));
    row("due outside", &|run| run.latency_outside_us.map(latency));
    row("worst record of a checkpoint, p50", &|run| run.worst_per_checkpoint_us_p50.map(micros));
    row("checkpoints completed of due", &|run| {
        let told = format!("{} of {}", run.checkpoints.completed, run.checkpoints.due);
        let failed = run.checkpoints.failed;
        let told = if failed > 0 { format!("{told}, {failed} failed") } else { told };
        (run.mode != Mode::Off).then_some(told)
    });
    let in_ms = |figures: Option<Percentiles>| figures.map(|p| percentiles(p, 1e3));
    row("captured, p50/p99/max", &|run| in_ms(run.checkpoints.captured_ms));
    row("durable, p50/p99/max", &|run| in_ms(run.checkpoints.durable_ms));
    row("synchronous pause, CPU time, p50/p99/max", &|run| {
        run.checkpoints.pause_us.map(|p| percentiles(p, 1.0))
    });
    row("alignment, p50/p99/max", &|run| in_ms(run.checkpoints.alignment_ms));
    row("state written, p50", &|run| run.checkpoints.state_bytes_p50.map(bytes));
    row("in flight written, p50", &|run| run.checkpoints.inflight_bytes_p50.map(bytes));
    row("from restart to the first row", &|run| run.restore_ms.map(|ms| micros(ms * 1e3)));
    row("records replayed", &|run| run.replayed_records.map(|records| count(records as f64)));
    row("output equals the reference", &|run| {
        Some(if run.output_equals_reference { "yes" } else { "NO" }.to_owned())
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A stage that processes this share of what is due is not overloaded.
const KEEPS_UP: f64 = 0.97;

/// What the figures say of the choice between waiting and overtaking.
fn findings(runs: &[&Run]) -> Vec<String> {
    let of = |mode| runs.iter().find(|run| run.mode == mode);
    let mut findings = Vec::new();
    let keeps_up = |run: &&Run| {
        run.load == Load::Backpressure && run.throughput_rps > KEEPS_UP * run.rate_rps as f64
    };
    if runs.iter().all(keeps_up) {
        let more = "give it more with --rate or --busy";
        findings.push(format!("The stage kept up, so there was no backpressure: {more}."));
    }
    if let (Some(aligned), Some(unaligned)) = (of(Mode::Aligned), of(Mode::Unaligned)) {
        findings.extend(captures(aligned, unaligned));
    }
    let worst = runs.iter().filter_map(|run| {
        let worst = run.worst_per_checkpoint_us_p50?;
        Some(format!("{} {}", run.mode, micros(worst)))
    });
    let worst: Vec<String> = worst.collect();
    if let (Some(off), false) = (of(Mode::Off).and_then(|run| run.latency_us), worst.is_empty()) {
        findings.push(format!(
            "The worst record of a checkpoint waits {}; without checkpoints 99 % wait no longer \
             than {}.",
            worst.join(", "),
            micros(off.p99)
        ));
    }
    findings
}

fn captures(aligned: &Run, unaligned: &Run) -> Option<String> {
    let captured = |run: &Run| run.checkpoints.captured_ms.map(|figures| figures.p50);
    let (waiting, overtaking) = (captured(aligned)?, captured(unaligned)?);
    let in_flight = unaligned.checkpoints.inflight_bytes_p50.unwrap_or_default();
    let (faster, factor) = if overtaking <= waiting {
        ("unaligned", waiting / overtaking)
    } else {
        ("aligned", overtaking / waiting)
    };
    let factor = three_digits(factor);
    Some(format!(
        "Captured in {} aligned and {} unaligned, {faster} {factor} times as fast; for that \
         unaligned writes {} of what is in flight with each checkpoint.",
        micros(waiting * 1e3),
        micros(overtaking * 1e3),
        bytes(in_flight),
    ))
}

fn latency(latency: Latency) -> String {
    let Latency { p50, p99, p999, max, .. } = latency;
    several([p50, p99, p999, max])
}

/// Percentiles, and how many microseconds one is.
fn percentiles(figures: Percentiles, micros_each: f64) -> String {
    let Percentiles { p50, p99, max } = figures;
    several([p50, p99, max].map(|figure| figure * micros_each))
}

/// Microseconds in one unit, that of the last and greatest.
fn several<const N: usize>(us: [f64; N]) -> String {
    let (micros, unit) = unit(us[N - 1]);
    format!("{} {unit}", us.map(|us| three_digits(us / micros)).join("/"))
}

fn micros(us: f64) -> String {
    several([us])
}

/// The unit of time that fits, and how many microseconds it is.
fn unit(us: f64) -> (f64, &'static str) {
    match us {
        ..1e3 => (1.0, "µs"),
        ..1e6 => (1e3, "ms"),
        _ => (1e6, "s"),
    }
}

fn count(number: f64) -> String {
    match number {
        ..1e3 => format!("{number:.0}"),
        ..1e6 => format!("{} k", three_digits(number / 1e3)),
        _ => format!("{} M", three_digits(number / 1e6)),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        number @ ..1e3 => format!("{number:.0} B"),
        number @ ..1e6 => format!("{} KB", three_digits(number / 1e3)),
        number => format!("{} MB", three_digits(number / 1e6)),
    }
}

fn three_digits(figure: f64) -> String {
    let places = match figure {
        ..0.1 => 3,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{figure:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Checkpoints, Machine, Settings};

    fn run(mode: Mode, captured_ms: Option<f64>) -> Run {
        let percentiles = |p50| Percentiles { p50, p99: p50 * 2.0, max: p50 * 4.0 };
        let latency = Latency { records: 9, p50: 1.0, p90: 2.0, p99: 30.0, p999: 40.0, max: 2e3 };
        let has_checkpoints = mode != Mode::Off;
        Run {
            job: "job".to_owned(),
            load: Load::Light,
            mode,
            guarantee: mode.guarantee().to_owned(),
            workers: 2,
            interval_ms: 500,
            rate_rps: 1_000,
            stage_us: 0,
            records: 9,
            throughput_rps: 1_234_567.0,
            latency_us: Some(latency),
            latency_during_checkpoint_us: has_checkpoints.then_some(latency),
            latency_outside_us: None,
            worst_per_checkpoint_us_p50: has_checkpoints.then_some(1_500.0),
            checkpoints: Checkpoints {
                due: 4,
                completed: 3,
                failed: 1,
                captured_ms: captured_ms.map(percentiles),
                inflight_bytes_p50: captured_ms.map(|_| 2_500_000),
                ..Checkpoints::default()
            },
            restore_ms: has_checkpoints.then_some(12.5),
            replayed_records: has_checkpoints.then_some(77),
            output_digest: "a".to_owned(),
            reference_digest: "a".to_owned(),
            output_equals_reference: true,
            windows: 10,
            windows_disturbed: 1,
        }
    }

    fn comparison() -> Comparison {
        let machine = Machine { cores: 2, cpu: String::new(), system: "linux".to_owned() };
        let runs = vec![
            run(Mode::Off, None),
            run(Mode::Aligned, Some(400.0)),
            run(Mode::Unaligned, Some(0.5)),
        ];
        Comparison { machine, settings: Settings::default(), runs }
    }

    /// The cells of the row that begins so.
    fn row(text: &str, name: &str) -> Vec<String> {
        let line = text.lines().find(|line| line.contains(name)).expect("the row");
        let cells = line.trim_matches(['│', ' ']).strip_prefix(name).expect("it begins so");
        cells.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(String::from).collect()
    }

    #[test]
    fn the_modes_are_columns_and_what_does_not_exist_is_a_dash() {
        let text = print(&comparison());
        assert_eq!(row(&text, "guarantee"), ["at most once", "exactly once", "exactly once"]);
        assert_eq!(row(&text, "throughput, records/s"), ["1.23 M"; 3]);
        assert_eq!(
            row(&text, "due during a checkpoint"),
            ["-", "0.001/0.030/0.040/2.00 ms", "0.001/0.030/0.040/2.00 ms"]
        );
        assert_eq!(
            row(&text, "captured, p50/p99/max"),
            ["-", "0.40/0.80/1.60 s", "0.50/1.00/2.00 ms"]
        );
        assert_eq!(
            row(&text, "checkpoints completed of due"),
            ["-", "3 of 4, 1 failed", "3 of 4, 1 failed"]
        );
        assert_eq!(row(&text, "from restart to the first row"), ["-", "12.5 ms", "12.5 ms"]);
        assert!(text.contains("3 of 30 were disturbed"), "{text}");
        assert!(text.contains("light: 1.00 k records/s due"), "{text}");
    }

    #[test]
    fn what_the_figures_say_is_computed() {
        let text = print(&comparison());
        let captured = "Captured in 400 ms aligned and 500 µs unaligned, unaligned 800 times as \
                        fast; for that unaligned writes 2.50 MB of what is in flight with each \
                        checkpoint.";
        let worst = "The worst record of a checkpoint waits aligned 1.50 ms, unaligned 1.50 ms; \
                     without checkpoints 99 % wait no longer than 30.0 µs.";
        assert!(text.contains(captured) && text.contains(worst), "{text}");
        let mut turned = comparison();
        turned.runs[1].checkpoints.captured_ms =
            run(Mode::Aligned, Some(0.25)).checkpoints.captured_ms;
        assert!(print(&turned).contains("aligned 2.00 times as fast"), "{}", print(&turned));
    }

    #[test]
    fn a_stage_that_kept_up_was_under_no_backpressure() {
        let mut slowed = comparison();
        for run in &mut slowed.runs {
            (run.load, run.rate_rps, run.throughput_rps) = (Load::Backpressure, 1_000, 800.0);
        }
        assert!(!print(&slowed).contains("kept up"), "{}", print(&slowed));
        slowed.runs.iter_mut().for_each(|run| run.throughput_rps = 999.0);
        assert!(print(&slowed).contains("The stage kept up, so there was no backpressure: "));
    }

    #[test]
    fn a_wrong_output_cannot_be_overlooked() {
        let mut wrong = comparison();
        wrong.runs[2].output_equals_reference = false;
        assert_eq!(row(&print(&wrong), "output equals the reference"), ["yes", "yes", "NO"]);
    }

    #[test]
    fn what_is_written_as_json_can_be_read_again() {
        let text = serde_json::to_string(&comparison()).unwrap();
        assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap(), comparison());
    }
}
