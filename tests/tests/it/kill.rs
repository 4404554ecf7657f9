//! `kill -9` at random moments.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use overtake::Clock;
use overtake_bench::flights::JANUARY;

use crate::harness::{Place, Running, bill_of, run};

/// Draws numbers from a seed (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// A seed of the environment, or any.
    pub(crate) fn new() -> Dice {
        let given = std::env::var("OVERTAKE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
        println!("OVERTAKE_SEED={seed}");
        Dice(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Lives that are killed.
const LIVES: usize = 20;

/// The same flights so many times, a year later each.
const REPEAT: u16 = 8;

#[test]
fn f37_f39_kill_9_in_a_loop_leaves_the_invoices_exact() {
    let (place, mut dice, clock) = (Place::new(), Dice::new(), Clock::system());
    let mut restored = 0;
    for life in 0..LIVES {
        let mode = ["aligned", "unaligned", "adaptive"][dice.below(3) as usize];
        let (workers, rate) = (1 + dice.below(4), 20_000 + dice.below(60_000));
        let options = format!(
            "--repeat {REPEAT} --workers {workers} --mode {mode} --rate {rate} --interval 20"
        );
        // Some die before they have begun.
        let lasts = Duration::from_millis(dice.below(700));
        println!("{:?}: life {life} lasts {lasts:?}: {options}", clock.now());
        let mut running = Running::start(place.billing(&options));
        match running.end_within(lasts) {
            Some(ended) => _ = ended.assert_success(),
            None => {
                let ended = running.kill();
                restored += usize::from(ended.stdout.contains("going on from checkpoint"));
                assert_eq!(ended.stderr, "", "{ended:?}");
            }
        }
    }
    run(place.billing(&format!("--repeat {REPEAT} --workers 2"))).assert_success();
    place.assert_billed(&bill_of(JANUARY.as_ref(), REPEAT));
    assert!(restored > 0, "no life went on from a checkpoint: the test shows nothing");
    println!("{:?}: {restored} of {LIVES} lives that were killed had gone on", clock.now());
}
