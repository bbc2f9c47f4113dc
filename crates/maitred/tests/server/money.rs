//! Deposits, prepayments, refunds, and payments that come too late.

use booking::Won;
use booking::policy::Policy;
use booking::venue::Settings;
use serde_json::{Value, json};

use crate::app::{TestApp, noon, places};
use crate::client::Guest;
use crate::steps::until;

const HOURS: i64 = 3_600;

/// A paid reservation for tomorrow at noon, and its guest, who has nothing else in the wallet.
async fn paid(app: &TestApp, venue: booking::VenueId, party: u32) -> (Guest, Value) {
    let guest = app.guest();
    let held = guest.seated(noon(venue, party)).await;
    let due = held["amountDue"].clone();
    guest.post("/api/wallet/charges", json!({"amount": due})).await.expect(201);
    let paid = guest.pay(&held).await.expect(200).json();
    assert_eq!((&paid["status"], &paid["amountPaid"]), (&json!("CONFIRMED"), &due));
    assert_eq!(guest.balance().await, 0);
    (guest, paid)
}

#[tokio::test]
async fn parties_of_seven_pay_more_a_head() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    for (party, deposit) in [(1, 5_000), (6, 30_000), (7, 70_000)] {
        assert_eq!(app.guest().seated(noon(venue, party)).await["amountDue"], deposit);
    }
    app.stop().await;
}

#[tokio::test]
async fn the_refund_shrinks_as_the_meal_comes_near() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(places(100)).await;
    let (early, early_booking) = paid(&app, venue, 4).await;
    let (same_day, same_day_booking) = paid(&app, venue, 4).await;
    let (late, late_booking) = paid(&app, venue, 4).await;
    let (crowd, crowd_booking) = paid(&app, venue, 8).await;
    let (lucky, lucky_booking) = paid(&app, venue, 8).await;
    let (missing, missing_booking) = paid(&app, venue, 4).await;

    // It is ten in the morning, the day before.
    let cancelled = early.cancel(&early_booking).await.expect(200).json();
    assert_eq!((&cancelled["status"], early.balance().await), (&json!("REFUNDED"), 20_000));
    app.wait(24 * HOURS);
    same_day.cancel(&same_day_booking).await.expect(200);
    assert_eq!(same_day.balance().await, 10_000, "half, exactly two hours ahead");
    app.wait(HOURS);
    late.cancel(&late_booking).await.expect(200);
    assert_eq!(late.balance().await, 4_000, "a fifth");
    crowd.cancel(&crowd_booking).await.expect(200);
    assert_eq!(crowd.balance().await, 8_000, "a tenth");
    // The venue cancels, and gives back everything.
    staff.cancel(&lucky_booking).await.expect(200);
    assert_eq!(lucky.balance().await, 80_000);
    staff.act(&missing_booking, "no-show").await.expect(200);
    let missed = missing.look(&missing_booking).await;
    assert_eq!((&missed["status"], missing.balance().await), (&json!("NO_SHOW"), 0));
    assert_eq!(app.database().query_row(SUMS, [], |row| row.get(0)), Ok(true), "money is conserved");
    app.stop().await;
}

/// Whether every wallet holds the sum of its entries.
const SUMS: &str = "SELECT total(balance) = (SELECT total(amount) FROM wallet_entry) FROM wallet";

#[tokio::test]
async fn every_movement_of_money_is_in_the_ledger() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    let (guest, booking) = paid(&app, venue, 2).await;
    guest.cancel(&booking).await.expect(200);
    let entries = guest.get("/api/wallet/entries").await.expect(200).json();
    let entries = entries["items"].as_array().unwrap();
    let told: Vec<_> = entries.iter().map(|e| json!([e["kind"], e["amount"], e["balance"]])).collect();
    let expected = [
        json!(["refund", 10_000, 10_000]),
        json!(["payment", -10_000, 0]),
        json!(["charge", 10_000, 10_000]),
    ];
    assert_eq!(told, expected);
    assert_eq!(entries[1]["reservationId"], booking["id"]);
    app.stop().await;
}

#[tokio::test]
async fn prepaying_costs_what_the_menu_says() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(places(20)).await;
    let path = format!("/api/venues/{venue}/menu");
    let menu = json!({"items": [{"name": "Noodles", "price": 11_000}, {"name": "Tea", "price": 3_000}]});
    app.guest().put(&path, menu.clone()).await.refused(403, "forbidden");
    let menu = staff.put(&path, menu).await.expect(200).json();
    assert_eq!(app.client.anybody().get(&path).await.expect(200).json(), menu);

    let guest = app.rich().await;
    let (noodles, tea) = (&menu["items"][0]["id"], &menu["items"][1]["id"]);
    let mut wish = noon(venue, 2);
    wish["payment"] = json!("prepay");
    guest.book(wish.clone()).await.refused(422, "invalid-request");
    wish["items"] = json!([{"menuItemId": noodles, "quantity": 2, "price": 1}]);
    guest.book(wish.clone()).await.refused(422, "invalid-request");
    wish["items"] = json!([{"menuItemId": "99", "quantity": 2}]);
    guest.book(wish.clone()).await.refused(422, "invalid-request");
    wish["items"] = json!([{"menuItemId": noodles, "quantity": 2}, {"menuItemId": tea, "quantity": 1}]);
    let held = guest.seated(wish).await;
    assert_eq!(held["amountDue"], 25_000);

    // What was ordered keeps its price.
    let dearer = json!({"items": [{"name": "Noodles", "price": 99_000}]});
    staff.put(&path, dearer).await.expect(200);
    let paid = guest.pay(&held).await.expect(200).json();
    assert_eq!((&paid["status"], &paid["amountPaid"]), (&json!("PREPAY_CONFIRM"), &json!(25_000)));
    assert_eq!(guest.balance().await, 975_000);
    guest.cancel(&held).await.expect(200);
    assert_eq!(guest.balance().await, 1_000_000);
    app.stop().await;
}

