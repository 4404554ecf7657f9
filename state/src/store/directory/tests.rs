use super::*;

fn open(root: &Path) -> Directory {
    Directory::open(root).unwrap()
}

#[test]
fn o1_a_crash_at_each_step_of_a_put_leaves_nothing_or_the_whole() {
    for steps in 0..=5 {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        store.put_new("job", b"job").unwrap();
        let path = store.path("lives/1");
        let mut temporary = PathBuf::new();
        let put: [&mut dyn FnMut(&mut PathBuf); 5] = [
            &mut |_| drop(store.folder(&path).unwrap()),
            &mut |temporary| *temporary = store.write_temporary(b"whole").unwrap(),
            &mut |temporary| Directory::link(temporary, &path, b"whole").unwrap(),
            &mut |temporary| fs::remove_file(temporary).unwrap(),
            &mut |_| sync_folder(path.parent().unwrap()).unwrap(),
        ];
        put.into_iter().take(steps).for_each(|step| step(&mut temporary));
        // A crash between two bytes of the temporary file.
        fs::write(root.path().join(TEMPORARY).join("torn"), b"who").unwrap();
        drop(store);

        let store = open(root.path());
        let there: &[&str] = if steps >= 3 { &["job", "lives/1"] } else { &["job"] };
        assert_eq!(store.list("").unwrap(), there, "after {steps} steps");
        assert_eq!(fs::read_dir(root.path().join(TEMPORARY)).unwrap().count(), 0);
        // O3: the put is repeated.
        store.put_new("lives/1", b"whole").unwrap();
        assert_eq!(store.read("lives/1").unwrap(), b"whole");
    }
}

#[test]
fn o1_a_put_never_replaces() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    store.put_new("marks/1", b"one").unwrap();
    let error = store.put_new("marks/1", b"two").unwrap_err();
    assert!(matches!(&error, StoreError::Exists { file } if file.ends_with("marks/1")), "{error}");
    assert!(matches!(store.create("marks/1"), Err(StoreError::Exists { .. })));
    assert_eq!(store.read("marks/1").unwrap(), b"one");
}

#[test]
fn a_directory_has_one_owner() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let error = Directory::open(root.path()).unwrap_err().to_string();
    let pid = std::process::id();
    let says = format!("is in use by process {pid}: stop that process first");
    assert!(error.ends_with(&says), "{error}");
    drop(store);
    open(root.path());
}

/// Another thread started a process in the moment in which a job ended: the process had the locked
/// file until it executed its program, and the next life of the job was refused.
#[test]
fn a_directory_is_free_at_once_though_a_forked_process_has_a_copy_of_its_lock() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let forked = store.lock.try_clone().unwrap();
    drop(store);
    open(root.path());
    drop(forked);
}

#[test]
fn a_directory_with_other_files_is_refused_and_not_changed() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("letter.txt"), "dear").unwrap();
    let error = Directory::open(root.path()).unwrap_err();
    assert!(
        matches!(error, OpenError::Foreign { ref file, .. } if file == "letter.txt"),
        "{error}"
    );
    let names = names_in(root.path()).unwrap();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["letter.txt"]);
}

#[test]
fn a_directory_that_lost_its_job_record_is_refused() {
    let root = tempfile::tempdir().unwrap();
    open(root.path()).put_new("manifests/1", b"").unwrap();
    assert!(matches!(Directory::open(root.path()), Err(OpenError::Foreign { .. })));
}

#[test]
fn objects_are_listed_read_in_parts_and_deleted() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut file = store.create("segments/2").unwrap();
    file.append(b"hello ").unwrap();
    file.append(b"world").unwrap();
    file.finish().unwrap();
    store.put_new("segments/1", b"").unwrap();
    store.put_new("job", b"").unwrap();
    assert_eq!(store.list("").unwrap(), ["job", "segments/1", "segments/2"]);
    assert_eq!(store.list("segments/").unwrap(), ["segments/1", "segments/2"]);
    assert_eq!(store.len("segments/2").unwrap(), 11);
    assert_eq!(store.read_range("segments/2", 6, 5).unwrap(), b"world");
    assert!(store.read_range("segments/2", 7, 5).is_err());
    store.delete(&["segments/2".into(), "segments/3".into()]).unwrap();
    let error = store.read("segments/2").unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
}

#[test]
fn a_full_disk_is_said_to_be_full() {
    let full = io::Error::from(ErrorKind::StorageFull);
    let error = failed("write", Path::new("d/segments/1"))(full).to_string();
    assert!(error.starts_with("no space is left for \"d/segments/1\": free some"), "{error}");
}
