use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

/// Answers each operation with the next of a list of faults.
fn drawn(faults: Vec<Fault>) -> Faults {
    let next = AtomicUsize::new(0);
    Arc::new(move |_| {
        faults.get(next.fetch_add(1, Ordering::Relaxed)).copied().unwrap_or(Fault::None)
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    prop::sample::select(vec![Fault::None, Fault::Fail, Fault::Unknown, Fault::Torn])
}

proptest! {
    #[test]
    fn o1_o3_a_put_is_whole_or_absent_and_repeating_it_succeeds(
        faults in prop::collection::vec(fault(), 0..6),
    ) {
        let store = Memory::new();
        let faulty = store.with_faults(drawn(faults));
        let mut last = faulty.put_new("name", b"whole");
        for _ in 0..6 {
            store.crash();
            match store.read("name") {
                Ok(bytes) => prop_assert_eq!(bytes, b"whole"),
                Err(_) => prop_assert!(last.is_err()),
            }
            last = faulty.put_new("name", b"whole");
        }
        prop_assert!(last.is_ok());
    }

    #[test]
    fn o2_what_is_appended_is_whole_once_it_is_finished(
        faults in prop::collection::vec(fault(), 0..4),
    ) {
        let store = Memory::new();
        let faulty = store.with_faults(drawn(faults));
        let write = || {
            let mut file = faulty.create("name")?;
            file.append(b"some")?;
            file.append(b"more")?;
            file.finish()
        };
        let written = write();
        store.crash();
        if written.is_ok() {
            prop_assert_eq!(store.read("name").unwrap(), b"somemore");
        }
    }
}

#[test]
fn a_torn_append_is_there_by_half() {
    let store = Memory::new();
    let faulty = store.with_faults(drawn(vec![Fault::None, Fault::Torn]));
    faulty.create("name").unwrap().append(b"1234").unwrap_err();
    assert_eq!(store.read("name").unwrap(), b"12");
}
