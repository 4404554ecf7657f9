use std::fs;
use std::process::Command;

use serde::Deserialize;

use super::*;
use crate::Waker;
use crate::channel::wake::{Wake, WorkerWake};
use crate::sink::Transaction;

#[derive(
    Clone,
    Debug,
    PartialEq,
    Serialize,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
struct Line {
    name: String,
    cents: i64,
    #[serde(skip)]
    due: u64,
}

fn line(cents: i64) -> Line {
    Line { name: "a \"b\",\nc".to_owned(), cents, due: 7 }
}

const JOB: &str = "00c0ffee00c0ffee";

fn open(sink: &PartFiles<Line>, name: &str, generation: u64) -> Result<PartFiles<Line>, BoxError> {
    let mut sink = sink.clone();
    let waker = Waker::new(Wake::new(WorkerWake::new(1), 0));
    let (job, name) = (JOB.to_owned(), name.to_owned());
    sink.open(SinkContext { job, name, generation, worker: 3, workers: 4, waker })?;
    Ok(sink)
}

/// Begins a life.
fn begun(directory: &Path, generation: u64) -> (PartFiles<Line>, Arc<dyn Target>) {
    let sink = PartFiles::csv(directory);
    let target = sink.target().unwrap();
    target.begin(JOB, generation, &[]).unwrap();
    (open(&sink, "invoices", generation).unwrap(), target)
}

fn cut(sink: &mut PartFiles<Line>, generation: u64, epoch: u64) -> (Transaction, Prepare) {
    let id = TransactionId { generation, epoch, worker: 3 };
    let (data, prepare) = sink.cut(id).unwrap().expect("something was written");
    let sink = "invoices".to_owned();
    (Transaction { sink, generation, epoch, worker: 3, data }, prepare)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const FIRST: &str = "part-00c0ffee00c0ffee-0000000002-0000000005-invoices-0003.csv";

#[test]
fn a_part_file_is_visible_when_it_is_committed_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("not/yet/there");
    let (mut sink, target) = begun(&output, 2);
    sink.write(&[line(1), line(2)]).unwrap();
    let (first, prepare_first) = cut(&mut sink, 2, 5);
    sink.write(&[line(3)]).unwrap();
    let (second, prepare_second) = cut(&mut sink, 2, 9);
    assert!(sink.cut(TransactionId { generation: 2, epoch: 10, worker: 3 }).unwrap().is_none());
    assert!(names(&output).iter().all(|name| name.starts_with('.')));

    prepare_first().unwrap();
    prepare_second().unwrap();
    let second_name = FIRST.replace("0000000005", "0000000009");
    assert_eq!(names(&output), [format!(".{FIRST}"), format!(".{second_name}")]);

    target.commit(&first).unwrap();
    assert_eq!(names(&output), [format!(".{second_name}"), FIRST.to_owned()]);
    target.commit(&first).unwrap();
    target.commit(&second).unwrap();
    let content = fs::read_to_string(output.join(FIRST)).unwrap();
    assert_eq!(content, "name,cents\n\"a \"\"b\"\",\nc\",1\n\"a \"\"b\"\",\nc\",2\n");
    let content = fs::read_to_string(output.join(second_name)).unwrap();
    assert_eq!(content, "name,cents\n\"a \"\"b\"\",\nc\",3\n");
}

#[test]
fn a_transaction_is_committed_by_another_process_after_everybody_died() {
    let directory = tempfile::tempdir().unwrap();
    let (mut sink, target) = begun(directory.path(), 2);
    sink.write(&[line(1)]).unwrap();
    let (transaction, prepare) = cut(&mut sink, 2, 5);
    drop((sink, target));
    prepare().unwrap();
    PartFiles::<Line>::csv(directory.path()).target().unwrap().commit(&transaction).unwrap();
    assert_eq!(names(directory.path()), [FIRST]);
}

#[test]
fn many_rows_are_written_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (mut sink, target) = begun(directory.path(), 2);
    let lines: Vec<Line> = (0..100_000).map(line).collect();
    for lines in lines.chunks(1_000) {
        while !sink.is_ready() {
            std::thread::yield_now();
        }
        sink.write(lines).unwrap();
    }
    let (transaction, prepare) = cut(&mut sink, 2, 5);
    prepare().unwrap();
    target.commit(&transaction).unwrap();
    let mut reader = csv::Reader::from_path(directory.path().join(FIRST)).unwrap();
    let found: Vec<Line> = reader.deserialize().map(Result::unwrap).collect();
    assert!(found.into_iter().eq(lines.into_iter().map(|line| Line { due: 0, ..line })));
}

