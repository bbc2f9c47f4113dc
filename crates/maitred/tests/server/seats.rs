//! Concerts: numbered seats, one winner each, and nobody waits for a seat that is gone (C5–C8).

use std::collections::HashSet;

use booking::hall::{Row, Section};
use booking::policy::Policy;
use booking::venue::{Kind, Settings};
use booking::{Hall, Inventory, VenueId, Won};
use hyper::Method;
use serde_json::{Value, json};

use crate::app::{TOMORROW, settings};
use crate::apps::{Apps, at_once, in_both};
use crate::client::Guest;
use crate::steps::until;

in_both! {
    a_seat_goes_from_available_to_held_to_reserved_and_back,
    a_thousand_people_want_one_seat_and_one_gets_it,
    five_hundred_people_sell_out_fifty_seats,
    whoever_names_no_seat_gets_the_best_together,
    seats_are_taken_all_or_none,
    a_seat_that_is_held_is_refused_at_once_although_the_line_is_long,
    a_seat_that_is_not_paid_in_time_is_free_again,
    ten_payments_at_once_are_one_payment,
}

/// A hall of rows of ten seats: one section A.
pub fn hall(rows: u32) -> Settings {
    let rows = (1..=rows).map(|row| Row { name: row.to_string(), seats: 10 }).collect();
    let sections = Hall::from(vec![Section { name: "A".into(), price: Won(50_000), rows }]);
    Settings { kind: Kind::Concert, policy: Policy::for_shows(), ..settings(Inventory::Seats { sections }) }
}

/// A wish for these seats tomorrow at seven, or for the best for a party.
pub fn show(venue: VenueId, party: u32, seats: &[&str]) -> Value {
    let mut wish = json!({"venueId": venue.to_string(), "date": TOMORROW, "time": "19:00", "partySize": party,
                          "payment": "prepay"});
    if !seats.is_empty() {
        wish["seats"] = json!(seats);
    }
    wish
}

async fn ask(guest: &Guest, wish: &Value, wait: &str) -> crate::client::Answer {
    guest.call(Method::POST, "/api/reservations", &[("prefer", wait)], wish.to_string()).await
}

async fn status(apps: &Apps, venue: VenueId, seat: &str) -> Value {
    let slot = apps.all[1 % apps.all.len()].slot(venue, "19:00").await;
    let seats = slot["seats"].as_array().unwrap();
    seats.iter().find(|shown| shown["seat"] == seat).unwrap()["status"].clone()
}

async fn a_seat_goes_from_available_to_held_to_reserved_and_back(apps: Apps) {
    let (venue, _) = apps.open(hall(1)).await;
    let guest = apps.rich(1).await;
    assert_eq!(status(&apps, venue, "A-1-3").await, "AVAILABLE");
    let held = guest.seated(show(venue, 1, &["A-1-3"])).await;
    assert_eq!((&held["seats"], &held["amountDue"]), (&json!(["A-1-3"]), &json!(50_000)));
    assert_eq!(status(&apps, venue, "A-1-3").await, "HELD");
    let paid = guest.pay(&held).await.expect(200).json();
    assert_eq!((&paid["status"], &paid["amountPaid"]), (&json!("PREPAY_CONFIRM"), &json!(50_000)));
    assert_eq!(status(&apps, venue, "A-1-3").await, "RESERVED");
    guest.cancel(&held).await.expect(200);
    assert_eq!(status(&apps, venue, "A-1-3").await, "AVAILABLE");
    assert_eq!(apps.app().remaining(venue, "19:00").await, 10);
    apps.guest(0).seated(show(venue, 1, &["A-1-3"])).await;
    apps.stop().await;
}

async fn a_thousand_people_want_one_seat_and_one_gets_it(apps: Apps) {
    let (venue, _) = apps.open(hall(5)).await;
    let people = (0..1_000).map(|n| {
        let guest = apps.guest(n);
        async move { guest.book(show(venue, 1, &["A-3-5"])).await }
    });
    let answers = at_once(people.collect::<Vec<_>>()).await;
    let won = answers.iter().filter(|answer| answer.status == 201).count();
    let taken = answers.iter().filter(|answer| answer.status == 409 && answer.code() == "seat-taken").count();
    let other = answers.iter().find(|answer| ![201, 409].contains(&answer.status.as_u16()));
    assert_eq!((won, taken), (1, 999), "{other:?}");
    apps.stop().await;
}

async fn five_hundred_people_sell_out_fifty_seats(apps: Apps) {
    let (venue, _) = apps.open(hall(5)).await;
    let people = (0..500).map(|n| {
        let guest = apps.guest(n);
        async move {
            // Each picks one of those that are shown as free, and another when it is gone.
            let path = format!("/api/venues/{venue}/availability?date={TOMORROW}");
            for _ in 0..1_000 {
                let day = until("what is free", || async {
                    // A busy machine may have no answer in time.
                    Some(guest.get(&path).await).filter(|answer| answer.status != 503)
                });
                let day = day.await.expect(200).json();
                let slot =
                    day["items"].as_array().unwrap().iter().find(|slot| slot["time"] == "19:00").unwrap();
                let seats = slot["seats"].as_array().unwrap().iter();
                let free: Vec<_> = seats.filter(|seat| seat["status"] == "AVAILABLE").collect();
                let label = free.get((n * 37) % free.len().max(1))?["seat"].as_str().unwrap();
                let answer = guest.book(show(venue, 1, &[label])).await;
                match answer.status.as_u16() {
                    201 => return Some(answer.json()["seats"][0].as_str().unwrap().to_owned()),
                    _ => answer.refused(409, "seat-taken"),
                };
            }
            panic!("a seat is shown as free forever");
        }
    });
    let won: Vec<_> = at_once(people.collect::<Vec<_>>()).await.into_iter().flatten().collect();
    assert_eq!((won.len(), won.iter().collect::<HashSet<_>>().len()), (50, 50), "every seat once");
    assert_eq!(apps.app().remaining(venue, "19:00").await, 0);
    apps.stop().await;
}

