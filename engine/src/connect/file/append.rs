//! The thread of a sink: it appends blocks to the open part file, so that no worker waits for a
//! disk.
//!
//! # Invariants
//!
//! * **B1**: the bytes handed over and not yet appended are counted; the sink is ready while they
//!   are fewer than [`OUTSTANDING_BYTES_MAX`]. The block that takes them below it wakes the sink's
//!   task.
//! * **B2**: after an error nothing more is appended. Who hands over the next block, or waits for
//!   a part file, is told.
//! * **B3**: the thread ends when its [`Appender`] is dropped, after it has appended what was
//!   handed over: a part file that is closed can still be prepared.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Builder;

use super::error::WriteError;
use super::part::{PartName, Stage};
use crate::Waker;
use crate::error::BoxError;

/// The bytes that may wait to be appended. Small enough for memory, large enough for a pause of
/// the disk.
const OUTSTANDING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The size of the blocks that are handed over, in bytes.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// How many emptied blocks are kept to be filled again.
const SPARES_MAX: usize = 32;

/// The worker's end: takes bytes, and never waits.
pub(super) struct Appender {
    orders: Sender<Order>,
    emptied: Receiver<Vec<u8>>,
    shared: Arc<Shared>,
}

/// A part file of which everything is appended; it is not synced yet.
pub(super) struct Appended {
    pub(super) file: File,
    pub(super) path: PathBuf,
}

/// A part file that was closed; some of it may still have to be appended.
pub(super) struct Closed {
    appended: Receiver<Appended>,
    shared: Arc<Shared>,
}

enum Order {
    Append(Vec<u8>),
    Close(SyncSender<Appended>),
}

#[derive(Default)]
struct Shared {
    /// Bytes handed over and not yet appended (B1).
    outstanding: AtomicUsize,
    failure: Mutex<Option<WriteError>>,
}

impl Appender {
    /// Starts the thread of a sink. Each part file is made when it gets its first block.
    pub(super) fn start(part: PartName, directory: PathBuf, waker: Waker) -> io::Result<Appender> {
        let (orders, received) = channel();
        let (spare, emptied) = sync_channel(SPARES_MAX);
        let shared = Arc::new(Shared::default());
        let appending = Appending { part, directory, made: 0, open: None, spare };
        let thread = Builder::new().name(format!("overtake-write-{}", appending.part.sink));
        let its = shared.clone();
        thread.spawn(move || appending.run(&received, &its, &waker))?;
        Ok(Appender { orders, emptied, shared })
    }

    /// May more be handed over (B1), or is there a failure to be told (B2)?
    pub(super) fn is_ready(&self) -> bool {
        self.shared.outstanding.load(Ordering::Acquire) < OUTSTANDING_BYTES_MAX
            || self.shared.failure().is_some()
    }

    /// Closes the open part file.
    pub(super) fn close(&self) -> Closed {
        let (sender, appended) = sync_channel(1);
        // If the thread has ended, so has the channel: who waits is told.
        let _ = self.orders.send(Order::Close(sender));
        Closed { appended, shared: self.shared.clone() }
    }
}

impl Closed {
    /// Waits until everything is appended.
    pub(super) fn wait(self) -> Result<Appended, BoxError> {
        self.appended.recv().map_err(|_| self.shared.ended())
    }
}

impl Write for Appender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut block = self.emptied.try_recv().unwrap_or_default();
        block.extend_from_slice(bytes);
        self.shared.outstanding.fetch_add(block.len(), Ordering::AcqRel);
        let ended = |_| io::Error::other(self.shared.ended());
        self.orders.send(Order::Append(block)).map_err(ended)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread's end.
struct Appending {
    part: PartName,
    directory: PathBuf,
    made: u64,
    open: Option<Appended>,
    spare: SyncSender<Vec<u8>>,
}

impl Appending {
    fn run(mut self, orders: &Receiver<Order>, shared: &Shared, waker: &Waker) {
        // Ends after the last order of a sink that has gone (B3).
        for order in orders {
            match order {
                Order::Append(block) => {
                    if let Err(error) = self.append(&block) {
                        return shared.fail(error, waker);
                    }
                    shared.appended(block.len(), waker);
                    self.recycle(block);
                }
                Order::Close(closed) => {
                    let appended = self.open.take().expect("a part file is closed after a block");
                    // If nobody waits any more, the job has ended.
                    let _ = closed.send(appended);
                }
            }
        }
    }

    fn append(&mut self, block: &[u8]) -> Result<(), WriteError> {
        if self.open.is_none() {
            self.open = Some(self.make()?);
        }
        let Appended { file, path } = self.open.as_mut().expect("made above");
        file.write_all(block).map_err(WriteError::at(path))
    }

    fn make(&mut self) -> Result<Appended, WriteError> {
        self.part.stage = Stage::Open(self.made);
        self.made += 1;
        let path = self.part.hidden_in(&self.directory);
        let file = File::create_new(&path).map_err(WriteError::at(&path))?;
        Ok(Appended { file, path })
    }

    fn recycle(&self, mut block: Vec<u8>) {
        block.clear();
        // More than these are not worth keeping.
        let _ = self.spare.try_send(block);
    }
}

impl Shared {
    fn appended(&self, bytes: usize, waker: &Waker) {
        let before = self.outstanding.fetch_sub(bytes, Ordering::AcqRel);
        if before >= OUTSTANDING_BYTES_MAX && before - bytes < OUTSTANDING_BYTES_MAX {
            waker.wake();
        }
    }

    fn fail(&self, error: WriteError, waker: &Waker) {
        *self.failure() = Some(error);
        // It may wait for room, and must write once more to be told.
        waker.wake();
    }

    fn failure(&self) -> MutexGuard<'_, Option<WriteError>> {
        self.failure.lock().expect("no panic under this lock")
    }

    /// Why the thread takes no more orders (B2). The first who asks gets the reason.
    fn ended(&self) -> BoxError {
        match self.failure().take() {
            Some(error) => error.into(),
            None => "the thread that writes part files has ended".into(),
        }
    }
}

#[cfg(test)]
mod tests;
