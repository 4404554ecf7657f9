//! The restore plan: which worker of a new life reads what the workers of the old one left.
//!
//! In-flight data is not sent again. Before the dataflow starts, each worker reads what was in
//! flight on the input edges of its operators, keeps what the edge routes to it, and lays it into a
//! queue of its own, which is drained before anything that is pulled on that edge.
//!
//! ```text
//!   old receiver 0: restored │ inbox 0→0, outbox 0→0 │ inbox 1→0, outbox 1→0     ─┐ in this order,
//!   old receiver 1: restored │ inbox 0→1, outbox 0→1 │ inbox 1→1, outbox 1→1     ─┘ receivers too
//! ```
//!
//! # Invariants
//!
//! * **P1**: every piece is read, by one new worker, or by all, each keeping the records that are
//!   routed to it: then each record is kept once. On a broadcast edge each old receiver holds a
//!   whole, and every new worker takes one of them.
//! * **P2**: of one sender and receiver, what was restored earlier comes before what the receiver
//!   had, and that before what the sender still held: the order in which it was sent.
//!
//! Not here: where the pieces lie in a segment, and the routes themselves.

use std::collections::BTreeSet;

use crate::sync::{Fault, fault};

/// How an edge chooses the receivers of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeKind {
    /// By the hash of the key.
    Keyed,
    /// By a function of the record and the number of workers.
    Custom,
    /// The worker itself.
    Pointwise,
    /// Any worker, in turn.
    Rebalance,
    /// All workers.
    Broadcast,
}

/// The number of workers of a job before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    /// In the life that took the checkpoint.
    pub old: usize,
    /// In the life that restores it.
    pub new: usize,
}

/// A piece of in-flight data of one edge, by workers of the old life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// What the receiver had left of the data that it had restored itself.
    Restored {
        /// The receiver.
        receiver: usize,
    },
    /// What the receiver had pulled and not processed, or pulled after its cut.
    Inbox {
        /// The receiver.
        receiver: usize,
        /// Who had sent it.
        sender: usize,
    },
    /// What the sender had not sent.
    Outbox {
        /// For whom.
        receiver: usize,
        /// The sender.
        sender: usize,
    },
}

/// One piece to be read by a new worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// The piece.
    pub place: Place,
    /// Others read it too: keep the records that the edge routes here.
    pub is_shared: bool,
}

/// The old workers whose share new worker `me` reads: as receivers of an edge, or as holders of
/// state. Keyed state and entries with an id are read as [`EdgeKind::Keyed`], broadcast state as
/// [`EdgeKind::Broadcast`].
pub fn sources(kind: EdgeKind, me: usize, scale: Scale) -> Vec<usize> {
    match kind {
        EdgeKind::Keyed | EdgeKind::Custom => (0..scale.old).collect(),
        EdgeKind::Pointwise | EdgeKind::Rebalance => (me..scale.old).step_by(scale.new).collect(),
        EdgeKind::Broadcast if fault(Fault::BroadcastMix) => vec![(me + 1) % scale.old],
        EdgeKind::Broadcast => vec![me % scale.old],
    }
}

/// What new worker `me` reads of the in-flight data of an edge, in the order of its queue (P2).
pub fn reads(kind: EdgeKind, me: usize, scale: Scale) -> Vec<Read> {
    let is_shared = matches!(kind, EdgeKind::Keyed | EdgeKind::Custom);
    let mut reads = vec![];
    for receiver in sources(kind, me, scale) {
        let senders = match kind {
            EdgeKind::Pointwise => receiver..receiver + 1,
            _ => 0..scale.old,
        };
        let channels = senders.flat_map(|sender| {
            [Place::Inbox { receiver, sender }, Place::Outbox { receiver, sender }]
        });
        let places = std::iter::once(Place::Restored { receiver }).chain(channels);
        reads.extend(places.map(|place| Read { place, is_shared }));
    }
    reads
}

