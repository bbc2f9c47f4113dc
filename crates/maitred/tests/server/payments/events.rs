//! What a provider says: twice, late, out of order, forged.

use rand::seq::SliceRandom;
use serde_json::json;

use super::in_both_settings;
use super::provider::{Event, secret, sign};
use super::shop::Shop;
use crate::app::{noon, places};
use crate::crowd::at_once;

in_both_settings! {
    events_three_times_each_and_shuffled_do_no_harm
    nobody_else_speaks_for_the_provider
}

/// The control of this is in the rules: `the_same_events_do_harm_where_they_are_heard_twice`.
async fn events_three_times_each_and_shuffled_do_no_harm(shop: Shop) {
    let (venue, _) = shop.open(places(100)).await;
    let mut bookings = Vec::new();
    let mut events: Vec<Event> = Vec::new();
    for n in 0..20 {
        let guest = shop.guest();
        let held = guest.seated(noon(venue, 1)).await;
        let payment = shop.begin(&guest, &held).await;
        let about = json!({"payment": payment});
        events.push(shop.provider.says("payment.failed", about.clone()));
        events.push(shop.provider.says("payment.cancelled", about.clone()));
        events.push(shop.provider.says("payment.viewed", about));
        // Half of them never pay.
        if n % 2 == 0 {
            events.push(shop.provider.takes(&payment));
            events.push(shop.provider.takes(&payment));
        }
        bookings.push((guest, held, n % 2 == 0));
    }
    let mut events = [events.clone(), events.clone(), events].concat();
    events.shuffle(&mut rand::rng());
    let provider = std::sync::Arc::new(shop.provider);
    for some in events.chunks(40) {
        at_once(some.iter().cloned().enumerate().map(|(n, event)| {
            let (provider, client) = (provider.clone(), shop.apps[n % shop.apps.len()].client.clone());
            async move { provider.deliver(&client, &event).await }
        }))
        .await;
    }
    for (guest, held, pays) in &bookings {
        let now = guest.look(held).await;
        let expected = if *pays {
            ("CONFIRMED", "PAID")
        } else {
            ("TEMPORARY", now["providerPayments"][0]["status"].as_str().unwrap())
        };
        assert_eq!(
            (now["status"].as_str().unwrap(), now["providerPayments"][0]["status"].as_str().unwrap()),
            expected
        );
        assert_eq!(now["providerPayments"].as_array().unwrap().len(), 1);
        assert!(*pays || ["FAILED", "CANCELLED"].contains(&expected.1), "{now}");
        assert_eq!(now["providerPayments"][0]["refundDue"], 0);
    }
    assert_eq!((provider.keeps(), provider.books().refunds.len()), (50_000, 0));
    for app in shop.apps {
        app.stop().await;
    }
}

