//! What crosses crates: see README.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bad_input;
mod bad_records;
mod billing;
mod compare;
mod crash;
mod damage;
mod embedded;
mod examples;
mod failing;
mod harness;
mod host;
mod interrupt;
mod kill;
mod model;
mod restart;
mod restore;
mod rows;
mod service;
mod steering;
mod stuck;
mod tidy;
