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