#[tokio::test]
async fn a_late_payment_takes_a_new_place_while_there_is_one() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(4)).await;
    let guest = app.rich().await;
    let held = guest.seated(noon(venue, 4)).await;
    app.wait(7 * 60);
    let seated = guest.pay(&held).await.expect(200).json();
    assert_eq!((&seated["status"], &seated["reseats"]), (&json!("CONFIRMED"), &held["id"]));
    assert_ne!(seated["id"], held["id"]);
    assert_eq!(guest.balance().await, 980_000);
    assert_eq!(guest.look(&held).await["status"], "EXPIRED");
    assert_eq!(app.remaining(venue, "12:00").await, 0);
    // Paying the old one once more buys nothing more.
    guest.pay(&held).await.refused(409, "already-booked");
    assert_eq!(guest.balance().await, 980_000);
    app.stop().await;
}

#[tokio::test]
async fn a_late_payment_costs_nothing_once_the_place_is_gone() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(4)).await;
    let guest = app.rich().await;
    let held = guest.seated(noon(venue, 4)).await;
    app.wait(7 * 60);
    app.guest().seated(noon(venue, 1)).await;
    let refused = guest.pay(&held).await.refused(409, "not-enough-places").json();
    assert_eq!(refused["remaining"], 3);
    assert_eq!(guest.balance().await, 1_000_000);
    let swept = || async { Some(guest.look(&held).await).filter(|now| now["status"] == "EXPIRED") };
    until("the old one stays expired", swept).await;
    app.stop().await;
}

#[tokio::test]
async fn staff_completes_refunds_and_marks_no_shows_and_nobody_else_does() {
    let app = TestApp::start().await;
    let policy = Policy { refunds_by_staff: true, ..Policy::default() };
    let (venue, staff) = app.open(Settings { policy, ..places(20) }).await;
    let (_, other_staff) = app.open(places(20)).await;
    let (guest, booking) = paid(&app, venue, 2).await;
    for what in ["complete", "no-show", "refund"] {
        guest.act(&booking, what).await.refused(403, "forbidden");
        app.guest().act(&booking, what).await.refused(404, "not-found");
        other_staff.act(&booking, what).await.refused(404, "not-found");
        app.client.anybody().act(&booking, what).await.refused(401, "unauthenticated");
    }
    staff.act(&booking, "refund").await.refused(409, "illegal-transition");
    let completed = staff.act(&booking, "complete").await.expect(200).json();
    assert_eq!(completed["status"], "COMPLETED");
    staff.act(&booking, "no-show").await.refused(409, "illegal-transition");
    guest.cancel(&booking).await.refused(409, "illegal-transition");
    assert_eq!(app.remaining(venue, "12:00").await, 20, "a place is free again after the visit");

    // Where the staff hands out refunds, the money and the places wait for it.
    let (guest, booking) = paid(&app, venue, 4).await;
    let pending = guest.cancel(&booking).await.expect(200).json();
    assert_eq!((&pending["status"], &pending["refundDue"]), (&json!("REFUND_PENDING"), &json!(20_000)));
    assert_eq!((guest.balance().await, app.remaining(venue, "12:00").await), (0, json!(16)));
    let refunded = staff.act(&booking, "refund").await.expect(200).json();
    assert_eq!((&refunded["status"], &refunded["amountRefunded"]), (&json!("REFUNDED"), &json!(20_000)));
    assert_eq!((guest.balance().await, app.remaining(venue, "12:00").await), (20_000, json!(20)));
    staff.act(&booking, "refund").await.refused(409, "illegal-transition");
    assert_eq!(guest.balance().await, 20_000);

    // An unpaid hold can neither be completed nor missed.
    let held = app.guest().seated(noon(venue, 2)).await;
    staff.act(&held, "complete").await.refused(409, "illegal-transition");
    staff.act(&held, "no-show").await.refused(409, "illegal-transition");
    app.stop().await;
}

#[tokio::test]
async fn a_charge_with_the_same_key_charges_once() {
    let app = TestApp::start().await;
    let guest = app.guest();
    let charge = |amount: i64| {
        let body = json!({"amount": amount}).to_string();
        let guest = guest.clone();
        async move {
            let key = [("idempotency-key", "one")];
            guest.call(hyper::Method::POST, "/api/wallet/charges", &key, body).await
        }
    };
    let first = charge(1_000).await.expect(201).json();
    assert_eq!(charge(1_000).await.expect(201).json(), first);
    charge(2_000).await.refused(422, "idempotency-mismatch");
    assert_eq!(guest.balance().await, 1_000);
    app.stop().await;
}

#[tokio::test]
async fn a_venue_may_ask_for_no_deposit() {
    let app = TestApp::start().await;
    let policy = Policy { deposit_per_person: Won(0), ..Policy::default() };
    let (venue, _) = app.open(Settings { policy, ..places(20) }).await;
    let guest = app.guest();
    let held = guest.seated(noon(venue, 2)).await;
    assert_eq!(held["amountDue"], 0);
    assert_eq!(guest.pay(&held).await.expect(200).json()["status"], "CONFIRMED");
    assert_eq!(guest.cancel(&held).await.expect(200).json()["status"], "CANCELED");
    app.stop().await;
}
