//! The dataflow: flights and aircraft become invoices.
//!
//! ```text
//!   planes ─── broadcast ───┐
//!   flights ─ by carrier and tail ─▶ charges ─ by carrier and month ─▶ invoices ─▶ sink
//! ```

use std::sync::Arc;
use std::time::Duration;

use overtake::connect::file::Files;
use overtake::flow::keyed::Hold;
use overtake::flow::stream::{Origin, Stream, Transform};
use overtake::sink::Sink;
use overtake::source::{Emit, Read, Source, SourceContext};
use overtake::{BoxError, Flow, Job, Output};

use crate::flights::{Carrier, Flight, JANUARY, Month, PLANES, Plane, Tail};
use crate::tariff::{Charge, Invoice, SEATS_UNLISTED};

/// An aircraft in the service of a carrier.
#[derive(Clone, Copy, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[repr(C)]
struct Aircraft {
    tail: Tail,
    carrier: Carrier,
}

/// Bills flights into a sink.
pub fn billing<O, T, K>(flow: &mut Flow, flights: Stream<O, T>, invoices: K)
where
    O: Origin,
    T: Transform<O::Record, Out = Flight>,
    K: Sink<Record = Invoice>,
{
    let planes = flow.source("planes", Files::<Plane>::csv([PLANES]));
    flights
        .key_by(|flight| Aircraft { tail: flight.tail, carrier: flight.carrier })
        .process_with_broadcast("charges", planes, Hold::UntilEnd, |states| {
            let seats = states.broadcast::<Tail, u32>("seats")?;
            let departures = states.map::<Aircraft, Month, u64>("departures")?;
            let listed = seats.clone();
            let plane = move |plane: &Plane| _ = listed.insert(&plane.tail, plane.seats);
            let flight = move |aircraft: &Aircraft, flight: &Flight, out: &mut Output<Charge>| {
                let month = flight.month();
                let before = departures.get(aircraft, &month).unwrap_or(0);
                let departure = before + u64::from(flight.departed);
                if flight.departed {
                    departures.insert(aircraft, month, departure);
                }
                let seats = seats.get(&flight.tail).unwrap_or(SEATS_UNLISTED);
                out.emit(Charge::new(flight, seats, departure));
            };
            Ok((plane, flight))
        })
        .key_by(|charge| (charge.carrier, charge.month))
        .fold("invoices", Invoice::add)
        .map(|(_, invoice)| invoice)
        .sink("invoices", invoices);
}

/// How long the run lasts that finds the maximum rate.
const MAXIMUM_RATE_RUN: Duration = Duration::from_secs(2);

/// Flights a second that this machine bills when no file holds it up: January over and over from
/// memory, invoices thrown away, no checkpoints.
///
/// # Errors
///
/// If the flights cannot be read.
pub fn maximum_rate(workers: usize) -> anyhow::Result<String> {
    let flights = Replay::new(january()?, workers);
    let running = Job::new().workers(workers).start(move |flow| {
        let flights = flow.source("flights", flights.clone());
        billing(flow, flights, Nowhere);
    })?;
    // The tables fill first.
    let handle = running.handle();
    std::thread::sleep(MAXIMUM_RATE_RUN / 4);
    let (began, before) = (handle.clock().now(), handle.processed("invoices"));
    std::thread::sleep(MAXIMUM_RATE_RUN);
    let (ended, after) = (handle.clock().now(), handle.processed("invoices"));
    anyhow::ensure!(!running.has_ended(), "the job that finds the maximum rate has failed");
    let rate = (after - before) as f64 / (ended - began).as_secs_f64();
    Ok(format!("{:.2} million flights/s on {workers} workers", rate / 1e6))
}

/// The flights of January, in memory.
///
/// # Errors
///
/// If they cannot be read.
pub(crate) fn january() -> anyhow::Result<Arc<[Flight]>> {
    let text = flate2::read::GzDecoder::new(std::fs::File::open(JANUARY)?);
    let flights: Result<Vec<Flight>, _> = csv::Reader::from_reader(text).deserialize().collect();
    Ok(flights?.into())
}

/// The same flights over and over, on each worker.
#[derive(Clone)]
pub(crate) struct Replay {
    flights: Arc<[Flight]>,
    splits: usize,
    next: Option<(String, usize)>,
}

impl Replay {
    /// With a split for each worker.
    pub(crate) fn new(flights: Arc<[Flight]>, workers: usize) -> Replay {
        Replay { flights, splits: workers, next: None }
    }
}

impl Source for Replay {
    type Record = Flight;
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok((0..self.splits).map(|split| format!("{split:04}")).collect())
    }

    fn open(
        &mut self,
        split: &str,
        position: Option<u64>,
        _: &SourceContext,
    ) -> Result<(), BoxError> {
        self.next = Some((split.to_owned(), position.unwrap_or(0) as usize));
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<Flight>,
    ) -> Result<Read, BoxError> {
        let Some((_, next)) = &mut self.next else { return Ok(Read::Ended) };
        let end = self.flights.len().min(*next + limit);
        self.flights[*next..end].iter().for_each(|flight| out.emit(*flight));
        *next = end % self.flights.len();
        Ok(Read::More)
    }

    fn positions(&self) -> Vec<(String, u64)> {
        self.next.iter().map(|(split, next)| (split.clone(), *next as u64)).collect()
    }
}

/// A sink that throws away.
struct Nowhere;

impl Sink for Nowhere {
    type Record = Invoice;

    fn target(&self) -> Option<Arc<dyn overtake::sink::Target>> {
        None
    }

    fn open(&mut self, _: overtake::sink::SinkContext) -> Result<(), BoxError> {
        Ok(())
    }

    fn write(&mut self, invoices: &[Invoice]) -> Result<(), BoxError> {
        std::hint::black_box(invoices);
        Ok(())
    }

    fn cut(
        &mut self,
        _: overtake::sink::TransactionId,
    ) -> Result<Option<(Vec<u8>, overtake::sink::Prepare)>, BoxError> {
        Ok(None)
    }
}
