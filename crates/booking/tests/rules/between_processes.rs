//! What one process writes another one reads, also one of another version.

use booking::decide::Booking;
use booking::policy::CancelledBy;
use booking::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::world::{World, places, slot_at, tables};

/// What is read back, and from a version that says more.
fn read_back<T: Serialize + DeserializeOwned>(written: &T) -> [T; 2] {
    let text = serde_json::to_string(written).unwrap();
    let mut more: Value = serde_json::from_str(&text).unwrap();
    say_more(&mut more);
    [serde_json::from_str(&text).unwrap(), serde_json::from_value(more).unwrap()]
}

/// Adds a member that nobody knows to every object but those that only name a case.
fn say_more(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(say_more),
        Value::Object(members) => {
            members.values_mut().for_each(say_more);
            if members.len() > 1 || members.contains_key("reservation") {
                members.insert("since".into(), json!({"version": 2}));
            }
        }
        _ => {}
    }
}

fn line(item: u32, name: &str) -> OrderLine {
    OrderLine { item, name: name.into(), price: Won(9_000), quantity: 2 }
}

#[test]
fn every_wish_is_read_back() {
    let id = ReservationId(u128::MAX / 3);
    let plain = Booking {
        id,
        name: "김 “O’Hara”".into(),
        party: 4,
        seats: [].into(),
        section: None,
        payment: Payment::Deposit,
        order: [].into(),
        note: None,
    };
    let full = Booking {
        seats: [Seat::labelled("A-1-1")].into(),
        section: Some("A".into()),
        payment: Payment::Prepay,
        order: [line(1, "Bibimbap"), line(2, "물")].into(),
        note: Some("by the window,\nplease".into()),
        ..plain.clone()
    };
    let wishes = [
        Action::Book(Box::new(plain)),
        Action::Book(Box::new(full)),
        Action::Pay { reservation: id },
        Action::Join { name: "김".into(), party: 2, offer: id },
        Action::Unlist {},
        Action::Tend {},
        Action::Reseat { reservation: id, afresh: ReservationId(1) },
        Action::Cancel { reservation: id, by: CancelledBy::Guest },
        Action::Cancel { reservation: id, by: CancelledBy::Venue },
        Action::Change { reservation: id, party: 3 },
        Action::Move { reservation: id, party: u32::MAX },
        Action::Expire { reservation: id },
        Action::Complete { reservation: id },
        Action::NoShow { reservation: id },
        Action::Refund { reservation: id },
    ];
    for wish in wishes {
        // The log and the wire call it by one name.
        let written = serde_json::to_value(&wish).unwrap();
        assert_eq!(written.as_object().unwrap().keys().collect::<Vec<_>>(), [wish.verdict().as_str()]);
        for read in read_back(&wish) {
            assert_eq!(read, wish);
        }
    }
}

#[test]
fn a_booking_is_written_in_a_hundred_bytes() {
    let mut world = World::new(places(4));
    let text = serde_json::to_string(&world.book(1, 2).action).unwrap();
    let expected =
        r#"{"book":{"id":"000000000000000000000000z8","name":"guest","party":2,"payment":"deposit"}}"#;
    assert_eq!(text, expected);
    assert!(text.len() <= 100, "{}", text.len());
}

#[test]
fn a_reservation_is_read_back() {
    let mut world = World::new(tables(&[2, 4]));
    let held = world.seat(1, 3);
    let full = Reservation {
        life: Life::stored(Status::RefundPending),
        slot: slot_at(23),
        payment: Payment::Prepay,
        order: [line(7, "Noodles")].into(),
        paid: Won(18_000),
        refunded: Won(1_000),
        refund_due: Won(17_000),
        note: Some("quietly".into()),
        version: 7,
        reseats: Some(ReservationId(3)),
        ..Reservation::clone(&held)
    };
    for reservation in [Reservation::clone(&held), full] {
        for read in read_back(&reservation) {
            assert_eq!(read, reservation);
        }
    }
    let written = serde_json::to_value(&*held).unwrap();
    assert_eq!((&written["status"], &written["table"]), (&json!("TEMPORARY"), &json!(2)));
    assert_eq!(written["createdAt"], json!(held.created_at.as_millisecond()));
    for nothing in ["order", "note", "paid", "refunded", "refundDue", "reseats"] {
        assert!(written.get(nothing).is_none(), "{nothing} in {written}");
    }
}

/// Entered again because a reply was lost, a wish to wait may be decided after the offer it came to has lapsed.
#[test]
fn who_joins_under_two_tickets_is_offered_one_place() {
    let mut world = World::new(places(2));
    world.seat(1, 2);
    let first = world.join(2, 2);
    let again = Command { ticket: TicketId::new(world.slot.id, 1, 900), ..first.clone() };
    world.run(&[first]);
    world.wait(8 * 60);
    let other = world.join(3, 2);
    world.run(&[other]);
    assert!(world.slot.of_person(again.person).is_some(), "the hold ran out, and its place was offered");
    world.wait(6 * 60);
    let outcome = world.run(std::slice::from_ref(&again)).remove(0);
    let Outcome::Done(lapsed) = outcome else { panic!("{outcome:?}") };
    assert_eq!((lapsed.person, lapsed.status()), (again.person, Status::Expired));
    assert!(world.slot.waitlist().find(again.person).is_none());
}

/// Whoever goes to another slot is decided there: here, those who wait come first all the same.
#[test]
fn what_somebody_leaves_for_another_slot_goes_to_those_who_wait() {
    let mut world = World::new(places(2));
    let first = world.seat(1, 2);
    let join = world.join(2, 2);
    world.run(&[join]);
    let waitlist = world.slot.waitlist().clone();
    let left = world.slot.holders().filter(|r| r.id != first.id).map(|r| Reservation::clone(r));
    world.slot = Slot::restore(world.slot.id, 2, left.collect::<Vec<_>>()).with_waitlist(waitlist);
    let (book, join) = (world.book(3, 2), PersonId(2));
    let outcomes = world.run(&[book]);
    assert!(matches!(outcomes[0], Outcome::Refused(Refusal::NotEnoughPlaces { remaining: 0 })));
    assert!(world.slot.holders().all(|r| r.person == join && r.offered));
}
