//! Payments with providers: stored with the reservation, each event once, each refund in one pair of hands.

use std::sync::Arc;

use booking::*;
use store::{CommitError, LOOK_AGAIN, LOOK_FIRST};
use tokio::task::JoinSet;

use super::world::{World, done, places};

const PAYMENT: PaymentId = PaymentId(77);

impl World {
    fn start_payment(&self, reservation: &Reservation, payment: PaymentId) -> Command {
        let action = Action::StartPayment { reservation: reservation.id, payment, provider: "card".into() };
        self.command(reservation.slot, 1, action)
    }

    async fn says(&self, payment: PaymentId, what: What, event: Option<&str>) -> Command {
        let stored = self.store.payment(payment).await.unwrap().unwrap();
        let reservation = self.row(stored.concerns()).await.unwrap();
        let event = event.map(|id| EventId { provider: "card".into(), id: id.into() });
        let news = News { payment, reservation: reservation.id, what, event };
        self.command(reservation.slot, 1, Action::Provider(Box::new(news)))
    }

    async fn paying(&self) -> (Arc<Reservation>, Won) {
        let hold = self.seat(self.slot(12), 1, 2).await;
        let hold = done(&self.run(&[self.start_payment(&hold, PAYMENT)]).await[0]);
        (hold, Won(10_000))
    }
}

#[tokio::test]
async fn a_payment_is_begun_requested_paid_and_returned() {
    let world = World::new(places(20)).await;
    let (hold, amount) = world.paying().await;
    let begun = world.store.payment(PAYMENT).await.unwrap().unwrap();
    assert_eq!((begun.status, begun.amount, begun.deadline), (PaymentStatus::Ready, amount, hold.expires_at));
    assert_eq!(world.row(hold.id).await.unwrap().expires_at, begun.deadline, "the hold lasts as long");

    let request = || world.store.request_payment(PAYMENT, "r-1".into(), "https://pay".into(), world.now);
    assert!(request().await.unwrap());
    assert!(!request().await.unwrap(), "once");
    let requested = world.store.payment(PAYMENT).await.unwrap().unwrap();
    assert_eq!((requested.status, requested.reference.as_deref()), (PaymentStatus::Requested, Some("r-1")));
    assert_eq!(requested.checkout_url.as_deref(), Some("https://pay"));

    let paid = world.says(PAYMENT, What::Paid { amount }, Some("e-1")).await;
    assert_eq!(done(&world.run(&[paid]).await[0]).status(), Status::Confirmed);
    let row = world.row(hold.id).await.unwrap();
    world.run(&[world.cancel(&row)]).await;
    assert_eq!(world.row(hold.id).await.unwrap().status(), Status::RefundPending);
    assert_eq!(world.store.refunds_due().await.unwrap(), (1, amount));
    let stored = world.store.payments_about(vec![hold.id, hold.id]).await.unwrap();
    assert_eq!((stored.len(), stored[0].due()), (1, amount));

    let refund = stored[0].refunds[0].id;
    let returned = world.says(PAYMENT, What::Returned { refund }, None).await;
    assert_eq!(done(&world.run(&[returned]).await[0]).status(), Status::Refunded);
    let stored = world.store.payment(PAYMENT).await.unwrap().unwrap();
    assert_eq!((stored.due(), stored.returned(), stored.pays), (Won::ZERO, amount, Some(hold.id)));
    assert_eq!(world.store.refunds_due().await.unwrap(), (0, Won::ZERO));
}

#[tokio::test]
async fn an_event_is_stored_once_and_decided_again_where_that_was_not_known() {
    let world = World::new(places(20)).await;
    world.paying().await;
    let failed = world.says(PAYMENT, What::Failed, Some("e-1")).await;
    let slot = world.load(failed.ticket.slot).await;
    let (first, _) = world.decide(&slot, std::slice::from_ref(&failed)).await;
    world.store.commit(first).await.unwrap();
    let event = |id: &str| EventId { provider: "card".into(), id: id.into() };
    let heard = world.store.events_heard(vec![event("e-0"), event("e-1")]).await.unwrap();
    assert_eq!(heard, [event("e-1")]);
    let (again, _) = world.decide(&world.load(slot.id).await, &[failed]).await;
    assert_eq!(again.changes.events.len(), 1, "the copy from which it is decided does not know");
    assert!(matches!(world.store.commit(again).await, Err(CommitError::Stale)));
}

