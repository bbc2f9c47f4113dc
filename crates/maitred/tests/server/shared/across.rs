//! A place in line belongs to its guest, not to a server (D1): taken at one, seen at another, heard of at a third.

use hyper::Method;
use serde_json::Value;

use super::cluster::{Cluster, places, slot};
use super::guests::{Ending, Plan};
use super::load::Flow;
use crate::client::{Answer, Guest};
use crate::crowd::{eventually, wish};

/// Asks without waiting.
async fn ask(guest: &Guest, slot: booking::SlotId, key: &str) -> Answer {
    let headers = [("prefer", "wait=0"), ("idempotency-key", key)];
    guest.call(Method::POST, "/api/reservations", &headers, wish(slot, 1).to_string()).await
}

fn id(ticket: &Value) -> &str {
    ticket["id"].as_str().unwrap_or_else(|| panic!("no id: {ticket}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_is_good_at_every_server() {
    let cluster = Cluster::start().await;
    let noon = slot(cluster.venue(places(100)).await, 0);
    let mut people = cluster.people(4).await.into_iter();
    let [early, decoy, stays, leaves] = std::array::from_fn(|_| people.next().unwrap());
    let at = |person: &super::guests::Person, member| person.at(&cluster.client(member));
    let plan = Plan { person: early.clone(), slot: noon, party: 1, first: 0, wait: 5, pays: false };
    let first = plan.carry_out(&cluster.doors(), &Flow::default()).await;
    assert!(matches!(first.ending, Ending::Won(_)));

    // Nothing can be stored for a moment. The decoy's turn has come; whoever comes after it stands in line.
    let database = cluster.database.connect().await;
    let jam = cluster.database.jam(noon).await;
    ask(&at(&decoy, 0), noon, "lunch").await.expect(202);
    eventually("a batch waits", async || database.somebody_is_jammed().await).await;
    let staying = ask(&at(&stays, 0), noon, "lunch").await.expect(202).json();
    let leaving = ask(&at(&leaves, 0), noon, "lunch").await.expect(202).json();

    let path = format!("/api/tickets/{}", id(&staying));
    let mut events = at(&stays, 2).listen(&format!("{path}/events")).await;
    let (event, heard) = events.next().await.unwrap();
    assert_eq!(
        (event.as_str(), &heard["state"], &heard["number"]),
        ("position", &"waiting".into(), &staying["number"])
    );
    let seen = at(&stays, 1).get(&path).await.expect(200).json();
    assert_eq!(
        (&seen["state"], &seen["number"], &seen["epoch"]),
        (&"waiting".into(), &staying["number"], &staying["epoch"])
    );
    // Nobody else may look, and a second click goes nowhere, wherever it lands.
    at(&leaves, 1).get(&path).await.refused(404, "not-found");
    let again =
        at(&stays, 1).post("/api/reservations", wish(noon, 1)).await.refused(409, "request-in-progress");
    assert_eq!(id(&again.json()["ticket"]), id(&staying));
    // The same request, at another server, has the same place.
    assert_eq!(id(&ask(&at(&stays, 2), noon, "lunch").await.expect(202).json()), id(&staying));
    let left = at(&leaves, 1).delete(&format!("/api/tickets/{}", id(&leaving))).await.expect(200).json();
    assert_eq!(left["state"], "left");
    drop(jam);

    let mut outcome = None;
    while let Some((event, told)) = events.next().await {
        outcome = (event == "outcome").then_some(told);
    }
    let outcome = outcome.expect("the listener is told");
    assert_eq!(outcome["state"], "seated", "{outcome}");
    let reservation = &outcome["outcome"]["reservation"]["id"];
    for member in 0..3 {
        // News takes a moment to come round. Until then it may say that they wait, and nothing else.
        eventually("the outcome is known everywhere", async || {
            let seen = at(&stays, member).get(&path).await.expect(200).json();
            let told = &seen["outcome"]["reservation"]["id"];
            assert!(told == reservation || seen["state"] == "waiting", "at {member}: {seen}");
            told == reservation
        })
        .await;
        let asked = ask(&at(&stays, member), noon, "lunch").await.expect(201).json();
        assert_eq!(&asked["id"], reservation, "at {member}");
        let gone =
            at(&leaves, member).get(&format!("/api/tickets/{}", id(&leaving))).await.expect(200).json();
        assert_eq!(gone["state"], "left", "at {member}");
        assert_eq!(at(&leaves, member).get("/api/reservations").await.json()["items"], serde_json::json!([]));
    }
    let taken = format!("SELECT count(*) FROM reservation WHERE slot_id = {}", noon.to_i64());
    eventually("the decoy has its place", async || database.number(&taken).await == 3).await;
    // What is stored agrees, as far as visits were kept of it.
    let stored = cluster.database.all().await;
    let batches = stored.batches.iter().map(|(_, batch)| serde_json::from_str(&batch.decisions).unwrap());
    let decided: Vec<_> = batches.flat_map(|batch: Vec<booking::Decision>| batch).map(|d| d.person).collect();
    assert_eq!(decided, [early.id, decoy.id, stays.id]);
}
