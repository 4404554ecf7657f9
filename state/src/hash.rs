//! The hash of keys: it routes records to workers and finds rows in tables, and it is part of what
//! is stored, since tables are addressed by it.
//!
//! Rapidhash V3 (its published C++ form, seed 0) over the archived bytes of the key. FORMAT.md has
//! test vectors, also in the tests below.
//!
//! # Invariants
//!
//! * **H1**: the hash of a key depends on its archived bytes only: not on the machine, the process,
//!   the type's name or the version of a compiler.
//! * **H2**: each worker owns one range of hashes; the ranges of all workers are disjoint and cover
//!   all hashes, for any number of workers.

use std::ops::RangeInclusive;
use std::slice;

use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_inline};

use crate::data::{Data, with_archive};

/// The name of the hash in manifests; another name means that tables are addressed otherwise.
pub const HASH: &str = "rapidhash-3";

/// The stored hash of a key.
///
/// ```
/// assert_eq!(overtake_state::hash(&0u64), 0x9efc_171a_ebce_a1f3);
/// ```
#[inline]
pub fn hash<K: Data>(key: &K) -> u64 {
    if const { K::COPY_OPTIMIZATION.is_enabled() } {
        // H1: these bytes are the archived ones.
        // SAFETY: `COPY_OPTIMIZATION` promises that `K` has no uninitialized bytes, and that they
        // are those of its archived form.
        let bytes =
            unsafe { slice::from_raw_parts(std::ptr::from_ref(key).cast::<u8>(), size_of::<K>()) };
        hash_bytes(bytes)
    } else {
        with_archive(key, hash_bytes)
    }
}

#[inline]
fn hash_bytes(bytes: &[u8]) -> u64 {
    rapidhash_v3_inline::<true, false, false>(bytes, &DEFAULT_RAPID_SECRETS)
}

/// The worker that owns a hash, of so many workers.
#[inline]
pub fn owner(hash: u64, workers: usize) -> usize {
    ((u128::from(hash) * workers as u128) >> 64) as usize
}

/// The hashes that [`owner`] gives to one of so many workers (H2).
///
/// ```
/// assert_eq!(overtake_state::hash_range(1, 2), 1 << 63..=u64::MAX);
/// ```
pub fn hash_range(worker: usize, workers: usize) -> RangeInclusive<u64> {
    assert!(worker < workers, "worker {worker} of {workers}");
    let first = |worker: usize| ((worker as u128) << 64).div_ceil(workers as u128);
    first(worker) as u64..=(first(worker + 1) - 1) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
    struct Tail([u8; 8]);

    /// The vectors of FORMAT.md.
    #[test]
    fn h1_the_hash_is_the_published_one() {
        assert_eq!(hash_bytes(b""), 0x0338_dc4b_e2ce_cdae);
        assert_eq!(hash_bytes(b"overtake"), 0xf952_62d3_b839_51dc);
        assert_eq!(hash(&0u64), 0x9efc_171a_ebce_a1f3);
        assert_eq!(hash(&1u64), 0xbec1_7830_9f44_afbc);
        assert_eq!(hash(&u64::MAX), 0x8a18_5fbd_8550_916d);
        assert_eq!(hash(&-1i32), 0x6048_6c15_260d_35cd);
        assert_eq!(hash(&(1u64, 2u64)), 0xa385_eb5b_8914_7b79);
        assert_eq!(hash(&"UA".to_owned()), 0xf64d_2efb_8dc2_a0bd);
        assert_eq!(hash(&"a string out of line".to_owned()), 0xd92c_2a6c_2702_7cf5);
    }

    #[test]
    fn h1_a_key_that_is_its_own_archive_is_hashed_like_its_bytes() {
        assert_eq!(hash(&Tail(*b"N12345\0\0")), hash_bytes(b"N12345\0\0"));
        assert_eq!(hash(&0x0807_0605_0403_0201u64), hash_bytes(&[1, 2, 3, 4, 5, 6, 7, 8]));
        // A tuple is archived first, and has the same bytes.
        assert_eq!(hash(&(1u64, 2u64)), hash(&[1u64, 2u64]));
    }

    proptest! {
        #[test]
        fn h2_a_hash_lies_in_the_range_of_its_owner_only(hash: u64, workers in 1usize..200) {
            let mine = owner(hash, workers);
            for worker in 0..workers {
                prop_assert_eq!(hash_range(worker, workers).contains(&hash), worker == mine);
            }
            prop_assert_eq!(*hash_range(0, workers).start(), 0);
            prop_assert_eq!(*hash_range(workers - 1, workers).end(), u64::MAX);
        }
    }
}
