//! The one door to what threads share: std's primitives, or loom's under `cfg(loom)`, so that loom
//! tests what ships.
//!
//! With the feature `simulation` it is also where a test takes hold of time between two
//! instructions: at a *yield point* another thread of the simulation may have its turn, and a
//! *stale* read answers what was there before, as a real machine may. Both ask a [`Hook`] of the
//! calling thread; without the feature they are empty.
//!
//! # Invariants
//!
//! * **Y1**: no lock is held and no `RefCell` of another task borrowed at a yield point.
//! * **Y2**: a stale read keeps a value that was once true. The look after arming (W1 in
//!   `channel/wake.rs`) is never stale: the fences rule that out, so the simulation must not make
//!   it up.
//!
//! Not here: what is shared without an ordering of ours, such as `mpsc` channels, thread handles to
//! join, and a plain `std::sync::Arc`: loom's is for what is dropped or taken back through it, as a
//! ring is.

use std::ops::Deref;

pub(crate) mod fault;
#[cfg(loom)]
pub(crate) mod weaken;

#[cfg(not(loom))]
mod primitives {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
    pub(crate) use std::sync::{Arc, Mutex, OnceLock};
    pub(crate) use std::thread;

    /// `std::cell::UnsafeCell` with loom's interface.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(loom)]
mod primitives {
    pub(crate) use super::weaken::{AtomicBool, AtomicU64, AtomicUsize, OnceLock, fence};
    pub(crate) use ::loom::cell::UnsafeCell;
    pub(crate) use ::loom::sync::{Arc, Mutex};
    pub(crate) use ::loom::thread;
}

pub(crate) use fault::{Fault, fault};
pub(crate) use primitives::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, OnceLock, UnsafeCell, fence, thread,
};
pub(crate) use std::sync::atomic::Ordering;

/// A value on cache lines of its own: 128 bytes, since neighbouring lines of 64 are fetched in
/// pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(feature = "simulation")]
pub use simulation::{Hook, set_hook};
#[cfg(feature = "simulation")]
pub(crate) use simulation::{crash_point, draw, stale, yield_point};

/// Here another thread of the simulation may have its turn.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub(crate) fn yield_point() {}

/// Whether the read that follows is to answer what was there before.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub(crate) fn stale() -> bool {
    false
}

/// How stale: a number below `bound`. The freshest without a simulation.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub(crate) fn draw(_bound: usize) -> usize {
    0
}

/// Here a test may let the process die; `_step` names what comes next.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub(crate) fn crash_point(_step: &str) {}

#[cfg(feature = "simulation")]
mod simulation {
    use std::cell::RefCell;
    use std::rc::Rc;

    /// What a test does at yield points, and whether it makes a read stale.
    pub trait Hook {
        /// Another thread of the simulation may have its turn before this returns.
        fn yield_point(&self);
        /// Whether the read that follows is to answer what was there before.
        fn stale(&self) -> bool;
        /// A number below `bound`: how stale.
        fn draw(&self, bound: usize) -> usize;
        /// The process may die before the step that is named.
        fn crash_point(&self, step: &str);
    }

    thread_local! {
        static HOOK: RefCell<Option<Rc<dyn Hook>>> = const { RefCell::new(None) };
    }

    /// Sets the hook of the calling thread. A test whose workers share a thread sets it before each
    /// turn.
    pub fn set_hook(hook: Option<Rc<dyn Hook>>) {
        HOOK.set(hook);
    }

    /// A copy, since another turn sets its own hook while this one is suspended. None while
    /// unwinding: a task that is being dropped is given no further turn.
    fn hook() -> Option<Rc<dyn Hook>> {
        if std::thread::panicking() { None } else { HOOK.with_borrow(Clone::clone) }
    }

    pub(crate) fn yield_point() {
        // Y1: whoever calls this holds nothing that another turn could want.
        if let Some(hook) = hook() {
            hook.yield_point();
        }
    }

    pub(crate) fn stale() -> bool {
        hook().is_some_and(|hook| hook.stale())
    }

    /// Kills the process at a step, if the process was told so: a real crash, for real files.
    fn abort_at(step: &str) {
        static STEP: std::sync::OnceLock<Option<(String, u64)>> = std::sync::OnceLock::new();
        static PASSED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let wanted = STEP.get_or_init(|| {
            let wanted = std::env::var("OVERTAKE_CRASH_AT").ok()?;
            let (step, times) = wanted.split_once(':')?;
            Some((step.to_owned(), times.parse().ok()?))
        });
        if let Some((wanted, times)) = wanted
            && wanted == step
            && PASSED.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == *times
        {
            std::process::abort();
        }
    }

    pub(crate) fn crash_point(step: &str) {
        abort_at(step);
        if let Some(hook) = hook() {
            hook.crash_point(step);
        }
    }

    pub(crate) fn draw(bound: usize) -> usize {
        hook().map_or(0, |hook| hook.draw(bound))
    }
}

#[cfg(test)]
#[cfg(all(feature = "simulation", not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::channel::credit::credit;
    use crate::channel::ring::ring;

    #[derive(Default)]
    struct Script {
        yields: Cell<usize>,
        stale: Cell<bool>,
    }

    impl Hook for Script {
        fn yield_point(&self) {
            self.yields.set(self.yields.get() + 1);
        }

        fn stale(&self) -> bool {
            self.stale.get()
        }

        fn draw(&self, bound: usize) -> usize {
            bound - 1
        }

        fn crash_point(&self, _step: &str) {}
    }

    #[test]
    fn a_stale_read_answers_what_was_there_and_the_look_after_arming_does_not() {
        let script = Rc::new(Script::default());
        set_hook(Some(script.clone()));
        let (mut producer, mut consumer) = ring(2);
        let (mut credit, mut returned) = credit(1);
        producer.push(1).unwrap();
        credit.take();
        returned.give_back();

        script.stale.set(true);
        assert_eq!((consumer.pop(), credit.has()), (None, false));
        assert!(!consumer.is_empty(), "Y2");
        assert!(credit.look(), "Y2");
        script.stale.set(false);
        assert_eq!(consumer.pop(), Some(1));
        assert_eq!(draw(3), 2);
        assert_eq!(script.yields.get(), 5, "push, give back, twice pop, once a look at credit");
        set_hook(None);
        assert!(!stale());
    }
}
