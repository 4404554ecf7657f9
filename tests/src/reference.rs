//! The reference for the job `billing`: the same bill, computed by one thread that keeps everything
//! in maps.
//!
//! It reads the same rows, and nothing else of the job: tariff, rebates and text are written anew
//! here, plainly.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use overtake_bench::flights::{Flight, Plane};

/// The last version of each invoice, by carrier and month.
pub type Bill = BTreeMap<(String, String), Line>;

/// One invoice of the bill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Flights that departed.
    pub flights: u64,
    /// Flights that did not; with the others, the invoice's last version.
    pub cancelled: u64,
    /// Of the flights that departed.
    pub miles: u64,
    /// Of the flights that departed, before rebates.
    pub charges_cents: i64,
    /// For the departures of each aircraft beyond its 20th.
    pub rebate_cents: i64,
}

/// Bills the flights of `inputs`, `repeat` times over, with the aircraft of `planes`. All files are
/// gzip.
pub fn bill(planes: &Path, inputs: &[PathBuf], repeat: u16) -> Result<Bill, csv::Error> {
    let mut seats = HashMap::new();
    for plane in gunzip(planes)?.deserialize::<Plane>() {
        let plane = plane?;
        seats.insert(plane.tail, plane.seats);
    }
    let mut bill = Bill::new();
    let mut departures: BTreeMap<_, i64> = BTreeMap::new();
    for input in inputs {
        for flight in gunzip(input)?.deserialize::<Flight>() {
            let flight = flight?;
            for year in flight.year..flight.year + repeat {
                let month = format!("{year}-{:02}", flight.month);
                let key = (flight.carrier.to_string(), month);
                if flight.departed && !flight.tail.is_absent() {
                    *departures.entry((key.clone(), flight.tail)).or_default() += 1;
                }
                let line = bill.entry(key).or_default();
                if !flight.departed {
                    line.cancelled += 1;
                    continue;
                }
                line.flights += 1;
                line.miles += u64::from(flight.distance);
                let seats = seats.get(&flight.tail).copied().unwrap_or(150);
                let quarters = match flight.hour {
                    6..=21 => 4,
                    _ => 5,
                };
                let cents = 12.0 * f64::from(flight.distance) + 35.0 * f64::from(seats);
                // Exact: quarters of integers far below 2^52. `round` takes halves of what is
                // positive up.
                line.charges_cents += (cents * f64::from(quarters) / 4.0).round() as i64;
            }
        }
    }
    for ((key, _), count) in departures {
        bill.entry(key).or_default().rebate_cents += 500 * (count - 20).max(0);
    }
    Ok(bill)
}

/// The bill as `invoices.csv` has it.
pub fn csv(bill: &Bill) -> String {
    let mut text = String::from(
        "carrier,month,version,flights,cancelled,miles,charges_cents,rebate_cents,total_cents\n",
    );
    for ((carrier, month), line) in bill {
        let Line { flights, cancelled, miles, charges_cents, rebate_cents } = line;
        let (version, total_cents) = (flights + cancelled, charges_cents - rebate_cents);
        writeln!(
            text,
            "{carrier},{month},{version},{flights},{cancelled},{miles},\
             {charges_cents},{rebate_cents},{total_cents}"
        )
        .expect("a string takes everything");
    }
    text
}

fn gunzip(path: &Path) -> Result<csv::Reader<GzDecoder<File>>, csv::Error> {
    Ok(csv::Reader::from_reader(GzDecoder::new(File::open(path)?)))
}

#[cfg(test)]
mod tests;
