//! What a producer is told of its pushes: to a thread, a future, or a callback.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use event_listener::{Event, EventListener, Listener as _};

use super::InputError;
use super::input::lock;
use crate::{Clock, Durability};

/// Ready when a push is durable. See [`Producer::when_durable`](super::Producer::when_durable).
///
/// Its error says that the push will not be durable in this job any more, and, unless it was told
/// otherwise before, that it may or may not be processed: push it again after a new start if
/// [`Producer::durable`](super::Producer::durable) is less.
#[must_use = "a future does nothing unless it is awaited, or waited for"]
pub struct Durable {
    told: Arc<Told>,
    number: u64,
    listener: Option<EventListener>,
}

impl Durable {
    pub(super) fn new(told: Arc<Told>, number: u64) -> Durable {
        Durable { told, number, listener: None }
    }

    /// Waits on the calling thread.
    ///
    /// # Errors
    ///
    /// If the job has ended before, or takes no checkpoints.
    pub fn wait(self) -> Result<(), InputError> {
        loop {
            let listener = self.told.changed.listen();
            match self.told.verdict(self.number) {
                Some(verdict) => return verdict,
                None => listener.wait(),
            }
        }
    }

    /// Waits so long on the calling thread; answers none if it is not known by then.
    ///
    /// # Errors
    ///
    /// If the job has ended before, or takes no checkpoints.
    pub fn wait_for(&self, timeout: Duration) -> Option<Result<(), InputError>> {
        let clock = Clock::system();
        loop {
            let listener = self.told.changed.listen();
            let left = timeout.checked_sub(clock.now());
            match (self.told.verdict(self.number), left) {
                (None, Some(left)) => _ = listener.wait_timeout(left),
                (verdict, _) => return verdict,
            }
        }
    }
}

impl Future for Durable {
    type Output = Result<(), InputError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(verdict) = self.told.verdict(self.number) {
                return Poll::Ready(verdict);
            }
            match &mut self.listener {
                // Looked at again once somebody listens.
                None => self.listener = Some(self.told.changed.listen()),
                Some(listener) => match Pin::new(listener).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => self.listener = None,
                },
            }
        }
    }
}

/// What a producer is told.
pub(super) struct Told {
    pub(super) producer: String,
    durable: AtomicU64,
    /// Why nothing more becomes durable.
    end: OnceLock<InputError>,
    /// One of these has changed.
    changed: Event,
    callbacks: Mutex<BTreeMap<u64, Vec<Callback>>>,
}

pub(super) type Callback = Box<dyn FnOnce(Result<(), InputError>) + Send>;

impl Told {
    pub(super) fn new(producer: &str, durable: u64, durability: Durability) -> Arc<Told> {
        let told = Told {
            producer: producer.to_owned(),
            durable: AtomicU64::new(durable),
            end: OnceLock::new(),
            changed: Event::new(),
            callbacks: Mutex::default(),
        };
        if durability == Durability::None {
            let _ = told.end.set(InputError::NoCheckpoints);
        }
        Arc::new(told)
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Is this push durable? None if nobody knows yet.
    fn verdict(&self, number: u64) -> Option<Result<(), InputError>> {
        // Looked at first: what becomes durable does so before the end.
        let end = self.end.get();
        if self.durable() >= number { Some(Ok(())) } else { end.cloned().map(Err) }
    }

    pub(super) fn raise(&self, durable: u64) {
        if self.durable.fetch_max(durable, Ordering::AcqRel) < durable {
            self.tell();
        }
    }

    pub(super) fn end(&self) {
        if self.end.set(self.ended()).is_ok() {
            self.tell();
        }
    }

    /// What a push after the end of the job is told.
    pub(super) fn ended(&self) -> InputError {
        InputError::Ended { producer: self.producer.clone(), durable: self.durable() }
    }

    /// Calls back when this push is durable, or can be so no more.
    pub(super) fn call(&self, number: u64, callback: Callback) {
        lock(&self.callbacks).entry(number).or_default().push(callback);
        if self.verdict(number).is_some() {
            self.tell();
        }
    }

    fn tell(&self) {
        self.changed.notify(usize::MAX);
        let mut waiting = lock(&self.callbacks);
        let mut known = Vec::new();
        while let Some(first) = waiting.first_entry() {
            let Some(verdict) = self.verdict(*first.key()) else { break };
            known.extend(first.remove().into_iter().map(|call| (call, verdict.clone())));
        }
        drop(waiting);
        for (call, verdict) in known {
            // Whoever panics here keeps nobody else from being told; the panic hook has said it.
            let _ = catch_unwind(AssertUnwindSafe(|| call(verdict)));
        }
    }
}
