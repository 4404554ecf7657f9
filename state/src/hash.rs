//! The hash of keys: it routes records to workers and finds rows in tables, and it is part of what
//! is stored, since tables are addressed by it.
//!
//! Over the archived bytes of the key: up to eight of them are one number, and rapidhash's mixing
//! step and a shift are applied to it; more are hashed by rapidhash V3 (its published C++ form,
//! seed 0). A record of a keyed stream is hashed twice, by its sender and by its receiver's table,
//! and most keys are numbers: the whole of rapidhash made a keyed count by 64-bit keys a fifth
//! slower. FORMAT.md has test vectors, also in the tests below.
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
pub const HASH: &str = "mix-rapidhash-3";

/// The first and third secret of rapidhash, as published.
const SECRETS: [u64; 2] = [0x2d35_8dcc_aa6c_78a5, 0x4b33_a62e_d433_d4a3];

/// The stored hash of a key.
///
/// ```
/// assert_eq!(overtake_state::hash(&0u64), 0x93f5_75f3_cf72_faa3);
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
    if bytes.len() > 8 {
        return rapidhash_v3_inline::<true, false, false>(bytes, &DEFAULT_RAPID_SECRETS);
    }
    let mut number = [0; 8];
    number[..bytes.len()].copy_from_slice(bytes);
    let number = u64::from_le_bytes(number) ^ SECRETS[0];
    let product = u128::from(number) * u128::from(SECRETS[1] ^ bytes.len() as u64);
    let folded = product as u64 ^ (product >> 64) as u64;
    // The middle of one product is poor: it shows the stride of the keys in the buckets of a table.
    folded ^ folded >> 19
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
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
    struct Tail([u8; 8]);

    /// The vectors of FORMAT.md.
    #[test]
    fn h1_the_hash_is_the_written_one() {
        assert_eq!(hash_bytes(b""), 0x3841_f11a_09a5_5f00);
        assert_eq!(hash_bytes(b"overtake"), 0x15e3_0b3b_7313_932b);
        assert_eq!(hash(&0u64), 0x93f5_75f3_cf72_faa3);
        assert_eq!(hash(&1u64), 0x5e38_c59b_ae7c_9f9e);
        assert_eq!(hash(&u64::MAX), 0x2bf2_622f_0711_bfa7);
        assert_eq!(hash(&-1i32), 0xa063_4653_0fd8_80e2);
        assert_eq!(hash(&(1u64, 2u64)), 0xa385_eb5b_8914_7b79);
        assert_eq!(hash(&"UA".to_owned()), 0x5451_1082_dc17_3db2);
        assert_eq!(hash(&"a string out of line".to_owned()), 0xd92c_2a6c_2702_7cf5);
    }

    #[test]
    fn h1_a_key_that_is_its_own_archive_is_hashed_like_its_bytes() {
        assert_eq!(hash(&Tail(*b"N12345\0\0")), hash_bytes(b"N12345\0\0"));
        assert_eq!(hash(&0x0807_0605_0403_0201u64), hash_bytes(&[1, 2, 3, 4, 5, 6, 7, 8]));
        // A tuple is archived first, and has the same bytes.
        assert_eq!(hash(&(1u64, 2u64)), hash(&[1u64, 2u64]));
    }

    /// Keys as people number things. Routing takes the upper bits of the hash; a table finds the
    /// bucket by the upper half, turned down, and compares seven bits below it.
    #[test]
    fn numbers_of_any_stride_spread_over_workers_buckets_and_tags() {
        const KEYS: usize = 8192;
        let strides = (0..51).map(|shift| 1u64 << shift);
        for stride in strides.chain([3, 10, 1000, 86_400, 1_000_000_007]) {
            for start in [0u64, 1, SECRETS[0], 1 << 63] {
                let keys = (0..KEYS as u64).map(|i| start.wrapping_add(i.wrapping_mul(stride)));
                let hashes: Vec<u64> = keys.map(|key| hash(&key)).collect();
                for workers in [2, 3, 7, 16] {
                    let mut shares = vec![0; workers];
                    hashes.iter().for_each(|hash| shares[owner(*hash, workers)] += 1);
                    let largest = shares.iter().max().expect("there are workers");
                    let message = format!("stride {stride} from {start}: {shares:?}");
                    assert!(largest * workers < KEYS * 5 / 4, "{message}");
                }
                let distinct = |part: &dyn Fn(u64) -> u64| {
                    hashes.iter().map(|hash| part(*hash)).collect::<HashSet<_>>().len()
                };
                // Drawn at random, 63 % of the buckets would be hit, and every tag.
                let buckets = distinct(&|hash| hash >> 32 & (KEYS as u64 - 1));
                assert!(buckets * 2 > KEYS, "stride {stride} from {start}: {buckets} buckets");
                let tags = distinct(&|hash| hash >> 25 & 127);
                assert!(tags > 100, "stride {stride} from {start}: {tags} tags");
            }
        }
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