async fn whoever_names_no_seat_gets_the_best_together(apps: Apps) {
    let (venue, _) = apps.open(hall(2)).await;
    let best = async |n, party| apps.guest(n).seated(show(venue, party, &[])).await["seats"].clone();
    assert_eq!(best(0, 2).await, json!(["A-1-5", "A-1-6"]));
    // A row behind in the middle is nearer than three seats aside.
    assert_eq!(best(1, 4).await, json!(["A-2-4", "A-2-5", "A-2-6", "A-2-7"]));
    assert_eq!(best(0, 4).await, json!(["A-1-1", "A-1-2", "A-1-3", "A-1-4"]));
    let refused = apps.guest(1).book(show(venue, 5, &[])).await.refused(409, "seat-taken").json();
    assert_eq!(refused["remaining"], 4, "so many are together");
    assert_eq!(best(1, 4).await, json!(["A-1-7", "A-1-8", "A-1-9", "A-1-10"]));
    assert_eq!(best(0, 3).await, json!(["A-2-1", "A-2-2", "A-2-3"]));
    assert_eq!(best(0, 3).await, json!(["A-2-8", "A-2-9", "A-2-10"]));
    let refused = apps.guest(0).book(show(venue, 1, &[])).await.refused(409, "not-enough-places").json();
    assert_eq!(refused["remaining"], 0);
    apps.stop().await;
}

async fn seats_are_taken_all_or_none(apps: Apps) {
    let (venue, _) = apps.open(hall(1)).await;
    apps.guest(0).seated(show(venue, 1, &["A-1-5"])).await;
    apps.guest(1).book(show(venue, 2, &["A-1-4", "A-1-5"])).await.refused(409, "seat-taken");
    assert_eq!(apps.app().remaining(venue, "19:00").await, 9);
    apps.guest(0).seated(show(venue, 3, &["A-1-4", "A-1-6", "A-1-9"])).await;
    for (wrong, pointer) in [
        (show(venue, 2, &["A-1-1"]), "/seats"),
        (show(venue, 2, &["A-1-1", "A-1-1"]), "/seats"),
        (show(venue, 1, &["B-1-1"]), "/seats"),
        (show(venue, 9, &[]), "/partySize"),
    ] {
        let refused = apps.guest(1).book(wrong).await.refused(422, "invalid-request").json();
        assert_eq!(refused["errors"][0]["pointer"], pointer);
    }
    apps.stop().await;
}

async fn a_seat_that_is_held_is_refused_at_once_although_the_line_is_long(apps: Apps) {
    let (venue, _) = apps.open(hall(5)).await;
    apps.guest(0).seated(show(venue, 1, &["A-1-1"])).await;
    // Everybody asks without patience, and the lane has more to do than it can answer at once.
    let people = (0..400).map(|n| {
        let guest = apps.guest(n);
        let wish = if n % 2 == 0 { show(venue, 1, &["A-1-1"]) } else { show(venue, 1, &[]) };
        async move { (n % 2 == 0, ask(&guest, &wish, "wait=0").await) }
    });
    for (held, answer) in at_once(people.collect::<Vec<_>>()).await {
        if held {
            answer.refused(409, "seat-taken");
        } else {
            assert!([201, 202, 409].contains(&answer.status.as_u16()), "{answer:?}");
        }
    }
    apps.stop().await;
}

async fn a_seat_that_is_not_paid_in_time_is_free_again(apps: Apps) {
    let (venue, _) = apps.open(hall(1)).await;
    let guest = apps.rich(0).await;
    let held = guest.seated(show(venue, 2, &["A-1-1", "A-1-2"])).await;
    apps.wait(5 * 60);
    let other = apps.rich(1).await;
    let taken = other.seated(show(venue, 1, &["A-1-1"])).await;
    // Too late: the seat is somebody else's, and it costs nothing (D9).
    guest.pay(&held).await.refused(409, "seat-taken");
    assert_eq!(guest.balance().await, 1_000_000);
    other.cancel(&taken).await.expect(200);
    // Still too late, but the seats are free: they are the guest's again, as a new reservation.
    let again = guest.pay(&held).await.expect(200).json();
    assert_eq!((&again["seats"], &again["reseats"]), (&json!(["A-1-1", "A-1-2"]), &held["id"]));
    assert_eq!(guest.balance().await, 900_000);
    apps.stop().await;
}

async fn ten_payments_at_once_are_one_payment(apps: Apps) {
    let (venue, _) = apps.open(hall(1)).await;
    let guest = apps.rich(0).await;
    let held = guest.seated(show(venue, 2, &[])).await;
    let token = guest.token.clone().unwrap();
    let paying = (0..10).map(|n| {
        let guest = apps.all[n % apps.all.len()].client.guest(token.clone());
        let held = held.clone();
        async move { guest.pay(&held).await.status.as_u16() }
    });
    let mut statuses = at_once(paying.collect::<Vec<_>>()).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200], vec![409; 9]].concat());
    assert_eq!(guest.balance().await, 900_000);
    apps.stop().await;
}
