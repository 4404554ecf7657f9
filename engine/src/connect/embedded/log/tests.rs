use super::*;

fn log(entries: u64) -> Log<u64> {
    let mut log = Log::default();
    (1..=entries).for_each(|number| log.push(Entry { producer: 0, number, record: number * 10 }));
    log
}

fn read(log: &mut Log<u64>, limit: usize) -> Vec<u64> {
    let mut entries = VecDeque::new();
    log.read(limit, &mut entries);
    entries.into_iter().map(|entry| entry.number).collect()
}

#[test]
fn what_is_pushed_is_read_once_and_in_order() {
    let mut log = log(5_000);
    assert_eq!(read(&mut log, 3), [1, 2, 3]);
    assert_eq!(read(&mut log, 2_000), (4..=2_003).collect::<Vec<_>>());
    assert_eq!(read(&mut log, usize::MAX >> 1).len(), 5_000 - 2_003);
    assert!(log.is_read());
    log.push(Entry { producer: 0, number: 5_001, record: 0 });
    assert!(!log.is_read());
    assert_eq!(read(&mut log, 10), [5_001]);
}

#[test]
fn g3_a_completed_checkpoint_lets_go_of_what_it_covers_and_no_more() {
    let mut log = log(5_000);
    read(&mut log, 2_000);
    // Ten of them were read ahead and not emitted.
    log.cut(7, 10, vec![1_990]);
    read(&mut log, 1_000);
    log.cut(8, 0, vec![3_000]);
    log.cut(9, 0, vec![3_000]);
    let Completed { dropped, released, durable } = log.completed(7);
    assert_eq!((dropped.len(), released, durable), (1_990 / CHUNK, 1_990, vec![1_990]));
    // Epoch 8 was aborted, and what it covered is complete with 9.
    assert_eq!(log.completed(9).released, 1_010);
    assert_eq!(log.held(), 2_000);
    assert_eq!(log.completed(10).durable, [0; 0]);
    assert_eq!(read(&mut log, 1), [3_001]);
}

#[test]
fn a_new_life_reads_again_what_its_position_does_not_cover() {
    let mut log = log(3_000);
    read(&mut log, 2_500);
    log.cut(1, 0, vec![2_500]);
    assert_eq!(log.restore(|entry| entry.number <= 1_100).1, 1_100);
    assert_eq!(read(&mut log, 1), [1_101]);
    assert_eq!(log.completed(1).released, 0, "the cuts of the former life are forgotten");
    assert_eq!(log.restore(|_| false).1, 0);
    assert_eq!(read(&mut log, 1), [1_101]);
}

#[test]
fn without_checkpoints_what_is_read_is_let_go_of() {
    let mut log = log(2_100);
    read(&mut log, 2_100);
    let (dropped, count) = log.let_go_of_read();
    assert_eq!((dropped.len(), count), (2, 2_100));
    log.push(Entry { producer: 0, number: 2_101, record: 0 });
    assert_eq!(read(&mut log, 5), [2_101]);
}
