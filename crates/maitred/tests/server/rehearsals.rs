//! The dress rehearsal: a crowd against a real server, judged from outside, and caught out when the server lies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::app::{TestApp, places};
use crate::house::{House, told_to_both};
use crate::process::{Program, complaint, run, stdout};
use crate::steps::until;

told_to_both!(
    a_crowd_is_treated_right,
    arrivals_are_replayed,
    guests_pass_a_waiting_room,
    one_party_at_a_time_and_tables_are_counted_by_the_reservation,
);

/// Noon in two days, at a venue in Seoul.
fn slot() -> String {
    let today = jiff::Timestamp::now().in_tz("Asia/Seoul").unwrap().date();
    format!("{} 12:00", today + jiff::Span::new().days(2))
}

/// A venue with ten places; its id.
async fn venue(house: &House) -> (String, crate::client::Guest) {
    let staff = house.guest();
    let made =
        staff.post("/api/venues", json!({"name": "Rehearsed", "capacity": 10})).await.expect(201).json();
    (made["id"].as_str().unwrap().to_owned(), staff)
}

/// Rehearses with these arguments; the report.
fn rehearse(house: &House, venue: &str, arguments: &[&str]) -> Value {
    let urls: Vec<_> = (0..house.processes()).map(|n| house.client(n).base).collect();
    let mut all = vec!["rehearse", "--venue", venue, "--json"];
    all.extend(urls.iter().map(String::as_str));
    all.extend(arguments);
    let output = house.command(&all);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", stdout(&output));
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("not a report: {said}"))
}

