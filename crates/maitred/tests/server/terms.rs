//! What is told before is what happens: refunds and the cost of a change.

use serde_json::{Value, json};

use crate::app::{TestApp, noon, places};
use crate::client::Guest;

async fn terms(guest: &Guest, reservation: &Value, query: &str) -> Value {
    let path = format!("/api/reservations/{}/terms{query}", reservation["id"].as_str().unwrap());
    guest.get(&path).await.expect(200).json()
}

#[tokio::test]
async fn what_a_cancellation_brings_back_is_told_before() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(places(100)).await;
    // The day before, on the day, and within two hours.
    for (hours, percent) in [(0, 100), (15, 50), (25, 20)] {
        let guest = app.rich().await;
        let reservation = guest.seated(noon(venue, 2)).await;
        guest.pay(&reservation).await.expect(200);
        app.wait(hours * 3_600);
        let told = terms(&guest, &reservation, "").await;
        assert_eq!(told["cancel"], json!({"percent": percent, "refund": 100 * percent, "byStaff": false}));
        assert_eq!(terms(&staff, &reservation, "").await["cancel"]["refund"], 10_000);
        let before = guest.balance().await;
        guest.cancel(&reservation).await.expect(200);
        assert_eq!(guest.balance().await - before, 100 * percent);
        app.wait(-hours * 3_600);
    }
    app.stop().await;
}

#[tokio::test]
async fn what_a_change_costs_or_brings_back_is_told_before() {
    let app = TestApp::start().await;
    let (venue, _) = app.open(places(100)).await;
    let guest = app.rich().await;
    let reservation = guest.seated(noon(venue, 2)).await;
    let free = json!({"costs": 0, "refund": 0, "forfeited": 0});
    assert_eq!(terms(&guest, &reservation, "?partySize=3").await["change"], free, "nothing is paid yet");
    guest.pay(&reservation).await.expect(200);
    // On the day, half comes back.
    app.wait(15 * 3_600);
    for (party, costs, refund, forfeited) in
        [(3, 5_000, 0, 0), (8, 65_000, 0, 0), (2, 0, 35_000, 35_000), (2, 0, 0, 0)]
    {
        let told = terms(&guest, &reservation, &format!("?partySize={party}")).await;
        assert_eq!(
            told["change"],
            json!({"costs": costs, "refund": refund, "forfeited": forfeited}),
            "{party}"
        );
        let before = guest.balance().await;
        guest.change(&reservation, json!({"partySize": party})).await.expect(200);
        assert_eq!(guest.balance().await - before, refund - costs, "{party}");
    }
    guest
        .get(&format!("/api/reservations/{}/terms?partySize=0", reservation["id"].as_str().unwrap()))
        .await
        .refused(422, "invalid-request");
    app.guest()
        .get(&format!("/api/reservations/{}/terms", reservation["id"].as_str().unwrap()))
        .await
        .refused(404, "not-found");
    app.stop().await;
}
