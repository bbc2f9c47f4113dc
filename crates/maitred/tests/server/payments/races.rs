//! What a provider says, at the very moment at which the hold runs out, is cancelled, or both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use booking::{SlotId, VenueId};
use serde_json::Value;

use super::in_both_settings;
use super::shop::Shop;
use crate::app::places;
use crate::client::Guest;
use crate::crowd::{at_once, path, slot, wish};
use crate::shared::alone;
use crate::steps::until;

in_both_settings! {
    a_paid_event_meets_the_end_of_the_hold
    a_paid_event_meets_a_cancellation
    a_paid_event_a_cancellation_and_the_end_of_the_hold_meet
}

const ROUNDS: usize = 1_000;
/// Rounds side by side, each in a slot of its own, with one clock for all of them.
const ABREAST: usize = 40;
const DEPOSIT: i64 = 5_000;

/// Somebody who has a hold and is at the provider.
#[derive(Clone)]
struct Payer {
    guest: Guest,
    slot: SlotId,
    held: Value,
    payment: String,
}

impl Shop {
    async fn payers(shop: &Arc<Shop>, venue: VenueId) -> Vec<Payer> {
        let begin = (0..ABREAST).map(|n| {
            let (shop, slot) = (shop.clone(), slot(venue, "2026-12-05", n));
            async move {
                let guest = shop.at(&shop.guest());
                let held = guest.seated(wish(slot, 1)).await;
                let begun = shop.start_payment(&guest, &held).await;
                // On a busy machine the answer may take too long; then this one takes no part.
                if begun.status == 503 {
                    return None;
                }
                let payment = begun.expect(200).json()["providerPayment"]["id"].as_str().unwrap().to_owned();
                Some(Payer { guest, slot, held, payment })
            }
        });
        let payers: Vec<Payer> = at_once(begin).await.into_iter().flatten().collect();
        assert!(payers.len() > ABREAST / 2, "void: the machine is too busy for a race");
        // A second before the end of all of their holds.
        shop.wait(10 * 60 - 1);
        payers
    }

    /// Waits until the provider keeps exactly this.
    async fn settles_at(&self, amount: i64) {
        until("all money is where it belongs", || async { (self.provider.keeps() == amount).then_some(()) })
            .await;
    }

    async fn end(shop: Arc<Shop>) {
        let shop = Arc::into_inner(shop).expect("everybody has gone home");
        // What was returned is written down before anybody audits it.
        until("all refunds are written down", || async {
            let (due, _) = shop.apps[0].server().app().store.refunds_due().await.unwrap();
            (due == 0).then_some(())
        })
        .await;
        shop.close().await;
    }
}

type Doing = std::pin::Pin<Box<dyn Future<Output = Option<u16>> + Send>>;

fn pays(shop: &Arc<Shop>, payer: &Payer) -> Doing {
    let (shop, payment) = (shop.clone(), payer.payment.clone());
    Box::pin(async move {
        let event = shop.provider.takes(&payment);
        shop.provider.deliver(&shop.client(), &event).await;
        None
    })
}

fn cancels(shop: &Arc<Shop>, payer: &Payer) -> Doing {
    let (guest, held) = (shop.at(&payer.guest), payer.held.clone());
    Box::pin(async move {
        let mut told = guest.cancel(&held).await.status.as_u16();
        // On a busy machine the answer may take too long, and whether it was done is then asked.
        while told == 503 {
            told = guest.cancel(&held).await.status.as_u16();
            let now = guest.look(&held).await;
            if told == 409 && ["CANCELED", "REFUND_PENDING", "REFUNDED"].iter().any(|to| now["status"] == *to)
            {
                told = 200;
            }
        }
        Some(told)
    })
}

/// The hold's time is over, now a little sooner, now a little later.
fn turns(shop: &Arc<Shop>, round: usize) -> Doing {
    let shop = shop.clone();
    Box::pin(async move {
        for _ in 0..round % 5 {
            shop.client().anybody().get("/health/live").await.expect(200);
        }
        shop.wait(1);
        None
    })
}

fn rivals(shop: &Arc<Shop>, payer: &Payer) -> Doing {
    let (guest, slot) = (shop.at(&shop.guest()), payer.slot);
    Box::pin(async move { Some(guest.book(wish(slot, 1)).await.status.as_u16()) })
}

/// What stands of a guest's reservations in the end.
async fn standing(payer: &Payer) -> Vec<(String, bool)> {
    let own = payer.guest.get("/api/reservations").await.expect(200).json();
    let own = own["items"].as_array().unwrap().iter();
    own.map(|r| (r["status"].as_str().unwrap().to_owned(), r.get("reseats").is_some())).collect()
}

