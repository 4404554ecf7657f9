//! A store in memory, for tests: it can crash, and fail as a test wants it to.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Append, Store, StoreError};

/// What is about to be done, with the name of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// An object is begun.
    Create(&'a str),
    /// Bytes are appended to it.
    Append(&'a str),
    /// It is made durable.
    Finish(&'a str),
    /// An object is put.
    Put(&'a str),
    /// An object, a part of it or its length is read.
    Read(&'a str),
    /// Names are listed.
    List(&'a str),
    /// An object is deleted.
    Delete(&'a str),
}

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is done.
    None,
    /// It is not done, and fails.
    Fail,
    /// It is done, and fails nevertheless.
    Unknown,
    /// It is done by half and fails; a put, which is atomic, is not done at all.
    Torn,
}

/// Decides about each operation.
pub type Faults = Arc<dyn Fn(Operation<'_>) -> Fault + Send + Sync>;

/// A store in memory. Clones are the same store.
///
/// ```
/// use overtake_state::{Memory, Store};
///
/// let store = Memory::new();
/// store.put_new("job", b"one")?;
/// store.create("segments/1")?.append(b"never finished")?;
/// store.crash();
/// assert_eq!(store.list("")?, ["job"]);
/// # Ok::<(), overtake_state::StoreError>(())
/// ```
#[derive(Clone)]
pub struct Memory {
    objects: Arc<Mutex<BTreeMap<String, Object>>>,
    faults: Faults,
}

#[derive(Clone, Default)]
struct Object {
    bytes: Vec<u8>,
    durable: bool,
}

impl Memory {
    /// An empty store that does not fail.
    pub fn new() -> Memory {
        Memory { objects: Arc::default(), faults: Arc::new(|_| Fault::None) }
    }

    /// The same objects, behind faults.
    pub fn with_faults(&self, faults: Faults) -> Memory {
        Memory { objects: Arc::clone(&self.objects), faults }
    }

    /// Loses what is not durable.
    pub fn crash(&self) {
        self.objects().retain(|_, object| object.durable);
    }

    /// Replaces an object behind the engine's back, as bad disks and people do.
    pub fn tamper(&self, name: &str, bytes: Option<Vec<u8>>) {
        match bytes {
            Some(bytes) => self.objects().insert(name.into(), Object { bytes, durable: true }),
            None => self.objects().remove(name),
        };
    }

    /// A store of its own with the same objects.
    pub fn copy(&self) -> Memory {
        let objects = self.objects().clone();
        Memory { objects: Arc::new(Mutex::new(objects)), faults: Arc::new(|_| Fault::None) }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Object>> {
        // Every change is one assignment: a thread that panicked left nothing half done.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does an operation as the faults want it: `whole` or, if torn, `half` of it.
    fn perform<T>(
        &self,
        operation: Operation<'_>,
        whole: impl FnOnce(&mut BTreeMap<String, Object>) -> Result<T, StoreError>,
        half: impl FnOnce(&mut BTreeMap<String, Object>),
    ) -> Result<T, StoreError> {
        let (Operation::Create(name)
        | Operation::Append(name)
        | Operation::Finish(name)
        | Operation::Put(name)
        | Operation::Read(name)
        | Operation::List(name)
        | Operation::Delete(name)) = operation;
        let source = io::Error::other("a fault was injected");
        // The faults are asked before the lock is taken: they may look into the store.
        match (self.faults)(operation) {
            Fault::None => return whole(&mut self.objects()),
            Fault::Unknown => {
                whole(&mut self.objects())?;
                return Err(StoreError::Unknown { file: name.into(), source });
            }
            Fault::Torn => half(&mut self.objects()),
            Fault::Fail => {}
        }
        Err(StoreError::Failed { doing: "use", file: name.into(), source })
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Store for Memory {
    fn create(&self, name: &str) -> Result<Box<dyn Append>, StoreError> {
        let create = |objects: &mut BTreeMap<String, Object>| {
            if objects.contains_key(name) {
                return Err(StoreError::Exists { file: name.into() });
            }
            objects.insert(name.into(), Object::default());
            Ok(())
        };
        self.perform(Operation::Create(name), create, |_| {})?;
        Ok(Box::new(Growing { store: self.clone(), name: name.into() }))
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let put = |objects: &mut BTreeMap<String, Object>| {
            let object =
                objects.entry(name.into()).or_insert(Object { bytes: bytes.into(), durable: true });
            if object.bytes == bytes {
                Ok(())
            } else {
                Err(StoreError::Exists { file: name.into() })
            }
        };
        self.perform(Operation::Put(name), put, |_| {})
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let read = |objects: &mut BTreeMap<String, Object>| {
            let object = objects.get(name).ok_or(StoreError::Missing { file: name.into() })?;
            Ok(object.bytes.clone())
        };
        self.perform(Operation::Read(name), read, |_| {})
    }

    fn read_range(&self, name: &str, offset: u64, bytes: usize) -> Result<Vec<u8>, StoreError> {
        let read = |objects: &mut BTreeMap<String, Object>| {
            let object = objects.get(name).ok_or(StoreError::Missing { file: name.into() })?;
            let from = usize::try_from(offset).ok();
            let part = from.and_then(|from| object.bytes.get(from..)?.get(..bytes));
            part.map(<[u8]>::to_vec).ok_or_else(|| StoreError::Failed {
                doing: "read",
                file: name.into(),
                source: io::Error::new(io::ErrorKind::UnexpectedEof, "it is shorter than that"),
            })
        };
        self.perform(Operation::Read(name), read, |_| {})
    }

    fn len(&self, name: &str) -> Result<u64, StoreError> {
        let len = |objects: &mut BTreeMap<String, Object>| {
            let object = objects.get(name).ok_or(StoreError::Missing { file: name.into() })?;
            Ok(object.bytes.len() as u64)
        };
        self.perform(Operation::Read(name), len, |_| {})
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let list = |objects: &mut BTreeMap<String, Object>| {
            Ok(objects.keys().filter(|name| name.starts_with(prefix)).cloned().collect())
        };
        self.perform(Operation::List(prefix), list, |_| {})
    }

    fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        for name in names {
            let delete = |objects: &mut BTreeMap<String, Object>| {
                objects.remove(name);
                Ok(())
            };
            self.perform(Operation::Delete(name), delete, |_| {})?;
        }
        Ok(())
    }

    fn place(&self, name: &str) -> String {
        name.into()
    }
}

/// An object in memory that is appended to.
struct Growing {
    store: Memory,
    name: String,
}

impl Append for Growing {
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let extend = |bytes: &[u8], objects: &mut BTreeMap<String, Object>| {
            // A crash may have taken the object: its writer is dead then, and does not know it.
            if let Some(object) = objects.get_mut(&self.name) {
                object.bytes.extend_from_slice(bytes);
            }
        };
        self.store.perform(
            Operation::Append(&self.name),
            |objects| {
                extend(bytes, objects);
                Ok(())
            },
            |objects| extend(&bytes[..bytes.len() / 2], objects),
        )
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let finish = |objects: &mut BTreeMap<String, Object>| {
            if let Some(object) = objects.get_mut(&self.name) {
                object.durable = true;
            }
            Ok(())
        };
        self.store.perform(Operation::Finish(&self.name), finish, |_| {})
    }
}

#[cfg(test)]
mod tests;
