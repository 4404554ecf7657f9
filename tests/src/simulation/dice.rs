//! Everything that is drawn, from one seed.

/// A generator of random numbers: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    /// The numbers of a seed.
    pub(super) fn new(seed: u64) -> Dice {
        Dice(mix(seed))
    }

    /// Any number.
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// Once in so many times; never if that is 0.
    pub(super) fn one_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }

    /// One of these.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// One of so many places, by its weight.
    pub(super) fn weighed(&mut self, weights: &[u64]) -> usize {
        let mut at = self.below(weights.iter().sum());
        let mut place = 0;
        while at >= weights[place] {
            at -= weights[place];
            place += 1;
        }
        place
    }
}

/// Spreads a number over all 64 bits.
pub(super) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
