//! What the Overtake dataflow engine stores: keyed tables and operator state, their snapshots, the
//! segments and manifests that make a checkpoint, and the stores that keep it.
//!
//! ```text
//!   States ─ freeze ─▶ Frozen ─ write ─▶ segment ─┐
//!                                        segment ─┼─ publish ─▶ manifest      on a Store
//!                       batches in flight ▶ … ────┘
//!   Job::open ─▶ History::read ─▶ choose(Restored::open) ─▶ begin_life ─▶ States::new(restored)
//! ```
//!
//! Full snapshots for now: a checkpoint holds every row. It knows nothing of timely and has no
//! threads; what is stored is drawn in `FORMAT.md`.
//!
//! Not here: when to take a checkpoint, what was in flight, and who may commit. The engine decides.

mod broadcast;
mod data;
mod entries;
mod error;
mod hash;
mod job;
mod keyed;
mod lives;
mod manifest;
mod object;
mod prune;
mod savepoint;
mod segment;
mod snapshot;
mod store;
mod table;

pub use broadcast::Broadcast;
pub use data::{
    ALIGN, Data, Key, Layout, Malformed, decode, decode_vec, encode, encode_slice, layout,
};
pub use entries::Entries;
pub use error::{Damage, OpenError, ReadError, RestoreError, WriteError};
pub use hash::{HASH, hash, hash_range, owner};
pub use job::{Job, draw_id};
pub use keyed::{List, Map, Value};
pub use lives::{CheckpointId, Chosen, GoBack, History, begin_life, choose, write_mark};
pub use manifest::{
    EdgeInfo, Manifest, OperatorInfo, Published, Statistics, TableInfo, TableKind, Transaction,
    publish,
};
pub use prune::{Plan, Retention, prune};
pub use savepoint::{keep, savepoints};
pub use segment::{
    Content, Flight, FlightHead, Frame, FrameHead, Place, Segment, SegmentInfo, SegmentWriter,
    write_flight,
};
pub use snapshot::{Frozen, Restored, States};
pub use store::{Append, Directory, Fault, Faults, Memory, Operation, Store, StoreError};
