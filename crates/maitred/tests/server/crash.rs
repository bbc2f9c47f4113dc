//! Ends under load: SIGTERM answers everybody, kill -9 loses nothing that was answered. A run in which no load flowed, or
//! in which nothing was cut off, proves nothing and fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use booking::{SlotId, TicketId, VenueId};
use hyper::Method;
use maitred::server::open_store;
use tokio::task::JoinHandle;

use crate::app::places;
use crate::client::{Answer, Client, Guest};
use crate::crowd::{eventually, path, slot, wish};
use crate::process::{Program, guests};
use crate::shared::rounds;
use crate::truth::Truth;

/// Slots that one load walks through at most.
const SLOTS: usize = 110;

/// A request as the client remembers it: without an answer if the connection was cut or refused.
struct Asked {
    guest: Guest,
    slot: SlotId,
    key: String,
    told: Option<Answer>,
}

/// Guests who book one slot after the other until the server is gone.
struct Load {
    people: Vec<JoinHandle<Vec<Asked>>>,
    answered: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
}

async fn ask(guest: &Guest, slot: SlotId, key: &str) -> Option<Answer> {
    let headers = [("prefer", "wait=10"), ("idempotency-key", key)];
    let request = guest.request(Method::POST, "/api/reservations", &headers, wish(slot, 1).to_string());
    guest.client.try_send(request).await.ok()
}

impl Load {
    fn start(guests: &[Guest], venue: VenueId, first: usize) -> Self {
        let (answered, under_way) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let people = guests.iter().cloned().map(|guest| {
            let (answered, under_way, tomorrow) = (answered.clone(), under_way.clone(), tomorrow());
            tokio::spawn(async move {
                let mut log = Vec::new();
                for n in first..first + SLOTS {
                    let (slot, key) = (slot(venue, &tomorrow, n), format!("slot {n}"));
                    under_way.fetch_add(1, Ordering::SeqCst);
                    let told = ask(&guest, slot, &key).await;
                    under_way.fetch_sub(1, Ordering::SeqCst);
                    let goes_on = told.as_ref().is_some_and(|answer| answer.status != 503);
                    answered.fetch_add(usize::from(goes_on), Ordering::SeqCst);
                    log.push(Asked { guest: guest.clone(), slot, key, told });
                    if !goes_on {
                        break;
                    }
                }
                log
            })
        });
        Self { people: people.collect(), answered, under_way }
    }

    /// Waits until so many were answered and others are under way.
    async fn flows(&self, answers: usize) {
        eventually("load flows", async || {
            self.answered.load(Ordering::SeqCst) >= answers && self.under_way.load(Ordering::SeqCst) > 0
        })
        .await;
    }

    async fn ended(self) -> Vec<Asked> {
        let mut asked = Vec::new();
        for person in self.people {
            asked.extend(person.await.unwrap());
        }
        asked
    }
}

/// A venue in the database of a server that does not run yet.
async fn venue(folder: &Path, capacity: u32) -> VenueId {
    let store = open_store(&folder.join("data")).unwrap();
    let venue = store.add_venue(places(capacity), vec![], vec![]).await.unwrap().id;
    tokio::task::spawn_blocking(move || store.close()).await.unwrap();
    venue
}

fn tomorrow() -> String {
    let today = jiff::Timestamp::now().in_tz("Asia/Seoul").unwrap().date();
    (today + jiff::Span::new().days(1)).to_string()
}

/// The same person at another server.
fn at(client: &Client, guest: &Guest) -> Guest {
    Guest { client: client.clone(), token: guest.token.clone() }
}

/// How many reservations a person has in a slot; it must be among the newest.
async fn reservations(guest: &Guest, slot: SlotId) -> usize {
    let own = guest.get("/api/reservations").await.expect(200).json();
    let (date, time) = (slot.date().to_string(), slot.time().strftime("%H:%M").to_string());
    let items = own["items"].as_array().unwrap().iter();
    items.filter(|item| item["date"] == date.as_str() && item["time"] == time.as_str()).count()
}

