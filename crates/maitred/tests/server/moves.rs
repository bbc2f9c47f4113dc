//! A place in line moves to another device (D1): by a code that works once, and with a token for this place only.

use serde_json::json;

use crate::app::{TestApp, noon, places};
use crate::steps::until;

#[tokio::test]
async fn a_place_moves_to_another_device_and_nothing_else_of_the_account_does() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    let guest = app.rich().await;
    let jam = app.jam();
    let answer = guest.call(
        hyper::Method::POST,
        "/api/reservations",
        &[("prefer", "wait=0")],
        noon(venue, 2).to_string(),
    );
    let ticket = answer.await.expect(202).json();
    let path = format!("/api/tickets/{}", ticket["id"].as_str().unwrap());
    let code = guest.post(&format!("{path}/move"), json!({})).await.expect(201).json()["code"].clone();

    // Whoever brings the code needs no account.
    let moved = app.client.anybody().post("/api/moves", json!({"code": code})).await.expect(200).json();
    assert_eq!(moved["ticket"]["id"], ticket["id"]);
    let device = app.client.guest(moved["accessToken"].as_str().unwrap());
    assert_eq!(device.get(&path).await.expect(200).json()["number"], ticket["number"]);
    app.client.anybody().post("/api/moves", json!({"code": code})).await.refused(404, "not-found");

    jam.release();
    let ask =
        || async { Some(device.get(&path).await.expect(200).json()).filter(|now| now["state"] == "seated") };
    let seated = until("a decision", ask).await;
    let reservation = &seated["outcome"]["reservation"];
    assert_eq!(device.look(reservation).await["status"], "TEMPORARY");
    device.pay(reservation).await.expect(200);
    assert_eq!(guest.look(reservation).await["status"], "CONFIRMED");

    for path in ["/api/wallet", "/api/reservations", "/api/accounts/me", "/api/waitlist"] {
        device.get(path).await.refused(401, "unauthenticated");
    }
    device.book(noon(venue, 1)).await.refused(401, "unauthenticated");
    device.cancel(reservation).await.refused(401, "unauthenticated");
    // Another place of the same person is not among what was moved.
    let other = guest.seated(crate::steps::wish(venue, "13:00", 1)).await;
    device
        .get(&format!("/api/reservations/{}", other["id"].as_str().unwrap()))
        .await
        .refused(404, "not-found");
    device.pay(&other).await.refused(404, "not-found");
    app.stop().await;
}

#[tokio::test]
async fn a_code_is_good_for_ten_minutes_and_for_whom_it_is_meant() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    let guest = app.guest();
    let reservation = guest.seated(noon(venue, 1)).await;
    let path = format!("/api/tickets/{}/move", reservation["ticket"]["id"].as_str().unwrap());
    let anybody = app.client.anybody();

    app.guest().post(&path, json!({})).await.refused(404, "not-found");
    anybody.post(&path, json!({})).await.refused(401, "unauthenticated");
    guest.post(&path, json!({"person": "nobody@example.com"})).await.refused(422, "invalid-request");
    anybody.post("/api/moves", json!({"code": "made.up"})).await.refused(404, "not-found");

    let late = guest.post(&path, json!({})).await.expect(201).json()["code"].clone();
    app.wait(601);
    anybody.post("/api/moves", json!({"code": late})).await.refused(404, "not-found");

    let friend = json!({"email": "friend@example.com", "password": "correct horse", "name": "A friend"});
    anybody.post("/api/accounts", friend).await.expect(201);
    let signed_in = json!({"email": "friend@example.com", "password": "correct horse"});
    let session = anybody.post("/api/sessions", signed_in).await.expect(200).json();
    let friend = app.client.guest(session["accessToken"].as_str().unwrap());
    let named =
        guest.post(&path, json!({"person": "friend@example.com"})).await.expect(201).json()["code"].clone();
    anybody.post("/api/moves", json!({"code": named})).await.refused(401, "unauthenticated");
    app.guest().post("/api/moves", json!({"code": named})).await.refused(404, "not-found");
    // Whoever came in vain has not used it up.
    friend.post("/api/moves", json!({"code": named})).await.expect(200);
    app.stop().await;
}

#[tokio::test]
async fn of_many_who_bring_the_same_code_one_gets_the_place() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(20)).await;
    let guest = app.guest();
    let reservation = guest.seated(noon(venue, 1)).await;
    let path = format!("/api/tickets/{}/move", reservation["ticket"]["id"].as_str().unwrap());
    let code = guest.post(&path, json!({})).await.expect(201).json()["code"].clone();
    let bring = || {
        let (anybody, code) = (app.client.anybody(), code.clone());
        async move { anybody.post("/api/moves", json!({"code": code})).await.status.as_u16() }
    };
    let answers = futures_util::future::join_all((0..20).map(|_| bring())).await;
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|status| [200, 404].contains(status)), "{answers:?}");
    app.stop().await;
}
