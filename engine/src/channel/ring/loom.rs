//! The ring in every interleaving, and with every value that a load may see.
//!
//! Which weakened ordering is noticed by which test, as `every_ordering_is_needed` prints it:
//!
//! * `push`, release of `tail`, and `pop`, acquire of it: both.
//! * `pop`, release of `head`, and `push`, acquire of it: `items_pass_…`, which uses a slot again.

use super::ring;
use crate::sync::thread;
use crate::sync::weaken::{named, outcomes, unnoticed};

/// Three items through two slots, so that a slot is used again, while the consumer looks three
/// times. Gives what it saw, and which pushes found room.
fn passing() -> (Vec<Option<u32>>, Vec<bool>) {
    let (mut producer, mut consumer) = ring(2);
    let sender = thread::spawn(move || (1..=3).map(|i| producer.push(i).is_ok()).collect());
    let seen: Vec<Option<u32>> = (0..3).map(|_| consumer.pop()).collect();
    let pushed: Vec<bool> = sender.join().unwrap();

    let rest = std::iter::from_fn(|| consumer.pop());
    let got: Vec<u32> = seen.iter().flatten().copied().chain(rest).collect();
    let sent: Vec<u32> = (1..=3).filter(|i| pushed[*i as usize - 1]).collect();
    assert_eq!(got, sent, "R2: nothing is lost, doubled or out of order");
    assert!(pushed[0] && pushed[1], "R1: two slots hold two items");
    (seen, pushed)
}

/// Both ends are dropped, in any order, with items left. Gives how many were popped.
fn dropping() -> usize {
    let item = std::sync::Arc::new(());
    let (mut producer, mut consumer) = ring(2);
    let sent = item.clone();
    let sender = thread::spawn(move || {
        (0..2).for_each(|_| producer.push(sent.clone()).unwrap());
    });
    let popped = (0..2).filter_map(|_| consumer.pop()).count();
    drop(consumer);
    sender.join().unwrap();
    assert_eq!(std::sync::Arc::strong_count(&item), 1, "R2: each item is dropped once");
    popped
}

#[test]
fn items_pass_once_and_in_order() {
    let outcomes = outcomes(passing);
    assert!(outcomes.len() > 1);
    assert!(outcomes.iter().any(|(seen, _)| seen[0].is_none() && seen[1] == Some(1)));
    assert!(outcomes.iter().any(|(seen, pushed)| seen[0] == Some(1) && pushed[2]), "a slot again");
    assert!(outcomes.iter().any(|(_, pushed)| !pushed[2]), "a full ring");
}

#[test]
fn items_left_are_dropped_once() {
    assert_eq!(outcomes(dropping).into_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn every_ordering_is_needed() {
    let tests = named![items_pass_once_and_in_order items_left_are_dropped_once];
    assert!(unnoticed("channel/ring.rs", module_path!(), tests).is_empty());
}
