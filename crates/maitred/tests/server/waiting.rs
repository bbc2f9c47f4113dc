//! Standing in line. Somebody else holds the database, so that batches cannot be stored and people really wait.

use std::time::{Duration, Instant};

use booking::decide::Booking;
use booking::{Action, Outcome, SlotId, Status, TicketId, VenueId};
use hyper::Method;
use maitred::desk::{self, Ticket, Waited};
use serde_json::{Value, json};

use crate::app::{TOMORROW, TestApp, noon, places};
use crate::client::{Answer, Guest};
use crate::steps::{until, wish};

/// A server that decides one person at a time, so that everybody but the first stands in line.
async fn slow() -> TestApp {
    TestApp::start_with(|config| config.lane.max_batch = 1, |store| store).await
}

impl Guest {
    async fn book_with(&self, wish: &Value, headers: &[(&str, &str)]) -> Answer {
        self.call(Method::POST, "/api/reservations", headers, wish.to_string()).await
    }

    /// Asks without waiting for the answer; the ticket.
    async fn line_up(&self, wish: &Value) -> Value {
        let answer = self.book_with(wish, &[("prefer", "wait=0")]).await.expect(202);
        let ticket = answer.json();
        assert_eq!(answer.header("location"), path(&ticket));
        assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0, "{answer:?}");
        assert_eq!(answer.header("preference-applied"), "wait=0");
        assert_eq!(ticket["state"], "waiting");
        ticket
    }

    async fn ticket(&self, ticket: &Value) -> Value {
        self.get(&path(ticket)).await.expect(200).json()
    }

    /// The ticket once it is decided.
    async fn decided(&self, ticket: &Value) -> Value {
        let ask = || async { Some(self.ticket(ticket).await).filter(|now| now["state"] != "waiting") };
        until("a decision", ask).await
    }

    async fn reservations(&self) -> Vec<Value> {
        self.get("/api/reservations").await.expect(200).json()["items"].as_array().unwrap().clone()
    }
}

fn path(ticket: &Value) -> String {
    format!("/api/tickets/{}", ticket["id"].as_str().unwrap())
}

/// Waits until so many stand in line for tomorrow's noon, those being decided included.
async fn until_waiting(app: &TestApp, venue: VenueId, count: u64) {
    let ask = || async { (app.slot(venue, "12:00").await["waitingCount"] == count).then_some(()) };
    until("people in line", ask).await;
}

/// Waits until nobody is left in line but those who are being decided.
async fn until_drawn(app: &TestApp) {
    until("the first batch", || async { (app.server().app().desk.lines().0 == 0).then_some(()) }).await;
}

#[tokio::test]
async fn people_in_line_know_where_they_stand() {
    let app = slow().await;
    let (venue, _) = app.open(places(4)).await;
    let jam = app.jam();
    let guests = [app.guest(), app.guest(), app.guest()];
    let mut tickets = Vec::new();
    for (ahead, guest) in guests.iter().enumerate() {
        let ticket = guest.line_up(&noon(venue, 2)).await;
        assert_eq!(ticket["number"], ahead + 1);
        assert_eq!((&ticket["ahead"], &ticket["waitingCount"]), (&json!(ahead), &json!(ahead + 1)));
        assert_eq!(ticket["estimatedWaitSeconds"], 5, "nothing was decided yet: the pace is unknown");
        assert_eq!(guest.ticket(&ticket).await["ahead"], ahead);
        tickets.push(ticket);
    }
    assert_eq!(app.slot(venue, "12:00").await["waitingCount"], 3);
    jam.release();
    let states = ["seated", "seated", "refused"];
    for ((guest, ticket), state) in guests.iter().zip(&tickets).zip(states) {
        let decided = guest.decided(ticket).await;
        assert_eq!((&decided["state"], &decided["estimatedWaitSeconds"]), (&json!(state), &json!(0)));
        assert_eq!(decided["receipt"]["number"], ticket["number"]);
    }
    let refused = guests[2].ticket(&tickets[2]).await;
    assert_eq!(refused["outcome"]["status"], 409);
    assert_eq!(refused["outcome"]["problem"]["code"], "not-enough-places");
    assert_eq!((&refused["receipt"]["left"], &refused["receipt"]["partySize"]), (&json!(0), &json!(2)));
    assert_eq!(app.slot(venue, "12:00").await["waitingCount"], 0);
    app.stop().await;
}

