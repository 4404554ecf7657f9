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
}

/// The generator of the yardsticks: `(key, 1)` with keys drawn at random.
pub(crate) struct Generator {
    keys: u64,
    tap: Arc<Tap>,
    x: u64,
    split: String,
}

impl Generator {
    pub(crate) fn new(keys: u64, tap: &Arc<Tap>) -> Generator {
        Generator { keys, tap: tap.clone(), x: 0, split: String::new() }
    }
}

impl Source for Generator {
    type Record = (u64, u64);
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok(vec!["0".to_owned(), "1".to_owned()])
    }

    fn open(
        &mut self,
        split: &str,
        position: Option<u64>,
        context: &SourceContext,
    ) -> Result<(), BoxError> {
        self.x = position.unwrap_or(context.worker as u64 * 7919 + 1);
        self.split = split.to_owned();
        let mut wakers = self.tap.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.push(context.waker.clone());
        Ok(())
    }

    #[inline]
    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<(u64, u64)>,
    ) -> Result<Read, BoxError> {
        if !self.tap.is_open.load(Ordering::Acquire) {
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