fn listed() -> Transaction {
    let (sink, data) = ("invoices".to_owned(), FIRST.as_bytes().to_vec());
    Transaction { sink, generation: 2, epoch: 5, worker: 3, data }
}

#[test]
fn a_listed_file_under_neither_name_is_an_error_unless_readers_may_remove_it() {
    let directory = tempfile::tempdir().unwrap();
    let sink = PartFiles::<Line>::csv(directory.path());
    let error = sink.target().unwrap().commit(&listed()).unwrap_err().to_string();
    assert!(error.contains(FIRST) && error.contains("readers_may_remove_files"), "{error}");
    sink.readers_may_remove_files().target().unwrap().commit(&listed()).unwrap();
}

#[test]
fn a_commit_never_replaces_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let (visible, hidden) =
        (directory.path().join(FIRST), directory.path().join(format!(".{FIRST}")));
    fs::write(&visible, "old").unwrap();
    fs::write(&hidden, "new").unwrap();
    let target = PartFiles::<Line>::csv(directory.path()).target().unwrap();
    let error = target.commit(&listed()).unwrap_err().to_string();
    assert!(error.contains(FIRST) && error.contains("nothing was overwritten"), "{error}");
    assert_eq!(
        (fs::read(visible).unwrap(), fs::read(hidden).unwrap()),
        (b"old".into(), b"new".into())
    );
}

#[test]
fn a_damaged_transaction_touches_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let target = PartFiles::<Line>::csv(directory.path()).target().unwrap();
    for data in
        ["", "../part-a", "part-a-1-1-s-1.csv", "part-a-0000000001-0000000001-../x-0001.csv"]
    {
        let data = data.as_bytes().to_vec();
        let error = target.commit(&Transaction { data, ..listed() }).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn beginning_deletes_hidden_files_of_older_generations_that_are_not_listed() {
    let directory = tempfile::tempdir().unwrap();
    let name = |generation: u64, stage, sink: &str| {
        let (job, sink) = (JOB.to_owned(), sink.to_owned());
        PartName { job, generation, stage, sink, worker: 3 }.to_string()
    };
    let listed = Transaction { data: name(2, Stage::Closed(4), "a").into_bytes(), ..listed() };
    let kept = [
        format!(".{}", name(2, Stage::Closed(4), "a")),
        format!(".{}", name(3, Stage::Closed(1), "a")),
        ".hidden".to_owned(),
        "invoices.csv".to_owned(),
        name(1, Stage::Closed(9), "b"),
    ];
    let deleted = [
        format!(".{}", name(1, Stage::Closed(9), "a")),
        format!(".{}", name(2, Stage::Closed(5), "b")),
        format!(".{}", name(2, Stage::Open(7), "a")),
    ];
    let make = || {
        for name in kept.iter().chain(&deleted) {
            fs::write(directory.path().join(name), "").unwrap();
        }
    };
    let mut expected = kept.to_vec();
    expected.sort();
    let target = PartFiles::<Line>::csv(directory.path()).target().unwrap();
    make();
    target.begin(JOB, 3, std::slice::from_ref(&listed)).unwrap();
    assert_eq!(names(directory.path()), expected);

    make();
    target.sweep(JOB, 3).unwrap();
    expected.retain(|name| name.as_bytes() != [b".", &listed.data[..]].concat());
    assert_eq!(names(directory.path()), expected);
}

#[test]
fn a_directory_with_files_of_another_job_is_refused_and_left_alone() {
    for foreign in [
        FIRST.replace("00c0ffee", "0badc0de"),
        format!(".{}", FIRST.replace("00c0ffee", "0badc0de")),
        format!(".{}", FIRST.replace(".csv", ".json")),
        "part-00000.csv".to_owned(),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let ours = format!(".{FIRST}");
        fs::write(directory.path().join(&foreign), "").unwrap();
        fs::write(directory.path().join(&ours), "").unwrap();
        let target = PartFiles::<Line>::csv(directory.path()).target().unwrap();
        let error = target.begin(JOB, 9, &[]).unwrap_err().to_string();
        assert!(error.contains(&foreign) && error.contains("choose an empty directory"), "{error}");
        let mut expected = [foreign, ours];
        expected.sort();
        assert_eq!(names(directory.path()), expected);
    }
}

#[test]
fn a_name_that_is_taken_apart_is_the_name_that_was_made() {
    for (stage, worker) in
        [(Stage::Open(0), 0), (Stage::Closed(7), 12_345), (Stage::Closed(1 << 40), 1)]
    {
        let (job, sink) = ("ab12".to_owned(), "my_sink".to_owned());
        let part = PartName { job, generation: 3, stage, sink, worker };
        assert_eq!(PartName::parse(&part.to_string()), Some(part));
    }
    assert_eq!(PartName::parse(&FIRST.replace("0000000005", "5")), None);
    assert_eq!(PartName::parse(&FIRST.replace("invoices", "in-voices")), None);
}

#[test]
fn a_name_that_a_file_cannot_have_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let sink = PartFiles::<Line>::csv(directory.path());
    for name in ["", "a-b", "a/b", "a b", "ä"] {
        let error = open(&sink, name, 1).err().expect("refused").to_string();
        assert!(error.contains(&format!("{name:?}")), "{error}");
    }
}