/// What was answered is so, whether it was yes or no.
async fn answers_hold(asked: &[Asked], client: &Client, truth: &Truth) {
    for Asked { guest, told, .. } in asked {
        let Some(answer) = told else { continue };
        let body = answer.json();
        match answer.status.as_u16() {
            201 => assert_eq!(at(client, guest).get(&path(&body)).await.expect(200).json(), body),
            503 => assert_eq!(answer.code(), "unavailable"),
            _ => {
                answer.clone().refused(409, "not-enough-places");
                let ticket: TicketId = body["ticket"]["id"].as_str().unwrap().parse().unwrap();
                let rows = truth.0.prepare("SELECT 1 FROM reservation WHERE ticket = ?").unwrap();
                assert!(!{ rows }.exists([ticket.to_u128().to_be_bytes()]).unwrap(), "{body}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_answers_everybody_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let venue = venue(folder.path(), 150).await;
    let program = Program::serve(folder.path(), &[]);
    let load = Load::start(&guests(folder.path(), &program.client, 200), venue, 0);
    load.flows(500).await;
    program.terminate();
    assert!(program.ended_within(Duration::from_secs(10)).await.success());
    let asked = load.ended().await;

    assert!(asked.len() < 200 * SLOTS, "the load had ended by itself");
    let program = Program::serve(folder.path(), &[]);
    let truth = Truth::in_folder(&folder.path().join("data"));
    answers_hold(&asked, &program.client, &truth).await;
    // Whoever got no answer was not let in: nothing was decided behind their back.
    for Asked { guest, slot, .. } in asked.iter().filter(|asked| asked.told.is_none()) {
        assert_eq!(reservations(&at(&program.client, guest), *slot).await, 0);
    }
    let seated =
        asked.iter().filter(|asked| asked.told.as_ref().is_some_and(|told| told.status == 201)).count();
    assert_eq!(truth.number("SELECT count(*) FROM reservation"), i64::try_from(seated).unwrap());
    truth.nothing_is_held_twice();
    assert!(truth.fullest() <= 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_a_server_that_cannot_store() {
    let folder = tempfile::tempdir().unwrap();
    let venue = venue(folder.path(), 20).await;
    let program = Program::serve(folder.path(), &[]);
    let blocker = Truth::in_folder(&folder.path().join("data"));
    blocker.0.execute_batch("BEGIN IMMEDIATE").unwrap();
    let noon = slot(venue, &tomorrow(), 1);
    let mut told = tokio::task::JoinSet::new();
    for guest in guests(folder.path(), &program.client, 20) {
        told.spawn(async move { ask(&guest, noon, "noon").await });
    }
    // Those who were to be decided are told to come back; the others are in line when the signal comes.
    let first = told.join_next().await.unwrap().unwrap().unwrap();
    first.refused(503, "unavailable");
    program.terminate();
    assert!(program.ended_within(Duration::from_secs(10)).await.success());
    blocker.0.execute_batch("ROLLBACK").unwrap();
    for answer in told.join_all().await {
        answer.unwrap().refused(503, "unavailable");
    }
    assert_eq!(blocker.number("SELECT count(*) FROM reservation"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_loses_nothing_that_was_answered() {
    for kills in rounds(5, 5) {
        kill_9(kills).await;
    }
}

async fn kill_9(kills: usize) {
    const CAPACITY: u32 = 40;
    let folder = tempfile::tempdir().unwrap();
    let venue = venue(folder.path(), CAPACITY).await;
    let mut program = Program::serve(folder.path(), &[]);
    let people = guests(folder.path(), &program.client, 60);
    for cycle in 0..kills {
        let people: Vec<Guest> = people.iter().map(|guest| at(&program.client, guest)).collect();
        let load = Load::start(&people, venue, cycle * SLOTS);
        load.flows(200).await;
        program.kill();
        let asked = load.ended().await;
        let (answered, cut): (Vec<_>, Vec<_>) = asked.into_iter().partition(|asked| asked.told.is_some());
        assert!(
            answered.len() >= 200 && !cut.is_empty(),
            "void: {} answered, {} cut",
            answered.len(),
            cut.len()
        );

        program = Program::serve(folder.path(), &[]);
        let truth = Truth::in_folder(&folder.path().join("data"));
        answers_hold(&answered, &program.client, &truth).await;
        let mut known = 0;
        for Asked { guest, slot, key, .. } in &cut {
            let guest = at(&program.client, guest);
            let before = reservations(&guest, *slot).await;
            assert!(before <= 1, "twice");
            known += before;
            let told = ask(&guest, *slot, key).await.unwrap();
            assert!(told.status == 201 || told.code() == "not-enough-places", "{told:?}");
            let after = reservations(&guest, *slot).await;
            assert_eq!(after, usize::from(told.status == 201));
            assert!(after >= before, "a retry lost it: {told:?}");
        }
        println!("cycle {cycle}: {} answered, {} cut, {known} of them stored", answered.len(), cut.len());
        truth.nothing_is_held_twice();
        assert!(truth.fullest() <= i64::from(CAPACITY));
    }
}
