use std::path::PathBuf;

use super::*;
use crate::billing::BadRecords;
use crate::option::Mode;

fn parse(line: &str) -> Result<Arguments, String> {
    let arguments = line.split_whitespace();
    Arguments::try_parse_from(arguments).map_err(|error| one_line(&error.to_string()))
}

#[test]
fn clap_finds_no_fault_in_the_definition() {
    use clap::CommandFactory;
    Arguments::command().debug_assert();
}

#[test]
fn without_a_sub_command_it_is_billing_with_the_same_defaults() {
    let Arguments { command, billing } = parse("overtake").unwrap();
    assert!(command.is_none());
    let Some(Command::Billing(named)) = parse("overtake billing").unwrap().command else {
        panic!("`billing` is not billing")
    };
    assert_eq!(billing, named);
    assert_eq!((billing.mode, billing.interval), (Mode::Unaligned, 500));
    assert_eq!((billing.state, billing.repeat, billing.rate), (None, None, None));
}

#[test]
fn billing_takes_the_options_of_a_job() {
    let line = "overtake billing --state s --out o --repeat 3 --workers 2 --mode adaptive \
                --interval 50 --rate 1000 --bad-records skip --input a.csv b.csv.gz";
    let Some(Command::Billing(options)) = parse(line).unwrap().command else {
        panic!("`billing` is not billing")
    };
    assert_eq!(
        options,
        billing::Options {
            state: Some("s".into()),
            out: Some("o".into()),
            repeat: Some(3),
            workers: Some(2),
            mode: Mode::Adaptive,
            interval: 50,
            rate: Some(1000),
            bad_records: BadRecords::Skip,
            input: vec![PathBuf::from("a.csv"), PathBuf::from("b.csv.gz")],
        }
    );
}

#[test]
fn keyed_count_measures_what_the_table_of_bars_names_unless_told_otherwise() {
    let options = |line: &str| match parse(line).unwrap().command {
        Some(Command::Bench(Bench { bench: Benchmark::KeyedCount(options) })) => options,
        other => panic!("`{line}` is {other:?}"),
    };
    let default = options("overtake bench keyed-count");
    assert_eq!(
        default,
        keyed_count::Options {
            keys: vec![10_000, 1_000_000],
            pairs: 30,
            seconds: 1.0,
            state: None
        }
    );
    let told = options("overtake bench keyed-count --keys 5,6 --pairs 2 --seconds 0.5");
    assert_eq!(
        told,
        keyed_count::Options { keys: vec![5, 6], pairs: 2, seconds: 0.5, state: None }
    );
}

#[test]
fn compare_takes_all_modes_and_loads_unless_told_otherwise() {
    let options = |line: &str| match parse(line).unwrap().command {
        Some(Command::Compare(options)) => options,
        other => panic!("`{line}` is {other:?}"),
    };
    let default = compare::Options {
        job: compare::Job::Billing,
        modes: compare::Mode::ALL.to_vec(),
        load: compare::Load::ALL.to_vec(),
        seconds: 10.0,
        workers: None,
        interval: 500,
        rate: None,
        busy: 20,
        state: None,
        json: None,
    };
    assert_eq!(options("overtake compare"), default);
    let told = options(
        "overtake compare --job keyed-count --modes off,adaptive --load light --seconds 2 \
         --workers 3 --interval 50 --rate 1000 --busy 5 --state s --json f",
    );
    assert_eq!(
        told,
        compare::Options {
            job: compare::Job::KeyedCount,
            modes: vec![compare::Mode::Off, compare::Mode::Adaptive],
            load: vec![compare::Load::Light],
            seconds: 2.0,
            workers: Some(3),
            interval: 50,
            rate: Some(1_000),
            busy: 5,
            state: Some("s".into()),
            json: Some("f".into()),
        }
    );
}

#[test]
fn a_bad_value_is_refused_in_one_line_that_names_it_and_what_is_allowed() {
    for (line, expected) in [
        ("--workers 0", "'0' for '--workers <N>': expected a number from 1 to 256"),
        ("--repeat x", "'x' for '--repeat <N>': expected a number from 1 to 1000"),
        ("--interval 0", "'0' for '--interval <MS>': expected a number from 1 to 3600000"),
        ("--rate 0", "'0' for '--rate <N>': expected a number from 1 to 4294967295"),
        (
            "bench keyed-count --keys 5,",
            "'' for '--keys <N>...': expected a number from 1 to 1000000000",
        ),
        (
            "bench keyed-count --seconds nan",
            "'nan' for '--seconds <S>': expected a number from 0.1 to 60",
        ),
        (
            "compare --modes off,fast",
            "'fast' for '--modes <MODE>...' [possible values: off, aligned, unaligned, adaptive]",
        ),
        (
            "compare --load heavy",
            "'heavy' for '--load <LOAD>...' [possible values: light, backpressure]",
        ),
        ("compare --job wc", "'wc' for '--job <JOB>' [possible values: billing, keyed-count]"),
        ("compare --seconds 0", "'0' for '--seconds <N>': expected a number from 0.1 to 3600"),
        ("compare --workers 257", "'257' for '--workers <N>': expected a number from 1 to 256"),
        ("compare --interval 0", "'0' for '--interval <MS>': expected a number from 1 to 3600000"),
        ("compare --rate 0", "'0' for '--rate <N>': expected a number from 1 to 4294967295"),
        ("compare --busy 0", "'0' for '--busy <US>': expected a number from 1 to 1000"),
        (
            "--mode fast",
            "'fast' for '--mode <MODE>' [possible values: aligned, unaligned, adaptive]",
        ),
    ] {
        let refused = parse(&format!("overtake {line}")).unwrap_err();
        assert_eq!(refused, format!("error: invalid value {expected}"));
    }
    let refused = parse("overtake --fast").unwrap_err();
    assert_eq!(refused, "error: unexpected argument '--fast' found");
    let refused = parse("overtake bench").unwrap_err();
    assert!(refused.contains("requires a subcommand") && refused.contains("keyed-count"));
}

#[test]
fn state_and_out_come_together() {
    let error = parse("overtake billing --state s").unwrap_err();
    assert!(error.contains("required arguments were not provided: --out <DIR>"), "{error}");
    assert!(parse("overtake billing --out o").is_err());
}

#[test]
fn a_message_of_several_lines_becomes_one() {
    assert_eq!(
        one_line("error: no\n\n  tip: yes\n\nUsage: x\n\nFor more information, try"),
        "error: no tip: yes"
    );
}
