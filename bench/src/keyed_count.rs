//! The benchmark `keyed-count`: one keyed exchange and a sum per key, beside the yardsticks.

use clap::Args;

use crate::command::between;

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
}

/// Measures, and prints the figures.
pub fn run(_options: Options) -> anyhow::Result<()> {
    anyhow::bail!("`bench keyed-count` is not built yet")
}
