//! A server inside the test: its own folder, its own port, a clock that the test turns.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use booking::policy::Policy;
use booking::venue::{Kind, Settings, WeekTimes, Zone};
use booking::{Inventory, PersonId, Table, VenueId};
use maitred::clock::Clock;
use maitred::config::{Config, Flags};
use maitred::fresh;
use maitred::server::{Server, open};
use maitred::signing::Claims;
use serde_json::{Value, json};
use store::Store;

use crate::client::{Client, Guest};

/// Ten in the morning in Seoul, on a Tuesday.
pub const MORNING: &str = "2026-12-01T01:00:00Z";
/// A day later: the slots that tests book.
pub const TOMORROW: &str = "2026-12-02";

pub struct TestApp {
    server: Option<Server>,
    pub client: Client,
    pub folder: tempfile::TempDir,
    time: Arc<AtomicI64>,
    database: store::Database,
}

pub fn config(data: &Path) -> Config {
    let flags =
        Flags { listen: Some("127.0.0.1:0".parse().unwrap()), data: Some(data.into()), ..Flags::default() };
    Config::load(&flags).unwrap()
}

pub fn settings(inventory: Inventory) -> Settings {
    Settings {
        name: "Here".into(),
        kind: Kind::Restaurant,
        inventory,
        time_zone: Zone::named("Asia/Seoul").unwrap(),
        times: WeekTimes::daily(11, 20),
        book_ahead_days: 60,
        shows: vec![],
        requests_per_second: None,
        policy: Policy::default(),
    }
}

pub fn places(capacity: u32) -> Settings {
    settings(Inventory::Places { capacity })
}

pub fn tables(count: u32, seats: u32) -> Settings {
    settings(Inventory::Tables { tables: (1..=count).map(|number| Table { number, seats }).collect() })
}

impl TestApp {
    pub async fn start() -> Self {
        Self::start_with(|_| {}, |store| store).await
    }

    /// With another configuration, or another store.
    pub async fn start_with(change: impl FnOnce(&mut Config), wrap: impl FnOnce(Store) -> Store) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Self::morning(), change, wrap).await
    }

    /// A clock that stands at [`MORNING`].
    pub fn morning() -> Arc<AtomicI64> {
        Arc::new(AtomicI64::new(MORNING.parse::<jiff::Timestamp>().unwrap().as_millisecond()))
    }

    /// In this folder, by this clock.
    pub async fn start_in(
        folder: tempfile::TempDir,
        time: Arc<AtomicI64>,
        change: impl FnOnce(&mut Config),
        wrap: impl FnOnce(Store) -> Store,
    ) -> Self {
        let mut config = config(folder.path());
        change(&mut config);
        let store = wrap(open(&config).await.unwrap());
        let server = Server::start(&config, store, Clock::Set(time.clone())).await.unwrap();
        let client = Client::new(format!("http://{}", server.address()));
        let database = config.store().unwrap();
        Self { server: Some(server), client, folder, time, database }
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Turns the clock forward.
    pub fn wait(&self, seconds: i64) {
        self.time.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }

    /// A venue with this member of staff.
    pub async fn venue(&self, settings: Settings, staff: PersonId) -> VenueId {
        self.server().app().store.add_venue(settings, vec![], vec![staff]).await.unwrap().id
    }

    /// A new person, signed in.
    pub fn person(&self) -> (PersonId, Guest) {
        let app = self.server().app();
        let id = fresh::person_id(app.clock.now());
        let exp = app.clock.now().as_second() + 86_400 * 30;
        (id, self.client.guest(app.signer.sign(&Claims { sub: id, name: "Some guest".into(), exp })))
    }

    pub fn guest(&self) -> Guest {
        self.person().1
    }

    /// Stops, and starts again on the same folder at the same time.
    pub async fn restart(self) -> Self {
        let time = self.time.clone();
        Self::start_in(self.stop().await, time, |_| {}, |store| store).await
    }

    /// Stops, and has what is stored audited.
    pub async fn stop(self) -> tempfile::TempDir {
        let database = self.database.clone();
        let folder = self.stop_unaudited().await;
        let stored = store::snapshot(&database).await.unwrap();
        let report = audit::audit(&stored, &[], audit::Options::default());
        assert!(report.is_clean(), "{:#?}", report.findings);
        folder
    }

    /// Stops where something was done to the database that the auditor would find, or to what protects it.
    pub async fn stop_unaudited(mut self) -> tempfile::TempDir {
        self.server.take().unwrap().stop().await;
        self.folder
    }
}

/// A wish for tomorrow at noon, by deposit.
pub fn noon(venue: VenueId, party: u32) -> Value {
    json!({"venueId": venue.to_string(), "date": TOMORROW, "time": "12:00", "partySize": party, "payment": "deposit"})
}
