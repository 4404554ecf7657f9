//! The task that hosts a fused chain on a worker, and the parts of a chain.
//!
//! ```text
//!   task:   inboxes ──▶ head ──▶ transforms ──▶ tail ──▶ outboxes
//! ```

pub(crate) mod chain;
pub(crate) mod head;
pub(crate) mod slice;
pub(crate) mod tail;
pub(crate) mod task;
pub(crate) mod transform;
