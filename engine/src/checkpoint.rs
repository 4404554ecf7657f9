//! Checkpoints: what ends an epoch, what is captured of it, who decides, and how a job goes on from
//! one.
//!
//! ```text
//!   coordinator ──trigger──▶ control word ──▶ gate of each task ──cut──▶ snapshot ─┐
//!        ▲ captured, durable, prepared                     capture ──in flight──▶ ─┤
//!        └──────────────────────────────────────────────── writer ◀───────────────┘
//!   coordinator ──publish──▶ publisher ──▶ manifest, mark ──▶ completed ──▶ commits
//! ```

pub mod capture;
pub(crate) mod commit;
pub(crate) mod control;
pub mod coordinator;
pub(crate) mod direct;
pub(crate) mod flight;
pub mod gate;
pub mod plan;
pub(crate) mod publish;
pub(crate) mod restore;
pub(crate) mod snapshot;
pub mod time;
pub(crate) mod write;
