//! The point wallet: what may be put in, and what each movement is called.
//!
//! A balance is never decided from a cache. The store moves money by statements that are conditional on the balance
//! that the row has at that moment; here are only the rules that need no balance.

use crate::money::Won;
use crate::names::named;

/// The most that can be charged at once.
pub const MAX_CHARGE: Won = Won(10_000_000);
/// The most that a wallet holds.
pub const MAX_BALANCE: Won = Won(1_000_000_000);

/// Whether this amount may be charged at all.
pub fn is_chargeable(amount: Won) -> bool {
    amount > Won::ZERO && amount <= MAX_CHARGE
}

named! {
    /// Why money moved.
    EntryKind {
        /// Points were bought.
        Charge = "charge",
        /// A reservation was paid.
        Payment = "payment",
        /// Money came back.
        Refund = "refund",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_bounded() {
        let allowed: Vec<_> =
            [-1, 0, 1, 10_000_000, 10_000_001].into_iter().filter(|&n| is_chargeable(Won(n))).collect();
        assert_eq!(allowed, [1, 10_000_000]);
    }
}