#[tokio::test]
async fn the_expected_time_comes_from_the_pace_of_the_line() {
    let app = slow().await;
    let (venue, _) = app.open(places(20)).await;
    app.guest().seated(noon(venue, 1)).await;
    let jam = app.jam();
    app.guest().line_up(&noon(venue, 1)).await;
    let ticket = app.guest().line_up(&noon(venue, 1)).await;
    let desk = app.server().app().desk.clone();
    let found = desk.find(ticket["id"].as_str().unwrap().parse().unwrap()).await.unwrap();
    let Some(maitred::desk::Found::InMemory(found)) = found else { panic!("the ticket is gone") };
    let position = desk.position(&found).await;
    let seconds = 2.0 / position.pace.unwrap();
    assert_eq!(position.ahead, 1);
    assert_eq!(ticket["estimatedWaitSeconds"].as_f64().unwrap(), seconds.ceil().max(1.0));
    jam.release();
    app.stop().await;
}

#[tokio::test]
async fn the_answer_is_collected_by_asking_by_listening_or_by_the_same_request() {
    let app = slow().await;
    let (venue, _) = app.open(places(20)).await;
    let jam = app.jam();
    app.guest().line_up(&noon(venue, 1)).await;
    let guest = app.guest();
    let again = [("idempotency-key", "lunch"), ("prefer", "wait=0")];
    let ticket = guest.book_with(&noon(venue, 2), &again).await.expect(202).json();
    // The same request has the same place, from wherever it comes.
    let elsewhere = guest.elsewhere();
    assert_eq!(elsewhere.book_with(&noon(venue, 2), &again).await.expect(202).json()["id"], ticket["id"]);
    let mut events = elsewhere.listen(&format!("{}/events", path(&ticket))).await;
    let (name, position) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &position["ahead"], &position["id"]), ("position", &json!(1), &ticket["id"]));

    jam.release();
    let (name, outcome) = loop {
        match events.next().await.unwrap() {
            (name, _) if name == "position" => {}
            other => break other,
        }
    };
    assert_eq!((name.as_str(), &outcome["state"]), ("outcome", &json!("seated")));
    assert_eq!(events.next().await, None, "the outcome is the last word");
    let reservation = &outcome["outcome"]["reservation"];
    assert_eq!(guest.elsewhere().ticket(&ticket).await, outcome);
    let key = [("idempotency-key", "lunch")];
    let replayed = guest.elsewhere().book_with(&noon(venue, 2), &key).await.expect(201);
    assert_eq!(&replayed.json(), reservation);
    assert_eq!(replayed.header("preference-applied"), "");
    let mut late = guest.listen(&format!("{}/events", path(&ticket))).await;
    assert_eq!(late.next().await, Some(("outcome".to_owned(), outcome)));
    assert_eq!(guest.reservations().await.len(), 1);
    app.stop().await;
}

