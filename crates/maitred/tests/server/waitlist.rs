//! Sold out is not the end: a waitlist in order, and offers that lapse (D7).

use booking::VenueId;
use serde_json::{Value, json};

use crate::app::{TOMORROW, noon, places};
use crate::apps::{Apps, at_once, in_both};
use crate::client::Guest;
use crate::seats::{hall, show};
use crate::steps::until;

in_both! {
    a_hold_that_is_not_paid_goes_to_the_head_of_the_list,
    whoever_declines_or_waits_too_long_is_passed_over,
    nothing_is_sold_around_the_list,
    a_hundred_wait_and_are_served_in_order,
    a_seat_that_frees_is_offered_with_its_price,
    a_venue_that_grows_offers_what_is_new,
    leaving_the_list_is_leaving_it,
}

fn at(venue: VenueId) -> String {
    format!("/api/venues/{venue}/waitlist?date={TOMORROW}&time=12:00")
}

async fn join(guest: &Guest, venue: VenueId, party: u32) -> Value {
    let body = json!({"date": TOMORROW, "time": "12:00", "partySize": party});
    guest.post(&format!("/api/venues/{venue}/waitlist"), body).await.expect(201).json()
}

/// The newest reservation, once it is an offer.
async fn offer(guest: &Guest) -> Value {
    until("an offer", || async {
        let own = guest.get("/api/reservations").await.expect(200).json();
        let offers = own["items"].as_array().unwrap().iter().filter(|r| r["offer"] == true);
        offers.into_iter().find(|r| r["status"] == "TEMPORARY").cloned()
    })
    .await
}

async fn a_hold_that_is_not_paid_goes_to_the_head_of_the_list(apps: Apps) {
    let (venue, _) = apps.open(places(2)).await;
    let late = apps.rich(0).await;
    let held = late.seated(noon(venue, 2)).await;
    let (first, second) = (apps.rich(1).await, apps.rich(0).await);
    assert_eq!(join(&first, venue, 2).await["position"], 1);
    assert_eq!(join(&second, venue, 1).await["position"], 2);
    assert_eq!(second.get(&at(venue)).await.expect(200).json()["waitingCount"], 2);
    apps.wait(7 * 60);
    let offered = offer(&first).await;
    assert_eq!((&offered["partySize"], &offered["amountDue"]), (&json!(2), &json!(10_000)));
    // Whoever let it lapse does not get it back around the list.
    late.pay(&held).await.refused(409, "not-enough-places");
    assert_eq!(late.balance().await, 1_000_000);
    let id = offered["id"].as_str().unwrap();
    second.post(&format!("/api/offers/{id}/accept"), json!({})).await.refused(404, "not-found");
    let accepted = first.post(&format!("/api/offers/{id}/accept"), json!({})).await.expect(200).json();
    assert_eq!(accepted["status"], "CONFIRMED");
    assert_eq!(first.balance().await, 990_000);
    apps.stop().await;
}

async fn whoever_declines_or_waits_too_long_is_passed_over(apps: Apps) {
    let (venue, _) = apps.open(places(2)).await;
    let guest = apps.guest(0);
    let held = guest.seated(noon(venue, 2)).await;
    let waiting = [apps.guest(1), apps.guest(0), apps.rich(1).await];
    for waiting in &waiting {
        join(waiting, venue, 2).await;
    }
    guest.cancel(&held).await.expect(200);
    let declined = offer(&waiting[0]).await;
    waiting[0]
        .post(&format!("/api/offers/{}/decline", declined["id"].as_str().unwrap()), json!({}))
        .await
        .expect(200);
    offer(&waiting[1]).await;
    assert_eq!(waiting[2].get(&at(venue)).await.expect(200).json()["position"], 1);
    // Five minutes, not seven.
    apps.wait(5 * 60);
    let last = offer(&waiting[2]).await;
    waiting[2].pay(&last).await.expect(200);
    apps.stop().await;
}

