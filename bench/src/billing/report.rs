//! What a person sees of a run: progress, figures, the bill.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use overtake::{CheckpointReport, Outcome, Report, Running};

use super::latency::Latencies;
use crate::statistics::quantile;

/// Waits for the job, with a progress bar; `total` flights, if it is known how many there are.
pub(super) fn watch(running: Running, total: Option<u64>) -> anyhow::Result<Report> {
    let handle = running.handle();
    let (bar, template) = match total {
        Some(total) => {
            (ProgressBar::new(total), "{bar:40} {human_pos} of {human_len} flights, {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {human_pos} flights, {elapsed}"),
    };
    bar.set_style(ProgressStyle::with_template(template).context("the progress bar")?);
    while !running.has_ended() {
        bar.set_position(handle.processed("invoices"));
        std::thread::sleep(Duration::from_millis(50));
    }
    bar.finish_and_clear();
    Ok(running.join()?)
}

/// The last version of each invoice, by carrier and month: a line of CSV.
type Bill = BTreeMap<(String, String), csv::StringRecord>;

/// Reads the bill out of the part files.
pub(super) fn bill(out: &Path) -> anyhow::Result<Bill> {
    let mut bill: BTreeMap<(String, String), (u64, csv::StringRecord)> = BTreeMap::new();
    let files = std::fs::read_dir(out).with_context(|| format!("cannot list {}", out.display()))?;
    for file in files {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("part-") || !name.ends_with(".csv") {
            continue;
        }
        let in_file = || format!("cannot read {}", path.display());
        for line in csv::Reader::from_path(&path).with_context(in_file)?.into_records() {
            let line = line.with_context(in_file)?;
            let [carrier, month, version] = [0, 1, 2].map(|i| line.get(i).unwrap_or_default());
            let version: u64 = version.parse().with_context(in_file)?;
            let key = (carrier.to_owned(), month.to_owned());
            let last = bill.entry(key).or_default();
            if version > last.0 {
                *last = (version, line);
            }
        }
    }
    Ok(bill.into_iter().map(|(key, (_, line))| (key, line)).collect())
}

const HEADER: &str =
    "carrier,month,version,flights,cancelled,miles,charges_cents,rebate_cents,total_cents";

/// Writes the bill, sorted by carrier and month.
pub(super) fn write_bill(path: &Path, bill: &Bill) -> anyhow::Result<()> {
    let mut text = String::from(HEADER);
    for line in bill.values() {
        text.push('\n');
        text.push_str(&line.iter().collect::<Vec<_>>().join(","));
    }
    text.push('\n');
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints what the run was like.
pub(super) fn print(report: &Report, latencies: &Latencies, is_paced: bool) {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    let records = report.processed("invoices");
    let rate = records as f64 / report.lasted.as_secs_f64();
    table.add_row(["flights in this life", &format!("{records}")]);
    table.add_row(["flights/s", &format!("{rate:.0}")]);
    if is_paced {
        let row = |histogram: &Histogram<u64>| {
            let at = |q| histogram.value_at_quantile(q) as f64 / 1e6;
            let max = histogram.max() as f64 / 1e6;
            format!("{:.2} / {:.2} / {:.2} / {max:.2} ms", at(0.5), at(0.99), at(0.999))
        };
        table.add_row(["from due to processed, p50/p99/p99.9/max", &row(&latencies.processed())]);
        table.add_row(["from due to visible, p50/p99/p99.9/max", &row(&latencies.visible())]);
    }
    let complete: Vec<&CheckpointReport> = report
        .history
        .iter()
        .filter(|checkpoint| matches!(checkpoint.outcome, Outcome::Published { .. }))
        .collect();
    let failed = report.history.len() - complete.len();
    table.add_row(["checkpoints", &format!("{} complete, {failed} failed", complete.len())]);
    let row = |of: &dyn Fn(&CheckpointReport) -> f64, unit: &str| {
        let figures: Vec<f64> = complete.iter().map(|checkpoint| of(checkpoint)).collect();
        let at = |q| quantile(&figures, q).unwrap_or_default();
        format!("{:.2} / {:.2} / {:.2} {unit}", at(0.5), at(0.99), at(1.0))
    };
    let since = |checkpoint: &CheckpointReport, at: Option<Duration>| {
        at.unwrap_or_default().saturating_sub(checkpoint.triggered).as_secs_f64() * 1e3
    };
    table.add_row(["captured, p50/p99/max", &row(&|c| since(c, c.captured), "ms")]);
    table.add_row(["durable, p50/p99/max", &row(&|c| since(c, c.durable), "ms")]);
    table.add_row([
        "pause of a worker, p50/p99/max",
        &row(&|c| c.pause().as_secs_f64() * 1e6, "µs"),
    ]);
    table.add_row(["state, p50/p99/max", &row(&|c| c.state_bytes() as f64 / 1e3, "KB")]);
    table.add_row(["in flight, p50/p99/max", &row(&|c| c.in_flight_bytes() as f64 / 1e3, "KB")]);
    println!("{table}");
}

/// Months that are printed; the file has all.
const MONTHS_SHOWN: usize = 1;

/// Prints the bill of the first month.
pub(super) fn print_bill(bill: &Bill) {
    let mut months: Vec<&String> = bill.keys().map(|(_, month)| month).collect();
    months.sort();
    months.dedup();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(HEADER.split(','));
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for ((_, month), line) in bill {
        if months.iter().take(MONTHS_SHOWN).any(|shown| *shown == month) {
            table.add_row(line.iter());
        }
    }
    println!("{table}");
    if months.len() > MONTHS_SHOWN {
        println!("and {} more months in invoices.csv", months.len() - MONTHS_SHOWN);
    }
}
