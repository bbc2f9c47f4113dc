//! Opening a connection: how long for, over TLS or not, with which limits, and to what kind of server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::{Options, Tls};
use crate::error::{Error, Failed};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_millis(900);
/// How long a server that could not be reached is taken to be away. Until then everybody is told so at once.
const AWAY: Duration = Duration::from_millis(250);

/// Limits that a connection asks the server for, in milliseconds. A client that hangs inside a transaction, or is gone
/// while its statement waits for a lock, must not stand in anybody's way for longer than that. A lock is waited for longer than
/// the server takes to notice a deadlock (1 s), so that those show as what they are and are tried again. Every question has an index:
/// a plan that was made while a table was small must not read all of it once it is large.
const LIMITS: &str = "-c statement_timeout=1500 -c lock_timeout=1250 -c idle_in_transaction_session_timeout=2000 \
                      -c client_connection_check_interval=500 -c enable_seqscan=off";
/// Migrations may take long, and wait for other processes that migrate.
const MIGRATING: &str = "-c statement_timeout=0 -c lock_timeout=60000";

/// An audit takes as long as it takes, and cannot write.
const AUDITING: &str = "-c statement_timeout=0 -c default_transaction_read_only=on";
/// How long connecting for an audit may take: nobody waits for it.
const CONNECT_TO_AUDIT: Duration = Duration::from_secs(10);

pub(super) struct Connector {
    config: Config,
    /// Whether it is to keep the truth, and not only to be read.
    keeps: bool,
    tls: Option<MakeRustlsConnect>,
    away: Mutex<Option<(Instant, Error)>>,
}

impl Connector {
    pub(super) fn new(options: &Options) -> Result<Self, Error> {
        Self::with_limits(options, LIMITS)
    }

    pub(super) fn migrating(options: &Options) -> Result<Self, Error> {
        Self::with_limits(options, MIGRATING)
    }

    /// For reading only, so that any server will do.
    pub(super) fn auditing(options: &Options) -> Result<Self, Error> {
        Ok(Self { keeps: false, ..Self::with_limits(options, AUDITING)? })
    }

    fn with_limits(options: &Options, limits: &str) -> Result<Self, Error> {
        let mut config = Config::clone(&options.config);
        let theirs = config.get_options().unwrap_or_default();
        // Of two settings the later one counts: ours.
        config.options(format!("{theirs} {limits} -c default_transaction_isolation=read\\ committed"));
        if config.get_application_name().is_none() {
            config.application_name("maitred");
        }
        let tls = match &options.tls {
            Tls::Off => None,
            Tls::Verified { roots } => Some(verified(roots.as_deref())?),
        };
        Ok(Self { config, keeps: true, tls, away: Mutex::new(None) })
    }

    /// An error at once if the server could not be reached a moment ago.
    pub(super) fn refuse_while_away(&self) -> Result<(), Error> {
        match self.away.lock().ok().as_deref() {
            Some(Some((since, error))) if since.elapsed() < AWAY => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// A connection to a server that is fit to keep the truth.
    pub(super) async fn connect(&self) -> Result<(Client, tokio::task::JoinHandle<()>), Error> {
        let connecting = async {
            let (client, task) = match &self.tls {
                None => {
                    let (client, connection) = self.config.connect(NoTls).await?;
                    (client, tokio::spawn(run(connection)))
                }
                Some(tls) => {
                    let (client, connection) = self.config.connect(tls.clone()).await?;
                    (client, tokio::spawn(run(connection)))
                }
            };
            if self.keeps {
                fitness(&client).await?;
            }
            Ok((client, task))
        };
        let patience = if self.keeps { CONNECT } else { CONNECT_TO_AUDIT };
        match tokio::time::timeout(patience, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(Failed::Late.into()),
        }
    }
}

impl Manager for Connector {
    type Type = ClientWrapper;
    type Error = Error;

    async fn create(&self) -> Result<ClientWrapper, Error> {
        // Whoever stood in line for a connection does not try in vain what somebody has just tried in vain.
        self.refuse_while_away()?;
        let connected = self.connect().await;
        if let Ok(mut away) = self.away.lock() {
            *away = connected.as_ref().err().map(|error| (Instant::now(), error.clone()));
        }
        connected.map(|(client, task)| ClientWrapper::new(client, task))
    }

    async fn recycle(&self, client: &mut ClientWrapper, _: &Metrics) -> RecycleResult<Error> {
        if client.is_closed() { Err(RecycleError::message("closed")) } else { Ok(()) }
    }
}

async fn run(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    if let Err(error) = connection.await {
        tracing::warn!(%error, "a connection to the database was lost");
    }
}

/// Whether the server keeps what it confirms. Asked of every connection, since settings change and servers fail over.
async fn fitness(client: &Client) -> Result<(), Error> {
    // Setting it to what it is holds it there: a changed configuration would reach connections that are open.
    let sql = "SELECT current_setting('fsync'), current_setting('server_encoding'), pg_is_in_recovery(), \
               set_config('synchronous_commit', current_setting('synchronous_commit'), false)";
    let messages = client.simple_query(sql).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let setting = |n| row.and_then(|row| row.get(n)).unwrap_or_default();
    match (setting(0), setting(1), setting(2), setting(3)) {
        (_, _, "t", _) => Err(Error::Unfit("it is a replica, which cannot be written to")),
        (fsync, ..) if fsync != "on" => Err(Error::Unfit(
            "it runs with fsync=off and would lose reservations in a power cut; set fsync=on",
        )),
        (.., "off") => Err(Error::Unfit(
            "it runs with synchronous_commit=off and would lose reservations in a crash; set synchronous_commit=on",
        )),
        (_, encoding, ..) if encoding != "UTF8" => {
            Err(Error::Unfit("its encoding is not UTF8; make a database with ENCODING 'UTF8'"))
        }
        _ => Ok(()),
    }
}

/// TLS that believes nobody but a server whose certificate leads to one of the roots and bears its name.
fn verified(roots: Option<&std::path::Path>) -> Result<MakeRustlsConnect, Error> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut store = rustls::RootCertStore::empty();
    match roots {
        Some(path) => {
            for certificate in CertificateDer::pem_file_iter(path).map_err(Error::unavailable)? {
                store.add(certificate.map_err(Error::unavailable)?).map_err(Error::unavailable)?;
            }
        }
        // Some certificates of a system are always odd; what counts is that the server's root is among the rest.
        None => drop(store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::unavailable)?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