async fn nobody_else_speaks_for_the_provider(shop: Shop) {
    let (venue, _) = shop.open(places(4)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.begin(&guest, &held).await;
    let good = shop.provider.takes(&payment);
    let signed_at =
        |at: i64| Event { at, signature: sign(&secret(1), &good.id, at, &good.body), ..good.clone() };
    let wrong_key = Event { signature: sign(&secret(2), &good.id, good.at, &good.body), ..good.clone() };
    let forged = [
        Event { signature: String::new(), ..good.clone() },
        Event { signature: good.signature.replace("v1,", "v0,"), ..good.clone() },
        Event { signature: good.signature.replace("v1,", "v1a,"), ..good.clone() },
        Event { signature: format!("{}x", good.signature), ..good.clone() },
        Event { body: good.body.replace("payment.paid", "payment.paid "), ..good.clone() },
        Event { body: format!("{} ", good.body), ..good.clone() },
        Event { id: "evt_other".into(), ..good.clone() },
        Event { at: good.at + 1, ..good.clone() },
        wrong_key.clone(),
        signed_at(good.at - 301),
        signed_at(good.at + 301),
    ];
    for event in &forged {
        shop.provider.send(&shop.client(), event).await.refused(401, "unauthenticated");
    }
    shop.provider.send_as(&shop.client(), "cash", &good).await.refused(404, "not-found");
    shop.provider.send_as(&shop.client(), "points", &good).await.refused(404, "not-found");
    let unreadable = shop.provider.says("payment.paid", json!({"payment": "nothing"}));
    shop.provider.send(&shop.client(), &unreadable).await.refused(422, "invalid-request");
    let long = shop.provider.says("payment.paid", json!({"note": "x".repeat(70_000)}));
    shop.provider.send(&shop.client(), &long).await.refused(413, "payload-too-large");
    // What is known to be good, and of no interest.
    let unknown = booking::PaymentId(7).to_string();
    let unknown = shop.provider.says("payment.paid", json!({"payment": unknown, "amount": 5}));
    shop.provider.send(&shop.client(), &unknown).await.expect(204);
    shop.provider.send(&shop.client(), &shop.provider.says("customer.created", json!({}))).await.expect(204);
    assert_eq!(shop.at(&guest).look(&held).await["status"], "TEMPORARY");

    // One good signature among others is enough: keys are replaced that way.
    let both = Event { signature: format!("{} {}", wrong_key.signature, good.signature), ..good.clone() };
    shop.provider.send(&shop.client(), &both).await.expect(204);
    assert_eq!(shop.at(&guest).look(&held).await["status"], "CONFIRMED");
    // Recorded and sent again: within five minutes it is known, afterwards it is too old.
    shop.provider.send(&shop.client(), &good).await.expect(204);
    shop.wait(301);
    shop.provider.send(&shop.client(), &good).await.refused(401, "unauthenticated");
    assert_eq!((shop.provider.keeps(), shop.provider.books().refunds.len()), (10_000, 0));
    shop.close().await;
}

/// The control: where states go backwards too, the same money is returned although it has paid. Everything is on one thread,
/// which alone has the flaw.
#[cfg(feature = "simulation")]
#[tokio::test]
async fn the_same_money_goes_back_where_states_go_backwards() {
    let shop = Shop::embedded().await;
    let (venue, _) = shop.open(places(4)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.begin(&guest, &held).await;
    let twice = [shop.provider.takes(&payment), shop.provider.takes(&payment)];
    booking::flaws::introduce(Some("payment-events-repeat"));
    for event in &twice {
        shop.provider.deliver(&shop.client(), event).await;
    }
    let lost = || async { (shop.provider.keeps() == 0).then_some(()) };
    crate::steps::until("it goes back", lost).await;
    booking::flaws::introduce(None);
    assert_eq!(guest.look(&held).await["status"], "CONFIRMED", "and nobody has paid for it");
    for app in shop.apps {
        app.stop_unaudited().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_replaced_without_losing_an_event() {
    // The server knows the old and the new key; another provider has a key of its own.
    let shop = Shop::configured(|config| {
        let card = config.payments.get_mut("card").unwrap();
        card.secret.0.insert(0, secret(2).into());
        let mut other = card.clone();
        other.secret.0 = vec![secret(3).into()];
        config.payments.insert("other".into(), other);
    })
    .await;
    let (venue, _) = shop.open(places(4)).await;
    for key in [1, 2] {
        let guest = shop.guest();
        let held = guest.seated(noon(venue, 1)).await;
        let payment = shop.begin(&guest, &held).await;
        let event = shop.provider.takes(&payment);
        let by =
            |n: u8| Event { signature: sign(&secret(n), &event.id, event.at, &event.body), ..event.clone() };
        shop.provider.send(&shop.client(), &by(3)).await.refused(401, "unauthenticated");
        // The other provider, with a key of its own, speaks of a payment that is none of its.
        shop.provider.send_as(&shop.client(), "other", &by(3)).await.expect(204);
        assert_eq!(guest.look(&held).await["status"], "TEMPORARY");
        shop.provider.send(&shop.client(), &by(key)).await.expect(204);
        assert_eq!(guest.look(&held).await["status"], "CONFIRMED");
    }
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_the_provider_is_asked_to_come_again() {
    let shop = Shop::embedded().await;
    let (venue, _) = shop.open(places(4)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.begin(&guest, &held).await;
    let event = shop.provider.takes(&payment);
    let jam = shop.apps[0].jam();
    let away = shop.provider.send(&shop.client(), &event).await.refused(503, "unavailable");
    assert!(away.header("retry-after").parse::<u64>().unwrap() > 0);
    jam.release();
    shop.provider.deliver(&shop.client(), &event).await;
    shop.once(&guest, &held, "CONFIRMED").await;
    shop.close().await;
}
