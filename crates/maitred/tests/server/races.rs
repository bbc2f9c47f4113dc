//! Two people, or one person twice, at the same moment about one reservation: only legal outcomes, and money conserved.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use booking::{PersonId, SlotId, VenueId};
use serde_json::{Value, json};

use crate::app::{TOMORROW, TestApp, places};
use crate::client::{Answer, Guest};
use crate::crowd::{at_once, book, path, slot};
use crate::truth::Truth;

const ROUNDS: usize = 1_000;
/// Rounds that are run side by side, each in a slot of its own.
const ABREAST: usize = 20;

async fn rich(app: &TestApp) -> Guest {
    let guest = app.guest();
    guest.post("/api/wallet/charges", json!({"amount": 10_000_000})).await.expect(201);
    guest
}

async fn pay(guest: &Guest, reservation: &str) -> Answer {
    guest.post(&format!("{reservation}/payment"), json!({"method": "points"})).await
}

async fn cancel(guest: &Guest, reservation: &str) -> Answer {
    guest.post(&format!("{reservation}/cancel"), json!({})).await
}

/// Runs all rounds, some side by side.
async fn rounds<F: Future<Output = ()> + Send + 'static>(round: impl Fn(usize) -> F) {
    for first in (0..ROUNDS).step_by(ABREAST) {
        at_once((first..first + ABREAST).map(&round)).await;
    }
}

/// Slots of a venue that these rounds use; a venue is booked for sixty days only.
const SLOTS: usize = 500;

/// Venues with slots enough for all rounds, and for two in each.
async fn venues(app: &TestApp, capacity: u32) -> Vec<VenueId> {
    let mut venues = Vec::new();
    while venues.len() * SLOTS < 2 * ROUNDS {
        venues.push(app.venue(places(capacity), app.person().0).await);
    }
    venues
}

/// The n-th of all their slots.
fn nth(venues: &[VenueId], n: usize) -> SlotId {
    slot(venues[n / SLOTS], "2026-12-05", n % SLOTS)
}

/// Loses a little time, another amount each round.
async fn dawdle(guest: &Guest, round: usize) {
    for _ in 0..round % 5 {
        guest.get("/health/live").await.expect(200);
    }
}

/// How often the first of two was in time; a race in which it always or never is proves nothing.
#[derive(Default)]
struct Tally([AtomicUsize; 2]);

impl Tally {
    fn count(&self, in_time: bool) {
        self.0[usize::from(in_time)].fetch_add(1, Ordering::Relaxed);
    }

    fn was_a_race(&self) {
        assert!(self.0.iter().all(|count| count.load(Ordering::Relaxed) > 0), "{:?}", self.0);
    }
}

