//! The system that a simulated job writes to: transactions in memory, which outlive every process.

use std::sync::Arc;

use overtake::sink::{Prepare, Sink, SinkContext, Target, Transaction, TransactionId};
use overtake::{BoxError, CheckpointId};

use super::outside::{Handle, Outside, Shared};
use super::rows::Row;

/// A sink on one worker.
pub(super) struct Writing {
    shared: Shared,
    name: String,
    rows: Vec<Row>,
}

impl Writing {
    /// A sink of this name.
    pub(super) fn new(shared: &Shared, name: &str) -> Writing {
        Writing { shared: shared.clone(), name: name.to_owned(), rows: Vec::new() }
    }
}

impl Sink for Writing {
    type Record = Row;

    fn target(&self) -> Option<Arc<dyn Target>> {
        Some(Arc::new(Transactions { shared: self.shared.clone(), sink: self.name.clone() }))
    }

    fn open(&mut self, _: SinkContext) -> Result<(), BoxError> {
        Ok(())
    }

    fn write(&mut self, records: &[Row]) -> Result<(), BoxError> {
        let mut outside = self.shared.lock();
        for row in records {
            outside.processed += 1;
            outside.note("written", [row.split, row.pos, row.sum]);
        }
        self.rows.extend(records);
        Ok(())
    }

    fn cut(&mut self, id: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        let rows = std::mem::take(&mut self.rows);
        let handle = (self.name.clone(), id.generation, id.epoch, id.worker as u32);
        let shared = self.shared.clone();
        let prepare = move || {
            let mut outside = shared.lock();
            let fails = outside.fails(|faults| faults.prepare, "prepares failed");
            outside.note("prepared", [handle.1, handle.2, u64::from(handle.3)]);
            // A failed one may have arrived nevertheless.
            if !fails || outside.dice.one_in(2) {
                outside.prepared.insert(handle, rows);
            }
            if fails { Err("the target refuses".into()) } else { Ok(()) }
        };
        Ok(Some((Vec::new(), Box::new(prepare))))
    }
}

/// All transactions of a sink.
struct Transactions {
    shared: Shared,
    sink: String,
}

impl Target for Transactions {
    fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        let mut outside = self.shared.lock();
        if outside.fails(|faults| faults.commit, "commits failed") {
            return Err("the target is away".into());
        }
        let Transaction { sink, generation, epoch, worker, .. } = transaction.clone();
        outside.note("committed", [generation, epoch, u64::from(worker)]);
        commit(&mut outside, (sink, generation, epoch, worker));
        Ok(())
    }

    fn begin(&self, _: &str, generation: u64, listed: &[Transaction]) -> Result<(), BoxError> {
        let mut outside = self.shared.lock();
        if outside.fails(|faults| faults.commit, "aborts failed") {
            return Err("the target is away".into());
        }
        for Transaction { sink, generation, epoch, worker, .. } in listed {
            let handle = (sink.clone(), *generation, *epoch, *worker);
            if !outside.committed.contains_key(&handle) {
                outside.wrong(format!("{handle:?} is listed and was not committed at the restore"));
            }
        }
        self.abort(&mut outside, generation);
        Ok(())
    }

    fn sweep(&self, _: &str, generation: u64) -> Result<(), BoxError> {
        self.abort(&mut self.shared.lock(), generation);
        Ok(())
    }
}

impl Transactions {
    fn abort(&self, outside: &mut Outside, before: u64) {
        let known = outside.prepared.len();
        outside.prepared.retain(|handle, _| handle.0 != self.sink || handle.1 >= before);
        for _ in outside.prepared.len()..known {
            outside.count("transactions aborted");
        }
    }
}

fn commit(outside: &mut Outside, handle: Handle) {
    // A late commit of what was aborted meanwhile finds nothing; nobody hears of it.
    let is_known = outside.committed.contains_key(&handle);
    if let Some(rows) = outside.prepared.remove(&handle) {
        let (_, generation, epoch, _) = handle;
        let covers = |id: &CheckpointId| id.generation == generation && id.epoch >= epoch;
        // A real disk tells us of no checkpoint.
        let is_early = !outside.complete.is_empty() && !outside.complete.iter().any(covers);
        if is_early {
            outside.wrong(format!("{handle:?} was committed before a checkpoint covers it"));
        }
        outside.committed.insert(handle, rows);
    } else if !is_known && !outside.is_late {
        outside.wrong(format!("commit of {handle:?}, which is not prepared"));
    }
}
