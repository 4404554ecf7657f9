//! The writer: snapshots become segments, one file per worker and checkpoint.
//!
//! # Invariants
//!
//! * **E5**: a worker's segment is durable when the snapshots of all its tasks are in it and it is
//!   synced; only then is it reported.
//! * **E9**: what is not begun of an aborted epoch is dropped, or the backlog would grow for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use overtake_state::{CheckpointId, SegmentInfo, SegmentWriter, Store, Transaction, WriteError};

use crate::checkpoint::coordinator::Event;
use crate::checkpoint::snapshot::Snapshot;
use crate::checkpoint::time::Epoch;
use crate::runtime::life::Life;
use crate::sync::{self, Fault, fault};

/// What the manifest says about one worker.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) segment: SegmentInfo,
    pub(crate) transactions: Vec<Transaction>,
}

/// A segment that waits for the snapshots of more tasks.
struct Open {
    segment: SegmentWriter,
    missing: usize,
    transactions: Vec<Transaction>,
}

/// Writes on a thread of its own; a worker never waits for a disk.
pub(crate) struct Writer {
    life: Arc<Life>,
    store: Arc<dyn Store>,
    open: BTreeMap<(Epoch, usize), Open>,
    failed: BTreeSet<(Epoch, usize)>,
}

impl Writer {
    pub(crate) fn new(life: &Arc<Life>, store: &Arc<dyn Store>) -> Writer {
        let (open, failed) = (BTreeMap::new(), BTreeSet::new());
        Writer { life: life.clone(), store: store.clone(), open, failed }
    }

    /// Writes one snapshot, and finishes the segment if it was the last.
    pub(crate) fn turn(&mut self, snapshot: Snapshot) {
        let (epoch, worker) = (snapshot.report.epoch, snapshot.report.worker);
        let key = (epoch, worker);
        let life = &self.life;
        self.open.retain(|(epoch, _), _| !is_void(life, *epoch));
        self.failed.retain(|(epoch, _)| !is_void(life, *epoch));
        if is_void(life, epoch) || self.failed.contains(&key) {
            return;
        }
        let event = match self.write(key, snapshot) {
            Ok(None) => return,
            Ok(Some(written)) => {
                self.life.written.lock().expect("no holder panics").insert(key, written);
                Event::Durable { worker, epoch, at: self.life.clock.now() }
            }
            Err(why) => {
                self.open.remove(&key);
                self.failed.insert(key);
                Event::WriteFailed { worker, epoch, why: why.to_string() }
            }
        };
        self.life.events.push(event);
    }

    fn write(
        &mut self,
        (epoch, worker): (Epoch, usize),
        mut snapshot: Snapshot,
    ) -> Result<Option<Written>, WriteError> {
        let mut open = match self.open.remove(&(epoch, worker)) {
            Some(open) => open,
            None => {
                let id = CheckpointId { generation: self.life.generation, epoch: epoch.0 };
                let segment = SegmentWriter::create(&*self.store, id, worker)?;
                let missing = self.life.tasks.len();
                Open { segment, missing, transactions: Vec::new() }
            }
        };
        open.transactions.append(&mut snapshot.listed);
        sync::crash_point("write");
        snapshot.write(&mut open.segment)?;
        open.missing -= 1;
        if open.missing > 0 {
            self.open.insert((epoch, worker), open);
            return Ok(None);
        }
        sync::crash_point("fsync");
        let segment = open.segment.finish()?;
        Ok(Some(Written { segment, transactions: open.transactions }))
    }
}

/// E9: nobody needs what belongs to an aborted epoch.
pub(crate) fn is_void(life: &Life, epoch: Epoch) -> bool {
    life.is_aborted(epoch) && !fault(Fault::KeepVoidWrites)
}
