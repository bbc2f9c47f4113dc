//! The second at which everyone presses the button.

use std::collections::BTreeSet;

use booking::SlotId;
use hyper::Method;
use maitred::server::{Server, open_store};
use serde_json::Value;
use store::Controls;

use crate::app::{TOMORROW, TestApp, config, noon, places, tables};
use crate::client::{Answer, Client, Guest};
use crate::crowd::{at_once, book, eventually, path, place, slot, wish};
use crate::seats::{hall, show};
use crate::truth::{Truth, audit};

fn seated(told: &[Answer]) -> Vec<Value> {
    told.iter().filter(|answer| answer.status == 201).map(Answer::json).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_people_want_ten_tables_and_the_first_ten_get_one() {
    let app = TestApp::start().await;
    let venue = app.venue(tables(10, 4), app.person().0).await;
    let noon = slot(venue, TOMORROW, 1);
    let people: Vec<Guest> = (0..100).map(|_| app.guest()).collect();

    let told = at_once(people.into_iter().map(|guest| async move { book(&guest, noon, 2).await })).await;

    let winners = seated(&told);
    let taken: BTreeSet<u64> = winners.iter().map(|told| told["table"].as_u64().unwrap()).collect();
    assert_eq!((winners.len(), taken), (10, (1..=10).collect()));
    let mut line: Vec<_> = told.iter().map(|answer| (place(&answer.json()), answer)).collect();
    line.sort_by_key(|(place, _)| *place);
    for (_, answer) in &line[..10] {
        assert_eq!(answer.status, 201);
    }
    for (_, answer) in line.drain(10..) {
        assert_eq!(answer.clone().refused(409, "table-unavailable").json()["remaining"], 0);
    }
    assert_eq!(Truth::in_folder(app.folder.path()).held(noon), (20, 10));
    app.stop().await;
}

/// Three servers on one file, each with lanes and a copy of the slot of its own: every one of them is a runner that has
/// lost its lane without noticing.
struct Three {
    app: TestApp,
    others: Vec<Server>,
}

impl Three {
    async fn start(controls: Controls) -> Self {
        let app = TestApp::start_with(|_| {}, |store| store.with_controls(controls)).await;
        let mut others = Vec::new();
        for _ in 0..2 {
            let store = open_store(app.folder.path()).unwrap().with_controls(controls);
            let clock = app.server().app().clock.clone();
            others.push(Server::start(&config(app.folder.path()), store, clock).await.unwrap());
        }
        Self { app, others }
    }

    /// These people, spread over the servers.
    fn spread(&self, people: impl IntoIterator<Item = Guest>) -> impl Iterator<Item = Guest> {
        let address = |server: &Server| Client::new(format!("http://{}", server.address()));
        let clients: Vec<Client> = self.others.iter().map(address).collect();
        people.into_iter().enumerate().map(move |(n, guest)| {
            let client = clients.get(n % 3).cloned().unwrap_or(guest.client);
            Guest { client, token: guest.token }
        })
    }

    /// A hundred people at once, spread over the servers.
    async fn rush(&self, slot: SlotId) -> Vec<Answer> {
        self.rush_for(&wish(slot, 2)).await
    }

    /// A hundred people who all want the same.
    async fn rush_for(&self, wish: &Value) -> Vec<Answer> {
        let people = self.spread((0..100).map(|_| self.app.guest()));
        // Patiently: three writers on one file may keep each other waiting.
        let asking = people.map(|guest| {
            let wish = wish.clone();
            async move { guest.book(wish).await }
        });
        let told = at_once(asking).await;
        assert!(told.iter().all(|answer| [201, 409].contains(&answer.status.as_u16())), "{told:?}");
        told
    }

    async fn stop(self) {
        self.others_stop().await.stop().await;
    }

    async fn others_stop(self) -> TestApp {
        for server in self.others {
            server.stop().await;
        }
        self.app
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_that_know_nothing_of_each_other_sell_ten_tables_once() {
    let three = Three::start(Controls { version_check: true }).await;
    let venue = three.app.venue(tables(10, 4), three.app.person().0).await;
    for round in 0..3 {
        let slot = slot(venue, TOMORROW, round);
        let winners = seated(&three.rush(slot).await);
        let taken: BTreeSet<u64> = winners.iter().map(|told| told["table"].as_u64().unwrap()).collect();
        assert_eq!((winners.len(), taken.len()), (10, 10));
        let truth = Truth::in_folder(three.app.folder.path());
        assert_eq!(truth.held(slot), (20, 10));
        truth.nothing_is_held_twice();
    }
    three.stop().await;
}

/// The control: without the version check and the indexes the same crowd gets more tables than there are.
#[tokio::test(flavor = "multi_thread")]
async fn without_protection_the_same_servers_oversell() {
    let three = Three::start(Controls { version_check: false }).await;
    let venue = three.app.venue(tables(10, 4), three.app.person().0).await;
    let truth = Truth::in_folder(three.app.folder.path());
    truth.0.execute_batch("DROP INDEX one_place_a_person; DROP INDEX one_party_a_table").unwrap();
    let mut most = 0;
    for round in 0..30 {
        let slot = slot(venue, TOMORROW, round);
        let told = three.rush(slot).await;
        most = seated(&told).len().max(truth.held(slot).1 as usize);
        if most > 10 {
            break;
        }
    }
    assert!(most > 10, "the race did not show in 30 rounds, so the test above proves nothing");
    let folder = three.others_stop().await.stop_unaudited().await;
    let stored = store::snapshot(&store::Database::Sqlite(folder.path().join("maitred.db"))).await.unwrap();
    let report = audit::audit(&stored, &[], audit::Options::default());
    let kinds: BTreeSet<String> = report.findings.iter().map(audit::Finding::kind).collect();
    assert!(kinds.contains("oversold") && kinds.contains("wrong-left"), "the auditor must see it: {kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_that_know_nothing_of_each_other_sell_a_seat_once() {
    let three = Three::start(Controls { version_check: true }).await;
    let venue = three.app.venue(hall(1), three.app.person().0).await;
    for seat in ["A-1-1", "A-1-2", "A-1-3"] {
        assert_eq!(seated(&three.rush_for(&show(venue, 1, &[seat])).await).len(), 1);
    }
    three.stop().await;
}

/// The control: without the version check and the key of `held_seat` somebody sits on somebody's lap.
#[tokio::test(flavor = "multi_thread")]
async fn without_protection_the_same_servers_sell_a_seat_twice() {
    let three = Three::start(Controls { version_check: false }).await;
    let venue = three.app.venue(hall(5), three.app.person().0).await;
    let truth = Truth::in_folder(three.app.folder.path());
    let unkeyed =
        "DROP TABLE held_seat; CREATE TABLE held_seat (slot_id INTEGER, seat TEXT, reservation BLOB)";
    truth.0.execute_batch(unkeyed).unwrap();
    let mut most = 0;
    for n in 0..30 {
        let seat = format!("A-{}-{}", n / 10 + 1, n % 10 + 1);
        most = seated(&three.rush_for(&show(venue, 1, &[&seat])).await).len();
        if most > 1 {
            break;
        }
    }
    assert!(most > 1, "the race did not show in 30 rounds, so the test above proves nothing");
    let folder = three.others_stop().await.stop_unaudited().await;
    let stored = store::snapshot(&store::Database::Sqlite(folder.path().join("maitred.db"))).await.unwrap();
    let report = audit::audit(&stored, &[], audit::Options::default());
    assert!(report.of_kind("seat-twice") > 0, "the auditor must see it: {:?}", report.findings);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_people_want_twenty_places() {
    let app = TestApp::start().await;
    let venue = app.venue(places(20), app.person().0).await;
    let noon = slot(venue, TOMORROW, 1);
    let people: Vec<(Guest, u32)> = (0..1_000).map(|n| (app.guest(), 1 + (n * 7 + n / 6) % 6)).collect();

    let groups = people.chunks(5).map(<[_]>::to_vec).map(|group| async move {
        let mut told = Vec::new();
        for (guest, party) in group {
            told.push((book(&guest, noon, party).await, party, guest));
        }
        told
    });
    let told: Vec<_> = at_once(groups).await.into_iter().flatten().collect();

    let truth = Truth::in_folder(app.folder.path());
    let log = truth.log(noon);
    audit(20, &log).unwrap();
    let decided: Vec<_> = log.iter().flat_map(|(_, batch)| batch).collect();
    assert_eq!(decided.len(), 1_000);
    let mut sold = 0;
    for (answer, party, guest) in &told {
        let body = answer.json();
        let line = decided.iter().find(|d| d.ticket.is_some_and(|t| body["ticket"]["id"] == t.to_string()));
        let line = line.unwrap_or_else(|| panic!("not in the log: {body}"));
        assert_eq!(line.party, *party);
        if answer.status == 201 {
            sold += party;
            assert_eq!(line.reservation.unwrap().to_string(), body["id"]);
            assert_eq!(guest.get(&path(&body)).await.expect(200).json(), body);
        } else {
            assert_eq!(answer.clone().refused(409, "not-enough-places").json()["remaining"], line.left);
            assert!(line.refused.is_some());
        }
    }
    assert_eq!(truth.held(noon).0, sold);
    assert!(sold <= 20);

    // The control of the checker: it finds fault with what did not happen so.
    let batch = log.iter().position(|(_, batch)| batch.iter().any(|d| d.refused.is_some())).unwrap();
    let (winner, loser) = (decided.iter().position(|d| d.refused.is_none()).unwrap(), &decided[999]);
    assert!(winner < 999 && loser.refused.is_some());
    let mut oversold = log.clone();
    let refused = oversold[batch].1.iter_mut().find(|d| d.refused.is_some()).unwrap();
    refused.refused = None;
    audit(20, &oversold).unwrap_err();
    let mut swapped = vec![(1, decided.iter().map(|d| (*d).clone()).collect::<Vec<_>>())];
    audit(20, &swapped).unwrap();
    let (first, last) = (swapped[0].1[winner].ticket, swapped[0].1[999].ticket);
    swapped[0].1[winner].ticket = last;
    swapped[0].1[999].ticket = first;
    audit(20, &swapped).unwrap_err();
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_has_one_answer_however_often_it_is_sent() {
    let app = TestApp::start().await;
    let venue = app.venue(places(20), app.person().0).await;
    let guest = app.guest();
    let told = at_once((0..200).map(|_| {
        let guest = guest.clone();
        async move {
            let headers = [("idempotency-key", "lunch"), ("prefer", "wait=10")];
            guest.call(Method::POST, "/api/reservations", &headers, noon(venue, 2).to_string()).await
        }
    }))
    .await;
    for answer in &told {
        assert_eq!((answer.status.as_u16(), &answer.text), (201, &told[0].text));
    }
    assert_eq!(guest.get("/api/reservations").await.json()["items"].as_array().unwrap().len(), 1);
    let truth = Truth::in_folder(app.folder.path());
    assert_eq!(truth.number("SELECT count(*) FROM reservation"), 1);
    assert_eq!(truth.number("SELECT count(*) FROM request_key"), 1);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_has_one_answer_on_three_servers() {
    let three = Three::start(Controls { version_check: true }).await;
    let venue = three.app.venue(places(2), three.app.person().0).await;
    for round in 0..5 {
        let slot = slot(venue, TOMORROW, round);
        // One who gets a place, and one who is too many.
        for (guest, party, status) in [(three.app.guest(), 2, 201), (three.app.guest(), 1, 409)] {
            let told = at_once(three.spread(vec![guest; 30]).map(move |guest| async move {
                let (headers, body) =
                    ([("idempotency-key", "lunch"), ("prefer", "wait=10")], wish(slot, party));
                guest.call(Method::POST, "/api/reservations", &headers, body.to_string()).await
            }))
            .await;
            for answer in &told {
                assert_eq!((answer.status.as_u16(), &answer.text), (status, &told[0].text));
            }
        }
        assert_eq!(Truth::in_folder(three.app.folder.path()).held(slot), (2, 1));
    }
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_clicks_of_one_person_make_one_reservation() {
    let app = TestApp::start().await;
    let venue = app.venue(places(20), app.person().0).await;
    let (guest, noon) = (app.guest(), slot(venue, TOMORROW, 1));
    let told = at_once((0..100).map(|_| {
        let guest = guest.clone();
        async move { book(&guest, noon, 2).await }
    }))
    .await;
    let winners = seated(&told);
    assert_eq!(winners.len(), 1);
    for answer in told.iter().filter(|answer| answer.status != 201) {
        match answer.code().as_str() {
            "request-in-progress" => assert_eq!(answer.json()["ticket"], winners[0]["ticket"]),
            "already-booked" => assert!(place(&answer.json()) > place(&winners[0])),
            other => panic!("{other}: {answer:?}"),
        }
    }
    assert_eq!(Truth::in_folder(app.folder.path()).held(noon), (2, 1));
    app.stop().await;
}

/// One runner that decides one person at a time, and a crowd in front of one slot: somebody who wants another slot is
/// decided while the crowd still waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_hot_slot_does_not_starve_a_cold_one() {
    let slow = |config: &mut maitred::config::Config| {
        config.lane.max_batch = 1;
        config.lane.runners = 1;
    };
    let app = TestApp::start_with(slow, |store| store).await;
    let venue = app.venue(places(20), app.person().0).await;
    let (hot, cold) = (slot(venue, TOMORROW, 1), slot(venue, TOMORROW, 2));
    let desk = app.server().app().desk.clone();
    // Nothing is decided while somebody else writes, so the whole crowd is in line before the first turn.
    let blocker = Truth::in_folder(app.folder.path());
    blocker.0.execute_batch("BEGIN IMMEDIATE").unwrap();
    let people: Vec<Guest> = (0..2_000).map(|_| app.guest()).collect();
    let told = at_once(people.chunks(20).map(<[_]>::to_vec).map(|group| async move {
        for guest in group {
            let body = wish(hot, 1).to_string();
            guest.call(Method::POST, "/api/reservations", &[("prefer", "wait=0")], body).await.expect(202);
        }
    }));
    told.await;
    assert_eq!(desk.waiting(hot).await, 2_000);
    blocker.0.execute_batch("COMMIT").unwrap();
    eventually("the crowd moves", async || desk.waiting(hot).await < 2_000).await;

    book(&app.guest(), cold, 1).await.expect(201);
    eventually("the crowd is served", async || desk.waiting(hot).await == 0).await;

    // Rows of the log are numbered as they are stored.
    let row = |slot: SlotId, which| {
        blocker.number(&format!("SELECT {which}(rowid) FROM decision WHERE slot_id = {}", slot.to_i64()))
    };
    let behind = blocker.number(&format!(
        "SELECT count(*) FROM decision WHERE slot_id = {} AND rowid > {}",
        hot.to_i64(),
        row(cold, "max")
    ));
    assert!(row(cold, "max") > row(hot, "min"), "the crowd had not started");
    assert!(behind > 100, "only {behind} of the crowd were decided after the one who came last");
    assert_eq!(blocker.held(hot), (20, 20));
    app.stop().await;
}
