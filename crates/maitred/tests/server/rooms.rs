//! Waiting rooms: numbers, letting in, and all that happens to processes and to Redis meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use booking::VenueId;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::client::{Answer, Guest};
use crate::crowd::{at_once, slot, wish};
use crate::house::{House, told_to_both};
use crate::steps::until;

told_to_both!(
    a_hundred_people_at_once_get_the_numbers_up_to_a_hundred,
    two_thousand_people_pass_a_room_of_ten,
    positions_are_told_to_those_who_listen,
    a_sale_opens_by_arrival,
    without_a_room_nobody_books_before_the_opening,
    an_outage_of_redis_changes_no_number,
);

/// A wish for the day after tomorrow.
pub fn wish_for(venue: &str, n: usize) -> Value {
    let day = (Timestamp::now() + SignedDuration::from_hours(48)).to_zoned(jiff::tz::TimeZone::UTC).date();
    wish(slot(venue.parse::<VenueId>().unwrap(), &day.to_string(), n % 300), 1)
}

async fn ask_all(guests: &[Guest], venue: &str) -> Vec<Value> {
    let asking = guests.iter().cloned().map(|guest| {
        let venue = venue.to_owned();
        async move { guest.ask_for_token(&venue).await.expect(201).json() }
    });
    at_once(asking).await
}

