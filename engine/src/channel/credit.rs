//! Credit of one channel: how many batches its sender may still send.
//!
//! The sender takes a credit with each batch; the receiver gives it back when the batch is
//! *processed*, not when it is pulled. So what a channel holds is bounded, wherever it is: in the
//! ring, in the inbox, behind the gate. Credit is per channel and never shared, or gated batches of
//! one sender would starve the others.
//!
//! # Invariants
//!
//! * **C1**: `returned <= sent <= returned + limit`; both only grow.
//! * **C2**: a sender that sees a credit back sees all that the receiver did with the batch before
//!   it gave it back. A ring of `limit` slots has room for who has credit, and the buffer given
//!   back is on its way.
//! * **C3**: only the receiver stores what was returned, only the sender counts what it sent.
//!
//! Not here: who is woken by a returned credit (`wake.rs`).

use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{Arc, AtomicUsize, Padded, stale, yield_point};

/// Makes the two ends of a channel's credit, of `limit` batches.
pub(crate) fn credit(limit: usize) -> (Credit, Returned) {
    assert!(limit > 0, "a channel without credit carries nothing");
    let shared = Arc::new(Padded(AtomicUsize::new(0)));
    let returned = Returned { shared: shared.clone(), count: 0 };
    (Credit { limit, sent: 0, known: 0, shared }, returned)
}

/// The sender's end: the right to send.
#[derive(Debug)]
pub(crate) struct Credit {
    limit: usize,
    sent: usize,
    /// What was returned, as last seen.
    known: usize,
    shared: Arc<Padded<AtomicUsize>>,
}

impl Credit {
    /// Whether one more batch may be sent.
    #[inline]
    pub(crate) fn has(&mut self) -> bool {
        if self.outstanding() < self.limit {
            return true;
        }
        yield_point();
        !stale() && self.look()
    }

    /// As [`has`](Credit::has), and never stale (Y2): this is the look after arming.
    #[inline]
    pub(crate) fn look(&mut self) -> bool {
        // Acquire: what the receiver did with the batches is done (C2); pairs with the release in
        // `give_back`.
        self.known = self.shared.load(Acquire);
        self.outstanding() < self.limit
    }

    /// Takes the credit for one batch. The caller has asked whether there is one.
    #[inline]
    pub(crate) fn take(&mut self) {
        assert!(self.outstanding() < self.limit, "a batch was sent without credit");
        self.sent = self.sent.wrapping_add(1);
    }

    /// Batches sent and not known to be processed.
    #[inline]
    fn outstanding(&self) -> usize {
        self.sent.wrapping_sub(self.known)
    }
}

/// The receiver's end: it gives credit back.
#[derive(Debug)]
pub(crate) struct Returned {
    shared: Arc<Padded<AtomicUsize>>,
    /// What `shared` holds (C3).
    count: usize,
}

impl Returned {
    /// A batch is processed. Whoever calls this notifies the sender afterwards.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        self.count = self.count.wrapping_add(1);
        // Release: the batch is done with (C2); pairs with the acquire in `look`.
        self.shared.store(self.count, Release);
        yield_point();
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
    fn a_sender_stops_at_its_limit_and_goes_on_when_credit_comes_back() {
        let (mut credit, mut returned) = credit(2);
        (0..2).for_each(|_| {
            assert!(credit.has());
            credit.take();
        });
        assert!(!credit.has());
        returned.give_back();
        assert!(credit.has());
        credit.take();
        assert!(!credit.has() && !credit.look());
    }

    #[test]
    #[should_panic(expected = "a batch was sent without credit")]
    fn a_batch_without_credit_is_our_fault() {
        let (mut credit, _returns) = credit(1);
        credit.take();
        credit.take();
    }

    #[test]
    fn counters_wrap_with_the_integer() {
        let (mut credit, mut returned) = credit(2);
        (credit.sent, credit.known, returned.count) = (usize::MAX, usize::MAX, usize::MAX);
        credit.take();
        credit.take();
        assert!(credit.outstanding() == 2);
        returned.give_back();
        assert!(credit.has());
    }

    #[test]
    fn who_has_credit_finds_room_in_a_ring_of_as_many_slots() {
        let (mut credit, mut returned) = credit(3);
        let (mut producer, mut consumer) = super::super::ring::ring(3);
        let receiver = std::thread::spawn(move || {
            let mut received = 0;
            while received < 100_000 {
                match consumer.pop() {
                    Some(i) => {
                        assert_eq!(i, received);
                        received += 1;
                        returned.give_back();
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
        for i in 0..100_000 {
            while !credit.has() {
                std::thread::yield_now();
            }
            credit.take();
            producer.push(i).unwrap();
        }
        receiver.join().unwrap();
    }
}
