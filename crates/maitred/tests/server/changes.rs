//! Changing a reservation: the old place is given up only when the new one is secured.

use serde_json::json;

use crate::app::{TestApp, noon, places};
use crate::steps::wish;

#[tokio::test]
async fn a_larger_party_pays_the_difference_and_a_smaller_one_gets_it_back() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    let guest = app.rich().await;
    let held = guest.seated(noon(venue, 2)).await;
    // Before it is paid, a change only changes what is due.
    let due = guest.change(&held, json!({"partySize": 7})).await.expect(200).json();
    assert_eq!((&due["status"], &due["amountDue"]), (&json!("TEMPORARY"), &json!(70_000)));
    guest.change(&held, json!({"partySize": 2})).await.expect(200);
    guest.pay(&held).await.expect(200);
    assert_eq!(guest.balance().await, 990_000);

    let grown = guest.change(&held, json!({"partySize": 4})).await.expect(200).json();
    assert_eq!((&grown["status"], &grown["id"]), (&json!("CONFIRMED"), &held["id"]));
    assert_eq!((guest.balance().await, app.remaining(venue, "12:00").await), (980_000, json!(16)));
    let shrunk = guest.change(&held, json!({"partySize": 1})).await.expect(200).json();
    assert_eq!((&shrunk["amountPaid"], &shrunk["amountRefunded"]), (&json!(20_000), &json!(15_000)));
    assert_eq!((guest.balance().await, app.remaining(venue, "12:00").await), (995_000, json!(19)));
    guest.cancel(&held).await.expect(200);
    assert_eq!(guest.balance().await, 1_000_000);
    app.stop().await;
}

#[tokio::test]
async fn shrinking_before_cancelling_returns_no_more_than_cancelling() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    let guest = app.rich().await;
    let held = guest.seated(noon(venue, 4)).await;
    guest.pay(&held).await.expect(200);
    // The day itself: half comes back.
    app.wait(20 * 3_600);
    guest.change(&held, json!({"partySize": 1})).await.expect(200);
    assert_eq!(guest.balance().await, 987_500);
    guest.cancel(&held).await.expect(200);
    assert_eq!(guest.balance().await, 990_000);
    app.stop().await;
}

#[tokio::test]
async fn a_reservation_moves_to_another_time_in_one_step() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(4)).await;
    let guest = app.rich().await;
    let held = guest.seated(wish(venue, "12:00", 4)).await;
    guest.pay(&held).await.expect(200);
    let moved = guest.change(&held, json!({"time": "13:00", "partySize": 3})).await.expect(200).json();
    assert_eq!(
        (&moved["id"], &moved["time"], &moved["partySize"]),
        (&held["id"], &json!("13:00"), &json!(3))
    );
    assert_eq!(moved["status"], "CONFIRMED");
    assert_eq!(
        (app.remaining(venue, "12:00").await, app.remaining(venue, "13:00").await),
        (json!(4), json!(1))
    );
    app.guest().seated(wish(venue, "12:00", 4)).await;
    // It is managed where it is now, and the same person may book the time that was left, were it free.
    guest.book(wish(venue, "12:00", 1)).await.refused(409, "not-enough-places");
    let moved = guest.change(&held, json!({"date": "2026-12-03"})).await.expect(200).json();
    assert_eq!((&moved["date"], &moved["time"]), (&json!("2026-12-03"), &json!("13:00")));
    assert_eq!(guest.cancel(&held).await.expect(200).json()["status"], "REFUNDED");
    assert_eq!((app.remaining(venue, "13:00").await, guest.balance().await), (json!(4), 1_000_000));
    app.stop().await;
}

#[tokio::test]
async fn a_refused_change_leaves_everything_as_it_was() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(4)).await;
    let guest = app.guest();
    guest.post("/api/wallet/charges", json!({"amount": 10_000})).await.expect(201);
    let held = guest.seated(wish(venue, "12:00", 2)).await;
    let paid = guest.pay(&held).await.expect(200).json();
    app.guest().seated(wish(venue, "13:00", 3)).await;
    let own = guest.seated(wish(venue, "14:00", 1)).await;

    let refused = guest.change(&held, json!({"time": "13:00"})).await.refused(409, "not-enough-places");
    assert_eq!(refused.json()["remaining"], 1);
    guest.change(&held, json!({"partySize": 5})).await.refused(409, "not-enough-places");
    guest.change(&held, json!({"partySize": 3})).await.refused(409, "insufficient-points");
    guest.change(&held, json!({"time": "14:00"})).await.refused(409, "already-booked");
    guest.change(&held, json!({"time": "15:30"})).await.refused(422, "invalid-request");
    guest.change(&held, json!({"date": "2026-11-30"})).await.refused(422, "invalid-request");
    guest.change(&held, json!({})).await.refused(422, "invalid-request");

    assert_eq!((guest.look(&held).await, guest.balance().await), (paid, 0));
    for (time, left) in [("12:00", 2), ("13:00", 1), ("14:00", 3), ("15:00", 4)] {
        assert_eq!(app.remaining(venue, time).await, left, "{time}");
    }
    guest.cancel(&own).await.expect(200);
    guest.change(&own, json!({"partySize": 2})).await.refused(409, "illegal-transition");
    // Once the meal has begun, there is nothing left to change.
    app.wait(26 * 3_600);
    guest.change(&held, json!({"partySize": 1})).await.refused(422, "invalid-request");
    app.stop().await;
}

#[tokio::test]
async fn a_change_does_not_prolong_a_hold() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(4)).await;
    let guest = app.guest();
    let held = guest.seated(noon(venue, 2)).await;
    app.wait(6 * 60);
    let moved = guest.change(&held, json!({"time": "13:00"})).await.expect(200).json();
    assert_eq!(moved["expiresAt"], held["expiresAt"]);
    app.wait(60);
    assert_eq!(app.remaining(venue, "13:00").await, 4);
    guest.change(&held, json!({"time": "14:00"})).await.refused(409, "illegal-transition");
    app.stop().await;
}
