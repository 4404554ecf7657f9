//! A bounded, wait-free ring between one producer thread and one consumer thread.
//!
//! ```text
//!              head        tail
//!               v           v
//!   slots  . . [a][b][c][d] . . . .     `pop` takes at `head`, `push` writes at `tail`
//! ```
//!
//! Each end keeps the index that it writes in a plain field, and remembers the other end's: a push
//! or pop touches the other's cache line only when the ring looks full or empty. Indices grow for
//! ever and wrap with the integer; the slots are a power of two, so that an index finds its slot by
//! a mask, and the bound is the capacity asked for.
//!
//! # Invariants
//!
//! * **R1**: `head <= tail <= head + capacity`; both only grow.
//! * **R2**: slots in `head..tail` are initialized and the consumer's; all others are the
//!   producer's.
//! * **R3**: only the producer stores `tail`, only the consumer stores `head`.
//!
//! Not here: who may push how much (`credit.rs`), and who is woken (`wake.rs`).

use std::fmt;
use std::mem::MaybeUninit;

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Arc, AtomicUsize, Padded, UnsafeCell, stale, yield_point};

/// Makes a ring that holds at most `capacity` items, and gives its two ends.
pub(crate) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity > 0, "a ring without a slot carries nothing");
    let slot = || UnsafeCell::new(MaybeUninit::uninit());
    let ring = Arc::new(Ring {
        head: Padded(AtomicUsize::new(0)),
        tail: Padded(AtomicUsize::new(0)),
        slots: (0..capacity.next_power_of_two()).map(|_| slot()).collect(),
        capacity,
    });
    let consumer = Consumer { ring: ring.clone(), head: 0, tail: 0 };
    (Producer { ring, tail: 0, head: 0 }, consumer)
}

struct Ring<T> {
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    capacity: usize,
}

// SAFETY: by R2 a slot belongs to one end at a time and changes hands by a release and an acquire,
// so a shared ring moves items from thread to thread and never shares one.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    #[inline]
    fn slot(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[index & (self.slots.len() - 1)]
    }

    /// # Safety
    ///
    /// `index` is in `head..tail`, the caller owns that slot, and moves `head` past it before
    /// anyone looks at it again.
    #[inline]
    unsafe fn take(&self, index: usize) -> T {
        self.slot(index).with(|slot| {
            // SAFETY: by R2 and the caller's promise the slot is initialized and read once.
            unsafe { (*slot).assume_init_read() }
        })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Relaxed: both ends are gone, and the last reference was dropped after their last stores.
        let (mut head, tail) = (self.head.load(Relaxed), self.tail.load(Relaxed));
        while head != tail {
            // SAFETY: by R2 the slot is initialized; nobody else is left, and `head` moves on.
            drop(unsafe { self.take(head) });
            head = head.wrapping_add(1);
        }
    }
}

/// The end that pushes.
pub(crate) struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// Ours: the next slot to write (R3).
    tail: usize,
    /// The consumer's, as last seen.
    head: usize,
}

impl<T> Producer<T> {
    /// Appends an item, or gives it back if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        if self.is_full() {
            // Acquire: the consumer has done with the slots before `head`; pairs with the release
            // in `pop`.
            self.head = self.ring.head.load(Acquire);
            if self.is_full() {
                return Err(item);
            }
        }
        self.ring.slot(self.tail).with_mut(|slot| {
            // SAFETY: by R1 and R2 the slot at `tail` is ours until the store below publishes it.
            unsafe { (*slot).write(item) };
        });
        self.tail = self.tail.wrapping_add(1);
        // Release: publishes the slot; pairs with the acquire in `pop`.
        self.ring.tail.store(self.tail, Release);
        yield_point();
        Ok(())
    }

    /// As far as the remembered head tells.
    #[inline]
    fn is_full(&self) -> bool {
        self.tail.wrapping_sub(self.head) == self.ring.capacity
    }
}