async fn a_crowd_is_treated_right(house: House) {
    let (venue, _) = venue(&house).await;
    let page = house.folder.path().join("out.html");
    let arguments = [
        "--slot",
        &slot(),
        "--guests",
        "400",
        "--party",
        "1-3",
        "--arrive",
        "over 1s",
        "--abandon",
        "5%",
        "--pay",
        "100%",
        "--report",
        page.to_str().unwrap(),
    ];
    let report = rehearse(&house, &venue, &arguments);
    let outcomes: u64 = report["outcomes"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!((outcomes, &report["leftBefore"]), (400, &json!(10)), "{report:#}");
    assert!(report["outcomes"]["seated"].as_u64().unwrap() >= 3, "{report:#}");
    assert!(report["paid"].as_u64().unwrap() >= 3 && report["soldOutAfter"].is_f64(), "{report:#}");
    let all = &report["latency"]["all"];
    assert!(all["p50"].as_f64().unwrap() <= all["p99"].as_f64().unwrap());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Everybody was treated right.") && page.contains("</html>"));
    assert!(!page.contains("http://") && !page.contains("<script"), "the page needs nothing else");
    assert!(house.command(&["audit"]).status.success());
}

async fn arrivals_are_replayed(house: House) {
    let (venue, staff) = venue(&house).await;
    let (file, slot) = (house.folder.path().join("arrivals.csv"), slot());
    let other = slot.replace("12:00", "13:00");
    std::fs::write(&file, format!("0,4\n0.01,4,{other}\n0.3,9\n0.5,6\n")).unwrap();
    let report = rehearse(&house, &venue, &["--replay", file.to_str().unwrap(), "--slot", &slot]);
    assert_eq!(
        report["outcomes"],
        json!({"seated": 3, "refused": 1}),
        "nine do not fit behind four: {report:#}"
    );
    assert_eq!(report["slots"], json!([slot, other]));
    let (date, _) = slot.split_once(' ').unwrap();
    let day = staff.get(&format!("/api/venues/{venue}/availability?date={date}")).await.expect(200).json();
    let left = |time: &str| {
        let slots = day["items"].as_array().unwrap();
        slots.iter().find(|slot| slot["time"] == time).unwrap()["remaining"].clone()
    };
    assert_eq!((left("12:00"), left("13:00")), (json!(0), json!(6)));
}

async fn guests_pass_a_waiting_room(house: House) {
    let (venue, staff) = venue(&house).await;
    let path = format!("/api/venues/{venue}/waiting-room");
    staff.put(&path, json!({"enabled": true, "size": 5})).await.expect(200);
    let report = rehearse(&house, &venue, &["--slot", &slot(), "--guests", "30", "--patience", "60s"]);
    assert_eq!(report["outcomes"], json!({"seated": 5, "refused": 25}), "{report:#}");

    // Somebody who is inside and takes their time: whoever loses patience behind them has lost no answer.
    staff.put(&path, json!({"enabled": true, "size": 1})).await.expect(200);
    let slow = house.guest();
    let tokens = format!("/api/venues/{venue}/queue-tokens");
    assert_eq!(slow.post(&tokens, json!({})).await.expect(201).json()["state"], "inside");
    let other = slot().replace("12:00", "13:00");
    let report = rehearse(&house, &venue, &["--slot", &other, "--guests", "10", "--patience", "1s"]);
    assert_eq!(report["outcomes"], json!({"left": 10}), "{report:#}");
    let left = slow.get(&format!("{tokens}/current")).await.expect(200).json();
    assert_eq!(left["state"], "inside");
}

async fn one_party_at_a_time_and_tables_are_counted_by_the_reservation(house: House) {
    let staff = house.guest();
    let exclusive = json!({"name": "One Party", "exclusive": true});
    let tables =
        json!({"name": "Two Tables", "tables": [{"number": 1, "seats": 2}, {"number": 2, "seats": 4}]});
    for (settings, seated) in [(exclusive, 1), (tables, 2)] {
        let made = staff.post("/api/venues", settings).await.expect(201).json();
        let venue = made["id"].as_str().unwrap();
        let report = rehearse(&house, venue, &["--slot", &slot(), "--guests", "40", "--party", "2"]);
        assert_eq!(report["outcomes"], json!({"seated": seated, "refused": 40 - seated}), "{report:#}");
        assert!(report["soldOutAfter"].is_f64(), "{report:#}");
    }
}

/// A server that says yes to everybody, and numbers the later ones lower.
async fn liar() -> (String, tokio::task::JoinHandle<()>) {
    async fn yes(State(asked): State<Arc<AtomicU64>>) -> Response {
        let n = asked.fetch_add(1, Ordering::Relaxed);
        let ticket = json!({"id": format!("t{n}"), "epoch": 1, "number": 1_000 - n});
        (StatusCode::CREATED, Json(json!({"id": format!("r{n}"), "seats": ["A-1-1"], "ticket": ticket})))
            .into_response()
    }
    let venue = || async { Json(json!({"name": "Liar's", "inventory": "places"})) };
    let day = || async { Json(json!({"items": [{"time": "12:00", "remaining": 10}], "next": null})) };
    let nothing = || async { Json(json!({"items": [], "next": null})) };
    let router = Router::new()
        .route("/api/venues/1", axum::routing::get(venue))
        .route("/api/venues/1/availability", axum::routing::get(day))
        .route("/api/reservations", axum::routing::get(nothing).post(yes))
        .with_state(Arc::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (url, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lies_is_caught() {
    let (url, serving) = liar().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokens.txt"), "a token\n".repeat(50)).unwrap();
    let arguments = [
        "rehearse",
        &url,
        "--venue",
        "1",
        "--slot",
        &slot(),
        "--guests",
        "50",
        "--party",
        "1",
        "--arrive",
        "over 1s",
        "--tokens",
        "tokens.txt",
        "--json",
    ];
    let output = tokio::task::block_in_place(|| run(folder.path(), &arguments));
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let exact = &report["exactness"];
    assert_eq!(
        (&exact["oversold"], &exact["doubleBookings"], &exact["vanished"]),
        (&json!(40), &json!(49), &json!(50))
    );
    assert!(exact["inversions"].as_u64().unwrap() > 10, "{exact}");
    assert_eq!((&exact["lostAnswers"], &exact["unexplained"]), (&json!(0), &json!(0)));
    serving.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_arguments_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str], status| {
        let output = tokio::task::block_in_place(|| run(folder.path(), &[&["rehearse"], arguments].concat()));
        complaint(&output, status)
    };
    let nobody = format!("http://127.0.0.1:{}", testkit::free_port());
    let slot = slot();
    for (wrong, says) in [
        (vec!["127.0.0.1:8080", "--venue", "1", "--slot", &slot], "write http://HOST:PORT"),
        (vec![&*nobody, "--venue", "1"], "--slot"),
        (vec![&*nobody, "--venue", "1", "--slot", "noon"], "2026-12-24 12:00"),
        (vec![&*nobody, "--venue", "1", "--slot", &slot, "--arrive", "slowly"], "poisson 500/s"),
        (vec![&*nobody, "--venue", "1", "--slot", &slot, "--abandon", "10"], "10%"),
        (vec![&*nobody, "--venue", "1", "--slot", &slot, "--party", "6-1"], "1-6"),
    ] {
        let said = fails(&wrong, 2);
        assert!(said.contains(says), "{wrong:?}: {said}");
    }
    let said = fails(&[&nobody, "--venue", "1", "--slot", &slot], 1);
    assert!(said.contains("--data") && !folder.path().join("data").exists(), "no key is made up: {said}");
    std::fs::write(folder.path().join("tokens.txt"), "a token\n").unwrap();
    let said = fails(&[&nobody, "--venue", "1", "--slot", &slot, "--tokens", "tokens.txt"], 1);
    assert!(said.contains("1 tokens for 1000 guests"), "{said}");
    let said =
        fails(&[&nobody, "--venue", "1", "--slot", &slot, "--guests", "1", "--tokens", "tokens.txt"], 1);
    assert!(said.contains("cannot reach"), "{said}");

    let program = Program::serve(folder.path(), &["--demo"]);
    let url = program.client.base.clone();
    let said = fails(&[&url, "--venue", "99", "--slot", &slot], 1);
    assert!(said.contains("no venue 99"), "{said}");
    let said = fails(&[&url, "--venue", "1", "--slot", &slot.replace("12:00", "03:00")], 1);
    assert!(said.contains("cannot be booked"), "{said}");
    let said = fails(&[&url, "--venue", "1", "--slot", &slot, "--guests", "1", "--tokens", "tokens.txt"], 1);
    assert!(said.contains("does not accept the guests' tokens"), "{said}");
}

#[tokio::test]
async fn staff_of_a_demo_rehearse_at_the_press_of_a_button() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(places(10)).await;
    let path = format!("/api/venues/{venue}/rehearsal");
    staff.get(&path).await.refused(404, "not-found");
    staff.post(&path, json!({})).await.refused(404, "not-found");

    app.server().app().rehearsals.allow(app.server().address());
    assert_eq!(staff.get(&path).await.expect(200).json()["state"], "ready");
    app.guest().post(&path, json!({})).await.refused(403, "forbidden");
    staff.post(&path, json!({"guests": 1_001})).await.refused(422, "invalid-request");
    staff.post(&path, json!({"date": "2026-01-01", "time": "12:00"})).await.refused(422, "invalid-request");
    let begun = staff.post(&path, json!({"guests": 100})).await.expect(202).json();
    assert_eq!((&begun["state"], &begun["guests"]), (&json!("running"), &json!(100)));
    staff.post(&path, json!({})).await.refused(409, "request-in-progress");
    let over = until("its end", || async {
        Some(staff.get(&path).await.expect(200).json()).filter(|seen| seen["state"] != "running")
    });
    let over = over.await;
    assert_eq!(
        (&over["state"], &over["exact"], &over["arrived"]),
        (&json!("over"), &json!(true), &json!(100)),
        "{over}"
    );
    staff.post(&path, json!({"guests": 1})).await.expect(202);
    app.stop().await;
}
