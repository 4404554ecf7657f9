//! The end of a measured job: it times the rows, digests them, and commits the digests.
//!
//! How it keeps the contract of a sink: a transaction is the digest of its rows, and the handle
//! that a checkpoint stores is that digest itself. So there is nothing to flush, anybody can commit
//! it from its handle alone (K2), an aborted one has left nothing behind (K5), and repeated commits
//! are one (K3). What commits is a table in this process, which outlives the lives of the job.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overtake::sink::{Prepare, Sink, SinkContext, Target, TransactionId};
use overtake::{BoxError, Data, Transaction};

use super::digest::{Digest, Row};
use super::probe::{Committed, Output, Probe, lock};

/// The sink that [`Build::sink`](super::Build::sink) makes.
pub struct Measuring<R, D> {
    row: D,
    probe: Arc<Probe>,
    output: Arc<Mutex<Output>>,
    /// Of the open transaction.
    digest: Digest,
    of: PhantomData<fn(R)>,
}

impl<R, D> Measuring<R, D> {
    pub(super) fn new(probe: &Arc<Probe>, row: D) -> Measuring<R, D> {
        let (digest, output) = (Digest::default(), Arc::default());
        Measuring { row, probe: probe.clone(), output, digest, of: PhantomData }
    }
}

impl<R: Data, D: Fn(&R) -> Row + 'static> Sink for Measuring<R, D> {
    type Record = R;

    fn target(&self) -> Option<Arc<dyn Target>> {
        let committed = self.probe.committed.clone();
        self.probe.drive.is_transactional.then(|| Arc::new(Commits(committed)) as Arc<dyn Target>)
    }

    fn open(&mut self, context: SinkContext) -> Result<(), BoxError> {
        self.probe.tap.register(&context.waker);
        self.output = self.probe.output();
        Ok(())
    }

    fn write(&mut self, records: &[R]) -> Result<(), BoxError> {
        let Measuring { row, probe, digest, .. } = self;
        probe.first_row.get_or_init(Instant::now);
        let mut output = lock(&self.output);
        let Output { rows, slots, digest: uncommitted } = &mut *output;
        let digest = if probe.drive.is_transactional { digest } else { uncommitted };
        let stage = probe.drive.stage;
        *rows += records.len() as u64;
        let mut now_ns = probe.now_ns();
        for record in records {
            let row = row(record);
            digest.add(&row);
            if !stage.is_zero() {
                work(stage);
                now_ns = probe.now_ns();
            }
            if let Some(now_ns) = now_ns {
                let due_ns = row.due.as_nanos() as u64;
                slots.record(due_ns, now_ns.saturating_sub(due_ns));
            }
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.probe.tap.is_open()
    }

    fn cut(&mut self, _: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        let mut data = Vec::new();
        overtake_state::encode(&std::mem::take(&mut self.digest), &mut data);
        Ok(Some((data, Box::new(|| Ok(())))))
    }
}

/// Is busy: the core is taken.
fn work(stage: Duration) {
    let until = Instant::now() + stage;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

struct Commits(Arc<Committed>);

impl Target for Commits {
    fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        let Transaction { generation, epoch, worker, data, .. } = transaction;
        self.0.commit((*generation, *epoch, *worker), overtake_state::decode(data)?);
        Ok(())
    }

    fn begin(&self, _: &str, _: u64, _: &[Transaction]) -> Result<(), BoxError> {
        Ok(())
    }
}