/// The end that pops.
pub(crate) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// Ours: the next slot to read (R3).
    head: usize,
    /// The producer's, as last seen.
    tail: usize,
}

impl<T> Consumer<T> {
    /// Takes the oldest item.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        yield_point();
        if self.head == self.tail {
            if stale() {
                return None;
            }
            // Acquire: makes the slots before `tail` visible; pairs with the release in `push`.
            self.tail = self.ring.tail.load(Acquire);
            if self.head == self.tail {
                return None;
            }
        }
        // SAFETY: by R2 the slot at `head` is ours until the store below gives it back.
        let item = unsafe { self.ring.take(self.head) };
        self.head = self.head.wrapping_add(1);
        // Release: the slot is read; pairs with the acquire in `push`.
        self.ring.head.store(self.head, Release);
        Some(item)
    }

    /// How many items are there at least. Never stale (Y2).
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Relaxed: nothing is read on the strength of it; after arming, the fence makes it fresh
        // (W1).
        self.ring.tail.load(Relaxed).wrapping_sub(self.head)
    }

    /// Whether nothing is there. Never stale (Y2): this is the look after arming.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("tail", &self.tail).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("head", &self.head).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_the_order_in_which_they_went_in() {
        let (mut producer, mut consumer) = ring(3);
        for round in 0..10 {
            (0..3).for_each(|i| producer.push(round * 3 + i).unwrap());
            assert_eq!(consumer.len(), 3);
            (0..3).for_each(|i| assert_eq!(consumer.pop(), Some(round * 3 + i)));
            assert!(consumer.is_empty());
            assert_eq!(consumer.pop(), None);
        }
    }

    #[test]
    fn a_full_ring_gives_the_item_back() {
        let (mut producer, mut consumer) = ring(3);
        (0..3).for_each(|i| producer.push(i).unwrap());
        assert_eq!(
            producer.push(3),
            Err(3),
            "the bound is what was asked for, not the power of two"
        );
        assert_eq!(consumer.pop(), Some(0));
        assert_eq!(producer.push(3), Ok(()));
    }

    #[test]
    fn indices_wrap_with_the_integer() {
        let (mut producer, mut consumer) = ring(3);
        let start = usize::MAX - 1;
        (producer.tail, producer.head, consumer.tail, consumer.head) = (start, start, start, start);
        producer.ring.tail.store(start, Relaxed);
        producer.ring.head.store(start, Relaxed);
        (0..3).for_each(|i| producer.push(i).unwrap());
        assert_eq!(producer.push(3), Err(3));
        assert_eq!(consumer.len(), 3);
        (0..3).for_each(|i| assert_eq!(consumer.pop(), Some(i)));
        assert!(consumer.is_empty());
    }

    #[test]
    fn a_dropped_ring_drops_what_is_left_once() {
        let item = Arc::new(());
        let (mut producer, mut consumer) = ring(4);
        (0..4).for_each(|_| producer.push(item.clone()).unwrap());
        drop(consumer.pop());
        producer.push(item.clone()).unwrap();
        assert_eq!(Arc::strong_count(&item), 5);
        drop(producer);
        assert_eq!(Arc::strong_count(&item), 5, "the consumer may still pop them");
        drop(consumer);
        assert_eq!(Arc::strong_count(&item), 1);
    }

    #[test]
    fn two_threads_pass_everything_once_and_in_order() {
        const ITEMS: usize = 200_000;
        let (mut producer, mut consumer) = ring(7);
        let sender = std::thread::spawn(move || {
            for i in 0..ITEMS {
                let mut item = Box::new(i);
                while let Err(back) = producer.push(item) {
                    item = back;
                    std::thread::yield_now();
                }
            }
        });
        for i in 0..ITEMS {
            let item = loop {
                match consumer.pop() {
                    Some(item) => break item,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(*item, i);
        }
        sender.join().unwrap();
        assert!(consumer.is_empty());
    }
}
