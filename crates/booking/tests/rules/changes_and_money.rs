//! Holds, payments, changes and refunds, told as stories.

use booking::*;
use jiff::SignedDuration;

use crate::world::{World, done, places, refusal, slot_at, tables};

#[test]
fn a_slot_fills_up_in_order_and_says_what_is_left() {
    let mut world = World::new(places(10));
    let batch = [(1, 6), (2, 5), (3, 4), (4, 1)].map(|(who, party)| world.book(who, party));
    let outcomes = world.run(&batch);
    assert_eq!(done(&outcomes[0]).party, 6);
    assert_eq!(refusal(&outcomes[1]), Refusal::NotEnoughPlaces { remaining: 4 });
    assert_eq!(done(&outcomes[2]).party, 4);
    assert_eq!(refusal(&outcomes[3]), Refusal::NotEnoughPlaces { remaining: 0 });
}

#[test]
fn the_same_person_books_again_after_cancelling_any_number_of_times() {
    let mut world = World::new(places(10));
    for _ in 0..5 {
        let held = world.seat(1, 2);
        let again = world.book(1, 2);
        assert_eq!(refusal(&world.run(&[again])[0]), Refusal::AlreadyBooked);
        let cancel = world.cancel(1, held.id);
        assert_eq!(done(&world.run(&[cancel])[0]).status(), Status::Canceled);
    }
}

/// The same request under another ticket.
fn again(world: &mut World, command: &Command) -> Command {
    world.command(u32::try_from(command.person.0).unwrap(), command.action.clone())
}

#[test]
fn a_request_under_two_tickets_is_done_once() {
    let mut world = World::new(places(4));
    let first = world.book(1, 3);
    let (second, other) = (again(&mut world, &first), world.book(1, 1));
    // In one batch, and in the next.
    let decided = world.decide(&[first.clone(), second.clone(), other]);
    let made = done(&decided.outcomes[0]);
    assert_eq!(done(&decided.outcomes[1]), made);
    assert_eq!(refusal(&decided.outcomes[2]), Refusal::AlreadyBooked);
    assert_eq!((decided.changes.new.len(), decided.changes.changed.len()), (1, 0));
    let line = &decided.decisions[1];
    assert_eq!((line.ticket, line.verdict, line.party), (Some(second.ticket), Verdict::Book, 3));
    assert_eq!((line.reservation, line.refused, line.left), (Some(made.id), None, 1));

    world.stored.insert(made.id, made.clone());
    let third = again(&mut world, &first);
    let pay = world.pay(1, made.id);
    let outcomes = world.run(&[pay, third]);
    assert_eq!(done(&outcomes[1]), done(&outcomes[0]), "it gets the reservation as it is by now");
    assert_eq!(world.slot.people(), 3);
}

#[test]
fn a_request_whose_reservation_is_over_does_not_make_another() {
    let mut world = World::new(places(4));
    let first = world.book(1, 3);
    let made = done(&world.run(std::slice::from_ref(&first))[0]);
    world.wait(7 * 60);
    let (second, others) = (again(&mut world, &first), world.book(2, 4));
    let outcomes = world.run(&[second, others]);
    assert_eq!((done(&outcomes[0]).id, done(&outcomes[0]).status()), (made.id, Status::Expired));
    assert_eq!(done(&outcomes[1]).party, 4);
    // Somebody else's request is another one, whatever it says.
    let mut theirs = again(&mut world, &first);
    theirs.person = crate::world::person(3);
    assert_eq!(refusal(&world.run(&[theirs])[0]), Refusal::NotEnoughPlaces { remaining: 0 });
}

#[test]
fn a_late_payment_under_two_tickets_is_taken_once() {
    let mut world = World::new(places(4));
    let held = world.seat(1, 2);
    world.wait(7 * 60);
    let first = world.reseat(1, held.id);
    let second = again(&mut world, &first);
    let (outcomes, moved) = world.run_counting(&[first.clone(), second]);
    assert_eq!(done(&outcomes[0]), done(&outcomes[1]));
    assert_eq!(moved, Won(-10_000));
    let third = again(&mut world, &first);
    assert_eq!(done(&world.run(&[third])[0]), done(&outcomes[0]));
}

#[test]
fn an_expired_hold_is_free_the_moment_it_expires() {
    let mut world = World::new(places(4));
    let held = world.seat(1, 4);
    world.wait(7 * 60 - 1);
    let early = world.book(2, 1);
    assert_eq!(refusal(&world.run(&[early])[0]), Refusal::NotEnoughPlaces { remaining: 0 });
    world.wait(1);
    assert_eq!(world.seat(3, 4).party, 4);
    assert_eq!(world.row(held.id).status(), Status::Expired);
}

