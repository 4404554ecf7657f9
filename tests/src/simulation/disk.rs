//! The store of a simulated job: in memory, it fails as the dice want it, and a put may land long
//! after the process that wanted it has died.

use std::io;
use std::sync::Arc;

use overtake::CheckpointId;
use overtake_state::{Append, Fault, History, Memory, Operation, Store, StoreError};

use super::outside::{Outside, Shared};

/// See the [module](self).
pub(super) struct Disk {
    /// Without faults.
    memory: Memory,
    /// The same objects, with faults.
    store: Memory,
    shared: Shared,
    retention: usize,
}

impl Disk {
    /// A disk with these objects, of a job that keeps so many checkpoints.
    pub(super) fn new(memory: &Memory, shared: &Shared, retention: usize) -> Disk {
        let of = shared.clone();
        let faults = move |operation: Operation<'_>| fault(&mut of.lock(), operation);
        let store = memory.with_faults(Arc::new(faults));
        Disk { memory: memory.clone(), store, shared: shared.clone(), retention }
    }

    /// The newest checkpoints on the line of lives stay.
    fn check_deletion(&self, names: &[String]) {
        let deleted = names.iter().filter_map(|name| checkpoint(name.strip_prefix("manifests/")?));
        let deleted: Vec<_> = deleted.collect();
        if deleted.is_empty() {
            return;
        }
        let history = History::read(&self.memory).expect("without faults");
        for id in history.candidates().into_iter().take(self.retention) {
            if deleted.contains(&id) {
                self.shared.lock().wrong(format!("checkpoint {id} is to be kept, and is deleted"));
            }
        }
    }
}

fn fault(outside: &mut Outside, operation: Operation<'_>) -> Fault {
    if let Operation::Create(name) = operation {
        let id =
            name.strip_prefix("segments/").and_then(|rest| checkpoint(rest.rsplit_once('-')?.0));
        outside.begun.extend(id);
    }
    match operation {
        Operation::Create(_) | Operation::Append(_) | Operation::Finish(_) => {
            if outside.fails(|faults| faults.write, "writes failed") {
                return outside.dice.pick(&[Fault::Fail, Fault::Unknown, Fault::Torn]);
            }
        }
        Operation::Read(name) => {
            if outside.unreadable.contains(name) {
                return Fault::Fail;
            }
        }
        Operation::List(_) | Operation::Delete(_) => {
            if outside.fails(|faults| faults.look, "looks and deletions failed") {
                return Fault::Fail;
            }
        }
        Operation::Put(_) => {}
    }
    Fault::None
}

/// Puts an object, at once or late, and tells the oracle of a manifest.
pub(super) fn land(memory: &Memory, outside: &mut Outside, name: &str, bytes: &[u8]) {
    let is_new = memory.len(name).is_err();
    if memory.put_new(name, bytes).is_ok()
        && is_new
        && let Some(id) = name.strip_prefix("manifests/").and_then(checkpoint)
    {
        outside.stepped += 1;
        outside.count("checkpoints complete");
        outside.complete.insert(id);
        // What lands late may have been pruned by then: nobody goes on from it.
        if !outside.is_late {
            outside.fresh.push(id);
        }
    }
}

fn checkpoint(name: &str) -> Option<CheckpointId> {
    let (generation, epoch) = name.split_once('-')?;
    Some(CheckpointId { generation: generation.parse().ok()?, epoch: epoch.parse().ok()? })
}

impl Store for Disk {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut outside = self.shared.lock();
        if outside.fails(|faults| faults.unknown, "puts unknown") {
            match outside.dice.below(3) {
                0 => land(&self.memory, &mut outside, name, bytes),
                1 => outside.puts.push((name.to_owned(), bytes.to_vec())),
                _ => {}
            }
            let source = io::Error::other("no answer");
            return Err(StoreError::Unknown { file: name.to_owned(), source });
        }
        if self.memory.len(name).is_err() {
            land(&self.memory, &mut outside, name, bytes);
            return Ok(());
        }
        self.memory.put_new(name, bytes)
    }

    fn create(&self, name: &str) -> Result<Box<dyn Append>, StoreError> {
        self.store.create(name)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        self.store.read(name)
    }

    fn read_range(&self, name: &str, offset: u64, bytes: usize) -> Result<Vec<u8>, StoreError> {
        self.store.read_range(name, offset, bytes)
    }

    fn len(&self, name: &str) -> Result<u64, StoreError> {
        self.store.len(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.store.list(prefix)
    }

    fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        self.check_deletion(names);
        self.store.delete(names)
    }

    fn place(&self, name: &str) -> String {
        name.to_owned()
    }
}
