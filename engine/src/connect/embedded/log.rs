//! What was pushed into one split of an input, in order, until it is durable.
//!
//! ```text
//!            first             next                end
//!              ▼                ▼                   ▼
//!   durable │ emitted, not durable │ not emitted │  pushes come here
//! ```
//!
//! # Invariants
//!
//! * **G1**: `first <= next <= end`; entries `first..end` are held, in the order of their pushes.
//! * **G2**: what a position covers is a prefix of the log: of each producer all pushes up to one.
//! * **G3**: nothing is let go of before the checkpoint is complete that covers it.
//!
//! Not here: locks, threads and waiting, see [`input`](super::input).

use std::collections::VecDeque;

/// Entries that are let go of together.
const CHUNK: usize = 1_024;

/// See the [module](self).
pub(super) struct Log<R> {
    chunks: VecDeque<Vec<Entry<R>>>,
    first: u64,
    next: u64,
    end: u64,
    /// The cuts since the last complete checkpoint.
    cuts: VecDeque<Cut>,
}

/// Where an epoch ended.
struct Cut {
    epoch: u64,
    next: u64,
    /// The last number of each producer.
    numbers: Vec<u64>,
}

/// What a complete checkpoint means for the log.
pub(super) struct Completed<R> {
    /// To be dropped, outside of any lock.
    pub(super) dropped: Vec<Vec<Entry<R>>>,
    /// How many entries are no longer held.
    pub(super) released: usize,
    /// Up to which number the pushes of each producer are durable; nothing if that is as before.
    pub(super) durable: Vec<u64>,
}

/// A push.
#[derive(Clone)]
pub(super) struct Entry<R> {
    /// The index of its producer in its split.
    pub(super) producer: usize,
    /// Its number, counted by its producer.
    pub(super) number: u64,
    pub(super) record: R,
}

impl<R> Default for Log<R> {
    fn default() -> Self {
        Log { chunks: VecDeque::new(), first: 0, next: 0, end: 0, cuts: VecDeque::new() }
    }
}

impl<R: Clone> Log<R> {
    pub(super) fn push(&mut self, entry: Entry<R>) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(entry),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(entry);
                self.chunks.push_back(chunk);
            }
        }
        self.end += 1;
    }

    /// Is everything emitted?
    pub(super) fn is_read(&self) -> bool {
        self.next == self.end
    }

    /// Copies at most `limit` entries that were not emitted; they count as emitted now.
    pub(super) fn read(&mut self, limit: usize, into: &mut VecDeque<Entry<R>>) {
        let until = self.end.min(self.next + limit as u64);
        while self.next < until {
            let (chunk, from) = self.find(self.next);
            let entries = &self.chunks[chunk][from..];
            let count = entries.len().min((until - self.next) as usize);
            into.extend(entries[..count].iter().cloned());
            self.next += count as u64;
        }
    }

    /// Where an entry lies. Chunks but the last are full, and the first begins at a multiple.
    fn find(&self, index: u64) -> (usize, usize) {
        let within = (index - self.first / CHUNK as u64 * CHUNK as u64) as usize;
        (within / CHUNK, within % CHUNK)
    }

    /// An epoch ends here, `unsent` entries before what was read, after these numbers of each
    /// producer.
    pub(super) fn cut(&mut self, epoch: u64, unsent: usize, numbers: Vec<u64>) {
        self.cuts.push_back(Cut { epoch, next: self.next - unsent as u64, numbers });
    }

    /// The checkpoint of this epoch is complete.
    pub(super) fn completed(&mut self, epoch: u64) -> Completed<R> {
        let (mut up_to, mut durable) = (self.first, Vec::new());
        while self.cuts.front().is_some_and(|cut| cut.epoch <= epoch) {
            let cut = self.cuts.pop_front().expect("looked at just above");
            (up_to, durable) = (cut.next, cut.numbers);
        }
        let (dropped, released) = self.let_go(up_to);
        Completed { dropped, released, durable }
    }

    /// How many entries are held.
    pub(super) fn held(&self) -> usize {
        (self.end - self.first) as usize
    }

    /// Nothing becomes durable: what is emitted is not held. Answers what is to be dropped, outside
    /// of any lock, and how many entries are no longer held.
    pub(super) fn let_go_of_read(&mut self) -> (Vec<Vec<Entry<R>>>, usize) {
        self.let_go(self.next)
    }

    fn let_go(&mut self, up_to: u64) -> (Vec<Vec<Entry<R>>>, usize) {
        assert!((self.first..=self.next).contains(&up_to), "G1");
        let count = (up_to - self.first) as usize;
        let chunks = (up_to / CHUNK as u64 - self.first / CHUNK as u64) as usize;
        self.first = up_to;
        (self.chunks.drain(..chunks).collect(), count)
    }

    /// A new life emits what `is_covered` says is not covered by its position (G2). Answers as
    /// [`let_go_of_read`](Log::let_go_of_read) does: what it covers is durable.
    pub(super) fn restore(
        &mut self,
        is_covered: impl Fn(&Entry<R>) -> bool,
    ) -> (Vec<Vec<Entry<R>>>, usize) {
        self.cuts.clear();
        let held = (self.first..self.end).map(|index| {
            let (chunk, within) = self.find(index);
            &self.chunks[chunk][within]
        });
        self.next = self.first + held.take_while(|entry| is_covered(entry)).count() as u64;
        self.let_go(self.next)
    }
}

#[cfg(test)]
mod tests;
