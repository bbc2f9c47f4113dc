//! What a guest lives through, from the first look to the visit.

use std::time::{Duration, Instant};

use booking::Inventory;
use booking::venue::{Settings, WeekTimes, Zone};
use serde_json::json;

use crate::app::{TOMORROW, TestApp, noon, places, settings};
use crate::steps::{until, wish};

#[tokio::test]
async fn a_guest_books_pays_and_cancels() {
    let app = TestApp::start().await;
    let (staff, _) = app.person();
    let venue = app.venue(places(20), staff).await;
    let guest = app.guest();
    let booked = guest.book(noon(venue, 4)).await.expect(201);
    let reservation = booked.json();
    let path = booked.header("location").to_owned();
    assert_eq!(path, format!("/api/reservations/{}", reservation["id"].as_str().unwrap()));
    assert_eq!((&reservation["status"], &reservation["amountDue"]), (&json!("TEMPORARY"), &json!(20_000)));

    let payment = format!("{path}/payment");
    let pay = || guest.post(&payment, json!({"method": "points"}));
    pay().await.refused(409, "insufficient-points");
    guest.post("/api/wallet/charges", json!({"amount": 50_000})).await.expect(201);
    let paid = pay().await.expect(200).json();
    assert_eq!((&paid["status"], &paid["amountDue"]), (&json!("CONFIRMED"), &json!(0)));
    pay().await.refused(409, "illegal-transition");
    assert_eq!(guest.get("/api/wallet").await.json(), json!({"balance": 30_000}));

    let cancelled = guest.post(&format!("{path}/cancel"), json!({})).await.expect(200).json();
    assert_eq!((&cancelled["status"], &cancelled["amountRefunded"]), (&json!("REFUNDED"), &json!(20_000)));
    assert_eq!(guest.get("/api/wallet").await.json(), json!({"balance": 50_000}));
    app.stop().await;
}

#[tokio::test]
async fn a_new_venue_has_twenty_places_in_every_slot_of_its_own() {
    let app = TestApp::start().await;
    let opened = app.guest().post("/api/venues", json!({"name": "New"})).await.expect(201).json();
    let venue = opened["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        (app.remaining(venue, "12:00").await, app.remaining(venue, "13:00").await),
        (json!(20), json!(20))
    );

    app.guest().seated(wish(venue, "12:00", 15)).await;
    assert_eq!(
        (app.remaining(venue, "12:00").await, app.remaining(venue, "13:00").await),
        (json!(5), json!(20))
    );

    // Too many, then as many as the refusal said: nobody has to wait before asking again.
    let next = app.guest();
    let refused = next.book(wish(venue, "12:00", 6)).await.refused(409, "not-enough-places").json();
    assert_eq!(refused["remaining"], 5);
    assert_eq!(refused["ticket"]["number"], 2);
    next.seated(wish(venue, "12:00", 5)).await;
    let refused = app.guest().book(wish(venue, "12:00", 1)).await.refused(409, "not-enough-places");
    assert_eq!(refused.json()["remaining"], 0);
    app.guest().seated(wish(venue, "13:00", 20)).await;
    app.stop().await;
}

#[tokio::test]
async fn an_exclusive_venue_takes_one_party_a_slot_whatever_its_size() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(settings(Inventory::Exclusive)).await;
    app.guest().seated(wish(venue, "12:00", 2)).await;
    let refused = app.guest().book(wish(venue, "12:00", 1)).await.refused(409, "not-enough-places");
    assert_eq!(refused.json()["remaining"], 0);
    assert_eq!(app.remaining(venue, "12:00").await, 0);
    app.guest().seated(wish(venue, "13:00", 100)).await;
    app.stop().await;
}

