//! The server as a whole: put together at the start, taken apart at the end with nothing left behind.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use fairlane::lane::Bounds;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use store::{Database, Store};
use tokio::net::TcpSocket;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::{Admission, Keys};
use crate::clock::Clock;
use crate::config::Config;
use crate::desk::{self, Desk};
use crate::http::{self, App};
use crate::keyring::{Kept, Keyring};
use crate::passwords::Passwords;
use crate::payments::Payments;
use crate::rehearsals::Rehearsals;
use crate::rooms::WaitingRooms;
use crate::seating::Seating;
use crate::signing::Signer;
use crate::sweeps;
use crate::venues::Venues;
use crate::wallets::Wallets;

/// Who is in line when the server stops is decided within this time, or not at all.
const LAST_DECISIONS: Duration = Duration::from_secs(5);
/// A batch that is being stored then may take this much longer.
const LAST_BATCH: Duration = Duration::from_secs(1);
/// Requests under way are answered within this time after the last decisions.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// A running server.
pub struct Server {
    address: SocketAddr,
    stopping: CancellationToken,
    listening: JoinHandle<()>,
    sweeping: JoinHandle<()>,
    paying: JoinHandle<()>,
    runners: Vec<JoinHandle<()>>,
    app: Arc<App>,
}

/// Makes the data folder where it is missing.
pub fn make_folder(data: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(data).with_context(|| format!("cannot make the data folder {}", data.display()))
}

/// Opens the database in a folder, making both where they are missing.
pub fn open_store(data: &Path) -> anyhow::Result<Store> {
    make_folder(data)?;
    let path = data.join("maitred.db");
    Store::sqlite(&path).with_context(|| format!("cannot open the database {}", path.display()))
}

/// Opens the database of the configuration.
pub async fn open(config: &Config) -> anyhow::Result<Store> {
    match &config.store()? {
        Database::Sqlite(_) => open_store(&config.data),
        database => Store::open(database).await.map_err(|error| unopened(database, error)),
    }
}

/// Why a database was not opened, and what to do about it.
pub fn unopened(database: &Database, error: store::Error) -> anyhow::Error {
    match (database, error) {
        // It says itself what to change.
        (_, store::Error::Unfit(why)) => anyhow!("{database} cannot be used: {why}"),
        (Database::Sqlite(_), error) => {
            anyhow!("cannot open the database {database} ({})", innermost(&error))
        }
        (Database::Postgres(_), error) => anyhow!(
            "cannot open the database {database} ({}); check that PostgreSQL runs there and that --database is right",
            innermost(&error)
        ),
    }
}

/// What is at the bottom of an error: what happened, without who passed it on.
fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// The keys of the configuration, or those kept with the database: beside a file, or inside a server's.
pub async fn keyring(config: &Config) -> anyhow::Result<Keyring> {
    if let Some(keys) = &config.token.signing_key {
        return Ok(Keyring::new(Signer::from_text(keys)?, Kept::Configured));
    }
    match config.store()? {
        Database::Sqlite(_) => {
            make_folder(&config.data)?;
            Ok(Keyring::new(Signer::kept_in(&config.data)?, Kept::Folder(config.data.clone())))
        }
        Database::Postgres(options) => {
            let kept = store::postgres::signing_keys(&options, rand::random()).await;
            let kept = kept.map_err(|error| unopened(&Database::Postgres(options.clone()), error))?;
            Ok(Keyring::new(Signer::with_keys(kept)?, Kept::Database(options)))
        }
    }
}

