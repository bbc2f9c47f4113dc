//! The legal moves between the states of a reservation, written down from the specification, over sets of states: of a
//! reservation that came from another slot the log does not say whether it was paid.

/// A set of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct States(u8);

pub(crate) const TEMPORARY: States = States(1);
/// `CONFIRMED` or `PREPAY_CONFIRM`: which of them is a matter of how it was to be paid.
pub(crate) const PAID: States = States(2);
pub(crate) const REFUND_PENDING: States = States(4);
const REFUNDED: States = States(8);
const EXPIRED: States = States(16);
const CANCELED: States = States(32);
const COMPLETED: States = States(64);
const NO_SHOW: States = States(128);

impl States {
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn none(self) -> bool {
        self.0 == 0
    }

    /// Whether all of them take up places.
    pub(crate) fn holds(self) -> bool {
        self.0 & !TEMPORARY.or(PAID).or(REFUND_PENDING).0 == 0
    }

    /// Whether this is where it may stand, with this kind of payment.
    pub(crate) fn are(self, status: &str, payment: &str) -> bool {
        let state = match (status, payment) {
            ("TEMPORARY", _) => TEMPORARY,
            ("CONFIRMED", "deposit") | ("PREPAY_CONFIRM", "prepay") => PAID,
            ("REFUND_PENDING", _) => REFUND_PENDING,
            ("REFUNDED", _) => REFUNDED,
            ("EXPIRED", _) => EXPIRED,
            ("CANCELED", _) => CANCELED,
            ("COMPLETED", _) => COMPLETED,
            ("NO_SHOW", _) => NO_SHOW,
            _ => return false,
        };
        self.meets(state)
    }

    /// Where a decision leads; `None` if it is not legal from any of these. `pends`: a refund stayed pending.
    pub(crate) fn after(self, verdict: &str, pends: bool) -> Option<Self> {
        let moves: &[(Self, Self)] = match verdict {
            "pay" | "paid" => &[(TEMPORARY, PAID)],
            // Asked for twice, a payment is begun once, and what it was for may have ended since.
            "start-payment" | "unpaid" | "given-back" => return Some(self),
            "expire" => &[(TEMPORARY, EXPIRED), (EXPIRED, EXPIRED)],
            "change" | "move" => &[(TEMPORARY, TEMPORARY), (PAID, PAID)],
            "cancel" if pends => &[(PAID, REFUND_PENDING)],
            "cancel" => &[(TEMPORARY, CANCELED), (PAID, CANCELED.or(REFUNDED))],
            "refund" | "returned" if pends => &[(REFUND_PENDING, REFUND_PENDING), (PAID, PAID)],
            "refund" => &[(REFUND_PENDING, REFUNDED)],
            // What a smaller party gets back, too, comes from the provider in its own time.
            "returned" => {
                &[(REFUND_PENDING, REFUNDED), (PAID, PAID), (COMPLETED, COMPLETED), (NO_SHOW, NO_SHOW)]
            }
            "complete" => &[(PAID, COMPLETED)],
            "no-show" => &[(PAID, NO_SHOW)],
            _ => &[],
        };
        let legal = moves.iter().filter(|(from, _)| self.meets(*from));
        let to = legal.fold(Self(0), |to, (_, next)| to.or(*next));
        (!to.none()).then_some(to)
    }

    /// Where a decision leads from wherever it is legal, to go on with after a finding.
    pub(crate) fn assumed(verdict: &str, pends: bool) -> Self {
        Self(u8::MAX).after(verdict, pends).unwrap_or(Self(u8::MAX))
    }
}
