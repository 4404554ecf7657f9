//! Planted faults: each breaks one rule of the protocol, so that the simulation can show that it
//! would find who breaks it.
//!
//! A place in the engine asks whether its fault is planted. Without the feature `simulation` the
//! answer is no at compile time.

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// E2: batches of a later epoch are processed before the cut.
    NoGate,
    /// E4: an overtaking snapshot forgets what is unsent.
    NoOutbox,
    /// E4: what arrives after an overtaking cut is not captured.
    NoLateCapture,
    /// W2: verdicts are read before requests.
    ReadOrder,
    /// W1 of `wake`: a task goes idle without a second look.
    NoRecheck,
    /// G1: a task may cut again before it has worked.
    Unfair,
    /// P2: a request that was seen is served when something else wakes the task.
    ServedLater,
    /// E5: a checkpoint is published before its transactions are prepared.
    DurableEarly,
    /// E6: a snapshot lists the transaction only that its own cut closes.
    DropHandles,
    /// E6: a transaction is listed until its commit is asked for, not until it is confirmed.
    ForgetAtSend,
    /// E6: a prepare that failed is a failed checkpoint.
    PrepareTolerated,
    /// E6: a transaction is committed when it is closed.
    EarlyCommit,
    /// E6: a dry sink waits for its frontier.
    DryWaits,
    /// E6: a dry sink cuts and tells nobody.
    DryAlone,
    /// E6: older transactions are aborted at a restore, and never again.
    AbortOnce,
    /// K1: a prepare may take for ever.
    PrepareHangs,
    /// K1: a commit may take for ever.
    CommitHangs,
    /// K1: a checkpoint may be written for ever.
    TimeoutCaptureOnly,
    /// E9: a checkpoint is aborted while it is published.
    AbortPublishing,
    /// E9: the writer works off what was aborted.
    KeepVoidWrites,
    /// K2: a savepoint does not wait for the commits before it.
    SaveLiteral,
    /// K3: the job stops when the last checkpoint is captured.
    EndAtCapture,
    /// K3: the last checkpoint is the first in which the sources have ended.
    EndBySources,
    /// K3: only the commits of exactly the last checkpoint count.
    EndExact,
    /// E7: a task ends although something is unsent.
    EndNoUnsent,
    /// P3: an input ends before its restored data is worked off.
    EndBeforeRestored,
    /// P3: an input ends when its frontier says so, whatever waits in the inbox.
    ToldByFront,
    /// L3: a checkpoint behind the mark is restored.
    NoMark,
    /// L3: the mark is written after the completion is told.
    MarkLate,
    /// L3: a mark that is off the line counts.
    AnyMark,
    /// L1: the newest checkpoint is the one with the greatest name.
    LifeIgnored,
    /// L1: the line begins at the newest life that has a checkpoint.
    NewestWithAny,
    /// L2: a life is recorded after it has committed and aborted.
    LifeLate,
    /// P1 of `prune`: the checkpoints with the greatest names are kept.
    RetainByName,
    /// P1 of `plan`: in-flight data of a broadcast edge is another worker's than its state.
    BroadcastMix,
    /// J1: restored keyed records are processed before restored broadcast ones.
    KeyedFirst,
    /// J2: keyed records are not taken until the broadcast input has ended.
    RefuseKeyed,
    /// J3: a record does not wait for the end of the broadcast input.
    NoHold,
}

#[cfg(feature = "simulation")]
impl Fault {
    /// Every fault, in the order of the rules that they break.
    pub const ALL: [Fault; 38] = [
        Fault::NoGate,
        Fault::NoOutbox,
        Fault::NoLateCapture,
        Fault::ReadOrder,
        Fault::NoRecheck,
        Fault::Unfair,
        Fault::ServedLater,
        Fault::DurableEarly,
        Fault::DropHandles,
        Fault::ForgetAtSend,
        Fault::PrepareTolerated,
        Fault::EarlyCommit,
        Fault::DryWaits,
        Fault::DryAlone,
        Fault::AbortOnce,
        Fault::PrepareHangs,
        Fault::CommitHangs,
        Fault::TimeoutCaptureOnly,
        Fault::AbortPublishing,
        Fault::KeepVoidWrites,
        Fault::SaveLiteral,
        Fault::EndAtCapture,
        Fault::EndBySources,
        Fault::EndExact,
        Fault::EndNoUnsent,
        Fault::EndBeforeRestored,
        Fault::ToldByFront,
        Fault::NoMark,
        Fault::MarkLate,
        Fault::AnyMark,
        Fault::LifeIgnored,
        Fault::NewestWithAny,
        Fault::LifeLate,
        Fault::RetainByName,
        Fault::BroadcastMix,
        Fault::KeyedFirst,
        Fault::RefuseKeyed,
        Fault::NoHold,
    ];
}

#[cfg(feature = "simulation")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in what the calling thread does, or none.
#[cfg(feature = "simulation")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// Is this fault planted?
#[cfg(feature = "simulation")]
pub(crate) fn fault(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Is this fault planted? Never.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub(crate) const fn fault(_: Fault) -> bool {
    false
}
