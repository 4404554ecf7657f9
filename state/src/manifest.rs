//! What a checkpoint consists of. A checkpoint exists when its manifest does, and everything that
//! the manifest names was durable before it.
//!
//! # Invariants
//!
//! * **F1**: publishing is one put that never replaces (O1); the same manifest may be published
//!   again, so that an unknown result is retried.
//! * **F2**: a manifest that was opened names exactly one segment of each worker, in their order.

use std::fmt;

use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{Layout, decode, encode};
use crate::error::{Damage, RestoreError, WriteError};
use crate::hash::HASH;
use crate::lives::CheckpointId;
use crate::object::MANIFEST;
use crate::segment::SegmentInfo;
use crate::store::{Store, StoreError};

/// A published checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Manifest {
    /// The id of the job.
    pub job: String,
    /// Which checkpoint this is.
    pub id: CheckpointId,
    /// How many workers took it.
    pub workers: u32,
    /// The hash that addresses its tables.
    pub hash: String,
    /// The operators, with their tables.
    pub operators: Vec<OperatorInfo>,
    /// The edges.
    pub edges: Vec<EdgeInfo>,
    /// The segments, one of each worker.
    pub segments: Vec<SegmentInfo>,
    /// The prepared transactions that are committed now that this exists.
    pub transactions: Vec<Transaction>,
    /// Had every task ended?
    pub ended: bool,
    /// What it cost.
    pub statistics: Statistics,
}

/// An operator with state.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct OperatorInfo {
    /// Its name.
    pub name: String,
    /// Its tables.
    pub tables: Vec<TableInfo>,
}

/// A table of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct TableInfo {
    /// Its name, unique within the operator.
    pub name: String,
    /// Its kind.
    pub kind: TableKind,
    /// The parts of its rows, key first: `key, value`, of a map `key, entry, value`.
    pub layouts: Vec<Layout>,
}

/// The kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub enum TableKind {
    /// A value per key.
    Value,
    /// A list per key.
    List,
    /// A map per key.
    Map,
    /// Operator state in named entries.
    Entries,
    /// A copy on every worker.
    Broadcast,
}

impl TableKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TableKind::Value => "values",
            TableKind::List => "lists",
            TableKind::Map => "maps",
            TableKind::Entries => "entries",
            TableKind::Broadcast => "a broadcast table",
        }
    }
}

/// An edge between operators.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct EdgeInfo {
    /// Its name.
    pub name: String,
    /// What it carries.
    pub record: Layout,
}

/// A prepared transaction of a sink, by which anybody can commit it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Archive, Serialize, Deserialize)]
pub struct Transaction {
    /// The sink.
    pub sink: String,
    /// The life in which it was written.
    pub generation: u64,
    /// The epoch whose records it holds.
    pub epoch: u64,
    /// The worker that wrote it.
    pub worker: u32,
    /// What the sink needs to commit it.
    pub data: Vec<u8>,
}

/// What a checkpoint cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Statistics {
    /// From the trigger to the last task's capture.
    pub captured_ns: u64,
    /// From the trigger to the last segment's durability.
    pub durable_ns: u64,
    /// The longest that a worker did nothing else.
    pub pause_ns: u64,
    /// Bytes of state written.
    pub state_bytes: u64,
    /// Bytes of batches in flight written.
    pub in_flight_bytes: u64,
}

/// Proof that a manifest is durable, and the right to announce and to commit.
#[derive(Debug)]
#[must_use = "what is published can be announced and committed"]
pub struct Published(CheckpointId);

impl Published {
    /// The checkpoint that was published.
    pub fn id(&self) -> CheckpointId {
        self.0
    }
}

/// Publishes a manifest (F1).
///
/// # Errors
///
/// If the storage fails. After [`StoreError::Unknown`] the same manifest must be published again
/// until the result is known.
pub fn publish(store: &dyn Store, manifest: &Manifest) -> Result<Published, WriteError> {
    let mut content = vec![];
    encode(manifest, &mut content);
    store.put_new(&Manifest::name(manifest.id), &MANIFEST.seal(&content))?;
    Ok(Published(manifest.id))
}

impl Manifest {
    /// The folder of all manifests.
    pub(crate) const FOLDER: &str = "manifests/";

    /// The name of the manifest of a checkpoint.
    pub(crate) fn name(id: CheckpointId) -> String {
        format!("{}{}", Manifest::FOLDER, id.name())
    }

    /// Reads the manifest of a checkpoint.
    ///
    /// # Errors
    ///
    /// If it is not there, damaged, of another hash, or the storage fails.
    pub fn open(store: &dyn Store, id: CheckpointId) -> Result<Manifest, RestoreError> {
        let name = Manifest::name(id);
        let file = store.place(&name);
        let bytes = store.read(&name).map_err(|error| match error {
            StoreError::Missing { file } => Damage::Missing { file }.into(),
            other => RestoreError::from(other),
        })?;
        let content = MANIFEST.open(&file, &bytes)?;
        let malformed =
            |why: &dyn fmt::Display| Damage::Malformed { file: file.clone(), why: why.to_string() };
        let manifest: Manifest = decode(content).map_err(|why| malformed(&why))?;
        let one_of_each = || manifest.segments.iter().map(|s| s.worker).eq(0..manifest.workers);
        if manifest.id != id {
            Err(malformed(&format_args!("it is the manifest of checkpoint {}", manifest.id)))?;
        } else if manifest.hash != HASH {
            let why = format_args!("its hash is \"{}\", not \"{HASH}\"", manifest.hash).to_string();
            Err(malformed(&why))?;
        } else if manifest.workers == 0 || !one_of_each() {
            Err(malformed(&"it does not name one segment of each worker"))?;
        }
        Ok(manifest)
    }

    /// An operator, if it had state.
    pub fn operator(&self, name: &str) -> Option<&OperatorInfo> {
        self.operators.iter().find(|operator| operator.name == name)
    }
}

#[cfg(test)]
pub(crate) mod tests;