#[test]
fn a_payment_that_entered_in_time_counts_however_late_it_is_decided() {
    let mut world = World::new(places(4));
    let held = world.seat(1, 4);
    world.wait(7 * 60 - 1);
    let pay = world.pay(1, held.id);
    world.wait(100);
    let book = world.book(2, 1);
    let outcomes = world.run(&[pay, book]);
    assert_eq!(done(&outcomes[0]).status(), Status::Confirmed);
    assert_eq!(refusal(&outcomes[1]), Refusal::NotEnoughPlaces { remaining: 0 });
}

#[test]
fn a_late_payment_takes_a_new_place_or_costs_nothing() {
    let mut world = World::new(places(4));
    let held = world.seat(1, 4);
    world.wait(7 * 60);
    let pay = world.pay(1, held.id);
    let too_late = Refusal::IllegalTransition { from: Status::Expired, to: Status::Confirmed };
    assert_eq!(refusal(&world.run(&[pay])[0]), too_late);
    let reseat = world.reseat(1, held.id);
    let seated = done(&world.run(&[reseat])[0]);
    assert_ne!(seated.id, held.id);
    assert_eq!(
        (seated.status(), seated.reseats, seated.paid),
        (Status::Confirmed, Some(held.id), Won(20_000))
    );
    assert_eq!(world.row(held.id).status(), Status::Expired);

    let again = world.reseat(1, held.id);
    assert_eq!(refusal(&world.run(&[again])[0]), Refusal::AlreadyBooked);

    let mut world = World::new(places(4));
    let held = world.seat(1, 4);
    world.wait(7 * 60);
    world.seat(2, 3);
    let pay = world.reseat(1, held.id);
    assert_eq!(refusal(&world.run(&[pay])[0]), Refusal::NotEnoughPlaces { remaining: 1 });
    assert_eq!(world.row(held.id).paid, Won::ZERO);
}

#[test]
fn paying_twice_is_refused() {
    let mut world = World::new(places(4));
    let held = world.seat(1, 2);
    let batch = [world.pay(1, held.id), world.pay(1, held.id)];
    let outcomes = world.run(&batch);
    assert_eq!(done(&outcomes[0]).paid, Won(10_000));
    let expected = Refusal::IllegalTransition { from: Status::Confirmed, to: Status::Confirmed };
    assert_eq!(refusal(&outcomes[1]), expected);
}

#[test]
fn cancelling_pays_back_by_how_early_it_is() {
    let mut world = World::new(places(4));
    let held = world.seat(1, 2);
    let batch = [world.pay(1, held.id), world.cancel(1, held.id)];
    let cancelled = done(&world.run(&batch)[1]);
    assert_eq!((cancelled.status(), cancelled.refunded), (Status::Refunded, Won(10_000)));
    assert_eq!(world.row(held.id).version, 3);

    // Where the staff hands out refunds, the places stay taken until then.
    world.venue.settings.policy.refunds_by_staff = true;
    let held = world.seat(2, 4);
    let batch = [world.pay(2, held.id), world.cancel(2, held.id)];
    let pending = done(&world.run(&batch)[1]);
    assert_eq!((pending.status(), pending.refund_due), (Status::RefundPending, Won(20_000)));
    assert_eq!(world.slot.people(), 4);
    let refund = world.command(9, Action::Refund { reservation: held.id });
    let refunded = done(&world.run(&[refund])[0]);
    assert_eq!((refunded.status(), refunded.refunded), (Status::Refunded, Won(20_000)));
    assert_eq!(world.slot.people(), 0);
}

#[test]
fn an_hour_before_the_start_a_fifth_comes_back() {
    let mut world = World::new(places(20));
    let held = world.seat(1, 4);
    let pay = world.pay(1, held.id);
    world.run(&[pay]);
    world.now = world.venue.start(slot_at(12)) - SignedDuration::from_hours(1);
    let cancel = world.cancel(1, held.id);
    let cancelled = done(&world.run(&[cancel])[0]);
    assert_eq!((cancelled.status(), cancelled.refunded), (Status::Refunded, Won(4_000)));
    // After the start nothing is due, so nothing is pending.
    let held = world.seat(2, 1);
    let pay = world.pay(2, held.id);
    world.run(&[pay]);
    world.now += SignedDuration::from_hours(1);
    let cancel = world.cancel(2, held.id);
    assert_eq!(done(&world.run(&[cancel])[0]).status(), Status::Canceled);
}

#[test]
fn a_table_is_the_smallest_that_fits() {
    let mut world = World::new(tables(&[6, 2, 4, 2]));
    let taken: Vec<_> = (1..=3).map(|who| world.seat(who, 2).table.unwrap()).collect();
    assert_eq!(taken, [2, 4, 3]);
    let batch = [world.book(4, 7), world.book(5, 1)];
    let outcomes = world.run(&batch);
    assert_eq!(refusal(&outcomes[0]), Refusal::TableUnavailable { remaining: 1 });
    assert_eq!(done(&outcomes[1]).table, Some(1));
}

