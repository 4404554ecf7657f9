//! Wake-ups in every interleaving, and with every value that a load may see: a lost one is a
//! deadlock, and loom fails on it.
//!
//! Which weakened ordering is noticed by which test, as `every_ordering_is_needed` prints it:
//!
//! * `notify` and `arm`, the two fences: `a_batch_…` and `a_returned_credit_…`.
//! * `arm`, release of `armed`, and `notify`, acquire of it: the same two, whose workers are
//!   adopted while the other side runs.
//! * `take`, acquire of the bit: `who_takes_a_bit_…`.

use std::sync::Arc;

use super::{Wake, WorkerWake};
use crate::channel::credit::credit;
use crate::channel::ring::ring;
use crate::sync::Ordering::Relaxed;
use crate::sync::weaken::{named, outcomes, unnoticed};
use crate::sync::{AtomicU64, thread};

/// How often a task that went idle found something at its second look, and how often a bit ran it.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Idled {
    second_looks: u32,
    woken: u32,
}

impl Idled {
    /// The task has found nothing to do; `look` is its second look.
    fn idle(&mut self, worker: &WorkerWake, wake: &Wake, look: impl FnOnce() -> bool) {
        wake.arm();
        if look() {
            wake.disarm();
            self.second_looks += 1;
            return;
        }
        let mut activated = false;
        while !activated {
            worker.take(|_| activated = true);
            if !activated {
                thread::park();
            }
        }
        self.woken += 1;
    }
}

/// Two batches, each published and notified, to a task that goes idle whenever it finds none.
fn batches() -> Idled {
    let worker = WorkerWake::new(1);
    let wake = Wake::new(worker.clone(), 0);
    let (mut producer, mut consumer) = ring(2);
    let receiver = wake.clone();
    let task = thread::spawn(move || {
        worker.adopt();
        let mut idled = Idled::default();
        for batch in 0..2 {
            let received = loop {
                match consumer.pop() {
                    Some(received) => break received,
                    None => idled.idle(&worker, &wake, || !consumer.is_empty()),
                }
            };
            assert_eq!(received, batch);
        }
        idled
    });
    for batch in 0..2 {
        producer.push(batch).unwrap();
        receiver.notify();
    }
    task.join().unwrap()
}

/// Credit of one batch comes back twice, to a task that goes idle whenever it has none.
fn credits() -> Idled {
    let worker = WorkerWake::new(1);
    let wake = Wake::new(worker.clone(), 0);
    let (mut credit, mut returned) = credit(2);
    credit.take();
    credit.take();
    let sender = wake.clone();
    let task = thread::spawn(move || {
        worker.adopt();
        let mut idled = Idled::default();
        for _ in 0..2 {
            while !credit.has() {
                idled.idle(&worker, &wake, || credit.look());
            }
            credit.take();
        }
        idled
    });
    for _ in 0..2 {
        returned.give_back();
        sender.notify();
    }
    task.join().unwrap()
}

/// What was published before the notification is seen by who takes the bit. Gives whether it was
/// taken.
///
/// No thread has adopted the worker: loom lets an unpark publish at once, also to a thread that
/// does not park, and that would hide a bit that publishes nothing.
fn bits() -> bool {
    let worker = WorkerWake::new(1);
    let wake = Wake::new(worker.clone(), 0);
    let work = Arc::new(AtomicU64::new(0));
    let (receiver, published) = (wake.clone(), work.clone());
    let task = thread::spawn(move || {
        let mut taken = false;
        wake.arm();
        if work.load(Relaxed) == 0 {
            worker.take(|_| {
                taken = true;
                assert_eq!(work.load(Relaxed), 1, "W2");
            });
        }
        taken
    });
    published.store(1, Relaxed);
    receiver.notify();
    task.join().unwrap()
}

/// Two publishers find one armed task. Gives how often its bit was taken before both had ended.
fn twice() -> u32 {
    let worker = WorkerWake::new(1);
    let wake = Wake::new(worker.clone(), 0);
    wake.arm();
    let publishers = [wake.clone(), wake].map(|wake| thread::spawn(move || wake.notify()));
    let mut taken = 0;
    worker.take(|_| taken += 1);
    let early = taken;
    for publisher in publishers {
        publisher.join().unwrap();
    }
    worker.take(|_| taken += 1);
    assert_eq!(taken, 1, "W2: one bit for one arming");
    early
}

fn assert_both_ways(outcomes: &std::collections::BTreeSet<Idled>) {
    let some = |way: fn(&Idled) -> bool| outcomes.iter().any(way);
    assert!(some(|idled| *idled == Idled::default()), "never idle: {outcomes:?}");
    assert!(some(|idled| idled.second_looks > 0), "found at the second look: {outcomes:?}");
    assert!(some(|idled| idled.woken > 0), "woken: {outcomes:?}");
}

#[test]
fn a_batch_wakes_the_receiver() {
    assert_both_ways(&outcomes(batches));
}

#[test]
fn a_returned_credit_wakes_the_sender() {
    assert_both_ways(&outcomes(credits));
}

#[test]
fn who_takes_a_bit_sees_what_came_before_it() {
    assert_eq!(outcomes(bits).into_iter().collect::<Vec<_>>(), [false, true]);
}

#[test]
fn one_arming_raises_one_bit() {
    assert_eq!(outcomes(twice).into_iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn every_ordering_is_needed() {
    let tests = named![a_batch_wakes_the_receiver a_returned_credit_wakes_the_sender
            who_takes_a_bit_sees_what_came_before_it one_arming_raises_one_bit];
    assert!(unnoticed("channel/wake.rs", module_path!(), tests).is_empty());
}