#[tokio::test]
async fn a_payment_that_was_requested_meanwhile_is_decided_again() {
    let world = World::new(places(20)).await;
    let (hold, amount) = world.paying().await;
    let paid = world.says(PAYMENT, What::Paid { amount }, None).await;
    let slot = world.load(hold.slot).await;
    let (batch, _) = world.decide(&slot, std::slice::from_ref(&paid)).await;
    world.store.request_payment(PAYMENT, "r-1".into(), "https://pay".into(), world.now).await.unwrap();
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));
    assert_eq!(world.row(hold.id).await.unwrap().status(), Status::Temporary, "nothing of it was stored");
    assert_eq!(done(&world.run(&[paid]).await[0]).status(), Status::Confirmed);
}

#[tokio::test]
async fn one_payment_at_a_time_is_open() {
    let world = World::new(places(20)).await;
    let (hold, _) = world.paying().await;
    let slot = world.load(hold.slot).await;
    let mut batch = world.empty_batch(&slot);
    let open = world.store.payment(PAYMENT).await.unwrap().unwrap();
    let second = ProviderPayment { id: PaymentId(78), ..open };
    batch.changes.payments.push(PaymentChange { after: second, from_version: 0 });
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));
}

#[tokio::test]
async fn what_is_to_be_looked_at_is_in_one_pair_of_hands() {
    let mut world = World::new(places(100)).await;
    let count: u32 = 30;
    for n in 0..count {
        let hold = world.seat(world.slot(12), n + 1, 1).await;
        let payment = PaymentId(100 + u128::from(n));
        world.run(&[world.start_payment(&hold, payment)]).await;
    }
    assert_eq!(world.store.payments_to_look_at(world.now, 100).await.unwrap(), []);
    world.now += jiff::SignedDuration::from_millis(LOOK_FIRST);
    let mut looking = JoinSet::new();
    for _ in 0..8 {
        let (store, now) = (world.store.clone(), world.now);
        looking.spawn(async move { store.payments_to_look_at(now, 10).await.unwrap() });
    }
    let mut found: Vec<_> = looking.join_all().await.into_iter().flatten().map(|it| it.payment.id).collect();
    // Claims that meet may pass some over; the next look finds them.
    found.extend(
        world.store.payments_to_look_at(world.now, 100).await.unwrap().iter().map(|it| it.payment.id),
    );
    found.sort_unstable();
    assert_eq!(found.len(), 30);
    found.dedup();
    assert_eq!(found.len(), 30, "nobody else was given them");
    world.now += jiff::SignedDuration::from_millis(LOOK_AGAIN);
    let again = world.store.payments_to_look_at(world.now, 100).await.unwrap();
    assert!(again.len() == 30 && again.iter().all(|it| it.looks == 2), "until their time comes again");
}

#[tokio::test]
async fn a_refund_is_asked_for_again_at_its_time() {
    let world = World::new(places(20)).await;
    let (hold, amount) = world.paying().await;
    let wrong = world.says(PAYMENT, What::Paid { amount: Won(1) }, None).await;
    world.run(&[wrong]).await;
    let due = world.store.refunds_to_ask_for(world.now, 10).await.unwrap();
    assert_eq!((due.len(), due[0].amount, due[0].asked), (1, Won(1), 1));
    assert_eq!((due[0].payment.pays, due[0].payment.amount), (None, amount));
    assert_eq!(world.store.refunds_to_ask_for(world.now, 10).await.unwrap(), []);
    world.store.ask_again(due[0].id, world.now).await.unwrap();
    assert_eq!(world.store.refunds_to_ask_for(world.now, 10).await.unwrap()[0].asked, 2);
    assert_eq!(world.row(hold.id).await.unwrap().status(), Status::Temporary);
}
