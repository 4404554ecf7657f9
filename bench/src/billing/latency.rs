//! Latency from when a flight was due: until the sink has processed its invoice, and until that is
//! visible.
//!
//! Open loop: what counts is when a flight was due, not when it was read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hdrhistogram::Histogram;
use overtake::sink::{Prepare, Sink, SinkContext, Target, TransactionId};
use overtake::{BoxError, Clock, Transaction};

use crate::tariff::Invoice;

/// What is measured, from all workers.
#[derive(Clone, Default)]
pub(super) struct Latencies(Arc<Shared>);

#[derive(Default)]
struct Shared {
    clock: OnceLock<Clock>,
    figures: Mutex<Figures>,
}

/// Longer than any run that somebody waits for: an hour. What is longer counts as this.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

struct Figures {
    processed: Histogram<u64>,
    visible: Histogram<u64>,
    /// When the flights of each transaction were due: generation, epoch, worker.
    waiting: BTreeMap<(u64, u64, usize), Vec<u64>>,
}

impl Default for Figures {
    fn default() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1_000, LATENCY_MAX_NS, 3).expect("bounds that are in order")
        };
        Figures { processed: histogram(), visible: histogram(), waiting: BTreeMap::new() }
    }
}

impl Latencies {
    /// The job runs, and this is its clock.
    pub(super) fn start(&self, clock: Clock) {
        let _ = self.0.clock.set(clock);
    }

    /// Until processed by the sink, in nanoseconds.
    pub(super) fn processed(&self) -> Histogram<u64> {
        self.lock().processed.clone()
    }

    /// Until visible, in nanoseconds.
    pub(super) fn visible(&self) -> Histogram<u64> {
        self.lock().visible.clone()
    }

    fn now_ns(&self) -> Option<u64> {
        self.0.clock.get().map(|clock| clock.now().as_nanos() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.0.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sink that is measured.
pub(super) struct Measured<S> {
    sink: S,
    latencies: Latencies,
    /// When the flights of the open transaction were due.
    due: Vec<u64>,
}

impl<S> Measured<S> {
    pub(super) fn new(sink: S, latencies: &Latencies) -> Measured<S> {
        Measured { sink, latencies: latencies.clone(), due: Vec::new() }
    }
}

impl<S: Sink<Record = Invoice>> Sink for Measured<S> {
    type Record = Invoice;

    fn target(&self) -> Option<Arc<dyn Target>> {
        let (target, latencies) = (self.sink.target()?, self.latencies.clone());
        Some(Arc::new(MeasuredTarget { target, latencies }))
    }

    fn open(&mut self, context: SinkContext) -> Result<(), BoxError> {
        self.sink.open(context)
    }

    fn write(&mut self, invoices: &[Invoice]) -> Result<(), BoxError> {
        self.sink.write(invoices)?;
        if let Some(now) = self.latencies.now_ns() {
            let mut figures = self.latencies.lock();
            for invoice in invoices.iter().filter(|invoice| invoice.due.ns() > 0) {
                figures.processed.saturating_record(now.saturating_sub(invoice.due.ns()));
                self.due.push(invoice.due.ns());
            }
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.sink.is_ready()
    }

    fn cut(&mut self, id: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        let due = std::mem::take(&mut self.due);
        self.latencies.lock().waiting.insert((id.generation, id.epoch, id.worker), due);
        self.sink.cut(id)
    }
}

struct MeasuredTarget {
    target: Arc<dyn Target>,
    latencies: Latencies,
}

impl Target for MeasuredTarget {
    fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        self.target.commit(transaction)?;
        let Transaction { generation, epoch, worker, .. } = *transaction;
        if let Some(now) = self.latencies.now_ns() {
            let mut figures = self.latencies.lock();
            let due = figures.waiting.remove(&(generation, epoch, worker as usize));
            for due in due.into_iter().flatten() {
                figures.visible.saturating_record(now.saturating_sub(due));
            }
        }
        Ok(())
    }

    fn begin(&self, job: &str, generation: u64, listed: &[Transaction]) -> Result<(), BoxError> {
        self.target.begin(job, generation, listed)
    }

    fn sweep(&self, job: &str, generation: u64) -> Result<(), BoxError> {
        self.target.sweep(job, generation)
    }
}
