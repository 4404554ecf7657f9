//! The jobs that `overtake compare` knows, each with a sequential program that says what must come
//! out.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{Build, Comparison, Digest, Row, Settings, compare};
use crate::billing::job::{Replay, billing, january};
use crate::flights::{Due, Flight, PLANES, Plane, Tail};
use crate::generator::{Generator, Tap};
use crate::tariff::Invoice;

/// A job to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// The flights of January 2013, over and over, billed by carrier and month
    Billing,
    /// Random keys, and how often each has come
    KeyedCount,
}

impl Job {
    /// The name of the job, as the command has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Job::Billing => "billing",
            Job::KeyedCount => "keyed-count",
        }
    }

    /// Compares the modes of this job.
    pub(super) fn compare(self, settings: &Settings) -> anyhow::Result<Comparison> {
        match self {
            Job::Billing => {
                let flights = Replay::new(january()?, settings.workers);
                let seats = Arc::new(seats()?);
                compare(settings, move |job| compared_billing(job, &flights, &seats))
            }
            Job::KeyedCount => {
                let numbers = Generator::new(KEYS, settings.workers, &Arc::new(Tap::opened()));
                compare(settings, move |job| keyed_count(job, &numbers))
            }
        }
    }
}

/// Keys of the keyed count: a few megabytes of state.
const KEYS: u64 = 100_000;

/// A value of the keyed count; bytes of 16, so that tables are stored as they are.
#[derive(Clone, Copy, Default, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[repr(C)]
struct Count {
    count: u64,
    due_ns: u64,
}

/// The due time takes the place of the number that belongs to a key.
fn keyed_count(job: &mut Build<'_>, numbers: &Generator) {
    job.reference(numbers.clone(), |records| {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        let mut digest = Digest::default();
        for (key, _) in records {
            let count = counts.entry(key).or_default();
            *count += 1;
            digest.add(&Row::of(&(key, *count)));
        }
        digest
    });
    let counts = job.sink(|(key, value): &(u64, Count)| {
        Row::of(&(*key, value.count)).due(Duration::from_nanos(value.due_ns))
    });
    job.source("numbers", numbers.clone(), |record, due| record.1 = due.as_nanos() as u64)
        .key_by(|record: &(u64, u64)| record.0)
        .fold("counts", |value: &mut Count, record| {
            value.count += 1;
            value.due_ns = record.1;
        })
        .sink("counts", counts);
}

fn compared_billing(job: &mut Build<'_>, flights: &Replay, seats: &Arc<HashMap<Tail, u32>>) {
    let seats = seats.clone();
    job.reference(flights.clone(), move |flights| bill(flights, &seats));
    // The workers that charge flights meet at an invoice: what it says in between depends on who
    // comes first, how often it is updated and what it says at last does not.
    let invoices = job.sink(|invoice: &Invoice| {
        let key = (invoice.carrier, invoice.month);
        let content = Content {
            flights: invoice.flights,
            cancelled: invoice.cancelled,
            miles: invoice.miles,
            charges_cents: invoice.charges_cents,
            rebate_cents: invoice.rebate_cents,
            total_cents: invoice.total_cents,
        };
        let due = Duration::from_nanos(invoice.due.ns());
        Row::of(&(key, invoice.version)).last(&key, invoice.version, &content).due(due)
    });
    let stamped = job.source("flights", flights.clone(), |flight, due| flight.due = Due::at(due));
    billing(job.flow(), stamped, invoices);
}

/// What an invoice says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Content {
    flights: u64,
    cancelled: u64,
    miles: u64,
    charges_cents: i64,
    rebate_cents: i64,
    total_cents: i64,
}

fn seats() -> anyhow::Result<HashMap<Tail, u32>> {
    let text = flate2::read::GzDecoder::new(std::fs::File::open(PLANES)?);
    let planes = csv::Reader::from_reader(text).into_deserialize::<Plane>();
    Ok(planes
        .map(|plane| plane.map(|plane| (plane.tail, plane.seats)))
        .collect::<Result<_, _>>()?)
}

/// Bills flights one after the other: the tariff as its description has it, written anew.
fn bill(flights: &mut dyn Iterator<Item = Flight>, seats: &HashMap<Tail, u32>) -> Digest {
    let mut departures: HashMap<_, u64> = HashMap::new();
    let mut invoices: BTreeMap<_, Content> = BTreeMap::new();
    for flight in flights {
        let key = (flight.carrier, flight.month());
        let invoice = invoices.entry(key).or_default();
        if !flight.departed {
            invoice.cancelled += 1;
            continue;
        }
        let seats = i64::from(*seats.get(&flight.tail).unwrap_or(&150));
        let by_day = 12 * i64::from(flight.distance) + 35 * seats;
        let is_night = !(6..22).contains(&flight.hour);
        // A quarter more, to the nearest cent, halves up.
        let cents = if is_night { by_day + (by_day + 2).div_euclid(4) } else { by_day };
        invoice.flights += 1;
        invoice.miles += u64::from(flight.distance);
        invoice.charges_cents += cents;
        if !flight.tail.is_absent() {
            *departures.entry((key, flight.tail)).or_default() += 1;
        }
    }
    for ((key, _), count) in departures {
        let invoice = invoices.get_mut(&key).expect("whoever departed is on an invoice");
        invoice.rebate_cents += 500 * count.saturating_sub(20) as i64;
    }
    let mut digest = Digest::default();
    for (key, mut invoice) in invoices {
        invoice.total_cents = invoice.charges_cents - invoice.rebate_cents;
        let last = invoice.flights + invoice.cancelled;
        for version in 1..=last {
            digest.add(&Row::of(&(key, version)).last(&key, version, &invoice));
        }
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tariff::{Charge, SEATS_UNLISTED};

    /// The sink's rows if the tariff's own code bills the flights in this order.
    #[test]
    fn the_sequential_bill_agrees_with_the_tariff() {
        let (january, seats) = (january().unwrap(), seats().unwrap());
        let flights: Vec<Flight> = january.iter().chain(january.iter()).copied().collect();
        let mut departures: HashMap<_, u64> = HashMap::new();
        let mut invoices: BTreeMap<_, Invoice> = BTreeMap::new();
        for flight in &flights {
            let departure = departures.entry((flight.carrier, flight.tail)).or_default();
            *departure += u64::from(flight.departed);
            let seats = *seats.get(&flight.tail).unwrap_or(&SEATS_UNLISTED);
            let charge = Charge::new(flight, seats, *departure);
            invoices.entry((flight.carrier, flight.month())).or_default().add(&charge);
        }
        let expected: i64 = invoices.values().map(|invoice| invoice.total_cents).sum();
        let mut digest = Digest::default();
        for (key, invoice) in &invoices {
            let Invoice { flights, cancelled, miles, .. } = *invoice;
            let Invoice { charges_cents, rebate_cents, total_cents, .. } = *invoice;
            let content =
                Content { flights, cancelled, miles, charges_cents, rebate_cents, total_cents };
            for version in 1..=invoice.version {
                digest.add(&Row::of(&(key, version)).last(&key, version, &content));
            }
        }
        assert!(expected > 0);
        assert_eq!(bill(&mut flights.iter().copied(), &seats), digest);
        assert_ne!(bill(&mut flights.iter().skip(1).copied(), &seats), digest);
    }
}