#[tokio::test]
async fn a_ticket_is_decided_although_nobody_is_connected() {
    let app = slow().await;
    let (venue, _) = app.open(places(20)).await;
    let jam = app.jam();
    let guest = app.guest();
    let call = tokio::spawn({
        let guest = guest.elsewhere();
        async move { guest.book_with(&noon(venue, 2), &[("prefer", "wait=10")]).await }
    });
    until_waiting(&app, venue, 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    jam.release();
    let seated = || async { guest.reservations().await.pop() };
    assert_eq!(until("the reservation", seated).await["partySize"], 2);
    app.stop().await;
}

#[tokio::test]
async fn leaving_the_line_moves_the_next_one_up() {
    let app = slow().await;
    let (venue, _) = app.open(places(4)).await;
    let jam = app.jam();
    let [first, second, third] = [app.guest(), app.guest(), app.guest()];
    let first_ticket = first.line_up(&noon(venue, 2)).await;
    let second_ticket = second.line_up(&noon(venue, 2)).await;
    let third_ticket = third.line_up(&noon(venue, 2)).await;
    until("the first turn", || async { (app.server().app().desk.lines().0 == 2).then_some(()) }).await;
    third.delete(&path(&second_ticket)).await.refused(404, "not-found");
    let left = second.delete(&path(&second_ticket)).await.expect(200).json();
    assert_eq!((&left["state"], left.get("outcome")), (&json!("left"), None));
    let moved = third.ticket(&third_ticket).await;
    assert_eq!((&moved["ahead"], &moved["waitingCount"]), (&json!(1), &json!(2)));
    assert_eq!(second.delete(&path(&second_ticket)).await.expect(200).json()["state"], "left");
    // Whoever has left may stand in line again, at its end.
    let again = second.line_up(&noon(venue, 2)).await;
    assert_eq!((&again["number"], &again["ahead"]), (&json!(4), &json!(2)));

    jam.release();
    assert_eq!(third.decided(&third_ticket).await["state"], "seated");
    assert_eq!(second.decided(&again).await["state"], "refused");
    assert_eq!(second.ticket(&second_ticket).await["state"], "left");
    // A decided ticket says how it ended, and stays so.
    let decided = first.decided(&first_ticket).await;
    assert_eq!(first.delete(&path(&first_ticket)).await.expect(200).json(), decided);
    assert_eq!(first.reservations().await[0]["status"], "TEMPORARY");
    app.stop().await;
}

#[tokio::test]
async fn leaving_when_the_turn_has_come_returns_the_outcome() {
    let app = slow().await;
    let (venue, _) = app.open(places(4)).await;
    let jam = app.jam();
    let guest = app.guest();
    let ticket = guest.line_up(&noon(venue, 2)).await;
    until_drawn(&app).await;
    let leaving = guest.elsewhere();
    let gone = path(&ticket);
    let leaving = tokio::spawn(async move { leaving.delete(&gone).await });
    jam.release();
    // Where the store was in trouble for too long it is still waiting; nothing is ever undone.
    let answer = leaving.await.unwrap().expect(200).json();
    assert_ne!(answer["state"], "left");
    assert_eq!(guest.decided(&ticket).await["state"], "seated");
    app.stop().await;
}

#[tokio::test]
async fn one_person_has_one_request_under_way_for_a_slot() {
    let app = slow().await;
    let (venue, _) = app.open(places(2)).await;
    let [winner, loser] = [app.guest(), app.guest()];
    let jam = app.jam();
    let winning = winner.line_up(&noon(venue, 2)).await;
    let losing = loser.line_up(&noon(venue, 1)).await;
    for (guest, ticket) in [(&winner, &winning), (&loser, &losing)] {
        let refused = guest.elsewhere().book(noon(venue, 1)).await.refused(409, "request-in-progress").json();
        assert_eq!(
            (&refused["ticket"]["id"], &refused["ticket"]["number"]),
            (&ticket["id"], &ticket["number"])
        );
    }
    // Another slot is another matter.
    winner.line_up(&wish(venue, "13:00", 1)).await;
    let released = Instant::now();
    jam.release();
    let decided = winner.decided(&winning).await;
    assert_eq!(loser.decided(&losing).await["state"], "refused");
    // A success keeps the guard a while longer, a refusal and a cancel clear it.
    let twice = winner.book(noon(venue, 2)).await;
    if released.elapsed() < Duration::from_secs(5) {
        assert_eq!(twice.refused(409, "request-in-progress").json()["ticket"]["id"], winning["id"]);
    }
    loser.book(noon(venue, 1)).await.refused(409, "not-enough-places");
    winner.cancel(&decided["outcome"]["reservation"]).await.expect(200);
    winner.seated(noon(venue, 2)).await;
    app.stop().await;
}

#[tokio::test]
async fn a_full_line_says_when_to_come_back_and_owners_pass_it() {
    let bounds = |config: &mut maitred::config::Config| {
        config.lane.max_batch = 1;
        config.lane.max_waiting = 2;
    };
    let app = TestApp::start_with(bounds, |store| store).await;
    let (venue, _) = app.open(places(6)).await;
    let owner = app.rich().await;
    let held = owner.seated(noon(venue, 2)).await;
    let jam = app.jam();
    app.guest().line_up(&noon(venue, 1)).await;
    until_drawn(&app).await;
    for _ in 0..2 {
        app.guest().line_up(&noon(venue, 1)).await;
    }
    let unlucky = app.guest();
    let full = unlucky.book(noon(venue, 1)).await.refused(429, "line-full");
    assert!(full.header("retry-after").parse::<u32>().unwrap() > 0, "{full:?}");
    // Paying is not booking: one payment stands in line, and a second one is told of it.
    let pay = || {
        let (owner, held) = (owner.elsewhere(), held.clone());
        tokio::spawn(async move { owner.pay(&held).await })
    };
    let (mut first, mut second) = (pay(), pay());
    let (told, served) = tokio::select! {
        told = &mut first => (told, second),
        told = &mut second => (told, first),
    };
    told.unwrap().refused(409, "payment-in-progress");
    jam.release();
    assert_eq!(served.await.unwrap().expect(200).json()["status"], "CONFIRMED");
    until_waiting(&app, venue, 0).await;
    assert_eq!((owner.balance().await, app.remaining(venue, "12:00").await), (990_000, json!(1)));
    unlucky.seated(noon(venue, 1)).await;
    app.stop().await;
}

#[tokio::test]
async fn those_who_have_a_place_go_before_those_who_want_one() {
    let app = slow().await;
    let (venue, _) = app.open(places(1)).await;
    let owner = app.guest();
    let held = owner.seated(noon(venue, 1)).await;
    let jam = app.jam();
    let [first, second] = [app.guest(), app.guest()];
    let first_ticket = first.line_up(&noon(venue, 1)).await;
    until_drawn(&app).await;
    let second_ticket = second.line_up(&noon(venue, 1)).await;
    let cancelling = tokio::spawn({
        let (owner, held) = (owner.elsewhere(), held.clone());
        async move { owner.cancel(&held).await }
    });
    // The owner stands in line, behind the second guest by number.
    let slot = SlotId::new(venue, TOMORROW.parse().unwrap(), jiff::civil::time(12, 0, 0, 0)).unwrap();
    let epoch = u32::try_from(second_ticket["epoch"].as_u64().unwrap()).unwrap();
    let owners = TicketId::new(slot, epoch, second_ticket["number"].as_u64().unwrap() + 1);
    let entered =
        || async { (owner.get(&format!("/api/tickets/{owners}")).await.status == 200).then_some(()) };
    until("the owner in line", entered).await;
    jam.release();
    assert_eq!(cancelling.await.unwrap().expect(200).json()["status"], "CANCELED");
    assert_eq!(first.decided(&first_ticket).await["state"], "refused");
    assert_eq!(
        second.decided(&second_ticket).await["state"],
        "seated",
        "the freed place is there for the next"
    );
    app.stop().await;
}

#[tokio::test]
async fn trouble_with_the_store_is_told_and_the_ticket_still_decides_once() {
    let app = slow().await;
    let (venue, _) = app.open(places(20)).await;
    let jam = app.jam();
    let guest = app.guest();
    let request = [("idempotency-key", "lunch"), ("prefer", "wait=10")];
    let told = guest.book_with(&noon(venue, 2), &request).await.refused(503, "unavailable");
    assert!(told.header("retry-after").parse::<u32>().unwrap() > 0, "{told:?}");
    let ticket = told.json()["ticket"].clone();
    assert_eq!(guest.ticket(&ticket).await["state"], "waiting");
    let again = guest.book_with(&noon(venue, 2), &request).await.refused(503, "unavailable").json();
    assert_eq!(again["ticket"], ticket);
    app.client.anybody().get("/health/ready").await.refused(503, "unavailable");
    app.client.anybody().get("/health/live").await.expect(200);

    jam.release();
    let decided = guest.decided(&ticket).await;
    assert_eq!(decided["state"], "seated");
    let collected = guest.book_with(&noon(venue, 2), &request).await.expect(201).json();
    assert_eq!(collected, decided["outcome"]["reservation"]);
    app.client.anybody().get("/health/ready").await.expect(200);
    let rows = app.rows();
    let count = |table: &str| rows.iter().find(|(name, _)| name == table).unwrap().1;
    assert_eq!((count("reservation"), count("decision"), count("request_key")), (1, 1, 1));
    app.stop().await;
}

#[tokio::test]
async fn after_a_restart_the_log_answers_for_the_tickets() {
    let app = slow().await;
    let (venue, _) = app.open(places(3)).await;
    let [winner, loser] = [app.guest(), app.guest()];
    let key = [("idempotency-key", "lunch"), ("prefer", "wait=10")];
    let won = winner.book_with(&noon(venue, 2), &key).await.expect(201).json();
    let lost = loser.book_with(&noon(venue, 2), &key).await.refused(409, "not-enough-places").json();
    let before = (winner.ticket(&won["ticket"]).await, loser.ticket(&lost["ticket"]).await);

    let app = app.restart().await;
    let [winner, loser] = [winner, loser].map(|guest| app.client.guest(guest.token.unwrap()));
    let seated = winner.ticket(&won["ticket"]).await;
    let refused = loser.ticket(&lost["ticket"]).await;
    assert_eq!((&seated, &refused), (&before.0, &before.1));
    assert_eq!((&seated["state"], &seated["receipt"]["code"]), (&json!("seated"), &json!("seated")));
    let receipt = &refused["receipt"];
    assert_eq!((&receipt["number"], &receipt["left"], &receipt["batch"]), (&json!(2), &json!(1), &json!(2)));
    assert_eq!(
        (&receipt["code"], &receipt["decidedAt"]),
        (&json!("not-enough-places"), &json!(crate::app::MORNING))
    );
    assert_eq!(refused["outcome"]["problem"]["remaining"], 1);
    let mut events = loser.listen(&format!("{}/events", path(&lost["ticket"]))).await;
    assert_eq!(events.next().await, Some(("outcome".to_owned(), refused.clone())));
    assert_eq!(loser.delete(&path(&lost["ticket"])).await.expect(200).json(), refused);
    winner.get(&path(&lost["ticket"])).await.refused(404, "not-found");

    // The same requests have the same answers; another one with the same key is told apart.
    assert_eq!(winner.book_with(&noon(venue, 2), &key).await.expect(201).json(), won);
    let replayed = loser.book_with(&noon(venue, 2), &key).await.refused(409, "not-enough-places").json();
    assert_eq!(replayed["ticket"], lost["ticket"]);
    loser.book_with(&noon(venue, 1), &key).await.refused(422, "idempotency-mismatch");
    // Without the guard of the life before, it is the slot that says who is in it.
    let refused = winner.book(noon(venue, 1)).await.refused(409, "already-booked").json();
    assert!(refused["ticket"]["epoch"].as_u64() > won["ticket"]["epoch"].as_u64());
    app.stop().await;
}

#[tokio::test]
async fn a_ticket_is_its_owners_alone() {
    let app = slow().await;
    let (venue, staff) = app.open(places(4)).await;
    let jam = app.jam();
    let guest = app.guest();
    let ticket = guest.line_up(&noon(venue, 1)).await;
    for stranger in [app.guest(), staff] {
        stranger.get(&path(&ticket)).await.refused(404, "not-found");
        stranger.get(&format!("{}/events", path(&ticket))).await.refused(404, "not-found");
        stranger.delete(&path(&ticket)).await.refused(404, "not-found");
    }
    app.client.anybody().get(&path(&ticket)).await.refused(401, "unauthenticated");
    jam.release();
    assert_eq!(guest.decided(&ticket).await["state"], "seated");
    app.stop().await;
}

#[tokio::test]
async fn a_request_waits_in_the_call_as_long_as_the_caller_prefers() {
    let app = slow().await;
    let (venue, _) = app.open(places(20)).await;
    let jam = app.jam();
    app.guest().line_up(&noon(venue, 1)).await;
    until_drawn(&app).await;
    let guest = app.guest();
    let call = guest.book_with(&noon(venue, 2), &[("prefer", "wait=1")]).await.expect(202);
    assert_eq!(call.header("preference-applied"), "wait=1");
    // Without a preference, two seconds; then the place is kept.
    let call = app.guest().book_with(&noon(venue, 2), &[]).await.expect(202);
    assert_eq!(call.header("preference-applied"), "");
    let patient = app.guest();
    let patient =
        tokio::spawn(async move { patient.book_with(&noon(venue, 2), &[("prefer", "wait=99")]).await });
    until_waiting(&app, venue, 4).await;
    jam.release();
    let call = patient.await.unwrap().expect(201);
    assert_eq!(call.header("preference-applied"), "wait=10");
    app.stop().await;
}

#[tokio::test]
async fn the_same_request_keeps_its_answer_after_its_time_has_passed() {
    let app = TestApp::start().await;
    let (venue, staff) = app.open(places(20)).await;
    let guest = app.guest();
    let key = [("idempotency-key", "lunch"), ("prefer", "wait=10")];
    let booked = guest.book_with(&noon(venue, 2), &key).await.expect(201).json();
    // The venue no longer offers that hour.
    staff.patch(&format!("/api/venues/{venue}"), json!({"times": {}})).await.expect(200);
    guest.book_with(&noon(venue, 2), &[]).await.refused(422, "invalid-request");
    assert_eq!(guest.book_with(&noon(venue, 2), &key).await.expect(201).json(), booked);

    let app = app.restart().await;
    let guest = app.client.guest(guest.token.unwrap());
    assert_eq!(guest.book_with(&noon(venue, 2), &key).await.expect(201).json(), booked);
    guest.book_with(&noon(venue, 3), &key).await.refused(422, "invalid-request");
    app.stop().await;
}

/// B3: a place somewhere else, or one that has run out, lets nobody pass those who wait here.
#[tokio::test]
async fn whoever_moves_in_or_pays_too_late_waits_behind_those_who_came_before() {
    let app = slow().await;
    let (venue, _) = app.open(places(2)).await;
    let (mover, late) = (app.guest(), app.rich().await);
    let elsewhere = mover.seated(wish(venue, "13:00", 1)).await;
    let ran_out = late.seated(noon(venue, 1)).await;
    app.wait(7 * 60);
    // Seated after the hold of noon had run out, so that it has not.
    let fresh = mover.seated(wish(venue, "14:00", 1)).await;

    let jam = app.jam();
    let guests = [app.guest(), app.guest(), app.guest()];
    let mut tickets = Vec::new();
    for guest in &guests {
        tickets.push(guest.line_up(&noon(venue, 1)).await);
    }
    let paying = tokio::spawn({
        let (late, ran_out) = (late.elsewhere(), ran_out.clone());
        async move { late.pay(&ran_out).await }
    });
    until_waiting(&app, venue, 4).await;
    let moving = tokio::spawn({
        let (mover, path) = (mover.elsewhere(), path_of(&fresh));
        async move { mover.patch(&path, json!({"time": "12:00"})).await }
    });
    until_waiting(&app, venue, 5).await;
    jam.release();

    let mut states = Vec::new();
    for (guest, ticket) in guests.iter().zip(&tickets) {
        states.push(guest.decided(ticket).await["state"].clone());
    }
    assert_eq!(states, ["seated", "seated", "refused"]);
    paying.await.unwrap().refused(409, "not-enough-places");
    moving.await.unwrap().refused(409, "not-enough-places");
    assert_eq!(late.balance().await, 1_000_000);
    let kept = mover.get(&path_of(&fresh)).await.json();
    assert_eq!((&kept["status"], &kept["time"]), (&json!("TEMPORARY"), &json!("14:00")));
    assert_eq!(mover.get(&path_of(&elsewhere)).await.json()["status"], "EXPIRED");
    app.stop().await;
}

fn path_of(reservation: &Value) -> String {
    format!("/api/reservations/{}", reservation["id"].as_str().unwrap())
}

/// A request that was entered again because the reply to its first entry was lost, while its hold ran out in between.
#[tokio::test]
async fn a_request_under_two_tickets_is_answered_by_what_it_made() {
    let app = slow().await;
    let (venue, _) = app.open(places(4)).await;
    let person = app.person().0;
    let slot = SlotId::new(venue, TOMORROW.parse().unwrap(), jiff::civil::time(12, 0, 0, 0)).unwrap();
    let id = booking::ReservationId(7);
    let enter = async |app: &TestApp, person| {
        let booking = Booking {
            id,
            name: "Guest".into(),
            party: 2,
            payment: booking::Payment::Deposit,
            seats: [].into(),
            section: None,
            order: [].into(),
            note: None,
        };
        let action = Action::Book(Box::new(booking));
        let wish = desk::Wish { slot, person, action, key: None, rate: None };
        app.server().app().desk.enter(wish).await.unwrap_or_else(|_| panic!("full"))
    };
    let served = async |ticket: &std::sync::Arc<Ticket>| match ticket.wait(Duration::from_secs(30)).await {
        Waited::Answered(desk::Answer::Decided(settled)) => match &settled.outcome {
            Outcome::Done(reservation) => (reservation.id == id).then_some(reservation.status()),
            Outcome::Noted => None,
            Outcome::Refused(refusal) => panic!("{refusal:?}"),
        },
        _ => None,
    };
    assert_eq!(served(&enter(&app, person).await).await, Some(Status::Temporary));
    // A server that knows nothing of the guard.
    let app = app.restart().await;
    assert_eq!(served(&enter(&app, person).await).await, Some(Status::Temporary));
    let app = app.restart().await;
    app.wait(7 * 60);
    let other = app.guest();
    let held = other.seated(noon(venue, 2)).await;
    let last = enter(&app, person).await;
    assert_eq!(served(&last).await, Some(Status::Expired));
    let logged = app.server().app().store.decided(last.id()).await.unwrap().unwrap();
    assert_eq!(logged.decision.reservation, Some(id));

    // An id that is somebody else's fails alone.
    other.cancel(&held).await.expect(200);
    assert_eq!(served(&enter(&app, app.person().0).await).await, None);
    other.seated(noon(venue, 2)).await;
    app.stop().await;
}
