use overtake::source::{Items, items};

use super::*;

fn settings() -> Settings {
    let modes = vec![Mode::Unaligned];
    let loads = vec![Load::Light];
    Settings {
        modes,
        loads,
        seconds: 0.1,
        interval_ms: 50,
        rate_rps: Some(5_000),
        workers: 2,
        ..Settings::default()
    }
}

/// Counts each number: the record is the number and when it was due.
fn counts(job: &mut Build<'_>, numbers: &Items<(u64, Duration)>) {
    let counts = job.sink(|(number, (count, due)): &(u64, (u64, Duration))| {
        Row::of(&(number, count)).due(*due)
    });
    job.source("numbers", numbers.clone(), |number, due| number.1 = due)
        .key_by(|number| number.0)
        .fold("counts", |count: &mut (u64, Duration), number| *count = (count.0 + 1, number.1))
        .sink("counts", counts);
}

fn numbers(count: u64) -> Items<(u64, Duration)> {
    items((0..count).map(|i| (i % 7, Duration::ZERO)).collect())
}

#[test]
fn a_short_input_is_read_over_and_over_and_its_reference_too() {
    let numbers = numbers(100);
    let comparison = compare(&settings(), move |job| {
        job.reference(numbers.clone(), |records| {
            let mut counts = [0u64; 7];
            let mut digest = Digest::default();
            for (number, _) in records {
                counts[number as usize] += 1;
                digest.add(&Row::of(&(number, counts[number as usize])));
            }
            digest
        });
        counts(job, &numbers);
    });
    let runs = comparison.unwrap().runs;
    assert!(runs[0].records > 100, "{runs:?}");
    assert!(runs[0].output_equals_reference, "{runs:?}");
    judge(&runs).unwrap();
}

#[test]
fn an_output_that_is_not_that_of_the_reference_is_told_and_refused() {
    let numbers = numbers(100);
    let comparison = compare(&settings(), move |job| {
        job.reference(numbers.clone(), |_| Digest::default());
        counts(job, &numbers);
    });
    let runs = comparison.unwrap().runs;
    assert!(!runs[0].output_equals_reference, "{runs:?}");
    let (output, reference) = (&runs[0].output_digest, Digest::default());
    assert_eq!(
        judge(&runs).unwrap_err().to_string(),
        format!(
            "job, light, unaligned: the output has digest {output}, expected that of the \
             reference, {reference}"
        )
    );
}

#[test]
fn a_source_without_records_is_named() {
    let empty = numbers(0);
    let error = compare(&settings(), move |job| counts(job, &empty)).unwrap_err();
    let message = format!("{error:#}");
    assert!(message.starts_with("light, unaligned: "), "{message}");
    let why = "split \"items\" is empty: a measured source needs records";
    assert!(message.contains("numbers") && message.contains(why), "{message}");
}

#[test]
fn a_setting_out_of_range_is_named_with_what_is_allowed() {
    let refused = |settings: Settings| {
        let error = compare(&settings, |job| counts(job, &numbers(1))).unwrap_err();
        error.to_string()
    };
    for seconds in ["0", "NaN", "3601"] {
        let settings = Settings { seconds: seconds.parse().unwrap(), ..settings() };
        let expected =
            format!("setting \"seconds\": {seconds} is not allowed, expected from 0.1 to 3600");
        assert_eq!(refused(settings), expected);
    }
    assert_eq!(
        refused(Settings { interval_ms: 0, ..settings() }),
        "setting \"interval_ms\": 0 is not allowed, expected at least 1"
    );
    assert_eq!(
        refused(Settings { rate_rps: Some(0), ..settings() }),
        "setting \"rate_rps\": 0 is not allowed, expected at least 1"
    );
}
