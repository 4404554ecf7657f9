//! The benchmark `keyed-count`: one keyed exchange and a sum per key, beside the yardsticks.
//!
//! The engine runs it as any user's job would: a source, `key_by`, `fold`, and a sink that throws
//! away. What is compared runs in alternating windows (see [`paired`](crate::paired)).

mod engine;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use crate::option::between;
use crate::paired::{Comparison, Plan, Side, compare};
use crate::yardstick::{Yardstick, best_batch, ring_limit, timely_limit, tuned};
use engine::{Checkpoints, Engine};

/// What `overtake bench keyed-count` is told.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Options {
    /// Numbers of keys, each measured on its own
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',',
        default_values_t = [10_000, 1_000_000], value_parser = between(1u64, 1_000_000_000))]
    pub keys: Vec<u64>,
    /// Counted pairs that each figure needs
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = between(1u32, 10_000))]
    pub pairs: u32,
    /// The length of a window, in seconds
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = between(0.1, 60.0))]
    pub seconds: f64,
    /// Where the checkpoints go [default: a directory in /dev/shm, or else in the system's
    /// temporary directory]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// Up to this many keys count as few: the table fits into the cache.
const FEW_KEYS: u64 = 100_000;

/// The longest that one comparison may take, as a multiple of what it takes undisturbed.
const PATIENCE: f64 = 4.0;

/// Measures, and prints the figures.
///
/// # Errors
///
/// If the job cannot run, or the checkpoints cannot be written.
pub fn run(options: Options) -> anyhow::Result<()> {
    let undisturbed = f64::from(options.pairs) * 2.2 * options.seconds;
    let plan = Plan {
        window: Duration::from_secs_f64(options.seconds),
        pairs: options.pairs as usize,
        time_max: Duration::from_secs_f64(PATIENCE * undisturbed),
    };
    let base = options.state.clone().unwrap_or_else(crate::scratch::base);
    println!(
        "keyed-count: 2 workers, records of 16 bytes, batches of at most 2,048, credit 8, idle \
         workers park; checkpoints unaligned, one a window, in {}; the segment writer is a third \
         thread",
        base.display()
    );
    for keys in &options.keys {
        measure(*keys, plan, &base).with_context(|| format!("{keys} keys"))?;
    }
    Ok(())
}

fn measure(keys: u64, plan: Plan, base: &std::path::Path) -> anyhow::Result<()> {
    let off = Engine::start(keys, Checkpoints::Off)?;
    let on = Engine::start(keys, Checkpoints::Every { window: plan.window, base })?;
    let is_few = keys <= FEW_KEYS;
    let of_itself = if is_few { 0.97 } else { 0.9 };
    report(keys, "itself without checkpoints", &compare(&off, &[&on], plan)[0], of_itself, None);
    let against = |name: &str, start: fn(u64, usize) -> Yardstick, bar: f64| {
        let batch = best_batch(|batch| start(keys, batch));
        let yardstick = start(keys, batch);
        report(keys, name, &compare(&yardstick, &[&on as &dyn Side], plan)[0], bar, Some(batch));
    };
    if is_few {
        against("the tuned ring program", tuned::start, 0.9);
        against("plain timely", timely_limit::start, 2.0);
    } else {
        against("ring_limit", ring_limit::start, 1.0);
    }
    println!("  {}", on.checkpoints()?);
    println!("  {}", off.allocations());
    Ok(())
}

fn report(keys: u64, against: &str, figures: &Comparison, bar: f64, batch: Option<usize>) {
    let verdict = figures.verdict(bar);
    let counted = figures.counted().count();
    let at = batch.map_or(String::new(), |batch| format!(" (batches of {batch})"));
    let (Some(ratio), Some(cpu)) = (figures.rate_ratio(), figures.cpu_ratio()) else {
        let of_all = Comparison::cpu_ratio_of(figures.pairs.iter());
        println!(
            "{keys} keys against {against}{at}: none of {} pairs counted, the machine was never \
             quiet; CPU per record of all of them {}",
            figures.pairs.len(),
            of_all.map_or_else(String::new, |cpu| format!("{cpu:.3}")),
        );
        return;
    };
    let millions = |rate: Option<crate::paired::Spread>| {
        rate.map_or(String::new(), |r| {
            format!("{:.0} [{:.0} {:.0}] M/s", r.median / 1e6, r.low / 1e6, r.high / 1e6)
        })
    };
    println!(
        "{keys} keys against {against}{at}: {ratio:.3}, bar {bar}: {verdict}; CPU per record \
         {cpu:.3}; {counted} of {} pairs counted; it {}, the engine {}",
        figures.pairs.len(),
        millions(figures.rate_of_a()),
        millions(figures.rate_of_b()),
    );
}
