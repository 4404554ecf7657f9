//! A queue from many threads to one service of a job, which sleeps while it is empty.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Unbounded: what is put in is bounded by what a checkpoint consists of.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    arrived: Condvar,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { items: Mutex::new(VecDeque::new()), arrived: Condvar::new() }
    }
}

impl<T> Queue<T> {
    pub(crate) fn push(&self, item: T) {
        self.lock().push_back(item);
        self.arrived.notify_one();
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn pop(&self) -> Option<T> {
        self.lock().pop_front()
    }

    /// Waits at most so long for an item.
    pub(crate) fn pop_within(&self, wait: Option<Duration>) -> Option<T> {
        let items = self.lock();
        let mut items = match wait {
            _ if !items.is_empty() => items,
            None => self.arrived.wait(items).unwrap_or_else(PoisonError::into_inner),
            Some(wait) => {
                let woken = self.arrived.wait_timeout(items, wait);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        items.pop_front()
    }

    /// Waits for an item; once there is one, for `count` of them, but not longer than `patience`.
    /// Answers what there is: nothing, if it was woken with nothing.
    pub(crate) fn gather(&self, count: usize, patience: Duration) -> VecDeque<T> {
        let mut items = self.lock();
        if items.is_empty() {
            items = self.arrived.wait(items).unwrap_or_else(PoisonError::into_inner);
        }
        if !items.is_empty() {
            let gathered =
                self.arrived.wait_timeout_while(items, patience, |items| items.len() < count);
            items = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut items)
    }

    /// Drops what nobody will take any more.
    pub(crate) fn clear(&self) {
        let items = std::mem::take(&mut *self.lock());
        drop(items);
    }

    /// Wakes whoever waits, with nothing.
    pub(crate) fn wake(&self) {
        // Under the lock, so that a service between its look and its wait is not missed.
        let _items = self.lock();
        self.arrived.notify_all();
    }

    /// Puts an item back.
    #[cfg(feature = "simulation")]
    pub(crate) fn push_front(&self, item: T) {
        self.lock().push_front(item);
    }

    /// Takes the item that `choose` picks among so many: the simulation has no order.
    #[cfg(feature = "simulation")]
    pub(crate) fn pick(&self, choose: impl FnOnce(usize) -> usize) -> Option<T> {
        let mut items = self.lock();
        let count = items.len();
        if count == 0 { None } else { items.remove(choose(count)) }
    }

    /// Drops the items that nobody needs.
    #[cfg(feature = "simulation")]
    pub(crate) fn retain(&self, is_needed: impl FnMut(&T) -> bool) {
        self.lock().retain(is_needed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<T>> {
        // A thread that panicked while it pushed left a whole queue behind.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gathers_is_given_the_whole_or_what_there_is_when_patience_ends() {
        let queue = Queue::default();
        (0..3).for_each(|item| queue.push(item));
        assert_eq!(queue.gather(3, Duration::from_secs(600)), [0, 1, 2]);
        queue.push(3);
        assert_eq!(queue.gather(3, Duration::from_millis(1)), [3]);
        std::thread::scope(|scope| {
            // It may be woken with nothing.
            let gather = || loop {
                let gathered = queue.gather(2, Duration::from_secs(600));
                if !gathered.is_empty() {
                    break gathered;
                }
            };
            let late = scope.spawn(gather);
            queue.push(4);
            queue.push(5);
            let gathered = late.join().expect("it does not panic");
            assert_eq!(gathered, [4, 5]);
        });
    }
}