/// Two calls at the same moment, and what each was told.
async fn both<F, G>(one: F, other: G) -> (Answer, Answer)
where
    F: Future<Output = Answer> + Send + 'static,
    G: Future<Output = Answer> + Send + 'static,
{
    type Call = std::pin::Pin<Box<dyn Future<Output = Answer> + Send>>;
    let mut told = at_once([Box::pin(one) as Call, Box::pin(other) as Call]).await;
    let second = told.pop().unwrap();
    (told.pop().unwrap(), second)
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_payments_of_one_reservation_charge_once() {
    let app = TestApp::start().await;
    let venue = app.venue(places(20), app.person().0).await;
    let guest = rich(&app).await;
    let reservation = path(&book(&guest, slot(venue, TOMORROW, 1), 2).await.expect(201).json());
    let told = at_once((0..20).map(|_| {
        let (guest, reservation) = (guest.clone(), reservation.clone());
        async move { pay(&guest, &reservation).await }
    }))
    .await;
    let (paid, refused): (Vec<_>, Vec<_>) = told.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(paid.len(), 1);
    assert_eq!(paid[0].json()["status"], "CONFIRMED");
    for answer in refused {
        assert!(
            ["payment-in-progress", "illegal-transition"].contains(&answer.code().as_str()),
            "{answer:?}"
        );
        assert_eq!(answer.status, 409);
    }
    let truth = Truth::in_folder(app.folder.path());
    assert_eq!(truth.number("SELECT count(*) FROM wallet_entry WHERE kind = 'payment'"), 1);
    assert_eq!(guest.get("/api/wallet").await.json()["balance"], 10_000_000 - 10_000);
    truth.money_is_conserved();
    app.stop().await;
}

/// The only place is held, and paid at the very moment at which the hold runs out and somebody else wants it: so many times
/// at once, each in a slot of its own and by people of its own, under one clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_meets_the_end_of_the_hold() {
    type Doing = std::pin::Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;
    let app = Arc::new(TestApp::start().await);
    let mut people = Vec::new();
    for _ in 0..ABREAST {
        people.push((rich(&app).await, app.guest()));
    }
    let mut seen = [0; 3];
    for round in 0..ROUNDS / ABREAST {
        let venue = app.venue(places(1), app.person().0).await;
        let held = at_once(people.iter().enumerate().map(|(n, (holder, _))| {
            let (holder, slot) = (holder.clone(), slot(venue, "2026-12-05", n));
            async move { book(&holder, slot, 1).await.expect(201).json() }
        }))
        .await;
        let racing = people.iter().zip(&held).enumerate().flat_map(|(n, ((holder, other), held))| {
            let (holder, other, held) = (holder.clone(), other.clone(), path(held));
            let slot = slot(venue, "2026-12-05", n);
            let paying: Doing = Box::pin(async move { Some(pay(&holder, &held).await) });
            let booking: Doing = Box::pin(async move { Some(book(&other, slot, 1).await) });
            [paying, booking]
        });
        let turning: Doing = {
            let (app, other) = (app.clone(), people[0].1.clone());
            Box::pin(async move {
                // Now a little sooner, now a little later, so that each of them comes first at times.
                dawdle(&other, round).await;
                app.wait(7 * 60);
                None
            })
        };
        let told: Vec<_> = at_once(racing.chain([turning])).await.into_iter().flatten().collect();
        for (n, held) in held.iter().enumerate() {
            let (paid, booked) = (&told[2 * n], &told[2 * n + 1]);
            let outcome = match (paid.status.as_u16(), booked.status.as_u16()) {
                (200, 409) if paid.json()["id"] == held["id"] => 0,
                (200, 409) if paid.json()["reseats"] == held["id"] => 1,
                (409, 201) => 2,
                _ => panic!("{paid:?} and {booked:?}"),
            };
            seen[outcome] += 1;
            let refused = if outcome == 2 { paid } else { booked };
            assert_eq!(refused.clone().refused(409, "not-enough-places").json()["remaining"], 0);
            let slot = slot(venue, "2026-12-05", n);
            assert_eq!(Truth::in_folder(app.folder.path()).held(slot), (1, 1));
        }
    }
    assert!(
        seen[0] > 0 && seen[1] + seen[2] > 0,
        "one of them always came first, which is no race: {seen:?}"
    );
    Truth::in_folder(app.folder.path()).money_is_conserved();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_meets_a_cancellation() {
    let app = TestApp::start().await;
    let venues = venues(&app, 1).await;
    let guest = rich(&app).await;
    let tally = Arc::new(Tally::default());
    rounds(|round| {
        let (guest, slot, tally) = (guest.clone(), nth(&venues, round), tally.clone());
        async move {
            let reservation = path(&book(&guest, slot, 1).await.expect(201).json());
            let (paying, cancelling) =
                ((guest.clone(), reservation.clone()), (guest.clone(), reservation.clone()));
            let (paid, cancelled) = both(async move { pay(&paying.0, &paying.1).await }, async move {
                cancel(&cancelling.0, &cancelling.1).await
            })
            .await;
            let now = guest.get(&reservation).await.expect(200).json();
            let cancelled = cancelled.expect(200).json();
            assert_eq!(now["status"], cancelled["status"]);
            tally.count(paid.status == 200);
            if paid.status == 200 {
                assert_eq!((&now["status"], &now["amountRefunded"]), (&json!("REFUNDED"), &json!(5_000)));
            } else {
                paid.refused(409, "illegal-transition");
                assert_eq!((&now["status"], &now["amountPaid"]), (&json!("CANCELED"), &json!(0)));
            }
            // The place is free at once (B5), for the same person too.
            book(&guest, slot, 1).await.expect(201);
        }
    })
    .await;
    tally.was_a_race();
    assert_eq!(guest.get("/api/wallet").await.json()["balance"], 10_000_000);
    Truth::in_folder(app.folder.path()).money_is_conserved();
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_meets_a_cancellation() {
    let app = TestApp::start().await;
    let venues = venues(&app, 4).await;
    let guest = rich(&app).await;
    let tally = Arc::new(Tally::default());
    rounds(|round| {
        let (guest, tally) = (guest.clone(), tally.clone());
        // Each round has two slots; half of them only change the party.
        let (from, to) = (nth(&venues, 2 * round), nth(&venues, 2 * round + 1));
        let target = if round % 2 == 0 { to } else { from };
        let change = json!({"partySize": 3, "time": target.time().strftime("%H:%M").to_string()});
        async move {
            let reservation = path(&book(&guest, from, 2).await.expect(201).json());
            pay(&guest, &reservation).await.expect(200);
            let (changing, cancelling) =
                ((guest.clone(), reservation.clone()), (guest.clone(), reservation.clone()));
            let (changed, cancelled) =
                both(async move { changing.0.patch(&changing.1, change).await }, async move {
                    cancel(&cancelling.0, &cancelling.1).await
                })
                .await;
            let now = guest.get(&reservation).await.expect(200).json();
            assert_eq!(
                (&cancelled.expect(200).json()["status"], &now["status"]),
                (&json!("REFUNDED"), &json!("REFUNDED"))
            );
            tally.count(changed.status == 200);
            let party: Value = if changed.status == 200 { json!(3) } else { json!(2) };
            if changed.status != 200 {
                changed.refused(409, "illegal-transition");
            }
            assert_eq!((&now["partySize"], &now["amountPaid"]), (&party, &now["amountRefunded"]));
        }
    })
    .await;
    tally.was_a_race();
    let truth = Truth::in_folder(app.folder.path());
    assert_eq!(truth.fullest(), 0);
    assert_eq!(guest.get("/api/wallet").await.json()["balance"], 10_000_000);
    truth.money_is_conserved();
    app.stop().await;
}

/// One person who walks to and fro between two slots.
async fn wander(guest: Guest, reservation: String, steps: [SlotId; 2], changes: usize) -> Vec<Answer> {
    let mut told = Vec::new();
    for n in 0..changes {
        let time = steps[n % 2].time().strftime("%H:%M").to_string();
        told.push(guest.patch(&reservation, json!({"time": time})).await);
    }
    told
}

async fn wanderers(app: &TestApp, venue: VenueId) -> ([SlotId; 2], Vec<(PersonId, Vec<Answer>)>) {
    let slots = [slot(venue, TOMORROW, 0), slot(venue, TOMORROW, 1)];
    let mut people = Vec::new();
    for n in 0..20 {
        let (id, guest) = app.person();
        let reservation = path(&book(&guest, slots[n % 2], 1).await.expect(201).json());
        let steps = if n % 2 == 0 { [slots[1], slots[0]] } else { slots };
        people.push(async move { (id, wander(guest, reservation, steps, 10).await) });
    }
    (slots, at_once(people).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn people_change_places_in_opposite_directions() {
    let app = TestApp::start().await;
    let venue = app.venue(places(20), app.person().0).await;
    let (slots, told) = wanderers(&app, venue).await;
    // There is room for everybody everywhere, so every change succeeds, and ten changes lead back.
    for answer in told.iter().flat_map(|(_, answers)| answers) {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let truth = Truth::in_folder(app.folder.path());
    assert_eq!(slots.map(|slot| truth.held(slot)), [(10, 10), (10, 10)]);
    truth.nothing_is_held_twice();
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_loses_a_place_by_asking_for_another() {
    let app = TestApp::start().await;
    let venue = app.venue(places(11), app.person().0).await;
    let (slots, told) = wanderers(&app, venue).await;
    let mut moved = 0;
    for (_, answers) in told {
        for answer in answers {
            if answer.status == 200 {
                moved += 1;
            } else {
                answer.refused(409, "not-enough-places");
            }
        }
    }
    assert!(moved > 0, "one place is free in each slot, so somebody can move");
    let truth = Truth::in_folder(app.folder.path());
    let held = slots.map(|slot| truth.held(slot).0);
    assert_eq!(held[0] + held[1], 20);
    assert!(held.iter().all(|people| *people <= 11), "{held:?}");
    truth.nothing_is_held_twice();
    assert_eq!(truth.number("SELECT count(*) FROM reservation"), 20);
    app.stop().await;
}
