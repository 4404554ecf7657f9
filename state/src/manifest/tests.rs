use proptest::prelude::*;

use super::*;
use crate::store::{Fault, Memory, Operation};

pub(crate) fn manifest(id: CheckpointId, segments: Vec<SegmentInfo>) -> Manifest {
    Manifest {
        job: "00ff".into(),
        id,
        workers: segments.len() as u32,
        hash: HASH.into(),
        operators: vec![OperatorInfo {
            name: "bill".into(),
            tables: vec![TableInfo {
                name: "invoices".into(),
                kind: TableKind::Map,
                layouts: vec![crate::layout::<u64>(), crate::layout::<String>()],
            }],
        }],
        edges: vec![EdgeInfo { name: "flights>bill#0".into(), record: crate::layout::<u64>() }],
        segments,
        transactions: vec![],
        ended: false,
        statistics: Statistics { captured_ns: 1, state_bytes: 2, ..Statistics::default() },
    }
}

fn segment(worker: u32, bytes: u64) -> SegmentInfo {
    SegmentInfo { name: format!("segments/{worker}"), worker, bytes, digest: 7, frames: 1 }
}

const ID: CheckpointId = CheckpointId { generation: 2, epoch: 9 };

fn published(store: &Memory, manifest: &Manifest) -> String {
    assert_eq!(publish(store, manifest).unwrap().id(), manifest.id);
    Manifest::name(manifest.id)
}

proptest! {
    #[test]
    fn what_is_published_is_opened(
        (generation, epoch) in (1..u64::MAX, 1..u64::MAX), workers in 1u32..5, ended: bool,
        data: Vec<u8>, sink in "[a-z>#é]{0,20}",
    ) {
        let id = CheckpointId { generation, epoch };
        let mut stored = manifest(id, (0..workers).map(|w| segment(w, epoch)).collect());
        stored.ended = ended;
        stored.transactions = vec![Transaction { sink, generation, epoch, worker: 0, data }; 2];
        let store = Memory::new();
        published(&store, &stored);
        prop_assert_eq!(Manifest::open(&store, id).unwrap(), stored);
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error() {
    let store = Memory::new();
    let name = published(&store, &manifest(ID, vec![segment(0, 5)]));
    let bytes = store.read(&name).unwrap();
    let refused = |bytes| {
        store.tamper(&name, bytes);
        let error = Manifest::open(&store, ID).unwrap_err();
        assert!(matches!(error, RestoreError::Damaged(_)), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
    };
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused(Some(flipped));
    }
    (0..bytes.len()).for_each(|len| refused(Some(bytes[..len].to_vec())));
    refused(None);
}

#[test]
fn a_manifest_under_another_name_is_refused() {
    let store = Memory::new();
    let name = published(&store, &manifest(ID, vec![segment(0, 5)]));
    let other = CheckpointId { epoch: 10, ..ID };
    store.tamper(&Manifest::name(other), Some(store.read(&name).unwrap()));
    let error = Manifest::open(&store, other).unwrap_err().to_string();
    assert!(error.contains("it is the manifest of checkpoint 2/9"), "{error}");
}

#[test]
fn f2_a_manifest_without_a_segment_of_each_worker_is_refused() {
    for workers in [vec![], vec![1], vec![1, 0], vec![0, 0], vec![0, 2]] {
        let store = Memory::new();
        let segments = workers.into_iter().map(|worker| segment(worker, 1)).collect();
        published(&store, &manifest(ID, segments));
        Manifest::open(&store, ID).unwrap_err();
    }
}

#[test]
fn another_hash_is_refused() {
    let store = Memory::new();
    let mut other = manifest(ID, vec![segment(0, 5)]);
    other.hash = "mix-rapidhash-4".into();
    published(&store, &other);
    let error = Manifest::open(&store, ID).unwrap_err().to_string();
    assert!(error.contains("\"mix-rapidhash-4\", not \"mix-rapidhash-3\""), "{error}");
}

#[test]
fn f1_an_unknown_result_is_retried_with_the_same_manifest_only() {
    let store = Memory::new();
    let unknown = store.with_faults(std::sync::Arc::new(|operation| match operation {
        Operation::Put(_) => Fault::Unknown,
        _ => Fault::None,
    }));
    let mut stored = manifest(ID, vec![segment(0, 5)]);
    let error = publish(&unknown, &stored).unwrap_err();
    assert!(matches!(error, WriteError::Store(StoreError::Unknown { .. })), "{error}");
    published(&store, &stored);
    stored.ended = true;
    let error = publish(&store, &stored).unwrap_err();
    assert!(matches!(error, WriteError::Store(StoreError::Exists { .. })), "{error}");
}