impl Server {
    /// Starts serving over a store.
    pub async fn start(config: &Config, store: Store, clock: Clock) -> anyhow::Result<Self> {
        // First, so that nothing goes uncounted.
        let metrics = recorder();
        let store = Arc::new(store);
        let venues = Arc::new(Venues::new(store.clone()));
        let keys = Arc::new(Keys::default());
        let bounds = Bounds {
            lane: config.lane.max_waiting,
            total: config.lane.max_total,
            batch: config.lane.max_batch,
        };
        let limits = desk::Limits { bounds, runners: config.lane.runners };
        let (coordination, shared) = match config.redis()? {
            Some(redis) => {
                let client = fairlane::Client::redis(redis).await?;
                let lanes = client.lanes("lane");
                (client, Some(lanes))
            }
            None => (fairlane::Client::in_process(), None),
        };
        let clock = match (clock, &config.database) {
            (Clock::System, Some(_)) => Clock::Database(Arc::default()),
            (clock, _) => clock,
        };
        clock.follow(&store).await?;
        let (desk, mut runners) =
            Desk::open(store.clone(), venues.clone(), keys.clone(), clock.clone(), limits, shared).await?;
        let (wallets, cashiers) = Wallets::open(store.clone(), clock.clone(), bounds);
        let (rooms, ushers) = WaitingRooms::open(store.clone(), clock.clone(), bounds);
        runners.extend(cashiers.into_iter().chain(ushers));
        let stopping = CancellationToken::new();
        let app = Arc::new(App {
            admission: Admission::new(desk.clone(), store.clone(), keys),
            seating: Seating::new(store.clone(), venues.clone()),
            store,
            desk,
            venues,
            wallets,
            rooms,
            clock,
            signer: keyring(config).await?,
            passwords: Passwords::default(),
            payments: Payments::new(&config.payments)?,
            token_lifetime: config.token_lifetime(),
            coordination,
            boards: http::Boards::default(),
            rehearsals: Rehearsals::default(),
            metrics,
            stopping: stopping.clone(),
        });
        let listener = listen(config.listen)?;
        let address = listener.local_addr()?;
        let limits = http::Limits {
            connections: config.http.max_connections,
            head: Duration::from_secs(config.http.head_seconds),
            farewell: LAST_DECISIONS + LAST_ANSWERS,
        };
        let listening =
            tokio::spawn(http::serve(listener, http::router(app.clone()), limits, stopping.clone()));
        let swept = app.clone();
        let sweeping = tokio::spawn(async move {
            sweeps::run(swept.swept(), || {
                swept.metrics.run_upkeep();
                swept.seating.tidy();
                swept.venues.tidy();
            })
            .await
        });
        let paid = app.clone();
        let paying = tokio::spawn(async move { sweeps::payments::run(paid.till(), &paid.stopping).await });
        Ok(Self { address, stopping, listening, sweeping, paying, runners, app })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its handlers work with.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Takes nobody in any more, decides and answers who is there, and ends every task.
    pub async fn stop(self) {
        self.stopping.cancel();
        self.app.rehearsals.close().await;
        tokio::join!(
            self.app.desk.close(LAST_DECISIONS),
            self.app.wallets.close(LAST_DECISIONS),
            self.app.rooms.close(LAST_DECISIONS)
        );
        // A batch that still runs then waits for a store that does not answer, and nobody was promised anything by it.
        let give_up = Instant::now() + LAST_BATCH;
        for mut runner in self.runners {
            let ended = tokio::time::timeout_at(give_up, &mut runner).await;
            if ended.is_err() {
                tracing::warn!("a batch that could not be stored was given up");
                runner.abort();
            }
            complain(ended.unwrap_or(Ok(())));
        }
        self.app.desk.let_go();
        complain(self.sweeping.await);
        complain(self.paying.await);
        complain(self.listening.await);
        // On a thread of its own: it waits for the store's threads.
        let app = self.app.clone();
        let _ = tokio::task::spawn_blocking(move || app.store.close()).await;
    }
}

fn complain(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a task ended badly");
    }
}

fn listen(address: SocketAddr) -> anyhow::Result<tokio::net::TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket
        .bind(address)
        .with_context(|| format!("cannot listen on {address}; choose another with --listen"))?;
    Ok(socket.listen(4_096)?)
}

/// Bounds of the histograms, in seconds and in people.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
const SIZES: [f64; 8] = [1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];

/// The recorder of this process; all servers in it share one.
fn recorder() -> PrometheusHandle {
    static RECORDER: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    RECORDER
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)
                .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_size".into()), &SIZES))
                .unwrap_or_default()
                .build_recorder();
            let handle = recorder.handle();
            // Fails only where somebody embeds the server and records elsewhere: then /metrics stays empty.
            let _ = metrics::set_global_recorder(recorder);
            handle
        })
        .clone()
}
