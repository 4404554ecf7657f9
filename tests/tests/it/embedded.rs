//! A job embedded in a program: what was told to be durable is processed once, and what is
//! committed is shown once, over restarts, new starts and whatever is full.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use overtake::connect::embedded::{
    Committed, Input, InputError, NotPushed, Reader, Results, ResultsError,
};
use overtake::flow::stream::{Origin, Stream, Transform};
use overtake::{CheckpointId, Error, Job, Mode, Output, Restart, Running};

use crate::harness::{PATIENCE, Place, until};

/// A push: who made it, and its number.
type Push = (u64, u64);

/// A push, and how many of its producer were processed before it.
type Counted = (u64, u64, u64);

/// Each push is counted per producer.
fn count<O, T>(pushes: Stream<O, T>, results: &Results<Counted>)
where
    O: Origin,
    T: Transform<O::Record, Out = Push>,
{
    pushes
        .key_by(|push: &Push| push.0)
        .process("count", |states| {
            let counts = states.value::<u64, u64>("counts")?;
            Ok(move |key: &u64, push: &Push, out: &mut Output<Counted>| {
                let before = counts.update(key, |count| std::mem::replace(count, *count + 1));
                out.emit((*key, push.1, before));
            })
        })
        .sink("counted", results.sink());
}

fn start(job: Job, input: &Input<Push>, results: &Results<Counted>) -> Running {
    let (input, results) = (input.clone(), results.clone());
    job.start(move |flow| count(flow.source("pushes", input.source()), &results)).unwrap()
}

fn job(place: &Place) -> Job {
    Job::new().workers(2).state(place.state()).interval(Duration::from_millis(10))
}

/// Never by itself.
const NEVER: Duration = Duration::from_secs(86_400);

fn next(reader: &mut Reader<Counted>) -> Committed<Counted> {
    reader.next_within(PATIENCE).expect("results are committed")
}

/// Reads until the job has ended.
fn rest(reader: &mut Reader<Counted>) -> Vec<Counted> {
    std::iter::from_fn(|| {
        let committed = reader.next()?;
        reader.acknowledge(committed.checkpoint);
        Some(committed.records)
    })
    .flatten()
    .collect()
}