#[tokio::test]
async fn one_person_holds_one_reservation_a_slot() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    let guest = app.guest();
    let asked = Instant::now();
    let held = guest.seated(wish(venue, "12:00", 2)).await;
    // A double click is caught before it reaches the line; on a very busy machine it is no longer one.
    let twice = guest.book(wish(venue, "12:00", 2)).await;
    if asked.elapsed() < Duration::from_secs(5) {
        assert_eq!(twice.refused(409, "request-in-progress").json()["ticket"], held["ticket"]);
    }
    // By another way into the slot, the rules and the database still say no.
    guest.change(&held, json!({"time": "13:00"})).await.expect(200);
    let refused = guest.book(wish(venue, "13:00", 2)).await.refused(409, "already-booked").json();
    assert!(refused["ticket"]["number"].is_u64(), "{refused}");
    guest.seated(wish(venue, "12:00", 2)).await;
    assert_eq!(app.remaining(venue, "13:00").await, 18);
    app.stop().await;
}

#[tokio::test]
async fn whoever_cancels_can_book_again_any_number_of_times() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(2)).await;
    let guest = app.guest();
    for _ in 0..10 {
        let held = guest.seated(noon(venue, 2)).await;
        assert_eq!(app.remaining(venue, "12:00").await, 0);
        assert_eq!(guest.cancel(&held).await.expect(200).json()["status"], "CANCELED");
        assert_eq!(app.remaining(venue, "12:00").await, 2);
        guest.cancel(&held).await.refused(409, "illegal-transition");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_hold_that_is_not_paid_expires_and_its_places_return_at_once() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(4)).await;
    // Moved in from another time, so that no double click is suspected when the same person asks again.
    let guest = app.guest();
    let held = guest.seated(wish(venue, "11:00", 4)).await;
    let held = guest.change(&held, json!({"time": "12:00"})).await.expect(200).json();
    assert_eq!(held["expiresAt"], "2026-12-01T01:07:00Z");

    app.wait(7 * 60 - 1);
    app.guest().book(noon(venue, 1)).await.refused(409, "not-enough-places");
    app.wait(1);
    // Free the moment it expires, for others and for the same person, whether or not anybody has swept.
    assert_eq!(app.remaining(venue, "12:00").await, 4);
    app.guest().seated(noon(venue, 2)).await;
    guest.seated(noon(venue, 2)).await;
    assert_eq!(guest.look(&held).await["status"], "EXPIRED");
    app.stop().await;
}

#[tokio::test]
async fn the_sweep_writes_down_what_has_expired() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(4)).await;
    let guest = app.guest();
    let held = guest.seated(noon(venue, 4)).await;
    app.wait(7 * 60);
    let swept = || async { Some(guest.look(&held).await).filter(|now| now["status"] == "EXPIRED") };
    let swept = until("the sweep", swept).await;
    assert_eq!((&swept["amountDue"], &swept["expiresAt"]), (&json!(0), &json!(null)));
    guest.cancel(&held).await.refused(409, "illegal-transition");
    app.stop().await;
}

#[tokio::test]
async fn one_sees_ones_own_reservations_and_nobody_elses() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    let guest = app.guest();
    let slots = (2..=7).flat_map(|day| (11..=20).map(move |hour| (day, hour))).take(55);
    let mut booked = Vec::new();
    for (day, hour) in slots {
        let mut wish = wish(venue, &format!("{hour}:00"), 1);
        wish["date"] = format!("2026-12-0{day}").into();
        booked.push(guest.seated(wish).await["id"].clone());
        app.wait(1);
    }
    let first = guest.get("/api/reservations").await.expect(200).json();
    let next = first["next"].as_str().unwrap();
    let second = guest.get(&format!("/api/reservations?cursor={next}")).await.expect(200).json();
    assert_eq!(second["next"], json!(null));
    let pages = [&first, &second].map(|page| page["items"].as_array().unwrap());
    assert_eq!(pages.map(Vec::len), [50, 5]);
    let listed: Vec<_> = pages.into_iter().flatten().map(|item| item["id"].clone()).collect();
    booked.reverse();
    assert_eq!(listed, booked, "newest first");

    let stranger = app.guest();
    assert_eq!(stranger.get("/api/reservations").await.json(), json!({"items": [], "next": null}));
    stranger.get(&format!("/api/reservations?cursor={next}")).await.expect(200);
    let reservation = json!({"id": booked[0]});
    let path = format!("/api/reservations/{}", booked[0].as_str().unwrap());
    stranger.get(&path).await.refused(404, "not-found");
    stranger.pay(&reservation).await.refused(404, "not-found");
    stranger.cancel(&reservation).await.refused(404, "not-found");
    stranger.change(&reservation, json!({"partySize": 2})).await.refused(404, "not-found");
    assert_eq!(guest.look(&reservation).await["status"], "TEMPORARY");
    app.stop().await;
}

