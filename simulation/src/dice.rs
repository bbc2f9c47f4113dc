//! Chance of a simulated world: everything follows from the seed.

/// A sequence of random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed ^ 0x5851_F42D_4C95_7F2D);
        dice.bits();
        dice
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// As [`Dice::between`], for counting.
    pub fn count(&mut self, low: usize, high: usize) -> usize {
        usize::try_from(self.between(low as u64, high as u64)).unwrap_or(low)
    }

    /// As [`Dice::between`], for small numbers.
    pub fn small(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.between(low.into(), high.into())).unwrap_or(low)
    }

    /// True so often out of a thousand times.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        self.bits() % 1000 < chance
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.count(0, these.len() - 1)]
    }
}
