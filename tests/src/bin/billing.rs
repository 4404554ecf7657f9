//! The command `overtake`, with crash points: see `OVERTAKE_CRASH_AT` in the engine.

use std::process::ExitCode;

fn main() -> ExitCode {
    overtake_bench::command::run(std::env::args_os())
}
