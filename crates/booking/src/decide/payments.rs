//! Payments with a provider, as far as they are decided in the lane: begun, paid, come to nothing, returned.
//!
//! The provider itself is never asked here. What it said comes in as [`News`], and what it is to return goes out as a
//! refund that is due.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::actions::{Done, Turn, next, paid_status, settle};
use super::{Command, Refusal, Verdict};
use crate::ids::{PaymentId, RefundId, ReservationId};
use crate::money::Won;
use crate::payment::{News, PaymentStatus, ProviderPayment, Refund, What, at_provider};
use crate::reservation::{Reservation, Status};

impl Turn<'_> {
    /// Begins a payment with a provider. The hold lasts until the payment's deadline; begun again and again, it lasts no
    /// longer than [`AT_PROVIDER`](crate::payment::AT_PROVIDER) beyond what a hold does.
    pub(super) fn start_payment(
        &mut self,
        command: &Command,
        id: ReservationId,
        payment: PaymentId,
        provider: &Arc<str>,
        at: Timestamp,
    ) -> Done {
        let before = self.find(id)?;
        if self.payments.get(payment).is_some_and(|begun| begun.reservation == id) {
            return Ok((before, Verdict::StartPayment));
        }
        if before.status() != Status::Temporary {
            let (from, to) = (before.status(), paid_status(before.payment));
            return Err(Refusal::IllegalTransition { from, to });
        }
        self.nobody_is_paying(id, at)?;
        self.give_up_payments(id);
        let (now, start) = (self.now(), self.venue.start(self.slot.id));
        let longest = before.created_at.saturating_add(self.venue.settings.policy.hold() + at_provider());
        let longest = longest.unwrap_or(Timestamp::MAX).min(start).max(before.expires_at);
        let deadline = now.saturating_add(at_provider()).unwrap_or(Timestamp::MAX).min(longest);
        self.put_payment(
            ProviderPayment {
                id: payment,
                reservation: id,
                person: before.person,
                provider: provider.clone(),
                amount: before.amount_due(),
                status: PaymentStatus::Ready,
                reference: None,
                checkout_url: None,
                deadline,
                created_at: now,
                requested_at: None,
                captured: Won::ZERO,
                pays: None,
                refunds: Vec::new(),
                version: 1,
            },
            0,
        );
        if deadline <= before.expires_at {
            return Ok((before, Verdict::StartPayment));
        }
        let after = Reservation { expires_at: deadline, ..next(&before) };
        Ok((self.store(&before, after, command), Verdict::StartPayment))
    }

    /// What a provider says, told to the lane of the reservation whose business it is.
    pub(super) fn provider(&mut self, command: &Command, news: &News) -> Done {
        let (before, payment) = self.concerned(news)?;
        match news.what {
            What::Paid { .. }
                if before.status() == Status::Expired && self.is_right(&before, &payment, news) =>
            {
                // Whoever has no place any more stands in line for another: nothing is written down here.
                Err(Refusal::IllegalTransition { from: Status::Expired, to: paid_status(before.payment) })
            }
            What::Paid { amount } => self.paid(command, news, &before, &payment, amount),
            What::Failed => self.unpaid(news, before, &payment, PaymentStatus::Failed),
            What::Cancelled => self.unpaid(news, before, &payment, PaymentStatus::Cancelled),
            What::Returned { refund } => self.returned(command, news, before, &payment, refund),
        }
    }

    /// Money that came after the hold had run out takes a new place if there is one, and goes back if not (D9).
    pub(super) fn reseat_paid(&mut self, command: &Command, news: &News, at: Timestamp) -> Done {
        let (old, payment) = self.concerned(news)?;
        let What::Paid { amount } = news.what else { return Err(Refusal::NotFound) };
        if old.status() != Status::Expired || !self.is_right(&old, &payment, news) {
            return self.paid(command, news, &old, &payment, amount);
        }
        let seated = self.place_anew(command, &old, ReservationId(payment.id.0), at);
        self.capture(command, news, &payment, amount, seated.as_ref().ok().map(|seated| seated.id));
        Ok((self.take(seated?), Verdict::Reseat))
    }

    /// The reservation and the payment that news are about, unless they were heard before.
    fn concerned(&mut self, news: &News) -> Result<(Arc<Reservation>, ProviderPayment), Refusal> {
        let reservation = self.find(news.reservation)?;
        let payment = self.payments.get(news.payment).cloned().ok_or(Refusal::NotFound)?;
        if payment.concerns() != news.reservation {
            return Err(Refusal::Elsewhere);
        }
        #[cfg(feature = "simulation")]
        if crate::flaws::has("payment-events-repeat") {
            return Ok((reservation, payment));
        }
        let seen = |event| self.known.events.contains(event) || self.changes.has_heard(event);
        if news.event.as_ref().is_some_and(seen) {
            return Err(Refusal::Repeated);
        }
        Ok((reservation, payment))
    }

    /// Whether what was paid is what was asked for, and had not been paid.
    fn is_right(&self, reservation: &Reservation, payment: &ProviderPayment, news: &News) -> bool {
        let price = reservation.price - reservation.paid;
        payment.status.can_become(PaymentStatus::Paid)
            && news.what == (What::Paid { amount: payment.amount })
            && payment.amount == price
    }

    fn paid(
        &mut self,
        command: &Command,
        news: &News,
        before: &Reservation,
        payment: &ProviderPayment,
        amount: Won,
    ) -> Done {
        if !self.moves_forward(payment, PaymentStatus::Paid) {
            self.changes.heard(news);
            return Err(Refusal::Repeated);
        }
        let mut after = next(before);
        let settled = settle(&mut after).map_err(Refusal::from).and_then(|()| {
            let right = amount == payment.amount && amount == before.amount_due();
            if right { Ok(()) } else { Err(Refusal::WrongAmount) }
        });
        self.capture(command, news, payment, amount, settled.is_ok().then_some(before.id));
        settled?;
        self.give_up_payments(before.id);
        Ok((self.store(before, after, command), Verdict::Paid))
    }

    /// Writes down that the provider has the money: for this reservation, or for nothing, and then all of it goes back.
    fn capture(
        &mut self,
        command: &Command,
        news: &News,
        payment: &ProviderPayment,
        amount: Won,
        pays: Option<ReservationId>,
    ) {
        let mut after = onwards(payment, PaymentStatus::Paid);
        (after.captured, after.pays) = (amount, pays);
        #[cfg(feature = "simulation")]
        let pays =
            if crate::flaws::has("late-money-kept") { pays.or(Some(payment.reservation)) } else { pays };
        if pays.is_none() {
            after.refunds.push(self.refund_by(command, amount));
        }
        self.put_payment(after, payment.version);
        self.changes.heard(news);
    }

    fn unpaid(
        &mut self,
        news: &News,
        reservation: Arc<Reservation>,
        payment: &ProviderPayment,
        to: PaymentStatus,
    ) -> Done {
        self.changes.heard(news);
        if !self.moves_forward(payment, to) {
            return Err(Refusal::Repeated);
        }
        self.put_payment(onwards(payment, to), payment.version);
        Ok((reservation, Verdict::Unpaid))
    }

    fn returned(
        &mut self,
        command: &Command,
        news: &News,
        before: Arc<Reservation>,
        payment: &ProviderPayment,
        id: RefundId,
    ) -> Done {
        let mut paid_back = onwards(payment, payment.status);
        let refund = paid_back.refunds.iter_mut().find(|refund| refund.id == id).ok_or(Refusal::NotFound)?;
        self.changes.heard(news);
        if refund.returned {
            return Err(Refusal::Repeated);
        }
        refund.returned = true;
        let amount = refund.amount;
        self.put_payment(paid_back, payment.version);
        if payment.pays != Some(before.id) {
            return Ok((before, Verdict::GivenBack));
        }
        let mut after = next(&before);
        after.refund_due = before.refund_due - amount;
        after.refunded = before.refunded + amount;
        if after.status() == Status::RefundPending && after.refund_due == Won::ZERO {
            after.life.advance(Status::Refunded)?;
        }
        Ok((self.store(&before, after, command), Verdict::Returned))
    }

    /// Asks the provider that was paid to return so much; what it has of that.
    pub(super) fn give_back(&mut self, command: &Command, reservation: ReservationId, amount: Won) -> Won {
        let Some(payment) = self.payment_of(reservation).cloned() else { return Won::ZERO };
        let amount = amount.min(payment.kept());
        if amount > Won::ZERO {
            let mut after = onwards(&payment, payment.status);
            after.refunds.push(self.refund_by(command, amount));
            self.put_payment(after, payment.version);
        }
        amount
    }

    /// What the provider that was paid is to return of it already.
    pub(super) fn due_from_provider(&self, reservation: ReservationId) -> Won {
        self.payment_of(reservation).map_or(Won::ZERO, ProviderPayment::due)
    }

    /// Somebody who is at a provider pays there, or lets that be first.
    pub(super) fn nobody_is_paying(&self, reservation: ReservationId, at: Timestamp) -> Result<(), Refusal> {
        let paying = self.payments.about(reservation).any(|p| p.reservation == reservation && p.is_open(at));
        if paying { Err(Refusal::PaymentInProgress) } else { Ok(()) }
    }

    /// Nobody is to pay for it any more; whoever does gets it back.
    pub(super) fn give_up_payments(&mut self, reservation: ReservationId) {
        let open =
            self.payments.about(reservation).filter(|p| p.reservation == reservation && p.status.is_open());
        let open: Vec<_> = open.cloned().collect();
        for payment in open {
            self.put_payment(onwards(&payment, PaymentStatus::Cancelled), payment.version);
        }
    }

    /// One refund a ticket at most, so it is named by it.
    fn refund_by(&self, command: &Command, amount: Won) -> Refund {
        Refund { id: RefundId(command.ticket.to_u128()), amount, returned: false, created_at: self.now() }
    }

    fn moves_forward(&self, payment: &ProviderPayment, to: PaymentStatus) -> bool {
        #[cfg(feature = "simulation")]
        if crate::flaws::has("payment-events-repeat") {
            return true;
        }
        payment.status.can_become(to)
    }

    /// The payment that has paid for this reservation.
    fn payment_of(&self, reservation: ReservationId) -> Option<&ProviderPayment> {
        self.payments.about(reservation).find(|payment| payment.pays == Some(reservation))
    }

    fn put_payment(&mut self, after: ProviderPayment, from_version: u32) {
        self.changes.put_payment(after.clone(), from_version);
        self.payments.put(after);
    }
}

