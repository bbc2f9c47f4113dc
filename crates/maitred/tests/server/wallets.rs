//! Wallets under crowds: nothing is lost, nothing is charged twice, and nobody sees an error (C4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use hyper::Method;
use serde_json::json;

use crate::client::Guest;
use crate::crowd::at_once;
use crate::house::{House, told_to_both};
use crate::rooms::wish_for;
use crate::steps::until;

told_to_both!(
    a_hundred_charges_at_once_all_count,
    a_thousand_charges_and_payments_add_up,
    a_key_charges_once_wherever_it_is_sent
);

/// The same person at each process in turn.
fn everywhere(house: &House, guest: &Guest, n: usize) -> Guest {
    house.client(n).guest(guest.token.clone().unwrap())
}

async fn charge(guest: &Guest, amount: i64) -> u16 {
    guest.post("/api/wallet/charges", json!({"amount": amount})).await.status.as_u16()
}

async fn a_hundred_charges_at_once_all_count(house: House) {
    let guest = house.guest();
    let told = at_once((0..100).map(|n| {
        let guest = everywhere(&house, &guest, n);
        async move { charge(&guest, 1_000).await }
    }));
    assert_eq!(told.await, [201; 100]);
    assert_eq!(guest.balance().await, 100_000);
    assert_eq!(house.number("SELECT count(*) FROM wallet_entry").await, 100);
    assert_eq!(house.number("SELECT count(DISTINCT balance) FROM wallet_entry").await, 100);
    house.audit();
}

async fn a_key_charges_once_wherever_it_is_sent(house: House) {
    let guest = house.guest();
    let told = at_once((0..60).map(|n| {
        let guest = everywhere(&house, &guest, n);
        async move {
            let key = format!("click-{}", n % 6);
            let body = json!({"amount": 500}).to_string();
            let answer =
                guest.call(Method::POST, "/api/wallet/charges", &[("idempotency-key", &key)], body).await;
            (key, answer.expect(201).json()["id"].as_str().unwrap().to_owned())
        }
    }))
    .await;
    let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, id) in told {
        entries.entry(key).or_default().push(id);
    }
    assert!(entries.values().all(|ids| ids.iter().all(|id| *id == ids[0])), "{entries:?}");
    assert_eq!(guest.balance().await, 3_000);
    house.audit();
}

/// Twenty people charge and pay at the same time, through all processes.
async fn a_thousand_charges_and_payments_add_up(house: House) {
    let staff = house.guest();
    let policy = json!({"depositPerPerson": 700});
    let venue = json!({"name": "Hall", "capacity": 1_000_000, "policy": policy});
    let venue = staff.post("/api/venues", venue).await.expect(201).json()["id"].as_str().unwrap().to_owned();
    let guests = house.guests(20);
    let spent = Arc::new(AtomicI64::new(0));
    let mut doing = vec![];
    for n in 0..500 {
        let (payer, charger) =
            (everywhere(&house, &guests[n % 20], n), everywhere(&house, &guests[n % 20], n + 1));
        let (venue, spent) = (venue.clone(), spent.clone());
        doing.push((n, payer, charger, venue, spent));
    }
    at_once(doing.into_iter().map(|(n, payer, charger, venue, spent)| async move {
        let held = payer.seated(wish_for(&venue, n / 20)).await;
        let pay = async {
            // A machine that is busy with other things may not tell at once; whoever is not told asks again.
            let answer = until("an answer", || async {
                let answer = payer.pay(&held).await;
                let told = answer.status == 200 || answer.code() == "insufficient-points";
                let paid = answer.status == 409 && answer.code() == "illegal-transition";
                (told || paid).then_some(answer)
            });
            let answer = answer.await;
            if payer.look(&held).await["status"] == "CONFIRMED" {
                spent.fetch_add(700, Ordering::Relaxed);
            } else {
                answer.refused(409, "insufficient-points");
            }
        };
        let (status, ()) = tokio::join!(charge(&charger, 500), pay);
        assert_eq!(status, 201);
    }))
    .await;
    let spent = spent.load(Ordering::Relaxed);
    assert!(spent > 0, "somebody could pay");
    let held = house.number("SELECT CAST(sum(balance) AS bigint) FROM wallet").await;
    assert_eq!(held, 500 * 500 - spent);
    assert_eq!(house.number("SELECT CAST(sum(amount) AS bigint) FROM wallet_entry").await, held);
    let wrong = "SELECT count(*) FROM wallet w WHERE balance < 0 OR balance <> \
                 (SELECT sum(amount) FROM wallet_entry e WHERE e.person = w.person)";
    assert_eq!(house.number(wrong).await, 0);
    house.audit();
}