#[tokio::test]
async fn the_dates_of_a_venue_are_those_with_something_left() {
    let app = TestApp::start().await;
    let noons = WeekTimes::daily(12, 12);
    let (venue, _) = app.open(Settings { times: noons, book_ahead_days: 3, ..places(2) }).await;
    let path = format!("/api/venues/{venue}/dates");
    let dates = || async { app.client.anybody().get(&path).await.expect(200).json()["items"].clone() };
    assert_eq!(dates().await, json!(["2026-12-01", "2026-12-02", "2026-12-03", "2026-12-04"]));
    let guest = app.guest();
    let held = guest.seated(noon(venue, 2)).await;
    assert_eq!(dates().await, json!(["2026-12-01", "2026-12-03", "2026-12-04"]));
    guest.cancel(&held).await.expect(200);
    // Noon of the first day passes, by the venue's clock.
    app.wait(2 * 3_600);
    assert_eq!(dates().await, json!(["2026-12-02", "2026-12-03", "2026-12-04"]));
    app.stop().await;
}

#[tokio::test]
async fn somebody_signs_up_and_books_in_their_own_name() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(places(20)).await;
    let anybody = app.client.anybody();
    let account = json!({"email": "Ada@example.org", "password": "correct horse", "name": "Ada"});
    assert_eq!(anybody.post("/api/accounts", account.clone()).await.expect(201).json()["name"], "Ada");
    anybody.post("/api/accounts", account).await.refused(422, "invalid-request");
    let session = json!({"email": "ada@example.org", "password": "correct horse"});
    let session = anybody.post("/api/sessions", session).await.expect(200).json();
    assert_eq!(session["expiresAt"], "2026-12-01T02:00:00Z");
    let ada = app.client.guest(session["accessToken"].as_str().unwrap());
    let mut wish = noon(venue, 2);
    wish["note"] = json!("By the window");
    ada.seated(wish).await;
    let day =
        staff.get(&format!("/api/venues/{venue}/reservations?date={TOMORROW}")).await.expect(200).json();
    assert_eq!(
        (&day["items"][0]["name"], &day["items"][0]["note"]),
        (&json!("Ada"), &json!("By the window"))
    );
    app.wait(3_600);
    ada.get("/api/reservations").await.refused(401, "unauthenticated");

    let wrong = json!({"email": "ada@example.org", "password": "wrong horse"});
    anybody.post("/api/sessions", wrong).await.refused(401, "unauthenticated");
    let nobody = json!({"email": "nobody@example.org", "password": "correct horse"});
    anybody.post("/api/sessions", nobody).await.refused(401, "unauthenticated");
    app.stop().await;
}