/// Payments by their ids and by the reservations whose business they are.
#[derive(Debug, Clone, Default)]
pub struct Payments {
    all: HashMap<PaymentId, ProviderPayment>,
    about: HashMap<ReservationId, BTreeSet<PaymentId>>,
}

impl Payments {
    fn put(&mut self, payment: ProviderPayment) {
        for reservation in [Some(payment.reservation), payment.pays].into_iter().flatten() {
            self.about.entry(reservation).or_default().insert(payment.id);
        }
        self.all.insert(payment.id, payment);
    }

    fn get(&self, id: PaymentId) -> Option<&ProviderPayment> {
        self.all.get(&id)
    }

    /// Those that were begun for this reservation, or have paid for it.
    fn about(&self, reservation: ReservationId) -> impl Iterator<Item = &ProviderPayment> {
        self.about.get(&reservation).into_iter().flatten().filter_map(|id| self.all.get(id))
    }
}

impl FromIterator<ProviderPayment> for Payments {
    fn from_iter<T: IntoIterator<Item = ProviderPayment>>(all: T) -> Self {
        all.into_iter().fold(Self::default(), |mut payments, payment| {
            payments.put(payment);
            payments
        })
    }
}

/// A copy to change, one version on.
fn onwards(payment: &ProviderPayment, status: PaymentStatus) -> ProviderPayment {
    ProviderPayment { status, version: payment.version + 1, ..payment.clone() }
}
