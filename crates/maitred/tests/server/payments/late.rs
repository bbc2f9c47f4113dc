//! Money that comes too late, twice, or is not what was asked for.

use serde_json::json;

use super::in_both_settings;
use super::shop::Shop;
use crate::app::{noon, places};
use crate::steps::until;

in_both_settings! {
    money_that_comes_too_late_takes_a_new_place
    money_that_comes_too_late_for_any_place_goes_back
    money_for_a_cancelled_hold_goes_back
    another_amount_than_was_asked_for_goes_back
    the_second_of_two_payments_goes_back
    a_lost_event_is_found_by_asking
    a_payment_past_its_deadline_is_given_up
}

/// Waits until the provider keeps no more than this.
async fn until_it_keeps(shop: &Shop, amount: i64) {
    until("the money goes back", || async { (shop.provider.keeps() == amount).then_some(()) }).await;
}

async fn money_that_comes_too_late_takes_a_new_place(shop: Shop) {
    let (venue, _) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.begin(&guest, &held).await;
    shop.wait(11 * 60);
    shop.once(&guest, &held, "EXPIRED").await;
    let event = shop.provider.takes(&payment);
    for _ in 0..3 {
        shop.provider.deliver(&shop.client(), &event).await;
    }
    let own = guest.get("/api/reservations").await.expect(200).json();
    let own = own["items"].as_array().unwrap();
    let seated: Vec<_> = own.iter().filter(|r| r["status"] == "CONFIRMED").collect();
    assert_eq!((own.len(), seated.len(), &seated[0]["reseats"]), (2, 1, &held["id"]), "{own:?}");
    assert_eq!(shop.provider.keeps(), 10_000);
    // It is paid like any other, and its money comes back like any other's.
    let cancelled = guest.cancel(seated[0]).await.expect(200).json();
    assert!(["REFUND_PENDING", "REFUNDED"].contains(&cancelled["status"].as_str().unwrap()));
    shop.once(&guest, seated[0], "REFUNDED").await;
    assert_eq!(shop.provider.keeps(), 0);
    shop.close().await;
}

async fn money_that_comes_too_late_for_any_place_goes_back(shop: Shop) {
    let (venue, _) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.begin(&guest, &held).await;
    shop.wait(11 * 60);
    shop.guest().seated(noon(venue, 1)).await;
    let event = shop.provider.takes(&payment);
    shop.provider.deliver(&shop.client(), &event).await;
    until_it_keeps(&shop, 0).await;
    let shown = || async {
        let now = shop.at(&guest).look(&held).await;
        Some(now).filter(|now| now["providerPayments"][0]["amountReturned"] == 10_000)
    };
    let now = until("it is shown", shown).await;
    assert_eq!((&now["status"], &now["amountPaid"]), (&json!("EXPIRED"), &json!(0)), "it costs nothing");
    shop.close().await;
}

async fn money_for_a_cancelled_hold_goes_back(shop: Shop) {
    let (venue, _) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.begin(&guest, &held).await;
    assert_eq!(shop.at(&guest).cancel(&held).await.expect(200).json()["status"], "CANCELED");
    assert_eq!(shop.at(&guest).look(&held).await["providerPayments"][0]["status"], "CANCELLED");
    assert_eq!(shop.apps[0].remaining(venue, "12:00").await, 2);
    let event = shop.provider.takes(&payment);
    shop.provider.deliver(&shop.client(), &event).await;
    until_it_keeps(&shop, 0).await;
    assert_eq!(shop.at(&guest).look(&held).await["status"], "CANCELED");
    shop.close().await;
}

async fn another_amount_than_was_asked_for_goes_back(shop: Shop) {
    let (venue, _) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.begin(&guest, &held).await;
    let less = json!({"payment": payment, "amount": 9_999});
    {
        let mut books = shop.provider.books();
        let checkout = books.checkouts.get_mut(&payment).unwrap();
        (checkout.amount, checkout.status) = (9_999, "paid");
    }
    let event = shop.provider.says("payment.paid", less);
    shop.provider.deliver(&shop.client(), &event).await;
    until_it_keeps(&shop, 0).await;
    assert_eq!(shop.at(&guest).look(&held).await["status"], "TEMPORARY");
    // And is paid as it should be.
    let again = shop.begin(&guest, &held).await;
    assert_ne!(again, payment);
    let event = shop.provider.takes(&again);
    shop.provider.deliver(&shop.client(), &event).await;
    assert_eq!(shop.at(&guest).look(&held).await["status"], "CONFIRMED");
    assert_eq!(shop.provider.keeps(), 10_000);
    shop.close().await;
}

async fn the_second_of_two_payments_goes_back(shop: Shop) {
    let (venue, _) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let first = shop.begin(&guest, &held).await;
    let failed = shop.provider.says("payment.failed", json!({"payment": first}));
    shop.provider.deliver(&shop.client(), &failed).await;
    let second = shop.begin(&guest, &held).await;
    // The first, of which it was said that it failed, was paid after all; and so was the second.
    for payment in [&first, &second] {
        let event = shop.provider.takes(payment);
        shop.provider.deliver(&shop.client(), &event).await;
    }
    until_it_keeps(&shop, 10_000).await;
    let now = shop.at(&guest).look(&held).await;
    assert_eq!((&now["status"], &now["amountPaid"]), (&json!("CONFIRMED"), &json!(10_000)));
    let refunds = shop.provider.books().refunds.clone();
    assert!(refunds.values().all(|refund| refund.payment == second) && refunds.len() == 1, "{refunds:?}");
    shop.close().await;
}

async fn a_lost_event_is_found_by_asking(shop: Shop) {
    let (venue, _) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.begin(&guest, &held).await;
    drop(shop.provider.takes(&payment));
    shop.wait(10 * 60 + 1);
    let seated = || async {
        let own = shop.at(&guest).get("/api/reservations").await.expect(200).json();
        own["items"].as_array().unwrap().iter().find(|r| r["reseats"] == held["id"]).cloned()
    };
    assert_eq!(until("a new place", seated).await["status"], "CONFIRMED");
    assert_eq!(shop.provider.keeps(), 10_000);
    shop.close().await;
}

async fn a_payment_past_its_deadline_is_given_up(shop: Shop) {
    let (venue, _) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    shop.begin(&guest, &held).await;
    shop.wait(10 * 60 + 1);
    let given_up = || async {
        let now = shop.at(&guest).look(&held).await;
        (now["providerPayments"][0]["status"] == "CANCELLED").then_some(now)
    };
    let now = until("it is given up", given_up).await;
    assert_eq!(
        (&now["status"], &now["providerPayments"][0]["amountCaptured"]),
        (&json!("EXPIRED"), &json!(0))
    );
    shop.close().await;
}
