//! The source that reads an input: a worker's share of its splits.
//!
//! How the [contract of sources](crate::source) is kept: S3 and S4 by the log, which keeps what is
//! not durable and reads it again in a new life; S5 by the task's waker, which every push calls; S8
//! by the cuts that the log remembers; S9 by closing the input.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use overtake_state::Data;

use super::input::{Phase, Pushing, SPLITS, Shared, lock};
use super::log::Entry;
use crate::error::BoxError;
use crate::source::{Emit, Read, Source, SourceContext};
use crate::{Durability, Listener};

/// Reads an [`Input`](super::Input). Made by [`source`](super::Input::source).
pub struct InputSource<R> {
    shared: Arc<Shared<R>>,
    mine: Vec<Mine<R>>,
    /// Whose turn it is.
    first: usize,
}

/// A split on the worker that reads it.
struct Mine<R> {
    name: String,
    index: usize,
    /// News of the split that were looked at.
    seen: u64,
    /// Is there more than was taken?
    has_more: bool,
    is_closed: bool,
    /// Read, not emitted.
    taken: VecDeque<Entry<R>>,
    /// What of each producer is emitted.
    emitted: Vec<(String, u64)>,
}

impl<R> InputSource<R> {
    pub(super) fn new(shared: Arc<Shared<R>>) -> InputSource<R> {
        InputSource { shared, mine: Vec::new(), first: 0 }
    }
}

impl<R> Clone for InputSource<R> {
    fn clone(&self) -> Self {
        InputSource::new(self.shared.clone())
    }
}

impl<R: Data> Mine<R> {
    /// Takes what was pushed, at most so much.
    fn take(&mut self, shared: &Shared<R>, limit: usize) {
        // Acquire: pairs with the release of who had news.
        let news = shared.splits[self.index].news.load(Ordering::Acquire);
        if !self.taken.is_empty() || self.seen == news && !self.has_more {
            return;
        }
        let mut split = shared.split(self.index);
        split.log.read(limit, &mut self.taken);
        self.seen = news;
        self.has_more = !split.log.is_read();
        self.is_closed = split.is_closed;
        for new in &split.producers[self.emitted.len()..] {
            self.emitted.push((new.told.producer.clone(), 0));
        }
        let (dropped, released) = match split.durability {
            Durability::None => split.log.let_go_of_read(),
            Durability::Checkpoints => Default::default(),
        };
        drop(split);
        drop(dropped);
        shared.release(released);
    }

    fn has_ended(&self) -> bool {
        self.is_closed && !self.has_more && self.taken.is_empty()
    }
}

impl<R: Data> Source for InputSource<R> {
    type Record = R;
    type Position = Vec<(String, u64)>;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok((0..SPLITS).map(|split| format!("{split:02}")).collect())
    }

    fn open(
        &mut self,
        name: &str,
        position: Option<Self::Position>,
        context: &SourceContext,
    ) -> Result<(), BoxError> {
        let index = name.parse().ok().filter(|index| *index < SPLITS);
        let index = index.ok_or_else(|| format!("split \"{name}\" is none of an input"))?;
        let mut session = lock(&self.shared.session);
        let mut split = self.shared.split(index);
        let covered = BTreeMap::from_iter(position.unwrap_or_default());
        for (producer, number) in &covered {
            if !session.producers.contains_key(producer) {
                let at = split.add(producer, *number);
                session.producers.insert(producer.clone(), (index, at));
            }
        }
        let mut emitted = Vec::with_capacity(split.producers.len());
        for Pushing { told, .. } in &split.producers {
            let (producer, durable) = (&told.producer, told.durable());
            let number = covered.get(producer).copied().unwrap_or(0);
            if number < durable {
                return Err(format!(
                    "push {durable} of producer \"{producer}\" was told to be durable, and the \
                     restored checkpoint holds {number}: restore a newer one"
                )
                .into());
            }
            emitted.push((producer.clone(), number));
        }
        let is_covered = |entry: &Entry<R>| entry.number <= emitted[entry.producer].1;
        let (dropped, released) = split.log.restore(is_covered);
        split.waker = Some(context.waker.clone());
        let told: Vec<_> = split.producers.iter().map(|pushing| pushing.told.clone()).collect();
        drop(split);
        if let Phase::Opening { opened } = session.phase {
            let opened = opened + 1;
            session.phase = if opened == SPLITS { Phase::Open } else { Phase::Opening { opened } };
        }
        drop(session);
        drop(dropped);
        self.shared.changed.notify(usize::MAX);
        self.shared.release(released);
        told.iter().zip(&emitted).for_each(|(told, (_, durable))| told.raise(*durable));
        let (name, taken) = (name.to_owned(), VecDeque::new());
        let (has_more, is_closed) = (true, false);
        self.mine.push(Mine { name, index, seen: 0, has_more, is_closed, taken, emitted });
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<R>,
    ) -> Result<Read, BoxError> {
        let mut left = limit;
        self.first += 1;
        for turn in 0..self.mine.len() {
            let index = (self.first + turn) % self.mine.len();
            let mine = &mut self.mine[index];
            mine.take(&self.shared, left);
            while left > 0 && !out.is_blocked() {
                let Some(entry) = mine.taken.pop_front() else { break };
                mine.emitted[entry.producer].1 = entry.number;
                out.emit(entry.record);
                left -= 1;
            }
            if !mine.taken.is_empty() || left == 0 {
                return Ok(Read::More);
            }
        }
        Ok(match () {
            () if self.mine.iter().all(Mine::has_ended) => Read::Ended,
            () if self.mine.iter().any(|mine| mine.has_more) => Read::More,
            () => Read::Idle,
        })
    }

    fn positions(&self) -> Vec<(String, Self::Position)> {
        self.mine.iter().map(|mine| (mine.name.clone(), mine.emitted.clone())).collect()
    }

    fn listener(&self) -> Option<Arc<dyn Listener>> {
        Some(self.shared.clone())
    }

    fn cut(&mut self, epoch: u64) {
        for mine in &self.mine {
            let mut split = self.shared.split(mine.index);
            let numbers = mine.emitted.iter().map(|(_, number)| *number).collect();
            split.log.cut(epoch, mine.taken.len(), numbers);
        }
    }

    fn drain(&mut self) -> Read {
        self.shared.close();
        Read::More
    }
}
