//! Venues with numbered tables.

use booking::{Inventory, Table};
use serde_json::{Value, json};

use crate::app::{TestApp, noon, settings, tables};

fn free(slot: &Value) -> Vec<u64> {
    let tables = slot["tables"].as_array().unwrap().iter();
    tables.filter(|table| table["free"] == true).map(|table| table["number"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_party_gets_the_smallest_free_table_that_fits() {
    let app = TestApp::start().await;
    let seats = [6, 2, 4, 2].into_iter().zip(1..);
    let tables = seats.map(|(seats, number)| Table { number, seats }).collect();
    let (venue, _) = app.open(settings(Inventory::Tables { tables })).await;
    let slot = || app.slot(venue, "12:00");
    assert_eq!((slot().await["remaining"].clone(), free(&slot().await)), (json!(4), vec![1, 2, 3, 4]));
    for (party, table) in [(2, 2), (1, 4), (2, 3)] {
        assert_eq!(app.guest().seated(noon(venue, party)).await["table"], table);
    }
    assert_eq!((slot().await["remaining"].clone(), free(&slot().await)), (json!(1), vec![1]));
    let refused = app.guest().book(noon(venue, 7)).await.refused(409, "table-unavailable").json();
    assert_eq!(refused["remaining"], 1);
    assert_eq!(app.guest().seated(noon(venue, 5)).await["table"], 1);
    let refused = app.guest().book(noon(venue, 1)).await.refused(409, "table-unavailable").json();
    assert_eq!(refused["remaining"], 0);
    app.stop().await;
}

#[tokio::test]
async fn a_cancelled_table_is_free_at_once_for_the_next_person() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(tables(2, 4)).await;
    let guest = app.guest();
    let held = guest.seated(noon(venue, 2)).await;
    app.guest().seated(noon(venue, 2)).await;
    app.guest().book(noon(venue, 2)).await.refused(409, "table-unavailable");
    guest.cancel(&held).await.expect(200);
    assert_eq!(free(&app.slot(venue, "12:00").await), [1]);
    assert_eq!(app.guest().seated(noon(venue, 4)).await["table"], held["table"]);
    app.stop().await;
}

#[tokio::test]
async fn a_growing_party_moves_to_a_larger_table_and_leaves_its_own() {
    let app = TestApp::start().await;
    let tables = vec![Table { number: 1, seats: 2 }, Table { number: 2, seats: 4 }];
    let (venue, _) = app.open(settings(Inventory::Tables { tables })).await;
    let guest = app.guest();
    let held = guest.seated(noon(venue, 2)).await;
    assert_eq!(guest.change(&held, json!({"partySize": 4})).await.expect(200).json()["table"], 2);
    assert_eq!(free(&app.slot(venue, "12:00").await), [1]);
    guest.change(&held, json!({"partySize": 5})).await.refused(409, "table-unavailable");
    assert_eq!(guest.look(&held).await["table"], 2);
    app.guest().seated(noon(venue, 1)).await;
    // The smaller table is taken now: a smaller party stays where it is.
    assert_eq!(guest.change(&held, json!({"partySize": 2})).await.expect(200).json()["table"], 2);
    app.stop().await;
}

#[tokio::test]
async fn staff_changes_the_tables_and_the_next_guest_sees_it() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(tables(1, 2)).await;
    app.guest().seated(noon(venue, 2)).await;
    app.guest().book(noon(venue, 2)).await.refused(409, "table-unavailable");
    let path = format!("/api/venues/{venue}/tables");
    let more = json!({"tables": [{"number": 1, "seats": 2}, {"number": 7, "seats": 2}]});
    app.guest().put(&path, more.clone()).await.refused(403, "forbidden");
    let twice = json!({"tables": [{"number": 1, "seats": 2}, {"number": 1, "seats": 2}]});
    staff.put(&path, twice).await.refused(422, "invalid-request");
    staff.put(&path, more).await.expect(200);
    assert_eq!(app.guest().seated(noon(venue, 2)).await["table"], 7);
    app.stop().await;
}

#[tokio::test]
async fn a_venue_takes_so_many_people_a_second_and_tells_the_rest_when_to_come_back() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(tables(10, 4)).await;
    let limit = |limit: Value| {
        let (staff, path) = (&staff, format!("/api/venues/{venue}"));
        async move { staff.patch(&path, json!({"requestsPerSecond": limit})).await }
    };
    limit(json!(0)).await.refused(422, "invalid-request");
    assert_eq!(limit(json!(2)).await.expect(200).json()["requestsPerSecond"], 2);
    let guests: Vec<_> = (0..6).map(|_| app.guest()).collect();
    let begun = std::time::Instant::now();
    let asked = guests.iter().map(|guest| guest.book(noon(venue, 1)));
    let answers = futures_util::future::join_all(asked).await;
    let limited = answers.iter().filter(|answer| answer.status == 429).count();
    // Unless the machine took a second to ask, four of the six came too soon.
    assert!(limited == 4 || begun.elapsed().as_millis() > 900, "{limited} of 6 were limited");
    for answer in answers.into_iter().filter(|answer| answer.status == 429) {
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(answer.refused(429, "rate-limited").json()["code"], "rate-limited");
    }
    assert_eq!(limit(Value::Null).await.expect(200).json().get("requestsPerSecond"), None);
    for _ in 0..4 {
        app.guest().seated(noon(venue, 1)).await;
    }
    app.stop().await;
}
