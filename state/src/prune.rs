//! Which objects nobody needs any more. The plan is pure; carrying it out is three lines.
//!
//! # Invariants
//!
//! * **P1**: what a retained checkpoint names stays, and so does everything of the running life
//!   that is newer than its newest checkpoint: it is being written.
//! * **P2**: manifests go before what they name, durably, so that no crash leaves a manifest whose
//!   segments are gone; segments that a crash left behind go the next time.
//! * **P3**: of the marks the newest on the line stays, which is the only one that counts.
//! * **P4**: a savepoint stays, on whichever line of lives it lies, until its record is deleted.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{OpenError, RestoreError};
use crate::lives::{CheckpointId, History, MARKS};
use crate::manifest::Manifest;
use crate::savepoint::savepoints;
use crate::segment::segment_id;
use crate::store::Store;

/// What must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How many checkpoints are kept; at least one is.
    pub keep: usize,
    /// The running life.
    pub generation: u64,
    /// The least epoch of the running life that a task may still build on.
    pub epoch_in_use: u64,
}

/// What can be deleted, in two steps (P2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Manifests and marks.
    pub first: Vec<String>,
    /// Segments.
    pub then: Vec<String>,
}

impl Retention {
    /// The checkpoints that are kept, newest first; not the savepoints.
    pub fn retained(&self, history: &History) -> Vec<CheckpointId> {
        let in_use =
            |id: CheckpointId| id.generation == self.generation && id.epoch >= self.epoch_in_use;
        let candidates = history.candidates().into_iter().enumerate();
        candidates.filter(|(i, id)| *i < self.keep.max(1) || in_use(*id)).map(|x| x.1).collect()
    }

    /// Those, and the savepoints (P4).
    fn kept(&self, names: &[String], history: &History) -> BTreeSet<CheckpointId> {
        let mut kept = savepoints(names);
        kept.extend(self.retained(history));
        kept
    }

    /// Plans the deletion, from a list of all names, the history by the same list, and the segments
    /// that each retained checkpoint names.
    pub fn plan(
        &self,
        names: &[String],
        history: &History,
        named: &BTreeMap<CheckpointId, Vec<String>>,
    ) -> Plan {
        let retained = self.kept(names, history);
        let named: BTreeSet<&String> = named.values().flatten().collect();
        let newest = history.candidates().first().copied();
        // P1: newer than anything complete, in this life; a later life's are not ours to judge.
        let unborn = |id: CheckpointId| {
            id.generation > self.generation || id.generation == self.generation && Some(id) > newest
        };
        let mut plan = Plan::default();
        for name in names {
            let after = |folder| CheckpointId::from_name(name.strip_prefix(folder)?);
            if let Some(id) = after(Manifest::FOLDER) {
                if !retained.contains(&id) && !unborn(id) {
                    plan.first.push(name.clone());
                }
            } else if let Some(id) = after(MARKS) {
                if history.mark() != Some(id) && !unborn(id) {
                    plan.first.push(name.clone());
                }
            } else if let Some(id) = segment_id(name)
                // A retained checkpoint whose manifest cannot be read may be repaired.
                && !retained.contains(&id)
                && !named.contains(name)
                && !unborn(id)
            {
                plan.then.push(name.clone());
            }
        }
        plan
    }
}

/// Deletes what nobody needs any more. `history` is brought up to date on the way.
///
/// # Errors
///
/// If the storage fails, or a record of the history is damaged; pruning again later is safe.
pub fn prune(
    store: &dyn Store,
    history: &mut History,
    retention: Retention,
) -> Result<Plan, OpenError> {
    let names = store.list("")?;
    history.update(store, &names)?;
    let mut named = BTreeMap::new();
    for id in retention.kept(&names, history) {
        match Manifest::open(store, id) {
            Ok(manifest) => {
                let segments = manifest.segments.into_iter().map(|segment| segment.name);
                named.insert(id, segments.collect());
            }
            Err(RestoreError::Store(error)) => return Err(error.into()),
            // Damaged: its segments are known by their names.
            Err(_) => {}
        }
    }
    let plan = retention.plan(&names, history, &named);
    store.delete(&plan.first)?;
    store.delete(&plan.then)?;
    Ok(plan)
}

#[cfg(test)]
mod tests;
