//! Chance, drawn only here: from the system, or from the seed of a simulation, which then happens the same way again.

use std::ops::Range;

/// 128 random bits.
pub(crate) fn bits() -> u128 {
    #[cfg(feature = "simulation")]
    if let Some(high) = seeded::next() {
        return u128::from(high) << 64 | u128::from(seeded::next().unwrap_or(0));
    }
    rand::random()
}

/// 64 random bits.
pub(crate) fn short() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some(bits) = seeded::next() {
        return bits;
    }
    rand::random()
}

/// Somewhere in a range.
pub(crate) fn within(range: Range<f64>) -> f64 {
    #[cfg(feature = "simulation")]
    if let Some(bits) = seeded::next() {
        #[expect(clippy::cast_precision_loss, reason = "32 bits of chance are plenty")]
        let share = (bits >> 32) as f64 / (1u64 << 32) as f64;
        return range.start + share * (range.end - range.start);
    }
    rand::random_range(range)
}

/// The chance of a simulation, which runs on one thread.
#[cfg(feature = "simulation")]
pub mod seeded {
    use std::cell::Cell;

    thread_local!(static STATE: Cell<Option<u64>> = const { Cell::new(None) });

    /// From now on, chance on this thread follows from the seed; from `None`, it is real again.
    pub fn begin(seed: Option<u64>) {
        STATE.set(seed);
    }

    /// The next 64 bits, if there is a seed (SplitMix64).
    pub(super) fn next() -> Option<u64> {
        let state = STATE.get()?.wrapping_add(0x9E37_79B9_7F4A_7C15);
        STATE.set(Some(state));
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        Some(mixed ^ mixed >> 31)
    }
}