#[tokio::test]
async fn days_and_hours_are_the_venues_own() {
    let app = TestApp::start().await;
    let zone = Zone::named("America/Los_Angeles").unwrap();
    let times = WeekTimes { tuesday: vec![], ..WeekTimes::daily(17, 18) };
    let (venue, _) = app.open(Settings { time_zone: zone, times, ..places(20) }).await;
    let on = |date: &str, time: &str| {
        let mut wish = wish(venue, time, 1);
        wish["date"] = date.into();
        let guest = app.guest();
        async move { guest.book(wish).await }
    };
    // There it is five in the afternoon of the day before, a Monday; Tuesdays are closed.
    on("2026-11-30", "17:00").await.refused(422, "invalid-request");
    on("2026-11-30", "18:00").await.expect(201);
    on("2026-11-29", "18:00").await.refused(422, "invalid-request");
    on("2026-12-01", "18:00").await.refused(422, "invalid-request");
    on("2026-12-02", "18:00").await.expect(201);
    let path = format!("/api/venues/{venue}/availability?date=2026-11-30");
    let day = app.client.anybody().get(&path).await.expect(200).json();
    let slots: Vec<_> = day["items"].as_array().unwrap().iter().map(|slot| &slot["time"]).collect();
    assert_eq!(slots, ["18:00"]);
    app.stop().await;
}

#[tokio::test]
async fn staff_changes_one_setting_and_the_others_stay() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(places(20)).await;
    let path = format!("/api/venues/{venue}");
    let before = staff.get(&path).await.expect(200).json();
    staff.patch(&path, json!({"policy": {"holdSeconds": 600}})).await.expect(200);
    let after = staff.patch(&path, json!({"policy": {"depositPerPerson": 1_000}})).await.expect(200).json();
    let mut expected = before;
    expected["policy"]["holdSeconds"] = json!(600);
    expected["policy"]["depositPerPerson"] = json!(1_000);
    assert_eq!(after, expected);
    let held = app.guest().seated(noon(venue, 2)).await;
    assert_eq!((&held["amountDue"], &held["expiresAt"]), (&json!(2_000), &json!("2026-12-01T01:10:00Z")));

    // Times come in order, each once, however they were written.
    let times = json!({"times": {"wednesday": ["13:00", "12:00", "13:00"]}});
    let times = staff.patch(&path, times).await.expect(200).json()["times"].clone();
    assert_eq!((&times["wednesday"], &times["monday"]), (&json!(["12:00", "13:00"]), &json!([])));
    app.stop().await;
}

#[tokio::test]
async fn stopping_leaves_no_task_behind() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    app.guest().seated(noon(venue, 2)).await;
    assert!(tasks() > before);
    app.stop().await;
    // The test's own client may still be noticing that its connection is closed.
    until("every task of the server has ended", || async { (tasks() <= before).then_some(()) }).await;
}

#[tokio::test]
async fn a_venue_keeps_its_kind_of_inventory_while_people_hold_places() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(places(4)).await;
    let guest = app.guest();
    let held = guest.seated(noon(venue, 4)).await;
    let tables = json!({"tables": [{"number": 1, "seats": 4}]});
    let path = format!("/api/venues/{venue}/tables");
    staff.put(&path, tables.clone()).await.refused(422, "invalid-request");
    assert_eq!(app.remaining(venue, "12:00").await, json!(0));
    let cancel = format!("/api/reservations/{}/cancel", held["id"].as_str().unwrap());
    guest.post(&cancel, json!({})).await.expect(200);
    assert_eq!(staff.put(&path, tables).await.expect(200).json()["inventory"], "tables");
    app.stop().await;
}

#[tokio::test]
async fn a_ticket_shows_what_became_of_what_it_won() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(4)).await;
    let guest = app.rich().await;
    let held = guest.seated(noon(venue, 4)).await;
    guest.pay(&held).await.expect(200);
    let ticket = format!("/api/tickets/{}", held["ticket"]["id"].as_str().unwrap());
    let seen = guest.get(&ticket).await.expect(200).json();
    assert_eq!(
        (&seen["state"], &seen["outcome"]["reservation"]["status"]),
        (&json!("seated"), &json!("CONFIRMED"))
    );
    let headers = [("prefer", "wait=7")];
    let body = noon(venue, 1).to_string();
    let refused = app.guest().call(hyper::Method::POST, "/api/reservations", &headers, body).await;
    let refused = refused.refused(409, "not-enough-places");
    assert_eq!(refused.header("preference-applied"), "wait=7");
    app.stop().await;
}
