//! Credit in every interleaving, and with every value that a load may see.
//!
//! Which weakened ordering is noticed by which test, as `every_ordering_is_needed` prints it:
//!
//! * `give_back`, release, and `look`, acquire: both. The one finds no room in the ring, the other
//!   writes a buffer that is being read.

use std::sync::atomic::AtomicUsize as Count;

use super::credit;
use crate::channel::ring::ring;
use crate::sync::Ordering::Relaxed;
use crate::sync::weaken::{named, outcomes, unnoticed};
use crate::sync::{Arc, UnsafeCell, thread};

/// Four tries to send under a limit of two. Gives how many had credit.
///
/// The count of batches not processed is std's, not loom's: it is exact in every interleaving and
/// orders nothing.
fn sending() -> usize {
    let (mut credit, mut returned) = credit(2);
    let (mut producer, mut consumer) = ring(2);
    let unprocessed = std::sync::Arc::new(Count::new(0));
    let count = unprocessed.clone();
    let receiver = thread::spawn(move || {
        for _ in 0..2 {
            if consumer.pop().is_some() {
                count.fetch_sub(1, Relaxed);
                returned.give_back();
            }
        }
    });
    let mut sent = 0;
    for _ in 0..4 {
        if credit.has() {
            credit.take();
            assert!(unprocessed.fetch_add(1, Relaxed) < 2, "C1: two batches at most");
            assert!(producer.push(()).is_ok(), "C2: who has credit finds room");
            sent += 1;
        }
    }
    receiver.join().unwrap();
    sent
}

/// One buffer goes to the receiver and is written again as soon as its credit is back: loom fails
/// if the receiver's reading does not come before that. Gives how many times it was sent.
fn reusing() -> u32 {
    let (mut credit, mut returned) = credit(1);
    let (mut producer, mut consumer) = ring(1);
    let buffer = Arc::new(UnsafeCell::new(0));
    let batch = buffer.clone();
    let receiver = thread::spawn(move || {
        for _ in 0..2 {
            if let Some(round) = consumer.pop() {
                // SAFETY: loom's cell fails the test instead of racing.
                batch.with(|cell| assert_eq!(unsafe { *cell }, round));
                returned.give_back();
            }
        }
    });
    let mut round = 0;
    for _ in 0..3 {
        if credit.has() {
            credit.take();
            round += 1;
            // SAFETY: as above.
            buffer.with_mut(|cell| unsafe { *cell = round });
            assert!(producer.push(round).is_ok(), "C2: who has credit finds room");
        }
    }
    receiver.join().unwrap();
    round
}

#[test]
fn no_more_than_the_limit_is_unprocessed() {
    assert_eq!(outcomes(sending).into_iter().collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn a_batch_is_done_with_when_its_credit_is_back() {
    assert_eq!(outcomes(reusing).into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn every_ordering_is_needed() {
    let tests =
        named![no_more_than_the_limit_is_unprocessed a_batch_is_done_with_when_its_credit_is_back];
    assert!(unnoticed("channel/credit.rs", module_path!(), tests).is_empty());
}
