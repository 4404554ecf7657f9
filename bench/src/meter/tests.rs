use super::*;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const QUIET: Window =
    Window { seconds: 2.0, records: 10, cpu_seconds: 4.0, others: 0.0, steal: 0.0, allocations: 0 };

#[test]
fn a_window_says_how_fast_and_how_dear_a_record_was() {
    assert_eq!(QUIET.rate(), 5.0);
    assert_eq!(QUIET.cpu_per_record(), 0.4);
}

#[test]
fn a_window_is_quiet_only_if_neither_others_nor_steal_disturbed_it() {
    assert!(QUIET.is_quiet());
    assert!(!Window { others: 0.021, ..QUIET }.is_quiet());
    assert!(!Window { steal: 0.021, ..QUIET }.is_quiet());
}

#[test]
fn work_of_this_thread_is_cpu_time_of_thread_process_and_window() {
    let (mark, before) = (Mark::new(5), thread_cpu());
    let mut sum = 0u64;
    while thread_cpu() - before < std::time::Duration::from_millis(20) {
        sum = std::hint::black_box(sum + 1);
    }
    let window = mark.end(5 + sum);
    assert_eq!(window.records, sum);
    assert!(window.cpu_seconds >= 0.02, "{window:?}");
    assert!(window.seconds >= 0.02, "{window:?}");
}

#[test]
fn busy_and_stolen_ticks_of_all_cores_are_read() {
    let text = |user: u64, steal: u64| {
        format!("cpu  {user} 10 100 5000 7 3 2 {steal} 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n")
    };
    let (early, late) = (Machine::parse(&text(1000, 20)), Machine::parse(&text(1150, 25)));
    assert_eq!(late.cores, 2);
    assert_eq!(late.since(&early), (1.5, 0.05));
}

#[test]
fn a_machine_that_does_not_tell_is_never_busy() {
    assert_eq!(Machine::parse("").since(&Machine::parse("")), (0.0, 0.0));
}

#[test]
fn what_is_allocated_is_counted_and_live_until_it_is_freed() {
    // Larger by far than what other tests of this process allocate meanwhile.
    const SIZE: i64 = 32 << 20;
    let (bytes, count) = (live_bytes(), allocations());
    let mut memory: Vec<u8> = Vec::with_capacity(SIZE as usize / 2);
    memory.reserve_exact(SIZE as usize);
    assert!((live_bytes() - bytes - SIZE).abs() < SIZE / 4);
    assert!(allocations() >= count + 2);
    drop(memory);
    assert!((live_bytes() - bytes).abs() < SIZE / 4);
}