fn numbers(told: &[Value]) -> Vec<u64> {
    let mut numbers: Vec<_> = told.iter().map(|told| told["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

async fn a_hundred_people_at_once_get_the_numbers_up_to_a_hundred(house: House) {
    let (venue, _) = house.with_room(json!({"enabled": true})).await;
    let guests = house.guests(101);
    let told = ask_all(&guests[..100], &venue).await;
    assert_eq!(numbers(&told), (1..=100).collect::<Vec<_>>());
    assert_eq!(guests[100].ask_for_token(&venue).await.expect(201).json()["number"], 101);
    for told in &told {
        let number = told["number"].as_u64().unwrap();
        assert_eq!(told["state"], if number <= 10 { "inside" } else { "waiting" }, "{told}");
    }
    let again = guests[3].ask_for_token(&venue).await.refused(409, "token-already-issued").json();
    assert_eq!(again["queue"]["number"], told[3]["number"]);
    // The same person through the other process has the same place.
    let elsewhere = house.client(4).guest(guests[3].token.clone().unwrap());
    let seen = elsewhere.place(&venue).await.expect(200).json();
    assert_eq!(seen["number"], told[3]["number"]);
    let last = until("positions are known", || async {
        let last = guests[100].place(&venue).await.expect(200).json();
        (last["ahead"] == 90).then_some(last)
    });
    assert_eq!(last.await["state"], "waiting");
    house.guest().place(&venue).await.refused(404, "not-found");
    house.audit();
}

/// An answer, asked for again while a busy machine has none.
async fn patiently<F: Future<Output = Answer>>(ask: impl Fn() -> F) -> Answer {
    until("an answer", || async { Some(ask().await).filter(|answer| answer.status.as_u16() != 503) }).await
}

/// Takes a place and tells where it is.
async fn come(guest: &Guest, venue: &str) -> Value {
    let asked = patiently(|| guest.ask_for_token(venue)).await;
    // Whoever was not told at first has the place all the same.
    assert!([201, 409].contains(&asked.status.as_u16()), "{asked:?}");
    patiently(|| guest.place(venue)).await.expect(200).json()
}

/// What a person does: comes, waits, books, pays. Some are let in and do nothing.
async fn pass(
    guest: Guest,
    venue: String,
    n: usize,
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
) -> u64 {
    let mut told = come(&guest, &venue).await;
    let first = told["number"].as_u64().unwrap();
    let mut idle = n % 200 == 7;
    loop {
        match told["state"].as_str().unwrap() {
            "inside" if !idle => {
                let token = told["token"].as_str().unwrap();
                let booked = guest.book_inside(&wish_for(&venue, n), token).await;
                if booked.status == 201 {
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    // Long enough for others to be there at the same time.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    let reservation = booked.json();
                    if guest.pay_inside(&reservation, token).await.status == 200 {
                        return first;
                    }
                }
                // On a slow machine somebody may be taken for idle, and then comes again.
            }
            "lapsed" => {
                idle = false;
                come(&guest, &venue).await;
            }
            _ => {
                // Nobody looks more often than it is of use, nor so seldom as to miss the turn.
                let pause = match told["ahead"].as_u64().unwrap() {
                    0..20 => 50,
                    20..60 => 250,
                    60..200 => 1_000,
                    ahead => (ahead * 5).clamp(1_000, 8_000),
                };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
        told = patiently(|| guest.place(&venue)).await.expect(200).json();
    }
}

async fn two_thousand_people_pass_a_room_of_ten(house: House) {
    const PEOPLE: usize = 2_000;
    let (venue, _) =
        house.with_room(json!({"enabled": true, "size": 10, "idleSeconds": 8, "totalSeconds": 60})).await;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut people = tokio::task::JoinSet::new();
    for (n, guest) in house.guests(PEOPLE).into_iter().enumerate() {
        people.spawn(pass(guest, venue.clone(), n, inside.clone(), most.clone()));
    }
    let mut served = 0;
    let count = "SELECT count(*) FROM queue_token WHERE state = 'INSIDE'";
    let overtaken = "SELECT count(*) FROM queue_token WHERE state = 'WAITING' AND number < \
                     (SELECT max(number) FROM queue_token WHERE let_in_at IS NOT NULL)";
    loop {
        tokio::select! {
            person = people.join_next() => match person {
                Some(number) => served += usize::from(number.unwrap() > 0),
                None => break,
            },
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                let inside = house.number(count).await;
                assert!(inside <= 10, "{inside} inside");
                assert_eq!(house.number(overtaken).await, 0, "nobody waits behind whom others were let in");
            }
        }
    }
    assert_eq!(served, PEOPLE);
    assert!(most.load(Ordering::SeqCst) <= 10, "{most:?} inside, by what they were told");
    assert_eq!(house.number("SELECT count(*) FROM queue_token WHERE state = 'DONE'").await, 2_000);
    let lapsed = house.number("SELECT count(*) FROM queue_token WHERE state = 'LAPSED'").await;
    assert!(lapsed >= 10, "{lapsed} were idle");
    let rows = "SELECT number, let_in_at, ended_at FROM queue_token ORDER BY number";
    let rows = house.rows(rows).await;
    assert!(rows.iter().zip(1..).all(|(row, n)| row[0] == n), "numbers have no gaps");
    // Processes follow one clock, as exactly as a busy machine lets them.
    let margin = if house.processes() == 1 { 0 } else { 1_500 };
    assert!(rows.windows(2).all(|pair| pair[0][1] <= pair[1][1] + margin), "let in by number");
    let mut moments: Vec<_> = rows.iter().flat_map(|row| [(row[1] + margin, 1), (row[2], -1)]).collect();
    moments.sort_unstable();
    let mut now = 0;
    let most = moments.into_iter().map(|(_, change)| {
        now += change;
        now
    });
    assert!(most.max().unwrap() <= 10);
    house.audit();
}

async fn positions_are_told_to_those_who_listen(house: House) {
    let (venue, staff) = house.with_room(json!({"enabled": true, "size": 1})).await;
    let [first, second, third] = house.guests(3).try_into().unwrap_or_else(|_| panic!());
    for guest in [&first, &second, &third] {
        guest.ask_for_token(&venue).await.expect(201);
    }
    let path = format!("/api/venues/{venue}/queue-tokens/current");
    let mut events = third.listen(&format!("{path}/events")).await;
    let (name, told) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &told["number"], &told["ahead"]), ("position", &json!(3), &json!(1)));
    assert_eq!(second.delete(&path).await.expect(200).json()["state"], "left");
    second.delete(&path).await.refused(404, "not-found");
    let (name, told) = loop {
        let (name, told) = events.next().await.unwrap();
        if told["ahead"] == 0 {
            break (name, told);
        }
    };
    assert_eq!((name.as_str(), &told["state"]), ("position", &json!("waiting")));
    first.delete(&path).await.expect(200);
    let told = loop {
        let (name, told) = events.next().await.unwrap();
        if name == "inside" {
            break told;
        }
    };
    let token = told["token"].as_str().unwrap();
    let held = third.book_inside(&wish_for(&venue, 1), token).await.expect(201).json();
    third.pay_inside(&held, token).await.expect(200);
    let (name, told) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &told["state"], told.get("token")), ("over", &json!("done"), None));
    assert!(events.next().await.is_none());

    // Switched off, the room keeps nobody out.
    let off = json!({"enabled": false});
    staff.put(&format!("/api/venues/{venue}/waiting-room"), off).await.expect(200);
    house.until_known(&venue, |opening| opening["waitingRoom"]["enabled"] == false).await;
    house.guest().post("/api/reservations", wish_for(&venue, 1)).await.expect(201);
    third.ask_for_token(&venue).await.refused(404, "not-found");
    house
        .guest()
        .put(&format!("/api/venues/{venue}/waiting-room"), json!({"enabled": true}))
        .await
        .expect(403);
    house.audit();
}

