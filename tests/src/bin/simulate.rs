//! Runs seeds of the simulation: `scripts/simulate.sh` says how.

use std::process::ExitCode;

use overtake::simulation::{Fault, plant};
use overtake_tests::simulation::{Options, Pool, run};

const USAGE: &str =
    "usage: simulate --seeds N [--from S] | --seed S, and [--records N] [--fault NAME]";

/// What the command line asks for.
struct Request {
    from: u64,
    seeds: u64,
    options: Options,
    fault: Option<Fault>,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(request) => simulate(&request),
        Err(why) => {
            eprintln!("simulate: {why}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let mut request = Request { from: 0, seeds: 0, options: Options::default(), fault: None };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{name}: \"{value}\" is no number"));
        match name.as_str() {
            "--seeds" => request.seeds = number()?,
            "--from" => request.from = number()?,
            "--records" => request.options.records = number()?,
            "--seed" => {
                (request.from, request.seeds) = (number()?, 1);
                request.options.has_log = true;
            }
            "--fault" => {
                let of = |fault: &&Fault| format!("{fault:?}") == value;
                let fault = Fault::ALL.iter().find(of);
                request.fault = Some(*fault.ok_or_else(|| format!("no fault \"{value}\""))?);
            }
            _ => return Err(format!("{name} is unknown")),
        }
    }
    if request.seeds == 0 { Err("how many seeds?".to_owned()) } else { Ok(request) }
}

fn simulate(request: &Request) -> ExitCode {
    plant(request.fault);
    let mut pool = Pool::new();
    let (mut lives, mut turns, mut wrong) = (0, 0, 0);
    let mut seen = std::collections::BTreeMap::new();
    for seed in request.from..request.from + request.seeds {
        let outcome = run(seed, &request.options, &mut pool);
        outcome.log.iter().for_each(|line| println!("{line}"));
        lives += outcome.lives;
        turns += outcome.turns;
        outcome.seen.iter().for_each(|(what, times)| *seen.entry(*what).or_insert(0) += times);
        if !outcome.wrong.is_empty() {
            wrong += 1;
            println!("{outcome}");
        }
    }
    println!("{} seeds, {lives} lives, {turns} turns: {wrong} wrong", request.seeds);
    seen.iter().for_each(|(what, times)| println!("  {times:>9} {what}"));
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
