//! One or two servers and a provider, and a clock that the test turns for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use booking::VenueId;
use booking::venue::Settings;
use maitred::config::Config;
use serde_json::{Value, json};
use testkit::{Postgres, RedisServer};

use super::provider::StandIn;
use crate::app::TestApp;
use crate::client::{Answer, Client, Guest};
use crate::steps::until;

pub struct Shop {
    pub apps: Vec<TestApp>,
    pub provider: StandIn,
    pub time: Arc<AtomicI64>,
    turn: AtomicUsize,
    _redis: Option<RedisServer>,
}

impl Shop {
    /// One server over SQLite.
    pub async fn embedded() -> Self {
        Self::configured(|_| {}).await
    }

    /// The same with other settings.
    pub async fn configured(change: impl Fn(&mut Config)) -> Self {
        let time = TestApp::morning();
        let provider = StandIn::open(time.clone()).await;
        let app = start(&time, &provider, change).await;
        Self { apps: vec![app], provider, time, turn: AtomicUsize::new(0), _redis: None }
    }

    /// Two servers over PostgreSQL, which share their lines in Redis.
    pub async fn shared() -> Self {
        let time = TestApp::morning();
        let provider = StandIn::open(time.clone()).await;
        let (url, redis) = tokio::task::spawn_blocking(|| {
            let (server, name) = Postgres::shared(|_| {});
            (server.url(&name), RedisServer::start())
        })
        .await
        .unwrap();
        let mut apps = Vec::new();
        for _ in 0..2 {
            let shared = |config: &mut Config| {
                config.database = Some(url.clone().into());
                config.redis = Some(redis.url().into());
            };
            apps.push(start(&time, &provider, shared).await);
        }
        Self { apps, provider, time, turn: AtomicUsize::new(0), _redis: Some(redis) }
    }

    /// One server after the other.
    pub fn client(&self) -> Client {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.apps[turn % self.apps.len()].client.clone()
    }

    /// The same person at whichever server is next.
    pub fn at(&self, guest: &Guest) -> Guest {
        Guest { client: self.client(), token: guest.token.clone() }
    }

    pub fn guest(&self) -> Guest {
        self.apps[0].guest()
    }

    pub async fn open(&self, settings: Settings) -> (VenueId, Guest) {
        self.apps[0].open(settings).await
    }

    pub fn wait(&self, seconds: i64) {
        self.time.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }

    /// Begins to pay with the provider.
    pub async fn start_payment(&self, guest: &Guest, reservation: &Value) -> Answer {
        let path = format!("/api/reservations/{}/payment", reservation["id"].as_str().unwrap());
        self.at(guest).post(&path, json!({"method": "card"})).await
    }

    /// The id of a payment that has been begun with the provider.
    pub async fn begin(&self, guest: &Guest, reservation: &Value) -> String {
        let begun = self.start_payment(guest, reservation).await.expect(200).json();
        assert_eq!(begun["providerPayment"]["status"], "REQUESTED", "{begun}");
        begun["providerPayment"]["id"].as_str().unwrap().to_owned()
    }

    /// Pays with the provider, to the end.
    pub async fn paid(&self, guest: &Guest, reservation: &Value) -> String {
        let payment = self.begin(guest, reservation).await;
        let event = self.provider.takes(&payment);
        self.provider.deliver(&self.client(), &event).await;
        payment
    }

    /// The reservation once it stands there.
    pub async fn once(&self, guest: &Guest, reservation: &Value, status: &str) -> Value {
        let wanted =
            || async { Some(self.at(guest).look(reservation).await).filter(|now| now["status"] == status) };
        until(status, wanted).await
    }

    /// Everything stops, and what is stored is audited: money too.
    pub async fn close(self) {
        for app in self.apps {
            app.stop().await;
        }
    }
}

async fn start(time: &Arc<AtomicI64>, provider: &StandIn, change: impl Fn(&mut Config)) -> TestApp {
    let settings = provider.settings(&[1]);
    let folder = tempfile::tempdir().unwrap();
    let with_provider = |config: &mut Config| {
        config.payments.insert("card".into(), settings);
        change(config);
    };
    TestApp::start_in(folder, time.clone(), with_provider, |store| store).await
}
