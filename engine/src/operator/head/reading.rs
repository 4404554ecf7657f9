//! The head that reads a source, and keeps its positions.

use std::time::Duration;

use overtake_state::Entries;

use crate::checkpoint::gate::Gate;
use crate::checkpoint::time::Epoch;
use crate::error::BoxError;
use crate::operator::head::Head;
use crate::operator::slice::{Done, Turn};
use crate::source::{Emit, Read, Source};

/// A source on one worker.
pub struct Reading<S> {
    source: S,
    positions: Entries,
    left: Read,
}

impl<S> Reading<S> {
    /// A source that has been opened; `positions` is where its positions are stored.
    pub(crate) fn new(source: S, positions: Entries) -> Reading<S> {
        Reading { source, positions, left: Read::More }
    }
}

impl<S: Source> Head for Reading<S> {
    type Out = S::Record;

    #[inline]
    fn work<E: Emit<S::Record>>(
        &mut self,
        turn: &Turn<'_>,
        out: &mut E,
    ) -> Result<usize, BoxError> {
        if out.is_blocked() {
            return Ok(0);
        }
        let mut counted = Counted { out, done: turn.count() };
        self.left = self.source.read(turn.limit, turn.now, &mut counted)?;
        Ok(counted.done.records())
    }

    fn is_ready(&self, _: &Gate, now: Duration) -> bool {
        match self.left {
            Read::More => true,
            Read::Until(due) => now >= due,
            Read::Idle | Read::Ended => false,
        }
    }

    fn has_ended(&self) -> bool {
        self.left == Read::Ended
    }

    fn woken(&mut self) {
        if self.left == Read::Idle {
            self.left = Read::More;
        }
    }

    fn wakes_at(&self) -> Option<Duration> {
        match self.left {
            Read::Until(due) => Some(due),
            _ => None,
        }
    }

    fn store(&mut self, epoch: Epoch) {
        for (split, position) in self.source.positions() {
            self.positions.set(&split, &position);
        }
        self.source.cut(epoch.0);
    }

    fn drain(&mut self) {
        if self.left != Read::Ended {
            self.left = self.source.drain();
        }
    }
}

struct Counted<'a, E> {
    out: &'a mut E,
    done: Done<'a>,
}

impl<R, E: Emit<R>> Emit<R> for Counted<'_, E> {
    const EXPANDS: bool = E::EXPANDS;
    #[inline]
    fn emit(&mut self, record: R) {
        self.out.emit(record);
        self.done.add(1);
    }
    #[inline]
    fn is_blocked(&self) -> bool {
        self.out.is_blocked()
    }
}
