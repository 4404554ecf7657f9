use super::*;
use crate::channel::wake::{Wake, WorkerWake};

fn part() -> PartName {
    let (job, sink) = ("job".to_owned(), "sink".to_owned());
    PartName { job, generation: 1, stage: Stage::Open(0), sink, worker: 0 }
}

#[test]
fn a_sink_without_room_is_not_ready_and_is_woken_once_when_there_is_some() {
    let directory = tempfile::tempdir().unwrap();
    let worker = WorkerWake::new(1);
    let wake = Wake::new(worker.clone(), 0);
    let waker = Waker::new(wake.clone());
    let woken = || {
        let mut woken = false;
        worker.take(|_| woken = true);
        woken
    };
    // The thread's work is done here, so that it can be watched.
    let (orders, received) = channel();
    let (spare, emptied) = sync_channel(SPARES_MAX);
    let shared = Arc::new(Shared::default());
    let mut appender = Appender { orders, emptied, shared: shared.clone() };
    let mut appending =
        Appending { part: part(), directory: directory.path().into(), made: 0, open: None, spare };

    let mut blocks = 0;
    while appender.is_ready() {
        appender.write_all(&[b'x'; BLOCK_BYTES]).unwrap();
        blocks += 1;
    }
    assert_eq!(blocks * BLOCK_BYTES, OUTSTANDING_BYTES_MAX);
    appender.write_all(&[b'x'; BLOCK_BYTES]).unwrap();

    wake.arm();
    for left in (0..=blocks).rev() {
        let Ok(Order::Append(block)) = received.try_recv() else { panic!("a block is missing") };
        appending.append(&block).unwrap();
        shared.appended(block.len(), &waker);
        appending.recycle(block);
        assert_eq!(appender.is_ready(), left < blocks);
        assert_eq!(woken(), left == blocks - 1);
    }
    assert_eq!(appender.emptied.try_iter().count(), SPARES_MAX);
}

#[test]
fn a_closed_part_file_is_appended_although_the_sink_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    let waker = Waker::new(Wake::new(WorkerWake::new(1), 0));
    let mut appender = Appender::start(part(), directory.path().into(), waker).unwrap();
    for _ in 0..100 {
        appender.write_all(&[b'x'; BLOCK_BYTES]).unwrap();
    }
    let closed = appender.close();
    drop(appender);
    let appended = closed.wait().unwrap();
    assert_eq!(appended.file.metadata().unwrap().len(), 100 * BLOCK_BYTES as u64);
}

#[test]
fn a_failed_sink_is_ready_to_be_told_why() {
    let directory = tempfile::tempdir().unwrap();
    let worker = WorkerWake::new(1);
    worker.adopt();
    let wake = Wake::new(worker, 0);
    let missing = directory.path().join("missing");
    let mut appender = Appender::start(part(), missing, Waker::new(wake)).unwrap();
    appender.write_all(b"lost").unwrap();
    let error = loop {
        assert!(appender.is_ready());
        if let Err(error) = appender.write_all(b"more") {
            break error.to_string();
        }
    };
    assert!(error.contains("missing/.part-job-0000000001-open0-sink-0000.csv"), "{error}");
    assert!(error.contains("start the job again"), "{error}");
    assert!(appender.close().wait().is_err());
}
