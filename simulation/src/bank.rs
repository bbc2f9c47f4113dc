//! A payment provider: it takes payments on, moves money, and says so late, twice and out of order, again and again until it
//! is heard. What it has taken and returned is the truth about the money outside.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use booking::{Action, PaymentId, ProviderPayment, RefundId, Reservation, What, Won};
use jiff::Timestamp;
use maitred::fresh;
use maitred::payments::{Answer, Checkout, Event, Outside, Provider, Seen, Unasked, Unsigned};
use store::DueRefund;

use crate::hub::{Hub, Shared, To, call};

/// What this way to pay is called.
pub const CARD: &str = "card";
const TIMEOUT: Duration = Duration::from_secs(3);

/// What the provider knows.
#[derive(Debug, Clone, Default)]
pub struct Bank {
    payments: BTreeMap<PaymentId, Account>,
    events: u64,
}

/// A payment, as the provider has it.
#[derive(Debug, Clone)]
struct Account {
    amount: Won,
    stage: Stage,
    returned: BTreeMap<RefundId, Won>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Refused,
    Failed,
    Paid,
}

/// What a guest does at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Pays.
    Pay,
    /// Tries to, and cannot.
    Fail,
    /// Gives it up.
    GiveUp,
}

impl Bank {
    /// What was taken and what went back, of each payment that was paid.
    pub fn taken(&self) -> impl Iterator<Item = (PaymentId, i64, i64)> {
        let paid = self.payments.iter().filter(|(_, account)| account.stage == Stage::Paid);
        paid.map(|(id, account)| (*id, account.amount.0, account.returned.values().map(|won| won.0).sum()))
    }
}

/// A guest does something at the provider. Whoever failed may try again.
pub fn at_the_bank(hub: &mut Hub, shared: &Shared, id: PaymentId, doing: Doing) {
    let Some(account) = hub.bank.payments.get_mut(&id) else { return };
    if !matches!(account.stage, Stage::Open | Stage::Failed) {
        return;
    }
    let (stage, what) = match doing {
        Doing::Pay => (Stage::Paid, What::Paid { amount: account.amount }),
        Doing::Fail => (Stage::Failed, What::Failed),
        Doing::GiveUp => (Stage::Failed, What::Cancelled),
    };
    account.stage = stage;
    hub.note(None, format!("at the provider: {what:?} of {id}"));
    say(hub, shared, id, what);
}

/// Something the provider says until it is heard.
#[derive(Clone)]
struct Saying {
    id: String,
    payment: PaymentId,
    what: What,
    heard: Arc<AtomicBool>,
}

fn say(hub: &mut Hub, shared: &Shared, payment: PaymentId, what: What) {
    hub.bank.events += 1;
    let id = format!("e{}", hub.bank.events);
    let copies = if hub.goes_wrong(hub.faults.bank_repeats) { 3 } else { 1 };
    let saying = Saying { id, payment, what, heard: Arc::default() };
    for _ in 0..copies {
        let late = if hub.goes_wrong(hub.faults.bank_late) { 9_000_000 } else { 60_000 };
        let (delay, saying, shared) = (hub.dice.between(2_000, late), saying.clone(), shared.clone());
        // Each copy is sent whether or not another was heard.
        hub.after(delay, move |hub| deliver(hub, &shared, saying));
    }
}

fn deliver(hub: &mut Hub, shared: &Shared, saying: Saying) {
    let again = hub.dice.between(2_000_000, 5_000_000);
    let (kept, later) = (saying.clone(), shared.clone());
    hub.after(again, move |hub| {
        if !kept.heard.load(Ordering::SeqCst) {
            deliver(hub, &later, kept);
        }
    });
    if hub.goes_wrong(hub.faults.bank_lost) {
        return;
    }
    let to = hub.dice.count(0, hub.seats.len() - 1);
    let seat = &hub.seats[to];
    let (Some(app), Some(handle)) = (seat.app.clone(), seat.handle.clone()) else { return };
    hub.note(None, format!("p{to} hears {} of {}: {:?}", saying.id, saying.payment, saying.what));
    handle.spawn(async move {
        if app.hear(saying.payment, saying.what, &saying.id).await {
            saying.heard.store(true, Ordering::SeqCst);
        }
    });
}

/// The provider, as one process reaches it.
pub struct Card {
    hub: Shared,
    process: usize,
}

