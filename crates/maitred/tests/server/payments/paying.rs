//! Paying with a provider, in time.

use serde_json::json;

use super::in_both_settings;
use super::provider::secret;
use super::shop::Shop;
use crate::app::{noon, places};
use crate::crowd::at_once;
use crate::steps::until;

in_both_settings! {
    a_guest_pays_at_the_provider_and_is_confirmed
    ten_starts_begin_one_payment
    ten_payments_with_points_are_one
    a_provider_that_loses_replies_is_asked_again_for_the_same_payment
    a_provider_that_refuses_leaves_the_hold_to_be_paid_another_way
}

async fn a_guest_pays_at_the_provider_and_is_confirmed(shop: Shop) {
    let (venue, _) = shop.open(places(4)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    shop.wait(6 * 60);
    let begun = shop.start_payment(&guest, &held).await.expect(200).json();
    let payment = &begun["providerPayment"];
    assert_eq!((&payment["status"], &payment["amount"]), (&json!("REQUESTED"), &json!(10_000)), "{begun}");
    assert!(payment["checkoutUrl"].as_str().unwrap().starts_with("https://pay.example/"));
    assert_eq!((&begun["status"], &begun["expiresAt"]), (&json!("TEMPORARY"), &payment["deadline"]));

    // Nobody pays twice.
    let second = shop.start_payment(&guest, &held).await.refused(409, "payment-in-progress").json();
    assert_eq!(second["providerPayment"]["id"], payment["id"]);
    assert_eq!(second["providerPayment"]["checkoutUrl"], payment["checkoutUrl"]);
    guest.pay(&held).await.refused(409, "payment-in-progress");
    guest.change(&held, json!({"partySize": 3})).await.refused(409, "payment-in-progress");

    // The hold would be over by now; its guest is at the provider.
    shop.wait(5 * 60);
    assert_eq!(shop.at(&guest).look(&held).await["status"], "TEMPORARY");
    let event = shop.provider.takes(payment["id"].as_str().unwrap());
    shop.provider.send(&shop.client(), &event).await.expect(204);
    let paid = shop.at(&guest).look(&held).await;
    assert_eq!((&paid["status"], &paid["amountPaid"]), (&json!("CONFIRMED"), &json!(10_000)));
    let shown = &paid["providerPayments"][0];
    assert_eq!((&shown["status"], &shown["amountCaptured"]), (&json!("PAID"), &json!(10_000)));
    assert_eq!(guest.balance().await, 0);
    shop.start_payment(&guest, &held).await.refused(409, "illegal-transition");
    // Other people's are not to be seen or paid.
    shop.start_payment(&shop.guest(), &held).await.refused(404, "not-found");
    let path = format!("/api/reservations/{}/payment", held["id"].as_str().unwrap());
    let wrong = guest.post(&path, json!({"method": "cash"})).await.refused(422, "invalid-request").json();
    assert_eq!(wrong["errors"][0]["message"], "must be one of: card, points");
    assert_eq!(shop.provider.keeps(), 10_000);
    shop.close().await;
}

async fn ten_starts_begin_one_payment(shop: Shop) {
    let (venue, _) = shop.open(places(4)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let path = format!("/api/reservations/{}/payment", held["id"].as_str().unwrap());
    let told = at_once((0..10).map(|_| {
        let (guest, path) = (shop.at(&guest), path.clone());
        async move { guest.post(&path, json!({"method": "card"})).await }
    }))
    .await;
    let (begun, refused): (Vec<_>, Vec<_>) = told.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((begun.len(), refused.len()), (1, 9));
    for answer in refused {
        answer.refused(409, "payment-in-progress");
    }
    assert_eq!(shop.provider.books().checkouts.len(), 1);
    shop.close().await;
}

async fn ten_payments_with_points_are_one(shop: Shop) {
    let (venue, _) = shop.open(places(4)).await;
    let guest = shop.apps[0].rich().await;
    let held = guest.seated(noon(venue, 2)).await;
    let told = at_once((0..10).map(|_| {
        let (guest, held) = (shop.at(&guest), held.clone());
        async move { guest.pay(&held).await }
    }))
    .await;
    assert_eq!(told.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(told.iter().filter(|answer| answer.status == 409).count(), 9, "{told:?}");
    assert_eq!(guest.balance().await, 990_000);
    shop.close().await;
}

async fn a_provider_that_loses_replies_is_asked_again_for_the_same_payment(shop: Shop) {
    let (venue, _) = shop.open(places(4)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    shop.provider.books().mood.loses_replies = true;
    let silent = shop.start_payment(&guest, &held).await.refused(503, "unavailable").json();
    let payment = silent["providerPayment"]["id"].as_str().unwrap().to_owned();
    shop.start_payment(&guest, &held).await.refused(409, "payment-in-progress");
    shop.provider.books().mood.loses_replies = false;
    shop.wait(16);
    let requested = || async {
        let now = shop.at(&guest).look(&held).await;
        Some(now["providerPayments"][0].clone()).filter(|payment| payment["status"] == "REQUESTED")
    };
    let requested = until("it is asked again", requested).await;
    assert_eq!(requested["id"], payment[..]);
    {
        let books = shop.provider.books();
        assert_eq!((books.checkouts.len(), books.checkouts[&payment].asked >= 2), (1, true));
    }
    let event = shop.provider.takes(&payment);
    shop.provider.send(&shop.client(), &event).await.expect(204);
    shop.once(&guest, &held, "CONFIRMED").await;
    shop.close().await;
}

async fn a_provider_that_refuses_leaves_the_hold_to_be_paid_another_way(shop: Shop) {
    let (venue, _) = shop.open(places(4)).await;
    let guest = shop.apps[0].rich().await;
    let held = guest.seated(noon(venue, 2)).await;
    shop.provider.books().mood.refuses = true;
    shop.start_payment(&guest, &held).await.refused(503, "unavailable");
    assert_eq!(shop.at(&guest).look(&held).await["providerPayments"][0]["status"], "FAILED");
    assert_eq!(shop.at(&guest).pay(&held).await.expect(200).json()["status"], "CONFIRMED");
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_not_printed_and_wrong_settings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("maitred.toml");
    let run = || crate::process::run(folder.path(), &["config"]);
    let keys = (secret(1), secret(2));
    let text = format!(
        "[payments.card]\nurl = \"https://pay.example/v1\"\nsecret = [{:?}, {:?}]\nkey = \"k-1\"\n",
        keys.0, keys.1
    );
    std::fs::write(&config, &text).unwrap();
    let shown = crate::process::stdout(&run());
    assert!(
        shown
            .contains("[payments.card]\nurl = \"https://pay.example/v1\"\n# secret is set (2) and not shown"),
        "{shown}"
    );
    assert!(!shown.contains("whsec_") && !shown.contains("k-1"), "{shown}");
    for (wrong, named) in [
        (text.replace("whsec_", "sec_"), "payments.card.secret is wrong"),
        (text.replace("https://", "ftp://"), "payments.card.url must be written"),
        (text.replace("card", "points"), "payments.points must have a name"),
        (text.replace("key", "kee"), "unknown field"),
    ] {
        std::fs::write(&config, &wrong).unwrap();
        let said = crate::process::complaint(&run(), 1);
        assert!(said.contains(named) && !said.contains(&keys.0[6..]), "{said}");
    }
}
