//! The live board: people in line, pace, what is sold and held, for staff.

use serde_json::{Value, json};

use crate::app::{TestApp, noon, places, tables};
use crate::steps::{until, wish};

#[tokio::test]
async fn a_board_counts_who_waits_and_what_is_held_and_sold() {
    let app = TestApp::start_with(|config| config.lane.max_batch = 2, |store| store).await;
    let (venue, staff) = app.open(places(10)).await;
    let board = format!("/api/venues/{venue}/board");
    let empty = staff.get(&board).await.expect(200).json();
    assert_eq!((&empty["waiting"], &empty["sold"], &empty["held"]), (&json!(0), &json!(0), &json!(0)));
    assert_eq!((empty["seconds"].as_array().unwrap().len(), &empty["slots"]), (60, &json!([])));

    let paid = app.rich().await;
    let reservation = paid.seated(noon(venue, 3)).await;
    paid.pay(&reservation).await.expect(200);
    app.guest().seated(noon(venue, 2)).await;
    let jam = app.jam();
    let mut crowd: Vec<_> = Vec::new();
    for _ in 0..8 {
        let guest = app.guest();
        let headers = [("prefer", "wait=0")];
        guest
            .call(hyper::Method::POST, "/api/reservations", &headers, wish(venue, "12:00", 1).to_string())
            .await
            .expect(202);
        crowd.push(guest);
    }
    let seen = |fine: fn(&Value) -> bool| {
        let (staff, board) = (&staff, &board);
        until("a board", move || async move { Some(staff.get(board).await.expect(200).json()).filter(fine) })
    };
    let rush = seen(|board| board["waiting"] == 8).await;
    assert_eq!((&rush["sold"], &rush["held"]), (&json!(3), &json!(2)));
    let slot = &rush["slots"][0];
    assert_eq!(
        (&slot["time"], &slot["capacity"], &slot["waiting"]),
        (&json!("12:00"), &json!(10), &json!(8))
    );

    jam.release();
    let over = seen(|board| board["waiting"] == 0 && board["held"] == 7).await;
    let sum = |name: &str| {
        over["seconds"].as_array().unwrap().iter().map(|s| s[name].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("seated"), sum("refused")), (1 + 1 + 5, 3));
    assert!(over["latency"]["p99"].as_f64().unwrap() >= over["latency"]["p50"].as_f64().unwrap());
    app.stop().await;
}

#[tokio::test]
async fn a_board_is_listened_to_and_all_venues_of_somebody_are_one() {
    let app = TestApp::start().await;
    let (id, staff) = app.person();
    let (one, two) = (app.venue(places(10), id).await, app.venue(tables(3, 4), id).await);
    app.open(places(10)).await;
    let mut events = staff.listen(&format!("/api/venues/{one}/board/events")).await;
    let (name, first) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &first["held"]), ("board", &json!(0)));
    app.guest().seated(noon(one, 2)).await;
    app.guest().seated(noon(two, 2)).await;
    loop {
        let (_, next) = events.next().await.unwrap();
        if next["held"] == 2 {
            break;
        }
    }
    let all = until("an overview", || async {
        Some(staff.get("/api/board").await.expect(200).json()).filter(|all| all["total"]["held"] == 3)
    });
    let all = all.await;
    assert_eq!(all["venues"].as_array().unwrap().len(), 2, "two people and a table, at one's own venues");
    let (_, told) = staff.listen("/api/board/events").await.next().await.unwrap();
    assert_eq!(told["total"]["held"], 3);

    let guest = app.guest();
    guest.get(&format!("/api/venues/{one}/board")).await.refused(403, "forbidden");
    guest.get(&format!("/api/venues/{one}/board/events")).await.refused(403, "forbidden");
    assert_eq!(guest.get("/api/board").await.expect(200).json()["venues"], json!([]));
    app.client.anybody().get("/api/board").await.refused(401, "unauthenticated");
    let myself = staff.get("/api/accounts/me").await.expect(200).json();
    assert_eq!(myself["runs"], json!([one.to_string(), two.to_string()]));
    app.stop().await;
}