/// Of each producer the numbers that were read, in order.
fn numbers(read: &[Counted]) -> BTreeMap<u64, Vec<u64>> {
    let mut numbers = BTreeMap::<u64, Vec<u64>>::new();
    read.iter().for_each(|(producer, number, _)| {
        numbers.entry(*producer).or_default().push(*number);
    });
    numbers
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn what_many_producers_push_is_read_once_and_in_order() {
    const PUSHES: u64 = 20_000;
    for mode in [Mode::Aligned, Mode::Unaligned] {
        let place = Place::new();
        let (input, results) = (Input::new(), Results::new());
        let running = start(job(&place).mode(mode), &input, &results);
        let producers: Vec<_> = (0..5u64)
            .map(|producer| {
                let mut handle = input.open(&format!("producer-{producer}")).unwrap();
                std::thread::spawn(move || {
                    for number in 1..=PUSHES {
                        assert_eq!(handle.push((producer, number)).unwrap(), number);
                    }
                    handle.when_durable(PUSHES).wait().unwrap();
                    assert_eq!(handle.durable(), PUSHES);
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        input.close();
        let mut reader = results.reader().unwrap();
        let read = numbers(&rest(&mut reader));
        assert_eq!(read.len(), 5);
        assert!(read.values().all(|numbers| numbers.iter().copied().eq(1..=PUSHES)));
        assert!(running.join().unwrap().has_ended());
    }
}

#[test]
fn after_a_restart_in_the_process_nothing_is_lost_or_doubled_and_nobody_notices() {
    const PUSHES: u64 = 5_000;
    for (mode, workers) in [(Mode::Aligned, 1), (Mode::Unaligned, 3)] {
        let place = Place::new();
        let (input, results) = (Input::new(), Results::<Counted>::new());
        let fails = Arc::new(AtomicU64::new(0));
        let (its_input, its_results, its_fails) = (input.clone(), results.clone(), fails.clone());
        let restart = Restart::Fixed { delay: Duration::ZERO, attempts: 100 };
        let running = job(&place)
            .mode(mode)
            .workers(workers)
            .restart(restart)
            .start(move |flow| {
                let fails = its_fails.clone();
                let pushes = flow.source("pushes", its_input.source()).map(move |push: Push| {
                    let is_due = push.1.is_multiple_of(1_000);
                    assert!(
                        !is_due || fails.load(Ordering::SeqCst) >= push.1 / 1_000 || {
                            fails.fetch_add(1, Ordering::SeqCst);
                            false
                        }
                    );
                    push
                });
                count(pushes, &its_results);
            })
            .unwrap();
        let mut producer = input.open("web").unwrap();
        for number in 1..=PUSHES {
            assert_eq!(producer.push((7, number)).unwrap(), number);
        }
        block_on(producer.when_durable(PUSHES)).unwrap();
        input.close();
        let read = rest(&mut results.reader().unwrap());
        assert!(read.iter().copied().eq((0..PUSHES).map(|i| (7, i + 1, i))), "{mode:?}");
        assert_eq!(running.join().unwrap().restarts, 5);
        assert_eq!(fails.load(Ordering::SeqCst), 5);
    }
}

#[test]
fn a_new_start_tells_what_is_durable_and_what_was_not_is_pushed_again() {
    let place = Place::new();
    let mut read = Vec::new();
    let mut pushed = 0;
    for life in 0..4 {
        let (input, results) = (Input::new(), Results::new());
        let running = start(job(&place).workers(1 + life % 3), &input, &results);
        let mut producer = input.open("web").unwrap();
        // What followed is pushed again, under the same numbers.
        let durable = producer.durable();
        assert!(durable <= pushed);
        assert_eq!(producer.pushed(), durable);
        assert_eq!(durable > 0, life > 0);
        for number in durable + 1..=pushed + 1_000 {
            assert_eq!(producer.push((1, number)).unwrap(), number);
            if number == pushed + 500 {
                producer.when_durable(number).wait().unwrap();
            }
        }
        pushed += 1_000;
        let mut reader = results.reader().unwrap();
        if life == 3 {
            input.close();
            read.extend(rest(&mut reader));
            running.join().unwrap();
        } else {
            // As if the process had died.
            drop(running);
            let durable = producer.durable();
            assert_eq!(
                producer.push((1, 0)).unwrap_err().to_string(),
                format!(
                    "the job has ended: push {durable} of producer \"web\" is the last that is \
                     durable; start the job again, open the input, and push again what followed"
                )
            );
        }
    }
    assert!(numbers(&read)[&1].iter().copied().eq(1..=pushed), "nothing was acknowledged before");
}

#[test]
fn results_are_shown_again_until_they_are_acknowledged_and_then_never() {
    let place = Place::new();
    let push = |input: &Input<Push>, number| {
        let mut producer = input.open("web").unwrap();
        producer.push((1, number)).unwrap();
        producer.when_durable(number).wait().unwrap();
    };
    let (input, results) = (Input::new(), Results::new());
    let running = start(job(&place), &input, &results);
    let mut reader = results.reader().unwrap();
    assert_eq!(results.reader().err(), Some(ResultsError::OpenTwice));
    push(&input, 1);
    let first = next(&mut reader);
    push(&input, 2);
    let second = next(&mut reader);
    assert!(first.checkpoint < second.checkpoint);
    assert_eq!((first.records.len(), second.records[0].1), (1, 2));
    // The acknowledgement is durable with the next checkpoint.
    reader.acknowledge(first.checkpoint);
    running.handle().checkpoint().unwrap().wait().unwrap();
    drop(running);
    assert_eq!(reader.next(), None);

    let (input, results) = (Input::new(), Results::new());
    let running = start(job(&place).workers(3), &input, &results);
    let mut reader = results.reader().unwrap();
    assert_eq!(next(&mut reader), second, "the same, under the same checkpoint");
    push(&input, 3);
    let third = next(&mut reader);
    assert_eq!(third.records[0].1, 3);
    drop(running);

    // Who knows what it has seen is shown only what followed.
    let (input, results) = (Input::new(), Results::new());
    let mut reader = results.reader().unwrap();
    reader.acknowledge(second.checkpoint);
    let running = start(job(&place).workers(1), &input, &results);
    assert_eq!(next(&mut reader), third);
    input.close();
    assert_eq!(reader.next(), None);
    running.join().unwrap();
}

#[test]
fn a_full_input_gives_the_record_back_and_has_room_after_a_checkpoint() {
    let place = Place::new();
    let (input, results) = (Input::with_held_max(3), Results::new());
    let running = start(job(&place).interval(NEVER), &input, &results);
    let mut producer = input.open("web").unwrap();
    for number in 1..=3 {
        assert_eq!(producer.try_push((1, number)), Ok(number));
    }
    let handle = running.handle();
    until(|| handle.processed("count") == 3);
    let refused = producer.try_push((1, 4)).unwrap_err();
    assert_eq!(refused.to_string(), "the input is full");
    assert_eq!(refused, NotPushed::Full((1, 4)));
    // A push that waits goes on after the checkpoint.
    let waiting = std::thread::spawn(move || {
        assert_eq!(producer.push((1, 4)), Ok(4));
        assert_eq!(block_on(producer.push_async((1, 5))), Ok(5));
        producer
    });
    handle.checkpoint().unwrap().wait().unwrap();
    let mut producer = waiting.join().unwrap();
    assert_eq!(producer.durable(), 3);

    // Of others, too: a push that waits for room is told that there will be none.
    assert_eq!(producer.try_push((1, 6)), Ok(6));
    let (tell, told) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        tell.send(()).unwrap();
        (producer.push((1, 7)), producer)
    });
    told.recv().unwrap();
    input.close();
    let (refused, producer) = waiting.join().unwrap();
    assert_eq!(refused.unwrap_err().to_string(), "the input is closed");
    assert_eq!(numbers(&rest(&mut results.reader().unwrap()))[&1], [1, 2, 3, 4, 5, 6]);
    running.join().unwrap();
    assert_eq!(producer.durable(), 6);
}

#[test]
fn a_callback_is_told_what_a_future_is() {
    let place = Place::new();
    let (input, results) = (Input::new(), Results::new());
    let running = start(job(&place).interval(NEVER), &input, &results);
    let mut producer = block_on(input.open_async("web")).unwrap();
    let (tell, told) = mpsc::channel();
    for number in 1..=3 {
        let tell = tell.clone();
        producer.push((1, number)).unwrap();
        producer.on_durable(number, move |verdict| tell.send((number, verdict)).unwrap());
    }
    let handle = running.handle();
    until(|| handle.processed("count") == 3);
    assert!(told.try_recv().is_err(), "nothing is durable");
    assert_eq!(producer.when_durable(3).wait_for(Duration::from_millis(1)), None);
    block_on(handle.checkpoint().unwrap().into_future()).unwrap();
    assert_eq!(told.iter().take(3).collect::<Vec<_>>(), [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
    let its = tell.clone();
    producer.on_durable(2, move |verdict| its.send((2, verdict)).unwrap());
    assert_eq!(told.recv().unwrap(), (2, Ok(())), "what is known is told at once");

    producer.push((1, 4)).unwrap();
    producer.on_durable(4, move |verdict| tell.send((4, verdict)).unwrap());
    drop(running);
    let ended = InputError::Ended { producer: "web".into(), durable: 3 };
    assert_eq!(told.recv().unwrap(), (4, Err(ended.clone())));
    assert_eq!(block_on(producer.when_durable(4)), Err(ended));
    assert_eq!(producer.when_durable(3).wait(), Ok(()));
}

#[test]
fn what_cannot_be_says_why() {
    // Nothing is durable without checkpoints.
    let input = Input::<Push>::with_held_max(2);
    let source = input.source();
    let seen = Arc::new(AtomicU64::new(0));
    let its_count = seen.clone();
    let running = Job::new()
        .workers(2)
        .start(move |flow| {
            let count = its_count.clone();
            flow.source("pushes", source.clone())
                .for_each("count", move |_| _ = count.fetch_add(1, Ordering::SeqCst));
        })
        .unwrap();
    let mut producer = input.open("web").unwrap();
    for number in 1..=1_000 {
        // What is read makes room.
        assert_eq!(producer.push((1, number)), Ok(number));
    }
    assert_eq!(
        producer.when_durable(1).wait().unwrap_err().to_string(),
        "the job takes no checkpoints, so nothing becomes durable: give it a state directory"
    );
    assert_eq!(
        input.open("web").err().unwrap().to_string(),
        "producer \"web\" is open already: drop the other handle first"
    );
    drop(producer);
    assert_eq!(input.open("web").unwrap().pushed(), 1_000);
    input.close();
    running.join().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 1_000);
    assert_eq!(
        input.open("web").err().unwrap().to_string(),
        "the job has ended before the input was opened: start it, then open the input"
    );

    let (input, results) = (Input::new(), Results::<Push>::new());
    let (its_input, its_results) = (input.clone(), results.clone());
    let refused = Job::new().workers(1).start(move |flow| {
        flow.source("pushes", its_input.source()).sink("counted", its_results.sink());
    });
    assert_eq!(
        refused.err().unwrap().to_string(),
        "flow: results are committed with checkpoints: give the job a state directory"
    );
    assert_eq!(input.open("web").err(), Some(InputError::NotRunning), "nobody waits for it");

    // Nor for one that could not begin at all.
    let place = Place::new();
    let (first, second) = (Input::<Push>::new(), Input::<Push>::new());
    let running = start(job(&place), &first, &Results::new());
    let waiting = {
        let second = second.clone();
        std::thread::spawn(move || second.open("web").err())
    };
    let (its_input, its_results) = (second.clone(), Results::new());
    let refused = job(&place).start(move |flow| {
        count(flow.source("pushes", its_input.source()), &its_results);
    });
    assert!(refused.err().unwrap().to_string().contains("in use"));
    assert_eq!(waiting.join().unwrap(), Some(InputError::NotRunning));
    drop(running);
    assert_eq!(results.reader().unwrap().next(), None);
}

#[test]
fn a_full_reader_holds_up_the_job_and_not_its_checkpoints() {
    let place = Place::new();
    let (input, results) = (Input::new(), Results::with_held_max(10));
    let running = start(job(&place).workers(1), &input, &results);
    let mut producer = input.open("web").unwrap();
    (1..=10).for_each(|number| _ = producer.push((1, number)).unwrap());
    producer.when_durable(10).wait().unwrap();
    let mut reader = results.reader().unwrap();
    let mut shown = 0;
    let mut last = None;
    while shown < 10 {
        let committed = next(&mut reader);
        shown += committed.records.len();
        last = Some(committed.checkpoint);
    }
    // Ten are shown and not acknowledged: no more is processed, and checkpoints go on.
    (11..=20).for_each(|number| _ = producer.push((1, number)).unwrap());
    let handle = running.handle();
    (0..3).for_each(|_| _ = handle.checkpoint().unwrap().wait().unwrap());
    assert!(handle.processed("count") <= 20);
    assert_eq!(reader.next_within(Duration::ZERO), None);
    reader.acknowledge(last.unwrap());
    input.close();
    assert_eq!(numbers(&rest(&mut reader))[&1], (11..=20).collect::<Vec<_>>());
    running.join().unwrap();
}

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
fn of_two_jobs_in_a_process_one_fails_and_the_other_goes_on() {
    let places = [Place::new(), Place::new()];
    let start = |place: &Place, fails: bool| {
        let (input, results) = (Input::new(), Results::<Push>::new());
        let (its_input, its_results) = (input.clone(), results.clone());
        let running = job(place).start(move |flow| {
            flow.source("pushes", its_input.source())
                .map(move |push: Push| {
                    assert!(!fails || push.1 < 2, "this job fails");
                    push
                })
                .sink("pushed", its_results.sink());
        });
        (running.unwrap(), input.open("web").unwrap(), input, results)
    };
    let (good, mut to_good, input, results) = start(&places[0], false);
    let (bad, mut to_bad, ..) = start(&places[1], true);
    for producer in [&mut to_good, &mut to_bad] {
        producer.push((0, 1)).unwrap();
        producer.when_durable(1).wait().unwrap();
    }
    to_bad.push((0, 2)).unwrap();
    assert_eq!(
        bad.join().err().unwrap().to_string(),
        "operator \"pushes\" on worker 0 panicked at its record 1: this job fails"
    );
    assert_eq!(to_bad.durable(), 1);
    to_good.push((0, 2)).unwrap();
    to_good.when_durable(2).wait().unwrap();
    input.close();
    let mut reader = results.reader().unwrap();
    let read: Vec<_> = std::iter::from_fn(|| reader.next()).flat_map(|c| c.records).collect();
    assert_eq!(read, [(0, 1), (0, 2)]);
    assert!(good.join().unwrap().has_ended());
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
