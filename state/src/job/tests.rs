use super::*;
use crate::store::{Directory, Memory};

fn identity(input: &str, repeat: &str) -> Vec<(String, String)> {
    vec![("input".into(), input.into()), ("--repeat".into(), repeat.into())]
}

#[test]
fn another_identity_is_refused_by_name() {
    let store = Memory::new();
    Job::open(&store, &identity("a.csv", "1"), || 1).unwrap();
    let error = Job::open(&store, &identity("a.csv", "2"), || 2).unwrap_err().to_string();
    assert!(error.contains("a job whose --repeat is \"1\", and --repeat is \"2\" now"), "{error}");
    let error = Job::open(&store, &identity("a.csv", "1")[..1], || 2).unwrap_err().to_string();
    assert!(error.contains("--repeat is \"1\", and --repeat is \"\" now"), "{error}");
    assert_eq!(store.list("").unwrap(), ["job"]);
}

#[test]
fn a_record_is_made_in_an_empty_store_only() {
    let store = Memory::new();
    store.put_new("manifests/1", b"").unwrap();
    let error = Job::open(&store, &[], || 1).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { ref file, .. } if file == "manifests/1"));
    assert_eq!(store.list("").unwrap(), ["manifests/1"]);
}

#[test]
fn a_directory_is_the_same_job_in_the_next_life() {
    let root = tempfile::tempdir().unwrap();
    let open = || Job::open(&Directory::open(root.path()).unwrap(), &identity("a", "1"), draw_id);
    let made = open().unwrap();
    assert_eq!(made.id.len(), 16);
    assert_eq!(open().unwrap(), made);
}

#[test]
fn a_damaged_record_is_an_error_and_not_replaced() {
    let store = Memory::new();
    Job::open(&store, &identity("a", "1"), || 1).unwrap();
    let bytes = store.read(NAME).unwrap();
    let flips = (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    for damaged in flips.chain((0..bytes.len()).map(|len| bytes[..len].to_vec())) {
        store.tamper(NAME, Some(damaged.clone()));
        let error = Job::open(&store, &identity("a", "1"), || 2).unwrap_err();
        assert!(matches!(error, OpenError::Damaged(_)), "{error}");
        assert_eq!(store.read(NAME).unwrap(), damaged);
    }
}

#[test]
fn ids_are_drawn_at_random() {
    assert_ne!(draw_id(), draw_id());
}
