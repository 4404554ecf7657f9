//! The command `overtake`.

use std::process::ExitCode;

use overtake_bench::command;
use overtake_bench::meter::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    command::run(std::env::args_os())
}
