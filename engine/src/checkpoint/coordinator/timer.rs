//! What is due, and when: every deadline of the coordinator in one list, so that the tick that is
//! asked for and the tick that acts cannot disagree.

use std::time::Duration;

use crate::checkpoint::time::Epoch;
use crate::sync::{Fault, fault};

use super::event::{Effect, Failure, Request, Transaction};
use super::history::Reason;
use super::{Checkpoint, Coordinator, Mode, Prepare, Stage, UNDER_WAY_MAX};

/// What a deadline is for. In the order in which those that are due together are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Prepare(Transaction),
    Publish(Epoch),
    Commit(Epoch),
    Abort(Epoch),
    Overtake(Epoch),
    Trigger(Option<Request>),
}

impl Coordinator {
    /// When the next [`Event::Tick`](super::Event::Tick) is needed, if nothing else happens before
    /// (K1).
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers().into_iter().map(|(due, _)| due).min()
    }

    /// Everything that is due at some time, whether or not it is now.
    fn timers(&self) -> Vec<(Duration, Timer)> {
        let Some(schedule) = self.config.schedule.as_ref().filter(|_| !self.is_over) else {
            return vec![];
        };
        let mut timers = vec![];
        for (transaction, prepare) in &self.transactions {
            if let Prepare::Awaited { since } = prepare
                && !fault(Fault::PrepareHangs)
            {
                let due = since.saturating_add(schedule.prepare_timeout);
                timers.push((due, Timer::Prepare(*transaction)));
            }
        }
        for (epoch, checkpoint) in &self.under_way {
            let triggered = checkpoint.report.triggered;
            if fault(Fault::TimeoutCaptureOnly) && !checkpoint.is_capturing() {
                continue;
            }
            timers.push(match checkpoint.stage {
                Stage::Publishing { since } if !fault(Fault::AbortPublishing) => {
                    (since.saturating_add(schedule.publish_timeout), Timer::Publish(*epoch))
                }
                _ => (triggered.saturating_add(schedule.timeout), Timer::Abort(*epoch)),
            });
            if let Mode::Adaptive { after } = schedule.mode
                && checkpoint.may_overtake()
            {
                timers.push((triggered.saturating_add(after), Timer::Overtake(*epoch)));
            }
        }
        for (epoch, since) in self.announced.iter().filter(|_| !fault(Fault::CommitHangs)) {
            timers.push((since.saturating_add(schedule.commit_timeout), Timer::Commit(*epoch)));
        }
        timers.extend(self.next_trigger());
        timers
    }

    /// When the next checkpoint may be triggered, and for whom, as far as is known now.
    fn next_trigger(&self) -> Option<(Duration, Timer)> {
        let is_last = |c: &Checkpoint| c.report.request.is_some_and(Request::is_last);
        let is_closing = self.end.is_some() || self.under_way.values().any(is_last);
        let is_full = self.under_way.len() >= UNDER_WAY_MAX;
        if is_closing || is_full || self.under_way.values().any(Checkpoint::is_capturing) {
            return None;
        }
        match self.requests.first().copied() {
            Some(request) if request.is_savepoint() => self.next_savepoint(request),
            Some(request) => Some((self.earliest, Timer::Trigger(Some(request)))),
            // All have ended: the checkpoint that says so is all that the job waits for.
            None if self.have_ended() && self.under_way.is_empty() => {
                Some((self.earliest, Timer::Trigger(None)))
            }
            None => Some((self.earliest.max(self.regular), Timer::Trigger(None))),
        }
    }

    /// K2: a savepoint waits until the checkpoint before it is complete and committed. If that one
    /// was aborted, its transactions still fill the pools: then an ordinary one comes first.
    fn next_savepoint(&self, request: Request) -> Option<(Duration, Timer)> {
        let was_aborted = self.complete.next() != self.next;
        if !self.under_way.is_empty() {
            return None;
        }
        if was_aborted {
            return Some((self.earliest, Timer::Trigger(None)));
        }
        let is_settled = self.confirmed_by_all() >= self.complete || fault(Fault::SaveLiteral);
        is_settled.then_some((self.earliest, Timer::Trigger(Some(request))))
    }

    pub(super) fn tick(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = vec![];
        loop {
            let timers = self.timers().into_iter();
            let Some((_, timer)) = timers.filter(|(due, _)| *due <= now).min_by_key(|t| t.1) else {
                return effects;
            };
            effects.extend(match timer {
                Timer::Prepare(transaction) => {
                    self.fail(Failure::Prepare { transaction, why: None })
                }
                Timer::Publish(epoch) => self.fail(Failure::Publish(epoch)),
                Timer::Commit(epoch) => {
                    let late = self.confirmed.iter().find(|(_, confirmed)| **confirmed < epoch);
                    let task = *late.expect("a commit is awaited from somebody").0;
                    let transaction = Transaction { task, epoch };
                    self.fail(Failure::Commit { transaction })
                }
                Timer::Abort(epoch) => {
                    let schedule = self.config.schedule.as_ref();
                    let after = schedule.expect("only a schedule has timers").timeout;
                    let (uncaptured, holders) = (self.uncaptured(epoch), vec![]);
                    self.abort(now, epoch, Reason::TimedOut { after, uncaptured, holders })
                }
                Timer::Overtake(epoch) => self.overtake(epoch),
                Timer::Trigger(request) => self.trigger(now, request),
            });
        }
    }
}
