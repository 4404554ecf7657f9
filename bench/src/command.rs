//! What the command understands, and how it fails: in one line that says what to do, and with exit
//! code 1.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::{billing, capture, compare, idle, keyed_count, push, slow_sink};

/// A dataflow engine with exactly-once checkpoints, aligned and unaligned.
///
/// Without a sub-command it bills the flights that ship with it for about ten seconds, always from
/// the beginning, at 100,000 flights a second, into `target/billing`.
#[derive(Debug, Parser)]
#[command(name = "overtake", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    billing: billing::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bill flights, exactly once
    Billing(billing::Options),
    /// Run a job without checkpoints and in each mode, side by side
    Compare(compare::Options),
    /// Measure the engine beside programs written by hand
    Bench(Bench),
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = false)]
struct Bench {
    #[command(subcommand)]
    bench: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// A keyed exchange and a sum per key, on two workers
    KeyedCount(keyed_count::Options),
    /// Checkpoints one after the other, with much in flight before a slow stage
    Capture(capture::Options),
    /// What a job costs that has nothing to do
    Idle(idle::Options),
    /// From a push into an embedded job until its result is read
    Push(push::Options),
    /// What a job holds while its sink is slower than its source
    SlowSink(slow_sink::Options),
}

/// Does what `arguments` ask for; the first is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = match Arguments::try_parse_from(arguments) {
        Ok(Arguments { command, billing }) => match command.unwrap_or(Command::Billing(billing)) {
            Command::Billing(options) => billing::run(options),
            Command::Compare(options) => compare::run(&options).map(|()| ExitCode::SUCCESS),
            Command::Bench(Bench { bench }) => match bench {
                Benchmark::KeyedCount(options) => keyed_count::run(options),
                Benchmark::Capture(options) => capture::run(options),
                Benchmark::Idle(options) => idle::run(options),
                Benchmark::Push(options) => push::run(options),
                Benchmark::SlowSink(options) => slow_sink::run(options),
            }
            .map(|()| ExitCode::SUCCESS),
        },
        // Help and version come as errors that are none.
        Err(help) if !help.use_stderr() => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
        Err(refusal) => {
            eprintln!("{}", one_line(&refusal.to_string()));
            return ExitCode::FAILURE;
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", one_line(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

/// The first paragraphs of a message as one line: without the usage and the hint at `--help` that
/// clap adds.
fn one_line(message: &str) -> String {
    let is_about_usage =
        |line: &&str| line.starts_with("Usage:") || line.starts_with("For more information");
    let lines = message.lines().map(str::trim).take_while(|line| !is_about_usage(line));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
