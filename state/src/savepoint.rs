//! Which checkpoints the user keeps: a record each, that retention asks for.

use std::collections::BTreeSet;

use crate::error::WriteError;
use crate::lives::{CheckpointId, ids, write_record};
use crate::object::SAVEPOINT;
use crate::store::Store;

/// The folder of the records.
const SAVEPOINTS: &str = "savepoints/";

/// Keeps a published checkpoint, whatever else is pruned, until its record is deleted.
///
/// # Errors
///
/// If the storage fails; keeping it again is safe.
pub fn keep(store: &dyn Store, id: CheckpointId) -> Result<(), WriteError> {
    write_record(store, SAVEPOINT, &name(id), &id)
}

/// The savepoints that a list of all names tells of.
pub fn savepoints(names: &[String]) -> BTreeSet<CheckpointId> {
    ids(names, SAVEPOINTS).collect()
}

fn name(id: CheckpointId) -> String {
    format!("{SAVEPOINTS}{}", id.name())
}
