//! What people do in the stories, a line each.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use booking::VenueId;
use booking::venue::Settings;
use hyper::Method;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::app::{TOMORROW, TestApp};
use crate::client::{Answer, Guest};

/// How long anything may take on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// A wish for tomorrow at this time, by deposit.
pub fn wish(venue: VenueId, time: &str, party: u32) -> Value {
    json!({"venueId": venue.to_string(), "date": TOMORROW, "time": time, "partySize": party, "payment": "deposit"})
}

/// Asks until there is an answer.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < give_up, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl TestApp {
    /// A venue, and its staff.
    pub async fn open(&self, settings: Settings) -> (VenueId, Guest) {
        let (id, staff) = self.person();
        (self.venue(settings, id).await, staff)
    }

    /// A guest with a million points.
    pub async fn rich(&self) -> Guest {
        let guest = self.guest();
        guest.post("/api/wallet/charges", json!({"amount": 1_000_000})).await.expect(201);
        guest
    }

    /// What is left tomorrow at this time, as everybody sees it.
    pub async fn remaining(&self, venue: VenueId, time: &str) -> Value {
        self.slot(venue, time).await["remaining"].clone()
    }

    /// Tomorrow's slot at this time, as everybody sees it.
    pub async fn slot(&self, venue: VenueId, time: &str) -> Value {
        let path = format!("/api/venues/{venue}/availability?date={TOMORROW}");
        let day = self.client.anybody().get(&path).await.expect(200).json();
        let slots = day["items"].as_array().unwrap();
        slots.iter().find(|slot| slot["time"] == time).unwrap_or_else(|| panic!("{time} in {day}")).clone()
    }

    /// The database, as somebody with a shell on the machine sees it.
    pub fn database(&self) -> Connection {
        let connection = Connection::open(self.folder.path().join("maitred.db")).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }

    /// Lets nobody else write to the database until it is released.
    pub fn jam(&self) -> Jam {
        let connection = self.database();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Jam(connection)
    }

    /// How many rows each table has.
    pub fn rows(&self) -> Vec<(String, u64)> {
        let connection = self.database();
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
        let mut tables = connection.prepare(sql).unwrap();
        let names: Vec<String> =
            tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let count = |name: String| {
            let sql = format!("SELECT count(*) FROM {name}");
            (name, connection.query_row(&sql, [], |row| row.get(0)).unwrap())
        };
        names.into_iter().map(count).collect()
    }
}

/// Somebody else is writing to the database.
pub struct Jam(Connection);

impl Jam {
    pub fn release(self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

fn path(reservation: &Value) -> String {
    format!("/api/reservations/{}", reservation["id"].as_str().unwrap())
}

impl Guest {
    /// Asks for a reservation, and asks again until there is an answer, as a patient client does.
    pub async fn book(&self, wish: Value) -> Answer {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let key = format!("wish-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let headers = [("idempotency-key", key.as_str()), ("prefer", "wait=10")];
        until("an answer", || async {
            let answer = self.call(Method::POST, "/api/reservations", &headers, wish.to_string()).await;
            Some(answer).filter(|answer| ![202, 503].contains(&answer.status.as_u16()))
        })
        .await
    }

    /// The reservation that this wish becomes.
    #[track_caller]
    pub fn seated(&self, wish: Value) -> impl Future<Output = Value> {
        let (guest, caller) = (self.clone(), std::panic::Location::caller());
        async move {
            let answer = guest.book(wish).await;
            assert_eq!(answer.status.as_u16(), 201, "at {caller}: {answer:?}");
            answer.json()
        }
    }

    pub async fn pay(&self, reservation: &Value) -> Answer {
        self.post(&format!("{}/payment", path(reservation)), json!({"method": "points"})).await
    }

    pub async fn cancel(&self, reservation: &Value) -> Answer {
        self.act(reservation, "cancel").await
    }

    /// Something without further words about a reservation.
    pub async fn act(&self, reservation: &Value, what: &str) -> Answer {
        self.post(&format!("{}/{what}", path(reservation)), json!({})).await
    }

    pub async fn change(&self, reservation: &Value, to: Value) -> Answer {
        self.patch(&path(reservation), to).await
    }

    /// The reservation as it is now.
    pub async fn look(&self, reservation: &Value) -> Value {
        self.get(&path(reservation)).await.expect(200).json()
    }

    pub async fn balance(&self) -> i64 {
        self.get("/api/wallet").await.expect(200).json()["balance"].as_i64().unwrap()
    }
}
