//! Payments with a provider: money that is not in a wallet of ours.
//!
//! A payment goes `READY` → `REQUESTED` → `FAILED` | `CANCELLED` → `PAID`, only ever forwards: a provider's word that it has
//! the money comes after whatever was believed before, and nothing comes after it. So events that arrive twice, late or in
//! the wrong order do no harm.
//!
//! Money that a provider has captured either pays for one reservation, or for nothing and is due back, all of it. What goes
//! back is a [`Refund`]: due from the moment it is decided, returned once the provider has said so.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ids::{PaymentId, PersonId, RefundId, ReservationId};
use crate::money::Won;
use crate::names::named;

/// How long a guest has at the provider. The hold lasts as long, if that is longer than it has left.
pub const AT_PROVIDER: SignedDuration = SignedDuration::from_mins(10);

/// The same, which a simulation may make shorter: its worlds last a minute.
pub(crate) fn at_provider() -> SignedDuration {
    #[cfg(feature = "simulation")]
    if let Some(short) = crate::flaws::AT_PROVIDER.get() {
        return short;
    }
    AT_PROVIDER
}

named! {
    /// Where a payment stands.
    PaymentStatus {
        /// Begun here; the provider may not know of it yet.
        Ready = "READY",
        /// The provider has it and waits for the guest.
        Requested = "REQUESTED",
        /// It came to nothing.
        Failed = "FAILED",
        /// It was given up.
        Cancelled = "CANCELLED",
        /// The provider has the money.
        Paid = "PAID",
    }
}

impl PaymentStatus {
    /// Whether the guest may still be paying.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Ready | Self::Requested)
    }

    /// Whether the move is forwards.
    pub fn can_become(self, to: Self) -> bool {
        match to {
            Self::Ready => false,
            Self::Requested => self == Self::Ready,
            Self::Failed | Self::Cancelled => self.is_open(),
            Self::Paid => self != Self::Paid,
        }
    }
}

/// A payment with a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPayment {
    /// Its id, which is also what keeps the provider from doing it twice.
    pub id: PaymentId,
    /// The hold that it was begun for.
    pub reservation: ReservationId,
    /// Who pays.
    pub person: PersonId,
    /// With whom.
    pub provider: Arc<str>,
    /// What is asked for.
    pub amount: Won,
    /// Where it stands.
    pub status: PaymentStatus,
    /// What the provider calls it.
    pub reference: Option<Arc<str>>,
    /// Where the guest pays.
    pub checkout_url: Option<Arc<str>>,
    /// Until when the guest should have paid.
    pub deadline: Timestamp,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When the provider took it.
    pub requested_at: Option<Timestamp>,
    /// What the provider has captured.
    pub captured: Won,
    /// The reservation that it has paid for: the hold, or one that took its place. None if it has bought nothing.
    pub pays: Option<ReservationId>,
    /// What goes back of it, in the order in which that was decided.
    pub refunds: Vec<Refund>,
    /// Counts the changes; each change is conditional on it.
    pub version: u32,
}

/// Money on its way back through the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refund {
    /// Its id, which is also what keeps the provider from doing it twice.
    pub id: RefundId,
    /// How much.
    pub amount: Won,
    /// Whether the provider has returned it.
    pub returned: bool,
    /// When it was decided.
    pub created_at: Timestamp,
}

impl ProviderPayment {
    /// What is on its way back.
    pub fn due(&self) -> Won {
        self.refunds.iter().filter(|refund| !refund.returned).map(|refund| refund.amount).sum()
    }

    /// What has gone back.
    pub fn returned(&self) -> Won {
        self.refunds.iter().filter(|refund| refund.returned).map(|refund| refund.amount).sum()
    }

    /// What can still go back.
    pub fn kept(&self) -> Won {
        self.captured - self.due() - self.returned()
    }

    /// Whether the guest may still be paying at `at`.
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.status.is_open() && self.deadline > at
    }

    /// The reservation whose business it is.
    pub fn concerns(&self) -> ReservationId {
        self.pays.unwrap_or(self.reservation)
    }
}

/// What a provider says about a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct News {
    /// Which payment.
    pub payment: PaymentId,
    /// The reservation whose business it is.
    pub reservation: ReservationId,
    /// What.
    pub what: What,
    /// The event that said so: the provider and its id of the event. None if the provider was asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event: Option<EventId>,
}

/// What has become of a payment, or of a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The provider has captured so much.
    Paid {
        /// How much.
        amount: Won,
    },
    /// The payment failed.
    Failed,
    /// The payment was given up, by the guest or because it took too long.
    Cancelled,
    /// The provider has returned money.
    Returned {
        /// Which refund.
        refund: RefundId,
    },
}

/// Names an event, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventId {
    /// Whose event.
    pub provider: Arc<str>,
    /// Its id, as the provider wrote it.
    pub id: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_only_goes_forwards() {
        use PaymentStatus::*;
        let legal = [
            (Ready, Requested),
            (Ready, Failed),
            (Ready, Cancelled),
            (Ready, Paid),
            (Requested, Failed),
            (Requested, Cancelled),
            (Requested, Paid),
            (Failed, Paid),
            (Cancelled, Paid),
        ];
        for &from in PaymentStatus::ALL {
            for &to in PaymentStatus::ALL {
                assert_eq!(from.can_become(to), legal.contains(&(from, to)), "{from} -> {to}");
            }
        }
    }
}