/// The splits that worker `me` reads: sorted by name, they are dealt out in turn. So all workers
/// agree without a word, whatever the order in which a system lists its splits.
pub fn splits<'a>(
    names: impl IntoIterator<Item = &'a str>,
    me: usize,
    workers: usize,
) -> Vec<&'a str> {
    let sorted: BTreeSet<&str> = names.into_iter().collect();
    sorted.into_iter().skip(me).step_by(workers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [EdgeKind; 5] = [
        EdgeKind::Keyed,
        EdgeKind::Custom,
        EdgeKind::Pointwise,
        EdgeKind::Rebalance,
        EdgeKind::Broadcast,
    ];

    fn scales() -> impl Iterator<Item = Scale> {
        (1..=4).flat_map(|old| (1..=4).map(move |new| Scale { old, new }))
    }

    /// Every piece that can exist on an edge.
    fn pieces(kind: EdgeKind, old: usize) -> BTreeSet<Place> {
        let mut all: BTreeSet<_> = (0..old).map(|receiver| Place::Restored { receiver }).collect();
        for (receiver, sender) in (0..old).flat_map(|r| (0..old).map(move |s| (r, s))) {
            if kind != EdgeKind::Pointwise || receiver == sender {
                all.insert(Place::Inbox { receiver, sender });
                all.insert(Place::Outbox { receiver, sender });
            }
        }
        all
    }

    #[test]
    fn every_piece_is_read_by_one_worker_or_by_all_with_a_filter() {
        for (kind, scale) in KINDS.into_iter().flat_map(|kind| scales().map(move |s| (kind, s))) {
            if kind == EdgeKind::Broadcast {
                continue;
            }
            let all: Vec<_> = (0..scale.new).flat_map(|me| reads(kind, me, scale)).collect();
            for piece in pieces(kind, scale.old) {
                let of_it: Vec<_> = all.iter().filter(|read| read.place == piece).collect();
                let is_shared = of_it.iter().all(|read| read.is_shared);
                let expected = if is_shared { scale.new } else { 1 };
                assert_eq!(of_it.len(), expected, "P1: {kind:?} {scale:?} {piece:?}");
            }
            let known = pieces(kind, scale.old);
            assert!(all.iter().all(|read| known.contains(&read.place)), "P1: {kind:?} {scale:?}");
        }
    }

    #[test]
    fn a_worker_takes_one_old_worker_of_a_broadcast_whole() {
        for scale in scales() {
            for me in 0..scale.new {
                let reads = reads(EdgeKind::Broadcast, me, scale);
                assert_eq!(reads.len(), 1 + 2 * scale.old, "P1");
                for Read { place, is_shared } in reads {
                    let (Place::Restored { receiver }
                    | Place::Inbox { receiver, .. }
                    | Place::Outbox { receiver, .. }) = place;
                    assert_eq!(receiver, me % scale.old, "P1");
                    assert!(!is_shared, "P1");
                }
            }
        }
    }

    #[test]
    fn pieces_of_a_channel_are_read_in_the_order_in_which_they_were_sent() {
        for (kind, scale) in KINDS.into_iter().flat_map(|kind| scales().map(move |s| (kind, s))) {
            for me in 0..scale.new {
                let places: Vec<_> = reads(kind, me, scale).iter().map(|read| read.place).collect();
                let position = |place: Place| places.iter().position(|other| *other == place);
                for place in &places {
                    let Place::Outbox { receiver, sender } = *place else { continue };
                    let restored = position(Place::Restored { receiver });
                    let inbox = position(Place::Inbox { receiver, sender });
                    assert!(restored < inbox && inbox < position(*place), "P2: {kind:?} {scale:?}");
                }
            }
        }
    }

    #[test]
    fn sources_depend_on_the_kind_of_edge() {
        let scale = Scale { old: 3, new: 2 };
        assert_eq!(sources(EdgeKind::Keyed, 1, scale), [0, 1, 2]);
        assert_eq!(sources(EdgeKind::Rebalance, 0, scale), [0, 2]);
        assert_eq!(sources(EdgeKind::Broadcast, 1, scale), [1]);
    }

    #[test]
    fn with_as_many_workers_as_before_everybody_takes_what_was_its_own() {
        for kind in [EdgeKind::Pointwise, EdgeKind::Rebalance, EdgeKind::Broadcast] {
            for workers in 1..=4 {
                for me in 0..workers {
                    assert_eq!(sources(kind, me, Scale { old: workers, new: workers }), [me]);
                }
            }
        }
    }

    #[test]
    fn every_split_has_one_owner_whatever_the_order_in_which_it_is_listed() {
        let names = ["b", "d", "a", "c", "e"];
        assert_eq!(splits(names, 0, 2), ["a", "c", "e"]);
        assert_eq!(splits(names, 1, 2), ["b", "d"]);
        for workers in 1..=7 {
            let mut owned: Vec<_> =
                (0..workers).flat_map(|me| splits(names, me, workers)).collect();
            owned.sort();
            assert_eq!(owned, ["a", "b", "c", "d", "e"]);
        }
    }
}
