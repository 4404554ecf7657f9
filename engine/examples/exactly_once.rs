//! Sums amounts per account from a CSV file into CSV part files, exactly once: kill it at any
//! moment, start it again, and it goes on. Run it with
//! `cargo run --release -p overtake --example exactly_once`.

use std::time::Duration;

use overtake::connect::file::{Files, PartFiles};
use overtake::{Job, Mode};
use rkyv::{Archive, Deserialize, Serialize};

/// A row of the input.
#[derive(Clone, Archive, Serialize, Deserialize, serde::Deserialize)]
struct Payment {
    account: String,
    cents: i64,
}

/// A row of the output.
#[derive(Clone, Archive, Serialize, Deserialize, serde::Serialize)]
struct Balance {
    account: String,
    cents: i64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join("overtake-exactly-once");
    std::fs::create_dir_all(&directory)?;
    let (input, output) = (directory.join("payments.csv"), directory.join("balances"));
    let rows = (0..100_000).map(|i| format!("account-{},{i}\n", i % 100));
    std::fs::write(&input, "account,cents\n".to_owned() + &rows.collect::<String>())?;

    let balances = output.clone();
    let report = Job::new()
        .state(directory.join("state"))
        .mode(Mode::Unaligned)
        .interval(Duration::from_millis(100))
        .run(move |flow| {
            flow.source("payments", Files::<Payment>::csv([&input]))
                .key_by(|payment| payment.account.clone())
                .fold("balances", |sum: &mut i64, payment| *sum += payment.cents)
                .map(|(account, cents)| Balance { account, cents })
                .sink("balances", PartFiles::csv(&balances));
        })?;
    println!(
        "{} payments in this life; balances in {}",
        report.processed("payments"),
        output.display()
    );
    Ok(())
}
