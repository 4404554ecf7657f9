//! Which checkpoint a job goes on from: the lives of a job, and what each was restored from.
//!
//! ```text
//!   life 1 ──▶ 1/1 ──▶ 1/2 ──▶ 1/3          1/3 is damaged: life 2 goes on from 1/2
//!                       └──── life 2 ──▶ 2/3 ──▶ 2/4
//!                                         └──── life 3          the line: 2/3, 1/2, 1/1
//! ```
//!
//! # Invariants
//!
//! * **L1**: the line of a job begins at its newest life and goes on, each time, from what that
//!   life was restored from. Nothing off the line counts, however new it looks.
//! * **L2**: a life's record is durable before the life writes, commits or aborts anything; records
//!   are never deleted, so a gap among them is a loss.
//! * **L3**: before the first commit of what a checkpoint lists, its mark is durable; what is older
//!   than the newest mark on the line is restored only where the user allows going back.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;

use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{decode, encode};
use crate::error::{Damage, OpenError, RestoreError, WriteError};
use crate::manifest::Manifest;
use crate::object::{Kind, LIFE, MARK};
use crate::store::Store;

/// A checkpoint: the life that took it, and the epoch that it ends. Compared in that order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Archive, Serialize, Deserialize,
)]
pub struct CheckpointId {
    /// The life of the job, from 1.
    pub generation: u64,
    /// The epoch, from 1.
    pub epoch: u64,
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.generation, self.epoch)
    }
}

impl CheckpointId {
    /// How it is named in files: sorted names are sorted checkpoints.
    pub(crate) fn name(self) -> String {
        format!("{:020}-{:020}", self.generation, self.epoch)
    }

    pub(crate) fn from_name(name: &str) -> Option<CheckpointId> {
        let (generation, epoch) = name.split_once('-')?;
        let id = CheckpointId { generation: generation.parse().ok()?, epoch: epoch.parse().ok()? };
        (id.name() == name).then_some(id)
    }
}

const LIVES: &str = "lives/";
pub(crate) const MARKS: &str = "marks/";

/// What is stored of a life.
#[derive(Clone, Debug, PartialEq, Archive, Serialize, Deserialize)]
struct Life {
    generation: u64,
    from: Option<CheckpointId>,
}

/// All that is known of a job's past.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What each life was restored from; `None` is the very beginning.
    pub lives: BTreeMap<u64, Option<CheckpointId>>,
    /// The manifests that are there.
    pub manifests: BTreeSet<CheckpointId>,
    /// The checkpoints of which commits may have begun.
    pub marks: BTreeSet<CheckpointId>,
}

impl History {
    /// Reads the past of a job.
    ///
    /// # Errors
    ///
    /// If a record is missing or damaged, or the storage fails.
    pub fn read(store: &dyn Store) -> Result<History, OpenError> {
        let mut history = History::default();
        history.update(store, &store.list("")?)?;
        Ok(history)
    }

    /// Brings the history up to a list of all names; reads only what it does not know yet.
    pub(crate) fn update(&mut self, store: &dyn Store, names: &[String]) -> Result<(), OpenError> {
        self.manifests = ids(names, Manifest::FOLDER).collect();
        for name in names {
            let generation = name.strip_prefix(LIVES).and_then(|g| g.parse().ok());
            // A name that is not quite one of ours is not ours: a copy that somebody made.
            let Some(generation) = generation.filter(|g| life_name(*g) == *name) else { continue };
            let Entry::Vacant(unknown) = self.lives.entry(generation) else { continue };
            let life: Life = read_record(store, LIFE, name)?;
            let older = life.from.is_none_or(|from| from.generation < generation);
            if life.generation != generation || !older {
                return Err(misplaced(store, name));
            }
            unknown.insert(life.from);
        }
        let marks: BTreeSet<_> = ids(names, MARKS).collect();
        for id in marks.difference(&self.marks) {
            let name = mark_name(*id);
            if read_record::<CheckpointId>(store, MARK, &name)? != *id {
                return Err(misplaced(store, &name));
            }
        }
        self.marks = marks;
        self.refuse_gaps(store)
    }

    /// L2: every life up to the newest that anything speaks of has its record.
    fn refuse_gaps(&self, store: &dyn Store) -> Result<(), OpenError> {
        let of = |id: Option<&CheckpointId>| id.map_or(0, |id| id.generation);
        let newest = self.lives.keys().last().copied().unwrap_or(0);
        let newest = newest.max(of(self.manifests.last())).max(of(self.marks.last()));
        // As many records as lives is the rule; the search is for the exception.
        if self.lives.len() as u64 == newest && self.lives.keys().next().is_none_or(|g| *g == 1) {
            return Ok(());
        }
        let missing = (1..=newest).find(|g| !self.lives.contains_key(g));
        missing.map_or(Ok(()), |generation| {
            Err(Damage::Missing { file: store.place(&life_name(generation)) }.into())
        })
    }

