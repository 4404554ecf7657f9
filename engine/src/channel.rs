//! How batches get from one worker to another: rings, credit, inbox, outbox, wake-ups.

pub(crate) mod batch;
pub(crate) mod credit;
pub(crate) mod inbox;
pub(crate) mod lane;
pub(crate) mod outbox;
pub(crate) mod pact;
pub(crate) mod ring;
pub(crate) mod wake;
