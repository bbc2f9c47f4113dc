//! Money is whole won. Arithmetic that could overflow says so instead of wrapping.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Neg, Sub};

use serde::{Deserialize, Serialize};

/// An amount in won; negative where money leaves a wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Won(pub i64);

impl Won {
    /// Nothing.
    pub const ZERO: Won = Won(0);

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// This amount `count` times; `None` where no such sum exists.
    pub fn times(self, count: u32) -> Option<Won> {
        self.0.checked_mul(i64::from(count)).map(Won)
    }

    /// So many per cent of it, rounded down to whole won.
    pub fn percent(self, percent: u8) -> Won {
        let exact = i128::from(self.0) * i128::from(percent) / 100;
        Won(i64::try_from(exact).unwrap_or(self.0))
    }
}

impl Add for Won {
    type Output = Won;
    fn add(self, other: Won) -> Won {
        Won(self.0 + other.0)
    }
}

impl Sub for Won {
    type Output = Won;
    fn sub(self, other: Won) -> Won {
        Won(self.0 - other.0)
    }
}

impl Neg for Won {
    type Output = Won;
    fn neg(self) -> Won {
        Won(-self.0)
    }
}

impl Sum for Won {
    fn sum<I: Iterator<Item = Won>>(amounts: I) -> Won {
        amounts.fold(Won::ZERO, Add::add)
    }
}

impl fmt::Display for Won {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.unsigned_abs().to_string();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_people_write_them() {
        let shown: Vec<String> = [0, 999, 5_000, 1_234_567, -70_000].map(|n| Won(n).to_string()).into();
        assert_eq!(shown, ["0", "999", "5,000", "1,234,567", "-70,000"]);
    }

    #[test]
    fn a_percentage_never_rounds_up() {
        assert_eq!(Won(999).percent(50), Won(499));
        assert_eq!(Won(i64::MAX).percent(100), Won(i64::MAX));
    }
}
