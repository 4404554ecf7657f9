//! The handle of one producer of an input.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use event_listener::Listener as _;
use overtake_state::Data;

use super::durable::{Durable, Told};
use super::input::{Shared, Split};
use super::log::Entry;
use super::{InputError, NotPushed};
use crate::Waker;

/// The handle of one producer: its pushes have numbers, from 1, and stay in order.
pub struct Producer<R> {
    shared: Arc<Shared<R>>,
    split: usize,
    index: usize,
    told: Arc<Told>,
    pushed: u64,
}

impl<R> Producer<R> {
    /// The producer at this place, a split and the index in it, that has pushed so much.
    pub(super) fn new(
        shared: Arc<Shared<R>>,
        (split, index): (usize, usize),
        told: Arc<Told>,
        pushed: u64,
    ) -> Producer<R> {
        Producer { shared, split, index, told, pushed }
    }
}

impl<R: Data> Producer<R> {
    /// Pushes a record, and answers its number. Waits while the input is [full](NotPushed::Full).
    ///
    /// # Errors
    ///
    /// If the input is closed or the job has ended.
    pub fn push(&mut self, record: R) -> Result<u64, InputError> {
        let mut record = record;
        loop {
            match self.try_push(record) {
                Ok(number) => return Ok(number),
                Err(NotPushed::Refused { why, .. }) => return Err(why),
                Err(NotPushed::Full(back)) => record = back,
            }
            let listener = self.shared.room.listen();
            if self.must_wait() {
                listener.wait();
            }
        }
    }

    /// [`push`](Producer::push), for a future. A future that is dropped before it is ready has
    /// pushed nothing.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn push_async(&mut self, record: R) -> Result<u64, InputError> {
        let mut record = record;
        loop {
            match self.try_push(record) {
                Ok(number) => return Ok(number),
                Err(NotPushed::Refused { why, .. }) => return Err(why),
                Err(NotPushed::Full(back)) => record = back,
            }
            let listener = self.shared.room.listen();
            if self.must_wait() {
                listener.await;
            }
        }
    }

    /// Pushes a record and answers its number, or gives the record back.
    ///
    /// # Errors
    ///
    /// If the input is full, closed, or the job has ended.
    pub fn try_push(&mut self, record: R) -> Result<u64, NotPushed<R>> {
        let max = self.shared.held_max;
        let more = |held| (held < max).then_some(held + 1);
        let reserved = self.shared.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        let mut split = self.shared.split(self.split);
        if let Err(why) = self.check(&split) {
            drop(split);
            self.shared.release(usize::from(reserved.is_ok()));
            return Err(NotPushed::Refused { record, why });
        }
        if reserved.is_err() {
            return Err(NotPushed::Full(record));
        }
        self.pushed += 1;
        split.producers[self.index].pushed = self.pushed;
        split.log.push(Entry { producer: self.index, number: self.pushed, record });
        // Release: who finds it changed locks the split and finds the entry.
        self.shared.splits[self.split].news.fetch_add(1, Ordering::Release);
        let waker = split.waker.clone();
        drop(split);
        waker.iter().for_each(Waker::wake);
        Ok(self.pushed)
    }

    /// Looked at again between listening and waiting.
    fn must_wait(&self) -> bool {
        let is_full = self.shared.held.load(Ordering::Acquire) >= self.shared.held_max;
        is_full && self.check(&self.shared.split(self.split)).is_ok()
    }

    /// Is this still the job for which the handle was opened, and is the input open?
    fn check(&self, split: &Split<R>) -> Result<(), InputError> {
        let mine = split.producers.get(self.index);
        if !mine.is_some_and(|pushing| Arc::ptr_eq(&pushing.told, &self.told)) {
            return Err(self.told.ended());
        }
        if split.is_closed { Err(InputError::Closed) } else { Ok(()) }
    }

    /// The number of the last push: after a new start, of the last that is durable.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// The number of the last push that is durable: whatever happens, it and those before it are
    /// processed, and their effects committed once. After a new start, push again what followed it.
    pub fn durable(&self) -> u64 {
        self.told.durable()
    }

    /// Waits until a push is durable: as a future, or [blocking](Durable::wait).
    pub fn when_durable(&self, number: u64) -> Durable {
        Durable::new(self.told.clone(), number)
    }

    /// Calls a function when a push is durable, or can be so no more. It runs on the thread that
    /// completes checkpoints, or on this one if the answer is known: it must return
    /// at once, so it tries to push, and does not wait. If it panics, that is for the panic hook of
    /// the program, and others are told all the same.
    pub fn on_durable(
        &self,
        number: u64,
        call: impl FnOnce(Result<(), InputError>) + Send + 'static,
    ) {
        self.told.call(number, Box::new(call));
    }
}

impl<R> Drop for Producer<R> {
    fn drop(&mut self) {
        let mut split = self.shared.split(self.split);
        let mine = split.producers.get_mut(self.index);
        if let Some(mine) = mine.filter(|pushing| Arc::ptr_eq(&pushing.told, &self.told)) {
            mine.has_handle = false;
        }
    }
}
