//! Where a behaviour is tried.

use std::pin::Pin;
use std::time::Duration;

use fairlane::{Client, RedisConfig};
use testkit::{RedisCluster, RedisServer};

/// A backend with nothing in it.
pub(crate) struct World {
    client: Option<Client>,
    config: Option<RedisConfig>,
    _server: Option<RedisServer>,
}

impl World {
    pub(crate) fn memory() -> Self {
        Self { client: Some(Client::in_process()), config: None, _server: None }
    }

    pub(crate) fn redis() -> Self {
        let server = RedisServer::start();
        Self { client: None, config: Some(quick(RedisConfig::single(server.url()))), _server: Some(server) }
    }

    /// Of a cluster that others use too, so under a prefix of its own.
    pub(crate) fn cluster(cluster: &RedisCluster, prefix: &str) -> Self {
        let config = RedisConfig::cluster(cluster.urls()).with_prefix(prefix);
        Self { client: None, config: Some(quick(config)), _server: None }
    }

    /// A client; over Redis a new one each time, in-process always the same.
    pub(crate) async fn client(&self) -> Client {
        match (&self.client, &self.config) {
            (Some(client), _) => client.clone(),
            (None, Some(config)) => connect(config.clone()).await,
            (None, None) => unreachable!("a world has a client or a way to make one"),
        }
    }
}

/// Heartbeats quick enough for tests, and calls patient enough for a machine that is busy with other things.
pub(crate) fn quick(config: RedisConfig) -> RedisConfig {
    config.with_heartbeat(HEARTBEAT).with_call_timeout(Duration::from_secs(5))
}

pub(crate) const HEARTBEAT: Duration = Duration::from_millis(300);

pub(crate) async fn connect(config: RedisConfig) -> Client {
    Client::redis(config).await.expect("Redis answers")
}

/// A duration that certainly is longer than anything that has to happen.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Polls a future `polls` times, or until it stands still, and drops it unless it was done by then.
pub(crate) async fn drop_after_polls<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future: Pin<Box<F>> = Box::pin(future);
    let mut left = polls;
    let few_polls = std::future::poll_fn(|cx| {
        use std::task::Poll;
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(Duration::from_millis(30), few_polls).await.unwrap_or(None)
}

/// Runs each behaviour in memory under paused time, and on a Redis server of its own; and lists them for the cluster.
#[macro_export]
macro_rules! behaviours {
    ($($name:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name($crate::world::World::memory()).await;
            })+
        }

        mod redis {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::world::World::redis()).await;
            })+
        }

        /// All of them, one after the other.
        pub(crate) async fn on_cluster(cluster: &testkit::RedisCluster) {
            $($name($crate::world::World::cluster(cluster, concat!(module_path!(), "-", stringify!($name)))).await;)+
        }
    };
}
