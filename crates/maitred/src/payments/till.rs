//! The till: where what a provider was asked, and what he said, meets the lane and the store.

use std::time::Duration;

use booking::{Action, EventId, News, Outcome, PaymentId, ProviderPayment, Refusal, Status, TicketId, What};
use store::{Error, Store};

use super::{Payments, Unasked};
use crate::admission::Admission;
use crate::clock::Clock;
use crate::desk::{self, Desk, Found, Turned, Waited};

/// How long whoever brings news waits for the lane.
const PATIENCE: Duration = Duration::from_secs(10);
/// A reservation that moves, runs out or has something else done about it meanwhile is followed so often.
const FOLLOW: usize = 8;

/// All that a payment passes through.
#[derive(Clone, Copy)]
pub struct Till<'a> {
    /// The truth.
    pub store: &'a Store,
    /// Through which news get into the lane.
    pub admission: &'a Admission,
    /// Where they are decided.
    pub desk: &'a Desk,
    /// The time.
    pub clock: &'a Clock,
    /// The ways to pay.
    pub payments: &'a Payments,
}

/// What came of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// They changed something.
    Done,
    /// They came too late, twice, or with the wrong amount; whatever is to go back is on its way.
    Refused(Refusal),
    /// There is no such payment.
    Unknown,
}

/// News were not heard: they have to be told again.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unheard {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] Error),
    /// The lane did not take them, or did not come to them in time.
    #[error("the lane did not come to it")]
    Busy,
}

impl Till<'_> {
    /// Tells the lane what a provider says; `provider` may speak of his own payments only.
    pub async fn tell(
        &self,
        provider: &str,
        id: PaymentId,
        what: What,
        event: Option<&str>,
    ) -> Result<Told, Unheard> {
        let event = event.map(|id| EventId { provider: provider.into(), id: id.into() });
        for _ in 0..FOLLOW {
            let payment = self.store.payment(id).await?;
            let Some(payment) = payment.filter(|payment| *payment.provider == *provider) else {
                return Ok(Told::Unknown);
            };
            let Some(reservation) = self.store.reservation(payment.concerns()).await? else {
                return Ok(Told::Unknown);
            };
            let news = News { payment: id, reservation: reservation.id, what, event: event.clone() };
            let over = reservation.status() == Status::Expired || reservation.has_expired(self.clock.now());
            let action = match what {
                What::Paid { .. } if over => Action::ReseatPaid(Box::new(news)),
                _ => Action::Provider(Box::new(news)),
            };
            let late = matches!(action, Action::ReseatPaid(_));
            let ticket = match self.admission.manage(reservation.slot, payment.person, action).await {
                Ok(ticket) => ticket,
                Err(Turned::InProgress(first)) => {
                    self.after(first).await?;
                    continue;
                }
                Err(Turned::Store(error)) => return Err(error.into()),
                Err(_) => return Err(Unheard::Busy),
            };
            let Waited::Answered(desk::Answer::Decided(settled)) = ticket.wait(PATIENCE).await else {
                return Err(Unheard::Busy);
            };
            // Whatever goes back is asked for at once.
            self.payments.wake();
            match &settled.outcome {
                Outcome::Done(_) | Outcome::Noted => return Ok(Told::Done),
                Outcome::Refused(Refusal::Elsewhere) => {}
                Outcome::Refused(Refusal::IllegalTransition { from: Status::Expired, .. }) if !late => {}
                Outcome::Refused(refusal) => return Ok(Told::Refused(*refusal)),
            }
        }
        Err(Unheard::Busy)
    }

    /// Waits for the same news, which somebody else is telling.
    async fn after(&self, first: TicketId) -> Result<(), Error> {
        match self.desk.find(first).await? {
            Some(Found::InMemory(ticket)) => {
                ticket.wait(PATIENCE).await;
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        Ok(())
    }

    /// Asks the provider to take a payment on, and keeps what he calls it.
    pub async fn request(&self, payment: &ProviderPayment) -> Result<ProviderPayment, Unrequested> {
        let outside = self.payments.outside(&payment.provider).ok_or(Unrequested::Gone)?;
        let checkout = match outside.check_out(payment).await {
            Ok(checkout) => checkout,
            Err(Unasked::Refused(status)) => {
                tracing::warn!(payment = %payment.id, provider = %payment.provider, status, "a provider refuses a payment");
                self.tell(&payment.provider, payment.id, What::Failed, None).await?;
                return Err(Unrequested::Refused);
            }
            Err(Unasked::Unknown(why)) => {
                tracing::warn!(payment = %payment.id, provider = %payment.provider, why, "a provider does not take a payment");
                return Err(Unrequested::Silent);
            }
        };
        let (reference, url) = (checkout.reference, checkout.url);
        self.store
            .request_payment(payment.id, reference, url, self.clock.now())
            .await
            .map_err(Unheard::from)?;
        let now = self.store.payment(payment.id).await.map_err(Unheard::from)?;
        now.ok_or(Unrequested::Gone)
    }

    /// The newest payment for a reservation.
    pub async fn newest(
        &self,
        reservation: booking::ReservationId,
    ) -> Result<Option<ProviderPayment>, Error> {
        let about = self.store.payments_about(vec![reservation]).await?;
        let open = about.iter().rev().find(|payment| payment.status.is_open()).cloned();
        Ok(open.or_else(|| about.into_iter().last()))
    }
}

/// Why a payment was not taken on.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unrequested {
    /// The provider will not.
    #[error("the provider refuses it")]
    Refused,
    /// The provider did not answer; he is asked again.
    #[error("the provider does not answer")]
    Silent,
    /// There is no such provider or payment any more.
    #[error("there is no such provider")]
    Gone,
    /// It could not be written down.
    #[error(transparent)]
    Unheard(#[from] Unheard),
}
