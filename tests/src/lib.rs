//! What crosses crates: the reference that a job is compared with, the model, and the simulation.

pub mod model;
pub mod reference;
pub mod simulation;