async fn a_paid_event_meets_the_end_of_the_hold(shop: Shop) {
    let _alone = alone().await;
    let shop = Arc::new(shop);
    let (seen, mut kept) = ([(); 3].map(|()| AtomicUsize::new(0)), 0);
    for round in 0..ROUNDS / ABREAST {
        let (venue, _) = shop.open(places(1)).await;
        let payers = Shop::payers(&shop, venue).await;
        let people = payers.iter().flat_map(|payer| [pays(&shop, payer), rivals(&shop, payer)]);
        let told = at_once(people.chain([turns(&shop, round)])).await;
        // Whoever came before the end of the hold was refused; now there is room if the payer has none.
        for (n, payer) in payers.iter().enumerate() {
            let rival = told[2 * n + 1].unwrap();
            let own = standing(payer).await;
            let confirmed = own.iter().filter(|(status, _)| status == "CONFIRMED").count();
            let outcome = match (confirmed, rival) {
                (1, 409) if own.len() == 1 => 0,
                (1, 409) => 1,
                (0, 201) => 2,
                _ => panic!("{own:?}, and the other was told {rival}"),
            };
            kept += if outcome == 2 { 0 } else { DEPOSIT };
            seen[outcome].fetch_add(1, Ordering::Relaxed);
        }
        shop.settles_at(kept).await;
    }
    let seen = seen.map(AtomicUsize::into_inner);
    assert!(
        seen[0] > 0 && seen[1] + seen[2] > 0,
        "one of them always came first, which is no race: {seen:?}"
    );
    println!("in time, anew, for nothing: {seen:?}");
    Shop::end(shop).await;
}

async fn a_paid_event_meets_a_cancellation(shop: Shop) {
    let _alone = alone().await;
    let shop = Arc::new(shop);
    let mut seen = [0; 2];
    for _ in 0..ROUNDS / ABREAST {
        let (venue, _) = shop.open(places(1)).await;
        let payers = Shop::payers(&shop, venue).await;
        let told = at_once(payers.iter().flat_map(|payer| [pays(&shop, payer), cancels(&shop, payer)])).await;
        assert!(told.iter().flatten().all(|status| *status == 200), "{told:?}");
        shop.settles_at(0).await;
        for payer in &payers {
            let ended = || async {
                let now = payer.guest.get(&path(&payer.held)).await.expect(200).json();
                let money = (now["amountPaid"].as_i64().unwrap(), now["amountRefunded"].as_i64().unwrap());
                match now["status"].as_str().unwrap() {
                    "CANCELED" if money == (0, 0) => Some(0),
                    "REFUNDED" if money == (DEPOSIT, DEPOSIT) => Some(1),
                    "REFUND_PENDING" => None,
                    _ => panic!("{now}"),
                }
            };
            seen[until("it ends", ended).await] += 1;
        }
    }
    assert!(seen.iter().all(|times| *times > 0), "one of them always came first, which is no race: {seen:?}");
    println!("cancelled first, paid first: {seen:?}");
    Shop::end(shop).await;
}

async fn a_paid_event_a_cancellation_and_the_end_of_the_hold_meet(shop: Shop) {
    let _alone = alone().await;
    let shop = Arc::new(shop);
    let mut kept = 0;
    for round in 0..ROUNDS / ABREAST / 2 {
        let (venue, _) = shop.open(places(1)).await;
        let payers = Shop::payers(&shop, venue).await;
        let people = payers.iter().flat_map(|payer| [pays(&shop, payer), cancels(&shop, payer)]);
        let told = at_once(people.chain([turns(&shop, round)])).await;
        for (n, payer) in payers.iter().enumerate() {
            let cancelled = told[2 * n + 1].unwrap();
            let mut own = standing(payer).await;
            own.sort_unstable();
            let own: Vec<_> = own.iter().map(|(status, anew)| (status.as_str(), *anew)).collect();
            match (cancelled, &own[..]) {
                // Cancelled, before or after it was paid.
                (200, [("CANCELED" | "REFUNDED" | "REFUND_PENDING", false)]) => {}
                // Run out, and paid anew: there is nobody else who wants the place.
                (409, [("CONFIRMED", true), ("EXPIRED", false)]) => kept += DEPOSIT,
                _ => panic!("{own:?}, and cancelling was told {cancelled}"),
            }
        }
        shop.settles_at(kept).await;
    }
    Shop::end(shop).await;
}
