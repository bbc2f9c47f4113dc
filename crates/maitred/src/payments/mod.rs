//! Ways to pay: with points, which are ours and settled in the lane, or with a provider, who is asked over HTTP and answers in
//! his own time.
//!
//! No provider is ever asked inside a transaction or while anything waits in a lane. A payment is begun in the lane (`READY`),
//! then the provider is asked, then it is `REQUESTED`. What the provider says later comes back to the lane ([`till`]), whoever
//! brings it: a webhook, or the sweep that asks. Every call carries the id of the payment or of the refund as its key, so that
//! a lost reply is answered by asking again.

mod events;
mod points;
mod remote;
pub mod till;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use booking::{Action, ProviderPayment, Reservation, Won};
use jiff::Timestamp;
use store::DueRefund;
use tokio::sync::Notify;

pub use events::{Event, Said, SigningKey, Unsigned};
pub use points::{POINTS, Points};
pub use remote::Remote;
pub use till::Till;

use crate::config::PaymentProvider;

/// An answer under way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to pay.
pub trait Provider: Send + Sync {
    /// What a guest who wants to pay this way asks of the lane.
    fn begin(&self, reservation: &Reservation, now: Timestamp) -> Action;

    /// Who has to be asked about the money, if that is not us.
    fn outside(&self) -> Option<&dyn Outside> {
        None
    }
}

/// Somebody else who moves the money.
pub trait Outside: Send + Sync {
    /// Takes on a payment; the same payment once, however often it is asked for.
    fn check_out<'a>(&'a self, payment: &'a ProviderPayment) -> Answer<'a, Result<Checkout, Unasked>>;
    /// What has become of a payment.
    fn look<'a>(&'a self, payment: &'a ProviderPayment) -> Answer<'a, Result<Seen, Unasked>>;
    /// Returns money; the same refund once, however often it is asked for. Whether it is done already.
    fn refund<'a>(&'a self, refund: &'a DueRefund) -> Answer<'a, Result<bool, Unasked>>;
    /// What an event says, if the provider has signed it.
    fn hear(&self, headers: &hyper::HeaderMap, body: &[u8], now: Timestamp) -> Result<Event, Unsigned>;
}

/// A payment that a provider has taken on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// What the provider calls it.
    pub reference: String,
    /// Where the guest pays.
    pub url: String,
}

/// What has become of a payment, as the provider says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The guest has not paid.
    Open,
    /// So much was paid.
    Paid(Won),
    /// It came to nothing, or the provider does not know it.
    Over,
}

/// Why a provider has not done what he was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// He will not, and would not if asked again.
    #[error("it refused with {0}")]
    Refused(u16),
    /// Whether he has is unknown: ask again.
    #[error("{0}")]
    Unknown(String),
}

/// All ways to pay.
pub struct Payments {
    ways: BTreeMap<Arc<str>, Box<dyn Provider>>,
    wake: Notify,
}

impl Payments {
    /// Points, and these providers.
    pub fn new(providers: &BTreeMap<String, PaymentProvider>) -> anyhow::Result<Self> {
        let mut ways: BTreeMap<Arc<str>, Box<dyn Provider>> = BTreeMap::new();
        ways.insert(POINTS.into(), Box::new(Points));
        for (name, provider) in providers {
            ways.insert(name.as_str().into(), Box::new(Remote::new(name, provider)?));
        }
        Ok(Self { ways, wake: Notify::new() })
    }

    /// Points, and a provider of the caller's.
    #[cfg(feature = "simulation")]
    pub fn over(name: &str, provider: Box<dyn Provider>) -> Self {
        let ways: [(Arc<str>, Box<dyn Provider>); 2] =
            [(POINTS.into(), Box::new(Points)), (name.into(), provider)];
        Self { ways: ways.into(), wake: Notify::new() }
    }

    /// The way to pay of this name.
    pub fn named(&self, name: &str) -> Option<&dyn Provider> {
        self.ways.get(name).map(AsRef::as_ref)
    }

    /// Who has to be asked about the money that was paid in this way.
    pub fn outside(&self, name: &str) -> Option<&dyn Outside> {
        self.named(name)?.outside()
    }

    /// All names.
    pub fn names(&self) -> Vec<&str> {
        self.ways.keys().map(AsRef::as_ref).collect()
    }

    /// There is something to be asked of a provider.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until there is.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }
}
