//! An answer that comes later: to a thread that waits for it, or to a future.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use oneshot::{AsyncReceiver, Receiver, RecvTimeoutError, Sender};

use crate::error::Error;

/// What a job was asked for and has not answered yet: a checkpoint, a savepoint, the state of a
/// key. It can be awaited; who has no runtime [waits](Pending::wait). Dropped, the job goes on with
/// it all the same.
///
/// Its error is [`Error::Ended`] if the job, or its life, ended before the answer.
#[derive(Debug)]
pub struct Pending<T> {
    answer: Receiver<Result<T, Error>>,
}

/// Who is to answer.
pub(crate) type Answer<T> = Sender<Result<T, Error>>;

impl<T> Pending<T> {
    pub(crate) fn new() -> (Answer<T>, Pending<T>) {
        let (sender, answer) = oneshot::channel();
        (sender, Pending { answer })
    }

    /// Waits on the calling thread.
    ///
    /// # Errors
    ///
    /// Why there is no such answer.
    pub fn wait(self) -> Result<T, Error> {
        self.answer.recv().unwrap_or(Err(Error::Ended))
    }

    /// Waits so long on the calling thread; gives it back if there is no answer by then.
    ///
    /// # Errors
    ///
    /// Why there is no such answer.
    pub fn wait_for(self, timeout: Duration) -> Result<Result<T, Error>, Pending<T>> {
        match self.answer.recv_timeout(timeout) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => Err(self),
            Err(RecvTimeoutError::Disconnected) => Ok(Err(Error::Ended)),
        }
    }
}

impl<T> IntoFuture for Pending<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Awaiting<T>;

    fn into_future(self) -> Awaiting<T> {
        Awaiting { answer: self.answer.into_future() }
    }
}

/// A [`Pending`] answer as a future.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Awaiting<T> {
    answer: AsyncReceiver<Result<T, Error>>,
}

impl<T> Future for Awaiting<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| answer.unwrap_or(Err(Error::Ended)))
    }
}
