//! The records of `keyed-count` and its relatives: the generator of the yardsticks as a source,
//! with a tap that lets it run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use overtake::source::{Emit, Read, Source, SourceContext};
use overtake::{BoxError, Waker};

/// Lets the generators run, and wakes them.
#[derive(Default)]
pub(crate) struct Tap {
    is_open: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Tap {
    /// Lets them run.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::Release);
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().for_each(Waker::wake);
    }

    /// Stops them.
    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// One that nobody closes.
    pub(crate) fn opened() -> Tap {
        Tap { is_open: AtomicBool::new(true), ..Tap::default() }
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Whoever waits for it is woken when it opens.
    pub(crate) fn register(&self, waker: &Waker) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker.clone());
    }
}

/// The generator of the yardsticks: `(key, 1)` with keys drawn at random, other ones in each split.
#[derive(Clone)]
pub(crate) struct Generator {
    keys: u64,
    splits: usize,
    tap: Arc<Tap>,
    x: u64,
    split: String,
}

impl Generator {
    /// With so many keys, and a split for each worker.
    pub(crate) fn new(keys: u64, workers: usize, tap: &Arc<Tap>) -> Generator {
        Generator { keys, splits: workers, tap: tap.clone(), x: 0, split: String::new() }
    }
}

impl Source for Generator {
    type Record = (u64, u64);
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok((0..self.splits).map(|split| split.to_string()).collect())
    }

    fn open(
        &mut self,
        split: &str,
        position: Option<u64>,
        context: &SourceContext,
    ) -> Result<(), BoxError> {
        self.x = match position {
            Some(x) => x,
            None => split.parse::<u64>()? * 7919 + 1,
        };
        self.split = split.to_owned();
        self.tap.register(&context.waker);
        Ok(())
    }

    #[inline]
    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<(u64, u64)>,
    ) -> Result<Read, BoxError> {
        if !self.tap.is_open() {
            return Ok(Read::Idle);
        }
        let mut x = self.x;
        for _ in 0..limit {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            out.emit((x % self.keys, 1));
        }
        self.x = x;
        Ok(Read::More)
    }

    fn positions(&self) -> Vec<(String, u64)> {
        vec![(self.split.clone(), self.x)]
    }
}
