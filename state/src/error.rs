//! What can go wrong, by the phase in which it does. Each message names the file or the thing, says
//! what was expected and found, and what to do next.

use crate::data::Layout;
use crate::lives::CheckpointId;
use crate::store::StoreError;

/// A file is not what we wrote. Never a panic, never a wrong row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A file that is named elsewhere is not there.
    #[error("\"{file}\" is missing: put back a copy of it")]
    Missing {
        /// Where it should be.
        file: String,
    },
    /// A file is longer or shorter than it was written.
    #[error(
        "\"{file}\" has {found} bytes where {expected} were written: put back an undamaged copy"
    )]
    Length {
        /// Where it is.
        file: String,
        /// How long it should be, or at least.
        expected: u64,
        /// How long it is.
        found: u64,
    },
    /// A file was not written by this engine, or is another kind of file.
    #[error("\"{file}\" is not {expected}: put back an undamaged copy")]
    Magic {
        /// Where it is.
        file: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A file is of another format.
    #[error(
        "\"{file}\" has format version {found}, and this program reads {known}: \
         start the version of the program that wrote it"
    )]
    Version {
        /// Where it is.
        file: String,
        /// The version that this program reads.
        known: u32,
        /// The version of the file.
        found: u32,
    },
    /// The content does not fit its checksum.
    #[error(
        "\"{file}\" is damaged: the bytes from {offset} have checksum {found:08x}, not \
         {expected:08x}: put back an undamaged copy"
    )]
    Checksum {
        /// Where it is.
        file: String,
        /// Where the content begins.
        offset: u64,
        /// The checksum that was written.
        expected: u32,
        /// The checksum of what is there.
        found: u32,
    },
    /// The content is not what its name and place say.
    #[error("\"{file}\" is damaged: {why}: put back an undamaged copy")]
    Malformed {
        /// Where it is.
        file: String,
        /// What is wrong, in one line.
        why: String,
    },
}

/// Why a state directory could not be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another live process has it.
    #[error("\"{directory}\" is in use by process {pid}: stop that process first")]
    InUse {
        /// The state directory.
        directory: String,
        /// The process, as it noted itself, or `?`.
        pid: String,
    },
    /// It is not a state directory.
    #[error(
        "\"{directory}\" holds \"{file}\" but no job record: name an empty directory, or put back \
         its file \"job\""
    )]
    Foreign {
        /// The directory.
        directory: String,
        /// One of the files in it.
        file: String,
    },
    /// It belongs to a job with another identity.
    #[error(
        "\"{directory}\" belongs to a job whose {name} is \"{stored}\", and {name} is \"{given}\" \
         now: start it as before, or name another directory"
    )]
    OtherJob {
        /// The state directory.
        directory: String,
        /// What differs.
        name: String,
        /// What it was when the directory was made.
        stored: String,
        /// What it is now.
        given: String,
    },
    /// A file in it is not what we wrote.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a segment or a manifest could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A worker holds a row that another one owns: it would be restored there, or lost.
    #[error(
        "operator \"{operator}\" wrote a key into table \"{table}\" on worker {worker} that \
         belongs to another worker: use only the key by which its input is partitioned"
    )]
    ForeignKey {
        /// The operator.
        operator: String,
        /// The table.
        table: String,
        /// The worker.
        worker: usize,
    },
    /// The storage failed; an [unknown](StoreError::Unknown) result may be retried.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why state could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A file is not what we wrote: an older checkpoint may do.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The storage failed: try again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A checkpoint that can be read is older than what was perhaps committed.
    #[error(
        "what checkpoint {mark} prepared may be committed already, and it cannot be restored \
         ({why}); an older one would write the same results again: repair it, or allow going back"
    )]
    BehindMark {
        /// The newest checkpoint that was being committed.
        mark: CheckpointId,
        /// Why it, or what came after it, cannot be restored.
        why: String,
    },
    /// A table holds another type than before.
    #[error(
        "the {part} of table \"{table}\" of operator \"{operator}\" is stored as {stored} and \
         declared as {declared}: declare it as it was, or give the table another name"
    )]
    TypeChanged {
        /// The operator.
        operator: String,
        /// The table, or the entry.
        table: String,
        /// Which part of a row.
        part: &'static str,
        /// What the checkpoint holds.
        stored: Box<Layout>,
        /// What the job declares.
        declared: Box<Layout>,
    },
    /// A table is of another kind than before.
    #[error(
        "table \"{table}\" of operator \"{operator}\" is stored as {stored} and declared as \
         {declared}: declare it as it was, or give the table another name"
    )]
    KindChanged {
        /// The operator.
        operator: String,
        /// The table.
        table: String,
        /// What the checkpoint holds.
        stored: &'static str,
        /// What the job declares.
        declared: &'static str,
    },
    /// Two tables of an operator have one name.
    #[error("operator \"{operator}\" declares table \"{table}\" twice: give one another name")]
    DeclaredTwice {
        /// The operator.
        operator: String,
        /// The table.
        table: String,
    },
    /// A table of the checkpoint is not declared any more.
    #[error(
        "the checkpoint holds table \"{table}\" of operator \"{operator}\", which declares none \
         of this name: declare it, or name it as it was named before"
    )]
    TableGone {
        /// The operator.
        operator: String,
        /// The table.
        table: String,
    },
    /// An operator of the checkpoint is not part of the job any more.
    #[error(
        "the checkpoint holds state of operator \"{operator}\", which the job does not have: add \
         it, or name it as it was named before"
    )]
    OperatorGone {
        /// The operator.
        operator: String,
    },
    /// There are records in flight on an edge that is not part of the job any more.
    #[error(
        "the checkpoint holds records in flight on edge \"{edge}\", which the job does not have: \
         add it, or name its operators as they were named before"
    )]
    EdgeGone {
        /// The edge.
        edge: String,
    },
    /// The records on an edge are of another type than before.
    #[error(
        "records in flight on edge \"{edge}\" are stored as {stored}, and the edge carries \
         {declared}: restore with the type as it was"
    )]
    RecordChanged {
        /// The edge.
        edge: String,
        /// What the checkpoint holds.
        stored: Box<Layout>,
        /// What the job declares.
        declared: Box<Layout>,
    },
}

/// Why a key cannot be looked up in a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The operator has no table of this name.
    #[error("operator \"{operator}\" has no table \"{table}\", but {}", list(.known))]
    NoTable {
        /// The operator.
        operator: String,
        /// The table.
        table: String,
        /// The tables that it has.
        known: Vec<String>,
    },
    /// Its rows are of other types.
    #[error("table \"{table}\" of operator \"{operator}\" holds {kind} of ({})", .stored.join(", "))]
    OtherTypes {
        /// The operator.
        operator: String,
        /// The table.
        table: String,
        /// What kind of table it is.
        kind: &'static str,
        /// The types of its rows, key first.
        stored: Vec<String>,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none at all".to_owned()
    } else {
        format!("\"{}\"", names.join("\", \""))
    }
}
