//! What a guest lives through, from the first look to the visit.

use crate::app::{TestApp, noon, places};
use serde_json::json;

#[tokio::test]
async fn a_guest_books_pays_and_cancels() {
    let app = TestApp::start().await;
    let (staff, _) = app.person();
    let venue = app.venue(places(20), staff).await;
    let guest = app.guest();
    let booked = guest.post("/api/reservations", noon(venue, 4)).await.expect(201);
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
