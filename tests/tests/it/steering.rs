//! What a program asks of the job that it embeds, and what it sets it: savepoints, an end, the
//! state of a key, memory, threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use overtake::connect::embedded::{Input, InputError, Results};
use overtake::{CheckpointId, Error, Job, Mode, Restart};

use crate::embedded::{Counted, NEVER, Push, block_on, count, job, numbers, rest, start};
use crate::harness::{Place, until};

#[test]
fn a_drained_job_processes_what_it_was_given_and_a_later_start_goes_on() {
    let place = Place::new();
    let mut expected = 1..;
    for workers in [2, 1] {
        let (input, results) = (Input::new(), Results::new());
        let running = start(job(&place).workers(workers).interval(NEVER), &input, &results);
        let mut producer = input.open("web").unwrap();
        let first = producer.durable() + 1;
        (first..first + 1_000).for_each(|number| _ = producer.push((1, number)).unwrap());
        running.handle().drain();
        let read = rest(&mut results.reader().unwrap());
        assert!(running.join().unwrap().has_ended());
        let is_new = |counted: &&Counted| counted.1 >= first;
        let read: Vec<_> = read.iter().filter(is_new).map(|counted| counted.1).collect();
        assert!(read.iter().copied().eq(expected.by_ref().take(1_000)));
        assert_eq!(producer.durable(), first + 999);
        let refused = producer.push((1, 0)).unwrap_err();
        assert!(matches!(refused, InputError::Ended { .. } | InputError::Closed));
    }
}

#[test]
fn a_savepoint_is_aligned_and_stays_and_a_job_may_stop_with_one() {
    let place = Place::new();
    let (input, results) = (Input::new(), Results::new());
    let running = start(job(&place).mode(Mode::Unaligned), &input, &results);
    let handle = running.handle();
    let mut producer = input.open("web").unwrap();
    producer.push((1, 1)).unwrap();
    let savepoint = handle.savepoint().unwrap().wait().unwrap();
    assert_eq!(producer.durable(), 1, "who asked is told after the producers");
    for _ in 0..5 {
        handle.checkpoint().unwrap().wait().unwrap();
    }
    producer.push((1, 2)).unwrap();
    let last = block_on(handle.stop_with_savepoint().unwrap().into_future()).unwrap();
    let report = running.join().unwrap();
    assert!(!report.has_ended());
    let aligned = report.history.iter().filter(|checkpoint| checkpoint.is_savepoint());
    let aligned: Vec<_> = aligned.map(|c| (c.epoch.0, c.has_overtaken())).collect();
    assert_eq!(aligned, [(savepoint.epoch, false), (last.epoch, false)]);
    let name = |id: CheckpointId| format!("{:020}-{:020}", id.generation, id.epoch);
    let is_there = |folder: &str, id| place.state().join(folder).join(name(id)).exists();
    for id in [savepoint, last] {
        assert!(is_there("manifests", id) && is_there("savepoints", id), "{id}");
    }

    // Neither later lives nor later checkpoints prune them, until the record is deleted.
    let running = start(job(&place), &input, &results);
    (0..5).for_each(|_| _ = running.handle().checkpoint().unwrap().wait().unwrap());
    std::fs::remove_file(place.state().join("savepoints").join(name(savepoint))).unwrap();
    until(|| {
        running.handle().checkpoint().unwrap().wait().unwrap();
        !is_there("manifests", savepoint)
    });
    assert!(is_there("manifests", last));
}

#[test]
fn whoever_waits_for_a_checkpoint_is_told_that_there_will_be_none() {
    let place = Place::new();
    let (input, results) = (Input::<Push>::new(), Results::new());
    let running = start(job(&place), &input, &results);
    let handle = running.handle();
    drop(running);
    let why = handle.checkpoint().unwrap().wait().unwrap_err();
    assert_eq!(why.to_string(), "the job has ended, or is being restarted");
    assert!(matches!(handle.savepoint().unwrap().wait(), Err(Error::Ended)));
    let read = handle.read::<u64, u64>("count", "counts", 1).unwrap();
    assert!(matches!(read.wait(), Err(Error::Ended)));
}

