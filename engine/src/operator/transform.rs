//! Stateless operators, fused into one loop: each is a function around the next.
//!
//! ```text
//!   head ──▶ map ──▶ filter ──▶ tail        one call per record, inlined into one loop
//! ```

use std::marker::PhantomData;

use crate::source::Emit;

/// What a chain does to a record between its head and its tail.
pub trait Transform<A>: 'static {
    /// What comes out.
    type Out;
    /// Can one record become several?
    const EXPANDS: bool;
    /// Applies it to one record.
    fn apply(&mut self, record: A, out: &mut impl Emit<Self::Out>);
}

/// Nothing.
#[derive(Debug)]
pub struct Identity;

impl<A> Transform<A> for Identity {
    type Out = A;
    const EXPANDS: bool = false;
    #[inline]
    fn apply(&mut self, record: A, out: &mut impl Emit<A>) {
        out.emit(record);
    }
}

/// One record for each record.
#[derive(Debug)]
pub struct Map<T, F> {
    pub(crate) before: T,
    pub(crate) function: F,
}

impl<A, B, T: Transform<A>, F: FnMut(T::Out) -> B + 'static> Transform<A> for Map<T, F> {
    type Out = B;
    const EXPANDS: bool = T::EXPANDS;
    #[inline]
    fn apply(&mut self, record: A, out: &mut impl Emit<B>) {
        let function = &mut self.function;
        let emit = |record, out: &mut _| Emit::emit(out, function(record));
        self.before.apply(record, &mut Then { emit, out, of: PhantomData });
    }
}

/// The records for which a condition holds.
#[derive(Debug)]
pub struct Filter<T, F> {
    pub(crate) before: T,
    pub(crate) condition: F,
}

impl<A, T: Transform<A>, F: FnMut(&T::Out) -> bool + 'static> Transform<A> for Filter<T, F> {
    type Out = T::Out;
    const EXPANDS: bool = T::EXPANDS;
    #[inline]
    fn apply(&mut self, record: A, out: &mut impl Emit<T::Out>) {
        let condition = &mut self.condition;
        let emit = |record, out: &mut _| {
            if condition(&record) {
                Emit::emit(out, record);
            }
        };
        self.before.apply(record, &mut Then { emit, out, of: PhantomData });
    }
}

/// Any number of records for each record.
#[derive(Debug)]
pub struct FlatMap<T, F> {
    pub(crate) before: T,
    pub(crate) function: F,
}

impl<A, I, T, F> Transform<A> for FlatMap<T, F>
where
    I: IntoIterator,
    T: Transform<A>,
    F: FnMut(T::Out) -> I + 'static,
{
    type Out = I::Item;
    const EXPANDS: bool = true;
    #[inline]
    fn apply(&mut self, record: A, out: &mut impl Emit<I::Item>) {
        let function = &mut self.function;
        let emit = |record, out: &mut _| {
            for record in function(record) {
                Emit::emit(out, record);
            }
        };
        self.before.apply(record, &mut Then { emit, out, of: PhantomData });
    }
}

/// Takes records and emits what a function makes of them.
struct Then<'a, A, B, F, E> {
    emit: F,
    out: &'a mut E,
    of: PhantomData<fn(A) -> B>,
}

impl<A, B, F: FnMut(A, &mut E), E: Emit<B>> Emit<A> for Then<'_, A, B, F, E> {
    const EXPANDS: bool = E::EXPANDS;
    #[inline]
    fn emit(&mut self, record: A) {
        (self.emit)(record, self.out);
    }
    #[inline]
    fn is_blocked(&self) -> bool {
        self.out.is_blocked()
    }
}

/// What a head emits into: the transform, then the tail.
pub(crate) struct Through<'a, T, E> {
    pub(crate) transform: &'a mut T,
    pub(crate) out: &'a mut E,
}

impl<A, T: Transform<A>, E: Emit<T::Out>> Emit<A> for Through<'_, T, E> {
    const EXPANDS: bool = T::EXPANDS || E::EXPANDS;
    #[inline]
    fn emit(&mut self, record: A) {
        self.transform.apply(record, self.out);
    }
    #[inline]
    fn is_blocked(&self) -> bool {
        self.out.is_blocked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Collect(Vec<i64>);
    impl Emit<i64> for Collect {
        fn emit(&mut self, record: i64) {
            self.0.push(record);
        }
        fn is_blocked(&self) -> bool {
            self.0.len() >= 8
        }
    }

    #[test]
    fn transforms_apply_in_the_order_in_which_they_were_written() {
        let double = Map { before: Identity, function: |n: i64| n * 2 };
        let large = Filter { before: double, condition: |n: &i64| *n > 2 };
        let mut repeated =
            FlatMap { before: large, function: |n: i64| std::iter::repeat_n(n, n as usize) };
        let mut out = Collect(Vec::new());
        let mut through = Through { transform: &mut repeated, out: &mut out };
        (0..4).for_each(|n| through.emit(n));
        assert!(through.is_blocked());
        assert_eq!(out.0, [4, 4, 4, 4, 6, 6, 6, 6, 6, 6]);
    }
}
