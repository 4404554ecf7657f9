//! The command `overtake`: the job `billing`, and measurements of the engine against programs
//! written by hand.
#![allow(clippy::disallowed_methods, reason = "this crate measures: it reads the clock")]

pub mod billing;
pub mod capture;
pub mod command;
pub mod compare;
pub mod flights;
mod generator;
pub mod idle;
mod interrupt;
pub mod keyed_count;
pub mod meter;
pub mod option;
pub mod paired;
pub mod push;
mod scratch;
pub mod slow_sink;
pub mod statistics;
pub mod tariff;
pub mod yardstick;
