//! The only door to storage: a few operations on named objects, each of which says when what it
//! did is durable.
//!
//! A name is `file` or `folder/file`. Small objects are put whole; segments are appended to.
//!
//! # Invariants
//!
//! * **O1**: an object that was put is there whole and durable, or not at all; a put never replaces
//!   another object.
//! * **O2**: an object that was appended is durable when `finish` has returned, its name included;
//!   before that it may be there in part, or not.
//! * **O3**: repeating a put with the same bytes succeeds, so that an unknown result can be
//!   retried.

mod directory;
mod memory;

use std::io;

pub use directory::Directory;
pub use memory::{Fault, Faults, Memory, Operation};

/// A place where checkpoints are kept.
pub trait Store: Send + Sync + 'static {
    /// Begins an object that is appended to (O2).
    ///
    /// # Errors
    ///
    /// If there is one of this name, or the storage fails.
    fn create(&self, name: &str) -> Result<Box<dyn Append>, StoreError>;

    /// Puts a whole object where none is (O1, O3).
    ///
    /// # Errors
    ///
    /// If there is another one of this name, or the storage fails.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// Reads a whole object.
    ///
    /// # Errors
    ///
    /// If there is none, or the storage fails.
    fn read(&self, name: &str) -> Result<Vec<u8>, StoreError>;

    /// Reads a part of an object.
    ///
    /// # Errors
    ///
    /// If there is no such object, it is shorter, or the storage fails.
    fn read_range(&self, name: &str, offset: u64, bytes: usize) -> Result<Vec<u8>, StoreError>;

    /// The length of an object.
    ///
    /// # Errors
    ///
    /// If there is none, or the storage fails.
    fn len(&self, name: &str) -> Result<u64, StoreError>;

    /// The names of all objects that begin with `prefix`, sorted.
    ///
    /// # Errors
    ///
    /// If the storage fails.
    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// Deletes objects, durably when it returns; one that is not there is deleted already.
    ///
    /// # Errors
    ///
    /// If the storage fails; some may be deleted then.
    fn delete(&self, names: &[String]) -> Result<(), StoreError>;

    /// Where a person finds an object: what messages call it.
    fn place(&self, name: &str) -> String;
}

/// An object that is being written.
pub trait Append: Send {
    /// Adds bytes at the end.
    ///
    /// # Errors
    ///
    /// If the storage fails; the object is of no use then.
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Makes the object durable.
    ///
    /// # Errors
    ///
    /// If the storage fails; the object is of no use then, and finishing again would not help.
    fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// Why an operation on the storage failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operation may or may not have taken effect: retry it.
    #[error("it is not known whether \"{file}\" was written: {source}: retry")]
    Unknown {
        /// The object.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// No space is left.
    #[error("no space is left for \"{file}\": free some and start again ({source})")]
    Full {
        /// The object.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such object.
    #[error("\"{file}\" is missing: put back a copy of it")]
    Missing {
        /// The object.
        file: String,
    },
    /// There is another object of this name, which nothing replaces.
    #[error("\"{file}\" exists already and is not replaced: move it away")]
    Exists {
        /// The object.
        file: String,
    },
    /// The system refused.
    #[error("cannot {doing} \"{file}\": {source}: check the disk and its permissions")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// The object.
        file: String,
        /// What the system said.
        source: io::Error,
    },
}

impl StoreError {
    /// Sorts what the system says by what can be done about it.
    pub(crate) fn from_io(doing: &'static str, file: String, source: io::Error) -> StoreError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::Full { file, source }
            }
            io::ErrorKind::NotFound => StoreError::Missing { file },
            io::ErrorKind::AlreadyExists => StoreError::Exists { file },
            _ => StoreError::Failed { doing, file, source },
        }
    }
}