#[test]
fn the_state_of_a_key_is_read_from_another_thread() {
    let place = Place::new();
    let (input, results) = (Input::new(), Results::new());
    let running = start(job(&place).interval(NEVER), &input, &results);
    let handle = running.handle();
    let mut producer = input.open("web").unwrap();
    for key in 0..50 {
        (0..=key).for_each(|number| _ = producer.push((key, number)).unwrap());
    }
    until(|| handle.processed("count") == 50 * 51 / 2);
    for key in 0..60 {
        let count = handle.read::<u64, u64>("count", "counts", key).unwrap().wait().unwrap();
        assert_eq!(count, (key < 50).then_some(key + 1));
    }
    let why = |read: Result<Option<String>, Error>| read.unwrap_err().to_string();
    assert_eq!(
        why(handle.read::<u64, String>("count", "counts", 1).unwrap().wait()),
        "table \"counts\" of operator \"count\" holds values of (u64, u64)"
    );
    assert_eq!(
        why(handle.read::<u64, String>("count", "sums", 1).unwrap().wait()),
        "operator \"count\" has no table \"sums\", but \"counts\", \"sink.results\""
    );
    assert_eq!(
        handle.read::<u64, u64>("sum", "counts", 1).unwrap_err().to_string(),
        "flow: the job has no operator \"sum\", but \"pushes\", \"count\""
    );
}

#[test]
fn state_beyond_its_limit_ends_the_job_with_a_clear_error() {
    let place = Place::new();
    let (input, results) = (Input::new(), Results::new());
    let mut config = overtake::Config { workers: 1, ..Default::default() };
    config.limits.state_bytes_max = 1 << 20;
    config.restart = Restart::Fixed { delay: Duration::ZERO, attempts: 100 };
    let job = Job::new().config(config).state(place.state());
    let running = start(job, &input, &results);
    let handle = running.handle();
    let mut producer = input.open("web").unwrap();
    let refused = (0u64..).find_map(|key| producer.push((key, 1)).err());
    assert!(matches!(refused, Some(InputError::Ended { .. })));
    let why = running.join().err().unwrap().to_string();
    assert!(handle.memory().state_bytes > 1 << 20);
    let (before, after) = why.split_once("takes ").unwrap();
    assert_eq!(before, "operator \"count\" on worker 0: the state of the job ");
    let (bytes, after) = after.split_once(' ').unwrap();
    assert!(bytes.parse::<u64>().unwrap() > 1 << 20, "{why}");
    assert_eq!(after, "bytes of memory with it, and may take 1048576 (limit state_bytes_max)");
}

#[test]
fn what_is_in_flight_stays_within_its_limit_while_a_stage_is_slow() {
    const LIMIT: u64 = 1 << 20;
    let input = Input::with_held_max(1 << 20);
    let its = input.clone();
    let mut config = overtake::Config { workers: 2, ..Default::default() };
    config.limits.in_flight_bytes_max = LIMIT;
    let is_fast = Arc::new(AtomicBool::new(false));
    let its_pace = is_fast.clone();
    let running = Job::new().config(config.clone()).start(move |flow| {
        let is_fast = its_pace.clone();
        flow.source("pushes", its.source())
            .key_by(|push: &Push| push.1)
            .fold("sums", |sum: &mut u64, push| *sum += push.0)
            .key_by(|sum| sum.0)
            .fold("slow", move |sum: &mut u64, of| {
                if !is_fast.load(Ordering::SeqCst) {
                    std::thread::park_timeout(Duration::from_millis(1));
                }
                *sum += of.1;
            })
            .for_each("nowhere", |_| ());
    });
    let running = running.unwrap();
    let mut producer = input.open("web").unwrap();
    // Channels fill; then the source reads no further, and the pushes wait in the input.
    (0..1 << 18).for_each(|number| _ = producer.push((1, number)).unwrap());
    let handle = running.handle();
    let mut most = 0;
    until(|| {
        let memory = handle.memory();
        assert!(memory.in_flight_bytes <= LIMIT, "{memory:?}");
        most = most.max(memory.in_flight_bytes);
        handle.processed("slow") > 500
    });
    assert!(handle.processed("pushes") < 1 << 17, "nothing held it up");
    assert!(most > LIMIT / 16, "{most} bytes: the test shows nothing");
    is_fast.store(true, Ordering::SeqCst);
    input.close();
    assert_eq!(running.join().unwrap().processed("slow"), 1 << 18);

    config.limits.in_flight_bytes_max = 1 << 16;
    let refused = Job::new().config(config).start(|flow| {
        flow.source("numbers", overtake::source::items(vec![1u64]))
            .rebalance("dealt")
            .for_each("nowhere", |_| ());
    });
    assert_eq!(
        refused.err().unwrap().to_string(),
        "flow: 1 edge(s) between 2 workers need at least 393216 bytes in flight, and the limit \
         in_flight_bytes_max is 65536: raise it, or lower batch_bytes_max or the workers"
    );
}

