//! What several commands take: numbers within bounds, and how a barrier passes what is in flight.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

/// How a barrier passes what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// It waits until what is in flight has been processed
    Aligned,
    /// It overtakes what is in flight, which becomes part of the checkpoint
    Unaligned,
    /// It waits for a while, and then overtakes
    Adaptive,
}

impl Mode {
    /// The engine's mode; an adaptive one waits so long before it overtakes.
    pub(crate) fn with_patience(self, after: Duration) -> overtake::Mode {
        match self {
            Mode::Aligned => overtake::Mode::Aligned,
            Mode::Unaligned => overtake::Mode::Unaligned,
            Mode::Adaptive => overtake::Mode::Adaptive { after },
        }
    }
}

/// Reads numbers from `least` to `most`, and says that range of all others.
pub(crate) fn between<N>(
    least: N,
    most: N,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if least <= number && number <= most => Ok(number),
        _ => Err(format!("expected a number from {least} to {most}")),
    }
}
