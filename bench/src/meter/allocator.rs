//! mimalloc, counted: how often this process allocated, and how many bytes are live.
//!
//! # Invariants
//!
//! * **A1**: every call is handed to mimalloc as it came, and its answer back: counting changes
//!   nothing.
//!
//! Threads count in cells of their own cache line, since counting in one place would slow down what
//! is measured.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// More than there are threads that matter; two that share a cell are counted all the same.
const CELLS: usize = 16;

static COUNTS: [Counts; CELLS] = [const { Counts::new() }; CELLS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread's cell, and whether it counts. Neither initialised lazily nor dropped: an
    /// allocator may use them at any moment.
    static CELL: Cell<Option<usize>> = const { Cell::new(None) };
    static IS_COUNTED: Cell<bool> = const { Cell::new(true) };
}

/// How often this process has allocated or grown memory, if [`Counting`] is its allocator.
pub fn allocations() -> u64 {
    COUNTS.iter().map(|counts| counts.allocations.load(Relaxed)).sum()
}

/// Runs what belongs to the measurement: allocations of this thread meanwhile are not counted.
pub fn uncounted<T>(run: impl FnOnce() -> T) -> T {
    IS_COUNTED.set(false);
    let result = run();
    IS_COUNTED.set(true);
    result
}

/// How many bytes are allocated and not yet freed, if [`Counting`] is this process's allocator.
pub fn live_bytes() -> i64 {
    COUNTS.iter().map(|counts| counts.live_bytes.load(Relaxed)).sum()
}

/// The allocator to be named as `#[global_allocator]`.
pub struct Counting;

#[repr(align(128))]
struct Counts {
    allocations: AtomicU64,
    live_bytes: AtomicI64,
}

impl Counts {
    const fn new() -> Counts {
        Counts { allocations: AtomicU64::new(0), live_bytes: AtomicI64::new(0) }
    }
}

/// Counts `allocations`, and `grown` bytes that are live from now on.
fn count(allocations: u64, grown: i64) {
    let cell = CELL.get().unwrap_or_else(|| {
        let cell = THREADS.fetch_add(1, Relaxed) % CELLS;
        CELL.set(Some(cell));
        cell
    });
    if IS_COUNTED.get() {
        COUNTS[cell].allocations.fetch_add(allocations, Relaxed);
    }
    COUNTS[cell].live_bytes.fetch_add(grown, Relaxed);
}

// SAFETY: by A1 this is mimalloc, and keeps its promises. `count` neither allocates nor unwinds:
// its thread-local values need no initialiser and no destructor, and the cell is below the number
// of cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: by A1, under the caller's promises.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: by A1, under the caller's promises.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: by A1, under the caller's promises.
        unsafe { MiMalloc.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: by A1, under the caller's promises.
        unsafe { MiMalloc.realloc(memory, layout, size) }
    }
}