#[test]
fn whoever_asks_for_checkpoints_all_the_time_keeps_nobody_from_a_savepoint_or_the_end() {
    let place = Place::new();
    let (input, results) = (Input::<Push>::new(), Results::new());
    let running = start(job(&place).interval(NEVER), &input, &results);
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let handle = running.handle();
            std::thread::spawn(move || while handle.checkpoint().unwrap().wait().is_ok() {})
        })
        .collect();
    running.handle().savepoint().unwrap().wait().unwrap();
    running.handle().stop();
    running.join().unwrap();
    asking.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_program_starts_the_threads_of_a_job_itself() {
    let place = Place::new();
    let (input, results) = (Input::new(), Results::new());
    let started = Arc::new(Mutex::new(Vec::new()));
    let (pool, threads) = mpsc::channel::<overtake::Thread>();
    let pool = Mutex::new(pool);
    // Threads of the program's own, each used again when a life is over.
    let threads = Arc::new(Mutex::new(threads));
    let members: Vec<_> = (0..8)
        .map(|_| {
            let threads = threads.clone();
            std::thread::spawn(move || {
                loop {
                    let next = threads.lock().unwrap().recv();
                    let Ok(thread) = next else { return };
                    thread.run();
                }
            })
        })
        .collect();
    let names = started.clone();
    let job = job(&place).spawn(move |thread| {
        names.lock().unwrap().push(thread.name().to_owned());
        let sent = pool.lock().unwrap().send(thread);
        sent.map_err(|_| std::io::Error::other("the pool is gone"))
    });
    let running = start(job, &input, &results);
    let mut producer = input.open("web").unwrap();
    producer.push((1, 1)).unwrap();
    producer.when_durable(1).wait().unwrap();
    input.close();
    assert_eq!(numbers(&rest(&mut results.reader().unwrap()))[&1], [1]);
    running.join().unwrap();
    // The job, which held the way into the pool, is gone.
    members.into_iter().for_each(|member| member.join().unwrap());
    let mut names = started.lock().unwrap().clone();
    names.sort();
    assert_eq!(
        names,
        [
            "overtake-commit-0",
            "overtake-commit-1",
            "overtake-director",
            "overtake-job",
            "overtake-publisher",
            "overtake-work-0",
            "overtake-work-1",
            "overtake-writer",
        ]
    );
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error_whichever_it_is() {
    for refused in [
        "overtake-job",
        "overtake-director",
        "overtake-commit-1",
        "overtake-work-0",
        "overtake-work-2",
    ] {
        let place = Place::new();
        let (input, results) = (Input::<Push>::new(), Results::new());
        let (its_input, its_results) = (input.clone(), results.clone());
        let job = job(&place).workers(3).spawn(move |thread| {
            if thread.name() == refused {
                return Err(std::io::Error::other("no more threads"));
            }
            std::thread::Builder::new().spawn(|| thread.run()).map(drop)
        });
        let started = job.start(move |flow| {
            count(flow.source("pushes", its_input.source()), &its_results);
        });
        let why = started.err().unwrap().to_string();
        assert_eq!(why, "a thread could not be started: no more threads");
        assert_eq!(input.open("web").err(), Some(InputError::NotRunning));
        // The directory is free again.
        drop(start(Job::new().state(place.state()).workers(2), &Input::new(), &Results::new()));
    }
}