async fn nothing_is_sold_around_the_list(apps: Apps) {
    let (venue, _) = apps.open(places(4)).await;
    let guest = apps.guest(0);
    let held = guest.seated(noon(venue, 4)).await;
    let waiting = apps.guest(1);
    join(&waiting, venue, 4).await;
    // Many want what is being given up at the same moment.
    let rush = (0..50).map(|n| {
        let guest = apps.guest(n);
        async move { guest.book(noon(venue, 1)).await.status.as_u16() }
    });
    let rush = tokio::spawn(at_once(rush.collect::<Vec<_>>()));
    guest.cancel(&held).await.expect(200);
    offer(&waiting).await;
    assert_eq!(rush.await.unwrap(), vec![409; 50]);
    assert_eq!(apps.app().remaining(venue, "12:00").await, 0);
    apps.stop().await;
}

async fn a_hundred_wait_and_are_served_in_order(apps: Apps) {
    let (venue, _) = apps.open(places(1)).await;
    let first = apps.guest(0);
    let mut held = first.seated(noon(venue, 1)).await;
    let mut holder = first;
    let joining = (0..100).map(|n| {
        let guest = apps.guest(n);
        async move { (join(&guest, venue, 1).await["position"].as_u64().unwrap(), guest) }
    });
    let joined = at_once(joining.collect::<Vec<_>>()).await;
    // Positions are told as they are by then: the order is the list's.
    let mut list = Vec::new();
    for (_, guest) in joined {
        let position = guest.get(&at(venue)).await.expect(200).json()["position"].as_u64().unwrap();
        list.push((position, guest));
    }
    list.sort_by_key(|(position, _)| *position);
    assert!(list.iter().map(|(position, _)| *position).eq(1..=100));
    for (_, next) in list.into_iter().take(20) {
        holder.cancel(&held).await.expect(200);
        held = offer(&next).await;
        holder = next;
    }
    apps.stop().await;
}

async fn a_seat_that_frees_is_offered_with_its_price(apps: Apps) {
    let (venue, _) = apps.open(hall(1)).await;
    let guest = apps.rich(0).await;
    let eight = guest.seated(show(venue, 8, &[])).await;
    apps.guest(1).seated(show(venue, 1, &[])).await;
    let waiting = apps.rich(1).await;
    let body = json!({"date": TOMORROW, "time": "19:00", "partySize": 2});
    let path = format!("/api/venues/{venue}/waitlist");
    waiting
        .post(&path, json!({"date": TOMORROW, "time": "19:00", "partySize": 9}))
        .await
        .refused(422, "invalid-request");
    assert_eq!(waiting.post(&path, body.clone()).await.expect(201).json()["position"], 1);
    // Asking twice keeps the rank; with another party it is another wish.
    assert_eq!(waiting.post(&path, body).await.expect(201).json()["position"], 1);
    let other = json!({"date": TOMORROW, "time": "19:00", "partySize": 3});
    waiting.post(&path, other).await.refused(409, "already-booked");
    guest.cancel(&eight).await.expect(200);
    let offered = offer(&waiting).await;
    assert_eq!((offered["seats"].as_array().unwrap().len(), &offered["amountDue"]), (2, &json!(100_000)));
    assert_eq!(waiting.pay(&offered).await.expect(200).json()["status"], "PREPAY_CONFIRM");
    apps.stop().await;
}

async fn a_venue_that_grows_offers_what_is_new(apps: Apps) {
    let (venue, staff) = apps.open(places(2)).await;
    apps.guest(0).seated(noon(venue, 2)).await;
    let waiting = apps.guest(1);
    join(&waiting, venue, 2).await;
    staff.patch(&format!("/api/venues/{venue}"), json!({"capacity": 4})).await.expect(200);
    offer(&waiting).await;
    apps.stop().await;
}

async fn leaving_the_list_is_leaving_it(apps: Apps) {
    let (venue, _) = apps.open(places(2)).await;
    let guest = apps.guest(0);
    let held = guest.seated(noon(venue, 2)).await;
    let (first, second) = (apps.guest(1), apps.guest(0));
    join(&first, venue, 2).await;
    join(&second, venue, 2).await;
    assert_eq!(first.get("/api/waitlist").await.expect(200).json()["items"].as_array().unwrap().len(), 1);
    first.delete(&at(venue)).await.expect(204);
    first.delete(&at(venue)).await.refused(404, "not-found");
    assert_eq!(second.get(&at(venue)).await.expect(200).json()["position"], 1);
    guest.cancel(&held).await.expect(200);
    offer(&second).await;
    // Whoever finds room is offered it at once.
    apps.stop().await;
}
