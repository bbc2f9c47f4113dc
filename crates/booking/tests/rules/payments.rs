//! Payments with a provider: in time, too late, for nothing; and what is said about them twice and in any order.

use std::sync::Arc;

use booking::policy::{CancelledBy, Policy};
use booking::*;

use crate::world::{World, done, places, refusal};

const PAYMENT: PaymentId = PaymentId(77);

impl World {
    pub fn start_payment(&mut self, who: u32, reservation: ReservationId, payment: PaymentId) -> Command {
        self.command(who, Action::StartPayment { reservation, payment, provider: "card".into() })
    }

    fn news(&self, payment: PaymentId, what: What, event: &str) -> News {
        let event = Some(EventId { provider: "card".into(), id: event.into() });
        News { payment, reservation: self.payments[&payment].concerns(), what, event }
    }

    pub fn says(&mut self, payment: PaymentId, what: What, event: &str) -> Command {
        let news = self.news(payment, what, event);
        self.command(1, Action::Provider(Box::new(news)))
    }

    /// A hold, and a payment begun for it.
    fn paying(&mut self, party: u32) -> (Arc<Reservation>, Won) {
        let hold = self.seat(1, party);
        let start = self.start_payment(1, hold.id, PAYMENT);
        let hold = done(&self.run(&[start])[0]);
        (hold, self.payments[&PAYMENT].amount)
    }

    /// What providers have captured and not to return is what reservations have kept of it.
    fn outside_money_is_conserved(&self) -> Result<(), String> {
        for payment in self.payments.values() {
            let fits = match payment.pays {
                Some(id) => {
                    let row = &self.stored[&id];
                    let confirmed = !matches!(row.status(), Status::Temporary | Status::Expired);
                    confirmed && payment.captured == row.paid && payment.returned() == row.refunded
                }
                None => payment.kept() == Won::ZERO,
            };
            if !fits || payment.kept() < Won::ZERO {
                return Err(format!("{payment:?}"));
            }
        }
        let unpaid =
            |r: &Reservation| r.paid > Won::ZERO && !self.payments.values().any(|p| p.pays == Some(r.id));
        match self.stored.values().find(|r| unpaid(r)) {
            Some(row) => Err(format!("nobody has paid for {row:?}")),
            None => Ok(()),
        }
    }
}

#[test]
fn a_hold_lasts_while_its_guest_is_at_the_provider_and_not_for_ever() {
    let mut world = World::new(places(4));
    let hold = world.seat(1, 2);
    world.wait(6 * 60);
    let start = world.start_payment(1, hold.id, PAYMENT);
    let extended = done(&world.run(&[start])[0]);
    assert_eq!(extended.expires_at, world.now + payment::AT_PROVIDER);
    let again = world.start_payment(1, hold.id, PaymentId(78));
    assert_eq!(refusal(&world.run(&[again])[0]), Refusal::PaymentInProgress);
    let points = world.pay(1, hold.id);
    assert_eq!(refusal(&world.run(&[points])[0]), Refusal::PaymentInProgress);

    world.wait(9 * 60);
    let failed = world.says(PAYMENT, What::Failed, "a");
    let again = world.start_payment(1, hold.id, PaymentId(79));
    let outcomes = world.run(&[failed, again]);
    let longest = hold.created_at + Policy::default().hold() + payment::AT_PROVIDER;
    assert_eq!(done(&outcomes[1]).expires_at, longest, "begun again, it lasts no longer than that");
    assert_eq!(world.payments[&PAYMENT].status, PaymentStatus::Failed);
}

#[test]
fn money_for_a_hold_that_has_run_out_takes_a_new_place_or_goes_back() {
    for (capacity, left) in [(2, true), (2, false)] {
        let mut world = World::new(places(capacity));
        let (hold, amount) = world.paying(2);
        world.wait(20 * 60);
        if !left {
            world.seat(2, 1);
        }
        let paid = world.says(PAYMENT, What::Paid { amount }, "a");
        let refused = refusal(&world.run(std::slice::from_ref(&paid))[0]);
        assert!(matches!(refused, Refusal::IllegalTransition { from: Status::Expired, .. }));
        assert_eq!(world.payments[&PAYMENT].captured, Won::ZERO, "it is asked again, in line");
        let news = world.news(PAYMENT, What::Paid { amount }, "a");
        let again = world.command(1, Action::ReseatPaid(Box::new(news)));
        let outcome = world.run(&[again]).remove(0);
        if left {
            let seated = done(&outcome);
            assert_eq!((seated.status(), seated.reseats), (Status::Confirmed, Some(hold.id)));
        } else {
            assert_eq!(refusal(&outcome), Refusal::NotEnoughPlaces { remaining: 1 });
            assert_eq!(world.payments[&PAYMENT].due(), amount);
        }
        world.outside_money_is_conserved().unwrap();
    }
}

#[test]
fn another_amount_than_was_asked_for_buys_nothing() {
    let mut world = World::new(places(4));
    let (hold, amount) = world.paying(2);
    let paid = world.says(PAYMENT, What::Paid { amount: amount - Won(1) }, "a");
    assert_eq!(refusal(&world.run(&[paid])[0]), Refusal::WrongAmount);
    assert_eq!(world.row(hold.id).status(), Status::Temporary);
    assert_eq!(world.payments[&PAYMENT].due(), amount - Won(1));
    world.outside_money_is_conserved().unwrap();
}