#[test]
fn growing_asks_for_the_difference_and_shrinking_returns_it() {
    let mut world = World::new(places(8));
    let held = world.seat(1, 4);
    let change = |world: &mut World, party| world.command(1, Action::Change { reservation: held.id, party });
    let pay = world.pay(1, held.id);
    world.run(&[pay]);
    let grow = change(&mut world, 8);
    let grown = done(&world.run(&[grow])[0]);
    assert_eq!((grown.party, grown.price, grown.paid), (8, Won(80_000), Won(80_000)));
    let shrink = change(&mut world, 2);
    let shrunk = done(&world.run(&[shrink])[0]);
    assert_eq!((shrunk.price, shrunk.paid - shrunk.refunded), (Won(10_000), Won(10_000)));
    let too_many = change(&mut world, 9);
    assert_eq!(refusal(&world.run(&[too_many])[0]), Refusal::NotEnoughPlaces { remaining: 6 });
    assert_eq!(world.row(held.id).party, 2);
}

#[test]
fn shrinking_first_returns_no_more_than_cancelling_at_once() {
    let mut world = World::new(places(20));
    let held = world.seat(1, 4);
    let pay = world.pay(1, held.id);
    world.run(&[pay]);
    world.now = world.venue.start(slot_at(12)) - SignedDuration::from_hours(3);
    let batch =
        [world.command(1, Action::Change { reservation: held.id, party: 1 }), world.cancel(1, held.id)];
    let cancelled = done(&world.run(&batch)[1]);
    // Half of 20,000, in two steps.
    assert_eq!((cancelled.status(), cancelled.refunded), (Status::Refunded, Won(10_000)));
}

#[test]
fn moving_to_another_slot_is_decided_there() {
    let mut world = World::new(tables(&[2, 4]));
    let held = world.seat(1, 2);
    world.slot = Slot::empty(slot_at(13));
    let change = world.command(1, Action::Move { reservation: held.id, party: 3 });
    let moved = done(&world.run(&[change])[0]);
    assert_eq!(
        (moved.id, moved.slot, moved.table, moved.status()),
        (held.id, slot_at(13), Some(2), held.status())
    );
    // Whoever asks for it in the old slot is sent to the new one.
    world.slot = Slot::empty(slot_at(12));
    let pay = world.pay(1, held.id);
    assert_eq!(refusal(&world.run(&[pay])[0]), Refusal::Elsewhere);
}

#[test]
fn a_certain_refusal_changes_nothing() {
    let mut world = World::new(places(4));
    let held = world.seat(1, 4);
    let pay = world.pay(1, held.id);
    world.foregone.insert(pay.ticket, Refusal::InsufficientPoints);
    assert_eq!(refusal(&world.run(&[pay])[0]), Refusal::InsufficientPoints);
    assert_eq!(world.row(held.id).status(), Status::Temporary);
}

#[test]
fn whoever_has_no_place_here_waits_like_everybody_else() {
    let id = ReservationId(1);
    let owners = |action: Action| action.is_owners();
    assert!(owners(Action::Pay { reservation: id }));
    assert!(owners(Action::Change { reservation: id, party: 2 }));
    assert!(!owners(Action::Move { reservation: id, party: 2 }));
    assert!(!owners(Action::Reseat { reservation: id, afresh: ReservationId(2) }));
}

#[test]
fn a_party_may_shrink_in_a_venue_that_has_shrunk() {
    let mut world = World::new(places(10));
    let held = world.seat(1, 8);
    world.venue.settings.inventory = places(4);
    let change = |world: &mut World, party| world.command(1, Action::Change { reservation: held.id, party });
    let shrink = change(&mut world, 6);
    assert_eq!(done(&world.run(&[shrink])[0]).party, 6);
    let grow = change(&mut world, 7);
    assert_eq!(refusal(&world.run(&[grow])[0]), Refusal::NotEnoughPlaces { remaining: 0 });
}

#[test]
fn a_hold_runs_from_when_it_was_decided() {
    let mut world = World::new(places(4));
    let command = world.book(1, 2);
    let (drawn, decided) = (world.now, world.now + SignedDuration::from_secs(600));
    let known = booking::decide::Known::default();
    let when = When { drawn, decided };
    let outcome = decide(&mut world.slot, &world.venue, &known, [command].iter(), when).outcomes.remove(0);
    assert_eq!(done(&outcome).expires_at, decided + SignedDuration::from_secs(420));
}