    /// The lives on the line, newest first, each with the last epoch of it that counts (L1).
    fn line(&self) -> impl Iterator<Item = CheckpointId> {
        let newest = self.lives.keys().last();
        let newest = newest.map(|g| CheckpointId { generation: *g, epoch: u64::MAX });
        std::iter::successors(newest, |at| self.lives.get(&at.generation).copied().flatten())
    }

    /// The checkpoints that the job could go on from, newest first.
    pub fn candidates(&self) -> Vec<CheckpointId> {
        self.line().flat_map(|upto| on(&self.manifests, upto).rev()).copied().collect()
    }

    /// The newest checkpoint of which commits may have begun (L3).
    pub fn mark(&self) -> Option<CheckpointId> {
        self.line().find_map(|upto| on(&self.marks, upto).next_back()).copied()
    }

    /// The number of the next life.
    pub fn next_generation(&self) -> u64 {
        self.lives.keys().last().map_or(1, |newest| newest + 1)
    }
}

/// The ids of a life in a set, up to one of its epochs.
fn on(
    set: &BTreeSet<CheckpointId>,
    upto: CheckpointId,
) -> impl DoubleEndedIterator<Item = &CheckpointId> {
    set.range(CheckpointId { epoch: 0, ..upto }..=upto)
}

/// May a job be restored from before what was perhaps committed?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoBack {
    /// No: results would be written twice.
    Refused,
    /// Yes: every sink is idempotent and every source can go back, or the user asks for it.
    Allowed,
}

/// What a job goes on from.
#[derive(Debug)]
pub struct Chosen<T> {
    /// The checkpoint, opened; `None` is the very beginning.
    pub from: Option<(CheckpointId, T)>,
    /// Newer ones that could not be opened, and why.
    pub passed_over: Vec<(CheckpointId, RestoreError)>,
}

/// Chooses the newest checkpoint on the line that `open` can open.
///
/// # Errors
///
/// If it is older than the newest mark, and going back is refused (L3).
pub fn choose<T>(
    history: &History,
    go_back: GoBack,
    mut open: impl FnMut(CheckpointId) -> Result<T, RestoreError>,
) -> Result<Chosen<T>, RestoreError> {
    let mut passed_over = vec![];
    let mut from = None;
    for id in history.candidates() {
        match open(id) {
            Ok(opened) => {
                from = Some((id, opened));
                break;
            }
            Err(why) => passed_over.push((id, why)),
        }
    }
    match history.mark() {
        Some(mark) if from.as_ref().map(|x| x.0) < Some(mark) && go_back == GoBack::Refused => {
            // The marked one tells most; a manifest that is gone was no candidate.
            let why = passed_over.iter().find(|x| x.0 == mark).map_or_else(
                || format!("its manifest \"{}\" is missing", Manifest::name(mark)),
                |x| x.1.to_string(),
            );
            Err(RestoreError::BehindMark { mark, why })
        }
        _ => Ok(Chosen { from, passed_over }),
    }
}

/// Begins a life, durably (L2).
///
/// # Errors
///
/// If the storage fails, or the life has begun already.
pub fn begin_life(
    store: &dyn Store,
    generation: u64,
    from: Option<CheckpointId>,
) -> Result<(), WriteError> {
    write_record(store, LIFE, &life_name(generation), &Life { generation, from })
}

/// Marks a checkpoint, durably: what it lists may be committed from now on (L3).
///
/// # Errors
///
/// If the storage fails.
pub fn write_mark(store: &dyn Store, id: CheckpointId) -> Result<(), WriteError> {
    write_record(store, MARK, &mark_name(id), &id)
}

fn life_name(generation: u64) -> String {
    format!("{LIVES}{generation:020}")
}

pub(crate) fn mark_name(id: CheckpointId) -> String {
    format!("{MARKS}{}", id.name())
}

/// The checkpoints that a folder names.
pub(crate) fn ids(names: &[String], folder: &str) -> impl Iterator<Item = CheckpointId> {
    names.iter().filter_map(move |name| CheckpointId::from_name(name.strip_prefix(folder)?))
}

pub(crate) fn write_record<T: crate::Data>(
    store: &dyn Store,
    kind: Kind,
    name: &str,
    record: &T,
) -> Result<(), WriteError> {
    let mut content = vec![];
    encode(record, &mut content);
    Ok(store.put_new(name, &kind.seal(&content))?)
}

fn read_record<T: crate::Data>(store: &dyn Store, kind: Kind, name: &str) -> Result<T, OpenError> {
    let file = store.place(name);
    let bytes = store.read(name)?;
    let content = kind.open(&file, &bytes)?;
    decode(content).map_err(|why| Damage::Malformed { file, why: why.to_string() }.into())
}

fn misplaced(store: &dyn Store, name: &str) -> OpenError {
    let why = "it holds the record of another one".into();
    Damage::Malformed { file: store.place(name), why }.into()
}

#[cfg(test)]
mod tests;
