//! A job embedded in a program: what was told to be durable is processed once, and what is
//! committed is shown once, over restarts, new starts and whatever is full.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use overtake::connect::embedded::{
    Committed, Input, InputError, NotPushed, Reader, Results, ResultsError,
};
use overtake::flow::stream::{Origin, Stream, Transform};
use overtake::{Job, Mode, Output, Restart, Running};

use crate::harness::{PATIENCE, Place, until};

/// A push: who made it, and its number.
pub(crate) type Push = (u64, u64);

/// A push, and how many of its producer were processed before it.
pub(crate) type Counted = (u64, u64, u64);

/// Each push is counted per producer.
pub(crate) fn count<O, T>(pushes: Stream<O, T>, results: &Results<Counted>)
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

pub(crate) fn start(job: Job, input: &Input<Push>, results: &Results<Counted>) -> Running {
    let (input, results) = (input.clone(), results.clone());
    job.start(move |flow| count(flow.source("pushes", input.source()), &results)).unwrap()
}

pub(crate) fn job(place: &Place) -> Job {
    Job::new().workers(2).state(place.state()).interval(Duration::from_millis(10))
}

/// Never by itself.
pub(crate) const NEVER: Duration = Duration::from_secs(86_400);

fn next(reader: &mut Reader<Counted>) -> Committed<Counted> {
    reader.next_within(PATIENCE).expect("results are committed")
}

/// Reads until the job has ended.
pub(crate) fn rest(reader: &mut Reader<Counted>) -> Vec<Counted> {
    std::iter::from_fn(|| {
        let committed = reader.next()?;
        reader.acknowledge(committed.checkpoint);
        Some(committed.records)
    })
    .flatten()
    .collect()
}

/// Of each producer the numbers that were read, in order.
pub(crate) fn numbers(read: &[Counted]) -> BTreeMap<u64, Vec<u64>> {
    let mut numbers = BTreeMap::<u64, Vec<u64>>::new();
    read.iter().for_each(|(producer, number, _)| {
        numbers.entry(*producer).or_default().push(*number);
    });
    numbers
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
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
fn an_input_and_results_serve_one_job_at_a_time_and_another_one_after_it() {
    let places = [Place::new(), Place::new()];
    let (input, results) = (Input::new(), Results::new());
    let push_and_read = |expected: u64| {
        let mut producer = input.open("web").unwrap();
        assert_eq!(producer.durable(), 0);
        (1..=expected).for_each(|number| _ = producer.push((1, number)).unwrap());
        producer.when_durable(expected).wait().unwrap();
        input.close();
        let read = rest(&mut results.reader().unwrap());
        assert_eq!(numbers(&read)[&1], (1..=expected).collect::<Vec<_>>());
    };
    let running = start(job(&places[0]), &input, &results);
    // Meanwhile no other job gets them, and the first one does not notice.
    let again = |input: &Input<Push>, results: &Results<Counted>| {
        let (its_input, its_results) = (input.clone(), results.clone());
        let refused = job(&places[1])
            .start(move |flow| count(flow.source("pushes", its_input.source()), &its_results));
        refused.err().unwrap().to_string()
    };
    assert_eq!(
        again(&input, &Results::new()),
        "flow: another job uses this input: give each job its own"
    );
    assert_eq!(
        again(&Input::new(), &results),
        "flow: another job uses these results: give each job its own"
    );
    push_and_read(50);
    running.join().unwrap();
    // After its end there is nothing to close, and what was acknowledged of it is not this one's.
    input.close();
    let running = start(job(&places[1]), &input, &results);
    push_and_read(5);
    running.join().unwrap();

    let place = Place::new();
    let twice = Input::<Push>::new();
    let refused = job(&place).start(move |flow| {
        flow.source("one", twice.source()).for_each("first", |_| ());
        flow.source("two", twice.source()).for_each("second", |_| ());
    });
    assert_eq!(
        refused.err().unwrap().to_string(),
        "flow: two operators of the job use this input: give each its own"
    );
}

#[test]
fn a_callback_that_panics_keeps_nobody_else_from_being_told() {
    let place = Place::new();
    let (input, results) = (Input::new(), Results::new());
    let running = start(job(&place).interval(NEVER), &input, &results);
    let mut producers: Vec<_> =
        (0..4).map(|name| input.open(&format!("web-{name}")).unwrap()).collect();
    let (tell, told) = mpsc::channel();
    for producer in &mut producers {
        producer.push((1, 1)).unwrap();
        producer.on_durable(1, |_| panic!("this callback panics"));
        let tell = tell.clone();
        producer.on_durable(1, move |verdict| tell.send(verdict).unwrap());
    }
    let handle = running.handle();
    until(|| handle.processed("count") == 4);
    handle.checkpoint().unwrap().wait().unwrap();
    assert!(told.iter().take(4).all(|verdict| verdict == Ok(())));
    for producer in &mut producers {
        producer.push((1, 2)).unwrap();
        producer.on_durable(2, |_| panic!("this callback panics, too"));
    }
    drop(running);
    for producer in &producers {
        assert!(matches!(producer.when_durable(2).wait(), Err(InputError::Ended { .. })));
    }
    let mut reader = results.reader().unwrap();
    while reader.next().is_some() {}
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
