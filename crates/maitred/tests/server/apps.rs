//! One server over SQLite, or two that share PostgreSQL and Redis: a story is told once and happens in both.

use booking::VenueId;
use booking::venue::Settings;
use testkit::{Postgres, RedisServer};
use tokio::sync::MutexGuard;
use tokio::task::block_in_place;

use crate::app::TestApp;
use crate::client::Guest;
use crate::shared::alone;

/// Every story below in each of the two.
macro_rules! in_both {
    ($($story:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(crate::apps::Apps::embedded().await).await;
            })*
        }

        mod side_by_side {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(crate::apps::Apps::side_by_side().await).await;
            })*
        }
    };
}
pub(crate) use in_both;

pub struct Apps {
    pub all: Vec<TestApp>,
    _redis: Option<RedisServer>,
    /// Crowds are big: one at a time.
    _alone: MutexGuard<'static, ()>,
}

impl Apps {
    pub async fn embedded() -> Self {
        let alone = alone().await;
        Self { all: vec![TestApp::start().await], _redis: None, _alone: alone }
    }

    pub async fn side_by_side() -> Self {
        let alone = alone().await;
        let (redis, database) = block_in_place(|| {
            let (server, name) = Postgres::shared(|_| {});
            (RedisServer::start(), server.url(&name))
        });
        let (time, mut apps) = (TestApp::morning(), Vec::new());
        for _ in 0..2 {
            let configure = |config: &mut maitred::config::Config| {
                config.database = Some(database.clone().into());
                config.redis = Some(redis.url().into());
            };
            let folder = tempfile::tempdir().unwrap();
            apps.push(TestApp::start_in(folder, time.clone(), configure, |store| store).await);
        }
        Self { all: apps, _redis: Some(redis), _alone: alone }
    }

    /// One of the servers.
    pub fn app(&self) -> &TestApp {
        &self.all[0]
    }

    pub async fn open(&self, settings: Settings) -> (VenueId, Guest) {
        self.app().open(settings).await
    }

    /// A guest of one of the servers, in turn.
    pub fn guest(&self, n: usize) -> Guest {
        let token = self.app().guest().token.unwrap();
        self.all[n % self.all.len()].client.guest(token)
    }

    /// A guest with a million points.
    pub async fn rich(&self, n: usize) -> Guest {
        let guest = self.guest(n);
        let body = serde_json::json!({"amount": 1_000_000});
        guest.post("/api/wallet/charges", body).await.expect(201);
        guest
    }

    /// Turns everybody's clock forward.
    pub fn wait(&self, seconds: i64) {
        self.app().wait(seconds);
    }

    pub async fn stop(self) {
        for app in self.all {
            app.stop().await;
        }
    }
}

/// What all of these come to, all under way at once.
pub async fn at_once<T: Send + 'static>(
    asking: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: Vec<_> = asking.into_iter().map(tokio::spawn).collect();
    let mut all = Vec::with_capacity(tasks.len());
    for task in tasks {
        all.push(task.await.unwrap());
    }
    all
}