#[test]
fn a_refund_is_pending_until_the_provider_has_returned_it() {
    for by_staff in [false, true] {
        let mut world = World::new(places(4));
        world.venue.settings.policy.refunds_by_staff = by_staff;
        let (hold, amount) = world.paying(2);
        let paid = world.says(PAYMENT, What::Paid { amount }, "a");
        let cancel = world.command(1, Action::Cancel { reservation: hold.id, by: CancelledBy::Guest });
        world.run(&[paid, cancel]);
        assert_eq!(world.row(hold.id).status(), Status::RefundPending);
        assert_eq!(world.payments[&PAYMENT].due(), if by_staff { Won::ZERO } else { amount });
        let refund = world.command(9, Action::Refund { reservation: hold.id });
        let handed_out = world.run(&[refund]).remove(0);
        assert_eq!(matches!(handed_out, Outcome::Done(_)), by_staff);
        let refund = world.payments[&PAYMENT].refunds[0].id;
        let returned = world.says(PAYMENT, What::Returned { refund }, "b");
        let again = world.says(PAYMENT, What::Returned { refund }, "c");
        let outcomes = world.run(&[returned, again]);
        assert_eq!(done(&outcomes[0]).status(), Status::Refunded);
        assert_eq!(refusal(&outcomes[1]), Refusal::Repeated);
        assert_eq!(world.row(hold.id).refunded, amount);
        world.outside_money_is_conserved().unwrap();
    }
}

#[test]
fn a_cancelled_hold_is_not_to_be_paid_and_whoever_does_gets_it_back() {
    let mut world = World::new(places(4));
    let (hold, amount) = world.paying(2);
    let cancel = world.cancel(1, hold.id);
    world.run(&[cancel]);
    assert_eq!(world.payments[&PAYMENT].status, PaymentStatus::Cancelled);
    let paid = world.says(PAYMENT, What::Paid { amount }, "a");
    assert!(matches!(refusal(&world.run(&[paid])[0]), Refusal::IllegalTransition { .. }));
    assert_eq!((world.row(hold.id).status(), world.payments[&PAYMENT].due()), (Status::Canceled, amount));
    world.outside_money_is_conserved().unwrap();
}

#[test]
fn a_smaller_party_gets_its_share_back_where_it_paid() {
    let mut world = World::new(places(8));
    let (hold, amount) = world.paying(4);
    let paid = world.says(PAYMENT, What::Paid { amount }, "a");
    let smaller = world.command(1, Action::Change { reservation: hold.id, party: 3 });
    let (_, points) = world.run_counting(&[paid, smaller]);
    assert_eq!((points, world.row(hold.id).refund_due), (Won::ZERO, Won(5_000)));
    let cancel = world.cancel(1, hold.id);
    world.run(&[cancel]);
    assert_eq!(world.row(hold.id).refund_due, amount);
    for refund in world.payments[&PAYMENT].refunds.clone() {
        assert_eq!(world.row(hold.id).status(), Status::RefundPending);
        let returned = world.says(PAYMENT, What::Returned { refund: refund.id }, &refund.id.to_string());
        world.run(&[returned]);
    }
    assert_eq!((world.row(hold.id).status(), world.row(hold.id).refunded), (Status::Refunded, amount));
    world.outside_money_is_conserved().unwrap();
}

/// Everything that a provider may say, three times each, in an order of chance and in batches of chance.
fn shuffled(seed: u64) -> Result<(), String> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % n
    };
    let mut world = World::new(places(4));
    let (hold, amount) = world.paying(2);
    let said = [("a", What::Cancelled), ("b", What::Failed), ("c", What::Paid { amount })];
    // The same event again, and the same under another name.
    let mut said: Vec<_> =
        [said, said, said.map(|(id, what)| (if id == "c" { "d" } else { id }, what))].concat();
    while !said.is_empty() {
        let size = (1 + below(3)).min(said.len());
        let batch: Vec<_> = (0..size).map(|_| said.swap_remove(below(said.len()))).collect();
        let batch: Vec<_> = batch.into_iter().map(|(id, what)| world.says(PAYMENT, what, id)).collect();
        world.run(&batch);
    }
    world.outside_money_is_conserved()?;
    let (row, payment) = (world.row(hold.id), &world.payments[&PAYMENT]);
    match (row.status(), payment.status, payment.kept() == amount) {
        (Status::Confirmed, PaymentStatus::Paid, true) => Ok(()),
        _ => Err(format!("{row:?} and {payment:?}")),
    }
}

#[test]
fn events_three_times_each_and_in_any_order_do_no_harm() {
    for seed in 0..2_000 {
        shuffled(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

/// The control: heard twice and not only forwards, the same events do harm.
#[cfg(feature = "simulation")]
#[test]
fn the_same_events_do_harm_where_they_are_heard_twice() {
    flaws::introduce(Some("payment-events-repeat"));
    let harmed = (0..100).filter(|seed| shuffled(*seed).is_err()).count();
    flaws::introduce(None);
    assert!(harmed > 50, "{harmed} of 100");
}