async fn a_sale_opens_by_arrival(house: House) {
    let (venue, staff) = house.with_room(json!({"enabled": true, "size": 3})).await;
    let opens_at = Timestamp::now() + SignedDuration::from_secs(5);
    let opening = json!({"opensAt": opens_at.to_string(), "order": "arrival"});
    staff.put(&format!("/api/venues/{venue}/opening"), opening).await.expect(200);
    house
        .until_known(&venue, |opening| opening["opensAt"].as_str() > Some(&Timestamp::now().to_string()))
        .await;
    let guests = house.guests(8);
    for (n, guest) in guests[..6].iter().enumerate() {
        let told = guest.ask_for_token(&venue).await.expect(201).json();
        assert_eq!((&told["number"], &told["state"]), (&Value::Null, &json!("waiting")));
        assert_eq!(told["ahead"], n);
        let token = told["token"].as_str().unwrap();
        let refused =
            guest.book_inside(&wish_for(&venue, 1), token).await.refused(403, "queue-token-required");
        assert_eq!(refused.json()["queue"]["state"], "waiting");
        assert!(refused.header("retry-after").parse::<u64>().unwrap() <= 6);
    }
    guests[2].delete(&format!("/api/venues/{venue}/queue-tokens/current")).await.expect(200);
    until("it opens", || async {
        (guests[0].place(&venue).await.expect(200).json()["state"] == "inside").then_some(())
    })
    .await;
    assert!(Timestamp::now() >= opens_at - SignedDuration::from_millis(100));
    guests[6].ask_for_token(&venue).await.expect(201);
    let mut told = vec![];
    for guest in [0, 1, 3, 4, 5, 6] {
        told.push(guests[guest].place(&venue).await.expect(200).json()["number"].as_u64().unwrap());
    }
    assert_eq!(told, [1, 2, 3, 4, 5, 6]);
    house.audit();
}

async fn without_a_room_nobody_books_before_the_opening(house: House) {
    let (venue, staff) = house.venue().await;
    let opens_at = Timestamp::now() + SignedDuration::from_secs(4);
    let path = format!("/api/venues/{venue}/opening");
    house.guest().put(&path, json!({"opensAt": opens_at.to_string()})).await.refused(403, "forbidden");
    let far = Timestamp::now() + SignedDuration::from_hours(24 * 400);
    staff.put(&path, json!({"opensAt": far.to_string()})).await.refused(422, "invalid-request");
    staff.put(&path, json!({"opensAt": "soon"})).await.refused(422, "invalid-request");
    staff.put(&path, json!({"opensAt": opens_at.to_string()})).await.expect(200);
    house.until_known(&venue, |opening| opening["opensAt"].is_string()).await;
    let guest = house.guest();
    guest.ask_for_token(&venue).await.refused(404, "not-found");
    let refused = guest.post("/api/reservations", wish_for(&venue, 1)).await.refused(403, "not-open");
    let told: Timestamp = refused.json()["opensAt"].as_str().unwrap().parse().unwrap();
    assert_eq!(told.as_millisecond(), opens_at.as_millisecond());
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    until("it opens", || async {
        let answer = guest.post("/api/reservations", wish_for(&venue, 1)).await;
        (answer.status == 201).then_some(())
    })
    .await;
    assert!(Timestamp::now() >= opens_at - SignedDuration::from_millis(100));
}

/// Redis is emptied while people come, and later a process dies: numbers and order stay, and the room goes on.
async fn an_outage_of_redis_changes_no_number(mut house: House) {
    let (venue, _) = house.with_room(json!({"enabled": true, "size": 2})).await;
    let guests = house.guests(200);
    let asking = tokio::spawn({
        let (guests, venue) = (guests.clone(), venue.clone());
        async move { ask_all(&guests[..100], &venue).await }
    });
    if let Some(redis) = &house.redis {
        tokio::task::block_in_place(|| redis.command(&["FLUSHALL"]));
    }
    let told = asking.await.unwrap();
    assert_eq!(numbers(&told), (1..=100).collect::<Vec<_>>());
    for (guest, told) in guests.iter().zip(&told) {
        assert_eq!(guest.place(&venue).await.expect(200).json()["number"], told["number"]);
    }
    if house.processes() > 1 {
        house.kill(0);
    }
    let guests: Vec<_> =
        guests.iter().map(|guest| house.client(0).guest(guest.token.clone().unwrap())).collect();
    let more = ask_all(&guests[100..], &venue).await;
    assert_eq!(numbers(&more), (101..=200).collect::<Vec<_>>());
    // People leave in any order, and the next are let in by number.
    let path = format!("/api/venues/{venue}/queue-tokens/current");
    let mut by_number: Vec<_> = told.iter().zip(&guests).collect();
    by_number.sort_by_key(|(told, _)| told["number"].as_u64());
    for (n, (_, guest)) in by_number[..20].iter().enumerate() {
        let state = guest.place(&venue).await.expect(200).json()["state"].clone();
        assert_eq!(state, "inside", "{n}");
        guest.delete(&path).await.expect(200);
    }
    house.audit();
}
