use super::*;
use crate::Waker;
use crate::channel::wake::{Wake, WorkerWake};

/// Has some numbers, and then says something.
struct Numbers {
    next: u64,
    end: u64,
    then: Read,
}

impl Source for Numbers {
    type Record = (u64, Duration);
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok(vec!["numbers".to_owned()])
    }

    fn open(
        &mut self,
        split: &str,
        position: Option<u64>,
        _: &SourceContext,
    ) -> Result<(), BoxError> {
        assert_eq!(split, "numbers");
        self.next = position.unwrap_or(0);
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<(u64, Duration)>,
    ) -> Result<Read, BoxError> {
        for _ in 0..limit {
            if self.next == self.end {
                return Ok(self.then);
            }
            if out.is_blocked() {
                break;
            }
            out.emit((self.next, Duration::MAX));
            self.next += 1;
        }
        Ok(Read::More)
    }

    fn positions(&self) -> Vec<(String, u64)> {
        vec![("numbers".to_owned(), self.next)]
    }
}

/// Takes records until it has no room.
struct Taken(Vec<(u64, Duration)>, usize);

impl Emit<(u64, Duration)> for Taken {
    fn emit(&mut self, record: (u64, Duration)) {
        self.0.push(record);
    }

    fn is_blocked(&self) -> bool {
        self.0.len() == self.1
    }
}

type Stamp = fn(&mut (u64, Duration), Duration);

fn numbers(end: u64, then: Read, rate: u64, workers: usize) -> Paced<Numbers, Stamp> {
    let stamp: Stamp = |record, due| record.1 = due;
    let mut source = paced(Numbers { next: 0, end, then }, rate, stamp);
    assert_eq!(source.splits().unwrap(), ["numbers"]);
    let waker = Waker::new(Wake::new(WorkerWake::new(1), 0));
    source.open("numbers", None, &SourceContext { worker: 0, workers, waker }).unwrap();
    source
}

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn a_record_is_emitted_when_it_is_due_and_not_before() {
    // Of two workers, 1,000 records a second: each has one every 2 ms.
    let mut source = numbers(u64::MAX, Read::Ended, 1_000, 2);
    let mut taken = Taken(Vec::new(), usize::MAX);
    assert_eq!(source.read(99, MS(50), &mut taken).unwrap(), Read::Until(MS(52)));
    assert_eq!(taken.0, [(0, MS(50))]);
    assert_eq!(source.read(99, MS(51), &mut taken).unwrap(), Read::Until(MS(52)));
    assert_eq!(source.read(99, MS(52), &mut taken).unwrap(), Read::Until(MS(54)));
    assert_eq!(taken.0, [(0, MS(50)), (1, MS(52))]);
    assert_eq!(source.positions(), [("numbers".to_owned(), 2)]);
}

#[test]
fn who_is_late_catches_up_and_due_times_stay() {
    let mut source = numbers(u64::MAX, Read::Ended, 1_000, 1);
    let mut taken = Taken(Vec::new(), 8);
    source.read(1, MS(0), &mut taken).unwrap();
    assert_eq!(source.read(4, MS(9), &mut taken).unwrap(), Read::More);
    assert_eq!(source.read(4, MS(9), &mut taken).unwrap(), Read::More, "the output is blocked");
    taken.1 = usize::MAX;
    assert_eq!(source.read(99, MS(9), &mut taken).unwrap(), Read::Until(MS(10)));
    let expected: Vec<_> = (0..10).map(|i| (i, MS(i))).collect();
    assert_eq!(taken.0, expected);
}

#[test]
fn times_do_not_drift_at_a_rate_that_does_not_divide() {
    for (rate, workers) in [(7, 3), (999_999_937, 2), (3_000_000_000, 1), (1, 1)] {
        let mut source = numbers(u64::MAX, Read::Ended, rate, workers);
        let mut taken = Taken(Vec::new(), usize::MAX);
        let start = Duration::from_secs(1_000_000);
        let mut now = start;
        for _ in 0..200 {
            let before = taken.0.len();
            match source.read(1_000, now, &mut taken).unwrap() {
                Read::Until(next) => {
                    assert!(next > now);
                    now = next;
                }
                left => assert_eq!((left, taken.0.len()), (Read::More, before + 1_000)),
            }
            assert!(taken.0.len() > before, "a source asked when it said has a record");
        }
        for (i, due) in taken.0 {
            let exact = u128::from(i) * workers as u128 * 1_000_000_000 / u128::from(rate);
            assert_eq!((due - start).as_nanos(), exact);
        }
    }
}

#[test]
fn what_the_inner_source_says_is_said() {
    let cases = [
        (Read::Ended, Read::Ended),
        (Read::Idle, Read::Idle),
        // The next record is due at 2 ms.
        (Read::Until(MS(1)), Read::Until(MS(2))),
        (Read::Until(MS(5)), Read::Until(MS(5))),
    ];
    for (then, expected) in cases {
        let mut source = numbers(2, then, 1_000, 1);
        let mut taken = Taken(Vec::new(), usize::MAX);
        assert_eq!(source.read(9, MS(0), &mut taken).unwrap(), Read::Until(MS(1)));
        assert_eq!(source.read(9, MS(1), &mut taken).unwrap(), Read::Until(MS(2)));
        assert_eq!(source.read(9, MS(2), &mut taken).unwrap(), expected);
        assert_eq!(taken.0.len(), 2);
    }
}

#[test]
fn a_source_that_has_ended_says_so_at_once() {
    let mut source = numbers(0, Read::Ended, 1, 1);
    let mut taken = Taken(Vec::new(), usize::MAX);
    assert_eq!(source.read(9, MS(7), &mut taken).unwrap(), Read::Ended);
    assert_eq!(source.read(9, MS(7), &mut taken).unwrap(), Read::Ended);
}