impl Card {
    /// The provider, as this process reaches it.
    pub fn new(hub: &Shared, process: usize) -> Self {
        Self { hub: hub.clone(), process }
    }

    async fn ask<T: Send + 'static>(
        &self,
        mut doing: impl FnMut(&mut Hub) -> T + Send + 'static,
    ) -> Result<T, Unasked> {
        let answer = call(&self.hub, self.process, To::Bank, TIMEOUT, move |hub| Some(doing(hub))).await;
        answer.ok_or_else(|| Unasked::Unknown("no answer".into()))
    }
}

impl Provider for Card {
    fn begin(&self, reservation: &Reservation, now: Timestamp) -> Action {
        let payment = fresh::payment_id(now);
        if reservation.amount_due() == Won::ZERO {
            return Action::Pay { reservation: reservation.id };
        }
        Action::StartPayment { reservation: reservation.id, payment, provider: CARD.into() }
    }

    fn outside(&self) -> Option<&dyn Outside> {
        Some(self)
    }
}

impl Outside for Card {
    fn check_out<'a>(&'a self, payment: &'a ProviderPayment) -> Answer<'a, Result<Checkout, Unasked>> {
        let (id, amount) = (payment.id, payment.amount);
        Box::pin(async move {
            let refused = self.ask(move |hub| {
                let refuses = hub.goes_wrong(hub.faults.bank_refuses);
                let stage = if refuses { Stage::Refused } else { Stage::Open };
                let account = Account { amount, stage, returned: BTreeMap::new() };
                let account = hub.bank.payments.entry(id).or_insert(account);
                let differs = account.amount != amount;
                let refused = account.stage == Stage::Refused;
                if differs {
                    hub.auditor.violated(None, format!("{id} was asked for with two amounts"));
                }
                refused
            });
            match refused.await? {
                true => Err(Unasked::Refused(402)),
                false => {
                    Ok(Checkout { reference: format!("c{}", id.0 & 0xFFFF), url: "https://card".into() })
                }
            }
        })
    }

    fn look<'a>(&'a self, payment: &'a ProviderPayment) -> Answer<'a, Result<Seen, Unasked>> {
        let id = payment.id;
        Box::pin(self.ask(move |hub| match hub.bank.payments.get(&id) {
            Some(Account { stage: Stage::Open, .. }) => Seen::Open,
            Some(Account { stage: Stage::Paid, amount, .. }) => Seen::Paid(*amount),
            Some(_) | None => Seen::Over,
        }))
    }

    fn refund<'a>(&'a self, refund: &'a DueRefund) -> Answer<'a, Result<bool, Unasked>> {
        let (id, payment, amount) = (refund.id, refund.payment.id, refund.amount);
        let shared = self.hub.clone();
        Box::pin(async move {
            let made = self.ask(move |hub| {
                if hub.goes_wrong(hub.faults.bank_fails) {
                    return Err(Unasked::Refused(422));
                }
                give_back(hub, payment, id, amount);
                let at_once = hub.dice.per_mille(600);
                if !at_once {
                    say(hub, &shared, payment, What::Returned { refund: id });
                }
                Ok(at_once)
            });
            made.await?
        })
    }

    /// Nothing is signed here: what the provider says is brought to the till as it is. Signatures are for the tests over HTTP.
    fn hear(&self, _: &hyper::HeaderMap, _: &[u8], _: Timestamp) -> Result<Event, Unsigned> {
        Err(Unsigned::Signature)
    }
}

/// Money goes back, once by its name.
fn give_back(hub: &mut Hub, payment: PaymentId, refund: RefundId, amount: Won) {
    let Some(account) = hub.bank.payments.get_mut(&payment) else {
        return hub.auditor.violated(None, format!("{payment} is to be returned, and is not known"));
    };
    let before = *account.returned.entry(refund).or_insert(amount);
    let returned: i64 = account.returned.values().map(|won| won.0).sum();
    let captured = if account.stage == Stage::Paid { account.amount.0 } else { 0 };
    hub.note(None, format!("at the provider: {} of {payment} goes back", amount.0));
    if returned > captured || before != amount {
        let what =
            format!("{payment}: {returned} of {captured} won are to go back, {} as {before:?}", amount.0);
        hub.auditor.violated(None, what);
    }
}
