//! Loom's atomics with a weak spot: a test can weaken one ordering at a time, and must notice.
//!
//! Every acquire, release and `SeqCst` fence that runs has a *place*: where it is in the source,
//! and which half of the ordering it is. [`unnoticed`] runs tests as they are to learn which places
//! they meet, then once more for each, with that one weakened: acquire and release to relaxed, a
//! `SeqCst` fence to an acquire-release one. It tells which no test noticed. So the code that ships
//! has no switch for it, and an ordering that is added is a mutant without anybody writing one.
//!
//! A weakened test runs in a process of its own, since a deadlock that loom finds may end it.

use std::cell::RefCell;
use std::collections::BTreeMap;
#[cfg(test)]
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::LazyLock;

use crate::sync::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Names the place that is weakened in this process.
const WEAKEN: &str = "OVERTAKE_WEAKEN";

static WEAKENED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(WEAKEN).ok());

/// Where in the source, and which half of the ordering.
type Place = (&'static Location<'static>, &'static str);

thread_local! {
    /// The places that were met, and whether each holds. Loom runs all threads of a model on the
    /// one that calls it.
    static MET: RefCell<BTreeMap<Place, bool>> = const { RefCell::new(BTreeMap::new()) };
}

fn name((at, half): Place) -> String {
    format!("{at} {half}")
}

/// Whether this half of the ordering at the caller's place holds, or is the one that is weakened.
#[track_caller]
fn holds(half: &'static str) -> bool {
    let place = (Location::caller(), half);
    let is_weakened = || WEAKENED.as_deref() == Some(name(place).as_str());
    MET.with_borrow_mut(|met| *met.entry(place).or_insert_with(|| !is_weakened()))
}

#[track_caller]
fn order(ordering: Ordering) -> Ordering {
    let (acquire, release) = match ordering {
        Relaxed => return Relaxed,
        Acquire => (holds("acquire"), false),
        Release => (false, holds("release")),
        AcqRel => (holds("acquire"), holds("release")),
        _ => panic!("loom does not model SeqCst accesses: use a fence"),
    };
    match (acquire, release) {
        (true, true) => AcqRel,
        (true, false) => Acquire,
        (false, true) => Release,
        (false, false) => Relaxed,
    }
}

/// `std::sync::atomic::fence`.
#[track_caller]
pub(crate) fn fence(ordering: Ordering) {
    assert!(ordering == SeqCst, "only SeqCst fences can be weakened so far");
    ::loom::sync::atomic::fence(if holds("fence") { SeqCst } else { AcqRel });
}

macro_rules! atomic {
    ($name:ident, $value:ty, $($update:ident)*) => {
        /// The one of `std::sync::atomic`.
        #[derive(Debug, Default)]
        pub(crate) struct $name(::loom::sync::atomic::$name);

        #[allow(dead_code, reason = "each has all that another module may need")]
        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                $name(::loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                self.0.load(order(ordering))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, order(ordering));
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, order(success), order(failure))
            }

            $(
                #[track_caller]
                pub(crate) fn $update(&self, value: $value, ordering: Ordering) -> $value {
                    self.0.$update(value, order(ordering))
                }
            )*
        }
    };
}

atomic!(AtomicBool, bool, swap fetch_and fetch_or);
atomic!(AtomicU64, u64, swap fetch_add fetch_sub fetch_and fetch_or fetch_max);
atomic!(AtomicUsize, usize, swap fetch_add fetch_sub fetch_and fetch_or fetch_max);

/// `std::sync::OnceLock`, of which loom has none: set once, by one thread.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: ::loom::cell::UnsafeCell<Option<T>>,
    is_set: ::loom::sync::atomic::AtomicBool,
}

// SAFETY: the value is written by the one thread that sets it, before the release below, and only
// shared after it.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        OnceLock {
            value: ::loom::cell::UnsafeCell::new(None),
            is_set: ::loom::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Loom fails a test in which two threads set it.
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        if self.is_set.load(Relaxed) {
            return Err(value);
        }
        self.value.with_mut(|cell| {
            // SAFETY: nobody reads before the release below, and one thread sets.
            unsafe { *cell = Some(value) };
        });
        // Release: publishes the value; pairs with the acquire in `get`.
        self.is_set.store(true, Release);
        Ok(())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: the value; pairs with the release in `set`.
        if !self.is_set.load(Acquire) {
            return None;
        }
        // SAFETY: it is set, and nothing writes it again.
        self.value.with(|cell| unsafe { (*cell).as_ref() })
    }
}

/// All outcomes of a model: it runs in every interleaving, and with every value a load may see.
#[cfg(test)]
pub(crate) fn outcomes<O: Ord + Send + 'static>(model: fn() -> O) -> BTreeSet<O> {
    use std::sync::{Arc, Mutex};

    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let outcomes = seen.clone();
    ::loom::model(move || {
        let outcome = model();
        seen.lock().expect("one thread runs the model").insert(outcome);
    });
    let mut outcomes = outcomes.lock().expect("the model is over");
    std::mem::take(&mut outcomes)
}

/// The places in `file` that can be weakened without any of these tests of `module` failing.
#[cfg(test)]
pub(crate) fn unnoticed(file: &str, module: &str, tests: &[(&str, fn())]) -> Vec<String> {
    MET.take();
    tests.iter().for_each(|(_, test)| test());
    let (_, module) = module.split_once("::").expect("a module is in a crate");
    let notices = |test: &str, place: &str| {
        let mut process = std::process::Command::new(std::env::current_exe().expect("it runs"));
        process.args(["--exact", &format!("{module}::{test}")]).env(WEAKEN, place);
        !process.output().expect("this program can be started").status.success()
    };
    for (test, _) in tests {
        assert!(!notices(test, "nowhere"), "{test} fails with nothing weakened");
    }
    let mut places: Vec<String> = MET.take().into_keys().map(name).collect();
    places.retain(|place| place.contains(file));
    assert!(!places.is_empty(), "no test runs through {file}");
    places.retain(|place| {
        let tests = tests.iter().map(|(name, _)| *name);
        let noticed: Vec<&str> = tests.filter(|test| notices(test, place)).collect();
        println!("{place}: noticed by {noticed:?}");
        noticed.is_empty()
    });
    places
}

/// Named tests, for [`unnoticed`].
#[cfg(test)]
macro_rules! named {
    ($($test:ident)*) => { &[$((stringify!($test), $test as fn())),*] };
}
#[cfg(test)]
pub(crate) use named;
