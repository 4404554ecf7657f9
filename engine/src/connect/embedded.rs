//! The program that a job is embedded in: it pushes records into an [`Input`], and reads committed
//! results from [`Results`].
//!
//! ```text
//!   producers ──push──▶ held until durable ──▶ the job ──▶ held until acknowledged ──▶ a reader
//!                           │                                   │
//!                           └─ told: durable up to push n       └─ shown once committed
//! ```
//!
//! Exactly once ends where the job does, so both sides have numbers that outlive the process. A
//! push has a number of its producer; [`Input::open`] tells after a new start which was the last
//! that is durable, and the program pushes again what followed. Results come a checkpoint at a
//! time; whoever keeps the [`CheckpointId`](crate::CheckpointId) of the last one with what it made
//! of it knows what to leave out when the job, after a new start, shows again what was not
//! acknowledged in time.
//!
//! Waiting is for threads and futures alike, and forces no runtime on anybody.
//!
//! Not here: results before they are committed, see
//! [`for_each`](crate::flow::stream::Stream::for_each).

mod durable;
mod input;
mod log;
mod producer;
mod results;
mod source;

pub use durable::Durable;
pub use input::{HELD_MAX, Input, PRODUCERS_MAX, SPLITS};
pub use producer::Producer;
pub use results::{Committed, RESULTS_HELD_MAX, Reader, Results, ResultsSink};
pub use source::InputSource;

use crate::LifeContext;
use crate::error::BoxError;

/// Why something cannot be pushed, or is not durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// [`Input::close`] was called, or the job is drained.
    #[error("the input is closed")]
    Closed,
    /// The job has ended. What was pushed and not durable by then is not processed in a later
    /// start.
    #[error(
        "the job has ended: push {durable} of producer \"{producer}\" is the last that is durable; \
         start the job again, open the input, and push again what followed"
    )]
    Ended {
        /// The producer.
        producer: String,
        /// The number of its last push that is durable; 0 if none is.
        durable: u64,
    },
    /// The job has ended, or never began.
    #[error("the job has ended before the input was opened: start it, then open the input")]
    NotRunning,
    /// A name has one handle at a time.
    #[error("producer \"{0}\" is open already: drop the other handle first")]
    OpenTwice(String),
    /// There are as many producers as there may be.
    #[error("the input has {0} producers, and may not have more")]
    TooMany(usize),
    /// Nothing ever becomes durable.
    #[error("the job takes no checkpoints, so nothing becomes durable: give it a state directory")]
    NoCheckpoints,
}

/// A push that was not done. The record is given back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPushed<R> {
    /// The input holds as many records as it may: those that are not read, or not durable. There is
    /// room after the next checkpoint.
    #[error("the input is full")]
    Full(R),
    /// It never will be.
    #[error("{why}")]
    Refused {
        /// The record.
        record: R,
        /// Why.
        why: InputError,
    },
}

/// Why results cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    /// There is one reader at a time.
    #[error("the results are read already: drop the other reader first")]
    OpenTwice,
}

/// Who uses an input or results: one job at a time, under one name.
#[derive(Debug, Default)]
struct Using(Option<LifeContext>);

impl Using {
    /// A life begins.
    ///
    /// # Errors
    ///
    /// If another job uses it, or this one twice.
    fn begin(&mut self, life: &LifeContext, what: &str) -> Result<(), BoxError> {
        match &self.0 {
            Some(now) if now.run != life.run => {
                Err(format!("another job uses {what}: give each job its own").into())
            }
            Some(now) if now.generation == life.generation => {
                Err(format!("two operators of the job use {what}: give each its own").into())
            }
            _ => {
                self.0 = Some(life.clone());
                Ok(())
            }
        }
    }

    /// A run has ended. Was it the one that uses it, or is there none?
    fn end(&mut self, run: u64) -> bool {
        let is_mine = self.0.as_ref().is_none_or(|now| now.run == run);
        if is_mine {
            self.0 = None;
        }
        is_mine
    }
}