#[test]
fn a_job_without_checkpoints_writes_no_part_files() {
    let mut sink = PartFiles::<Line>::csv("nowhere");
    let waker = Waker::new(Wake::new(WorkerWake::new(1), 0));
    let (job, name) = (String::new(), "invoices".to_owned());
    let context = SinkContext { job, name, generation: 1, worker: 0, workers: 1, waker };
    let error = sink.open(context).unwrap_err().to_string();
    assert!(error.contains("give it a state directory"), "{error}");
}

#[test]
fn a_record_that_is_no_row_stops_the_job() {
    #[derive(Clone, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
    struct Nested {
        inner: Vec<(u8, Option<(u8, u8)>)>,
        more: (u8, u8),
    }
    let directory = tempfile::tempdir().unwrap();
    let mut sink = PartFiles::<Nested>::csv(directory.path());
    let waker = Waker::new(Wake::new(WorkerWake::new(1), 0));
    let (job, name) = (JOB.to_owned(), "nested".to_owned());
    sink.open(SinkContext { job, name, generation: 1, worker: 0, workers: 1, waker }).unwrap();
    let error = sink.write(&[Nested { inner: vec![], more: (1, 2) }]).unwrap_err().to_string();
    assert!(error.contains("as a row of CSV") && !error.contains('\n'), "{error}");
}

#[test]
fn an_output_directory_that_is_a_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "").unwrap();
    for path in [path.clone(), path.join("below")] {
        let target = PartFiles::<Line>::csv(&path).target().unwrap();
        let error = target.begin(JOB, 1, &[]).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("file\""), "{error}");
    }
}

/// A small file system of its own; `None` if we may not mount one.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(options: &str) -> Option<Mount> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(directory.path());
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        if !is_mounted {
            eprintln!("skipped: no right to mount a small file system");
        }
        is_mounted.then_some(Mount(directory))
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let path = self.0.path();
        let status = Command::new("mount").args(["-o", &options]).arg(path).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_fails_the_transaction_and_names_the_file() {
    let Some(mount) = Mount::new("size=256k") else { return };
    let (mut sink, target) = begun(mount.0.path(), 2);
    sink.write(&[line(1)]).unwrap();
    let (first, prepare_first) = cut(&mut sink, 2, 5);
    prepare_first().unwrap();
    let lines: Vec<Line> = (0..100_000).map(line).collect();
    // Either writing on is refused, or the transaction cannot be prepared.
    let error = match lines.chunks(1_000).try_for_each(|lines| sink.write(lines)) {
        Err(error) => error,
        Ok(()) => match sink.cut(TransactionId { generation: 2, epoch: 6, worker: 3 }) {
            Err(error) => error,
            Ok(cut) => cut.expect("something was written").1().unwrap_err(),
        },
    };
    let error = error.to_string();
    assert!(error.contains(".part-00c0ffee00c0ffee-0000000002-open1-invoices-0003.csv"), "{error}");
    assert!(error.contains("No space left on device") && error.contains("see to space"), "{error}");
    target.commit(&first).unwrap();

    // The next life makes room.
    target.begin(JOB, 3, &[]).unwrap();
    assert_eq!(names(mount.0.path()), [FIRST]);
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_before_the_job_starts() {
    let Some(mount) = Mount::new("size=256k") else { return };
    mount.remount("ro");
    let target = PartFiles::<Line>::csv(mount.0.path()).target().unwrap();
    let error = target.begin(JOB, 1, &[]).unwrap_err().to_string();
    assert!(error.contains("Read-only file system") && error.contains("see to"), "{error}");
}

#[test]
fn a_commit_that_fails_is_not_confirmed_and_can_be_repeated() {
    let Some(mount) = Mount::new("size=256k") else { return };
    let (mut sink, target) = begun(mount.0.path(), 2);
    sink.write(&[line(1)]).unwrap();
    let (transaction, prepare) = cut(&mut sink, 2, 5);
    prepare().unwrap();
    mount.remount("ro");
    assert!(target.commit(&transaction).is_err());
    mount.remount("rw");
    target.commit(&transaction).unwrap();
    assert_eq!(names(mount.0.path()), [FIRST]);
}
