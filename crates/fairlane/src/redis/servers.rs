//! Finding the server that takes writes, and connecting to it.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::cluster::ClusterClientBuilder;
use ::redis::cluster_async::ClusterConnection;
use ::redis::io::tcp::TcpSettings;
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, IntoConnectionInfo, RedisError, RedisResult,
    ServerErrorKind, Value, cmd,
};
use tokio::time::timeout;

use super::config::Topology;
use super::link::timed_out;

/// How many commands may wait to be written before callers do.
const WRITE_QUEUE: usize = 4096;

#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let value = match self {
            Self::Single(connection) => connection.req_packed_command(command).await,
            Self::Cluster(connection) => connection.req_packed_command(command).await,
        };
        // At this level of the driver an error of the server is a value like any other.
        value?.extract_error()
    }
}

impl Connection {
    /// What the server calls itself since it started. Servers that keep it to themselves have no name.
    pub(super) async fn run_id(&mut self) -> Arc<str> {
        let Self::Single(_) = self else { return "".into() };
        let mut info = cmd("INFO");
        info.arg("server");
        let Ok(value) = self.send(&info).await else { return "".into() };
        let text: String = ::redis::from_redis_value(value).unwrap_or_default();
        let id = text.lines().find_map(|line| line.strip_prefix("run_id:"));
        id.unwrap_or_default().trim().into()
    }
}

pub(super) async fn connect(topology: &Topology, patience: Duration) -> RedisResult<Connection> {
    match topology {
        Topology::Cluster(nodes) => {
            let nodes = nodes
                .iter()
                .map(|url| url.as_str().into_connection_info())
                .collect::<RedisResult<Vec<_>>>()?;
            let client = ClusterClientBuilder::new(nodes)
                .connection_timeout(patience)
                .response_timeout(patience)
                .tcp_settings(TcpSettings::default().set_nodelay(true))
                .build()?;
            client.get_async_connection().await.map(Connection::Cluster)
        }
        _ => {
            let client = primary(topology, patience).await?;
            multiplexed(&client, patience).await.map(Connection::Single)
        }
    }
}

async fn multiplexed(client: &Client, patience: Duration) -> RedisResult<MultiplexedConnection> {
    // Deadlines are kept by `Link::command`.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(patience))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(WRITE_QUEUE);
    client.get_multiplexed_async_connection_with_config(&config).await
}

fn open(url: &str) -> RedisResult<Client> {
    Client::open(url.into_connection_info()?.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
}

/// The server that takes writes; for a cluster any node, which is enough to subscribe.
pub(super) async fn primary(topology: &Topology, patience: Duration) -> RedisResult<Client> {
    let candidates = match topology {
        Topology::Single(url) => return open(url),
        Topology::Cluster(urls) => return first_that(urls, patience, |_| true).await,
        Topology::Replicated(urls) => urls.clone(),
        Topology::Sentinel { sentinels, primary } => named_by_sentinels(sentinels, primary, patience).await,
    };
    first_that(&candidates, patience, |role| role == "master").await
}

async fn first_that(urls: &[String], patience: Duration, suits: fn(&str) -> bool) -> RedisResult<Client> {
    let mut last = RedisError::from((ErrorKind::InvalidClientConfig, "no address to connect to"));
    for url in urls {
        let client = open(url)?;
        match timeout(patience, role_of(&client, patience)).await {
            Ok(Ok(role)) if suits(&role) => return Ok(client),
            Ok(Ok(_)) => {
                last = RedisError::from((ErrorKind::Server(ServerErrorKind::ReadOnly), "no primary found"))
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = timed_out(),
        }
    }
    Err(last)
}

async fn role_of(client: &Client, patience: Duration) -> RedisResult<String> {
    let mut connection = multiplexed(client, patience).await?;
    let role: Vec<Value> = cmd("ROLE").query_async(&mut connection).await?;
    ::redis::from_redis_value(role.into_iter().next().unwrap_or(Value::Nil)).map_err(RedisError::from)
}

async fn named_by_sentinels(sentinels: &[String], primary: &str, patience: Duration) -> Vec<String> {
    let mut named = Vec::new();
    for url in sentinels {
        let ask = async {
            let mut connection = multiplexed(&open(url)?, patience).await?;
            let address: Option<(String, u16)> = cmd("SENTINEL")
                .arg("get-master-addr-by-name")
                .arg(primary)
                .query_async(&mut connection)
                .await?;
            RedisResult::Ok(address)
        };
        if let Ok(Ok(Some((host, port)))) = timeout(patience, ask).await {
            let url = format!("redis://{host}:{port}/");
            if !named.contains(&url) {
                named.push(url);
            }
        }
    }
    named
}
