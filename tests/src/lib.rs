//! What crosses crates: the reference that a job is compared with.

pub mod reference;
