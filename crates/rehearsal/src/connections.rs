//! Connections to the servers: kept alive, and never more than allowed. Whoever finds none free waits its turn.

use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::wire::Connection;

/// A server that is not there is not waited for longer.
const CONNECT: Duration = Duration::from_secs(10);

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// Not the address of a server.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not the address of a server; write http://HOST:PORT")]
pub struct BadAddress(String);

impl std::str::FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let bad = || BadAddress(text.to_owned());
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(bad()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
            _ => (rest, if tls { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '@', '?', '#']) {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), port, tls })
    }
}

impl From<std::net::SocketAddr> for Address {
    fn from(address: std::net::SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port(), tls: false }
    }
}

impl Address {
    /// As people write it.
    pub fn url(&self) -> String {
        format!("{}://{self}", if self.tls { "https" } else { "http" })
    }
}

/// As it stands in a `Host` header.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The connections to one server.
pub(crate) struct Connections {
    pub address: Address,
    tls: Option<Arc<rustls::ClientConfig>>,
    idle: Mutex<Vec<Connection>>,
    /// For those who come, and for those who have come.
    rooms: [Arc<Semaphore>; 2],
    /// So many of the first are left to those who come: whoever listens keeps one for long.
    for_comers: usize,
}

/// Who wants a connection. Somebody with a ticket or a reservation does not stand behind everybody who has yet to press the
/// button: in life everybody brings a browser along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Somebody who presses the button.
    New,
    /// Somebody whom the server knows.
    Known,
}

/// A connection that somebody uses; dropped without having been given back, it is closed.
pub(crate) struct Borrowed<'a> {
    pub connection: Connection,
    /// Whether it had been used before: then the server may have closed it meanwhile.
    pub used: bool,
    of: &'a Connections,
    _room: OwnedSemaphorePermit,
}

impl Connections {
    /// So many at most.
    pub fn new(address: Address, most: usize, tls: Option<Arc<rustls::ClientConfig>>) -> Self {
        let known = (most / 20).max(1);
        let new = most.saturating_sub(known).max(1);
        let rooms = [new, known].map(|room| Arc::new(Semaphore::new(room)));
        Self { address, tls, idle: Mutex::default(), rooms, for_comers: new / 2 }
    }

    /// Opens so many ahead, as browsers have theirs before the button is pressed.
    pub async fn open(&self, many: usize) -> Result<()> {
        for _ in 0..many {
            let connection = self.connect().await?;
            self.idle().push(connection);
        }
        Ok(())
    }

    /// A connection, in order of asking.
    pub async fn borrow(&self, by: Whose) -> Result<Borrowed<'_>> {
        let room = self.rooms[usize::from(by == Whose::Known)]
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| closed())?;
        self.with(room).await
    }

    /// A connection, if one is free and plenty are: for those who keep it for long.
    pub async fn try_borrow(&self) -> Option<Result<Borrowed<'_>>> {
        let [room, _] = &self.rooms;
        if room.available_permits() <= self.for_comers {
            return None;
        }
        let room = room.clone().try_acquire_owned().ok()?;
        Some(self.with(room).await)
    }

    async fn with(&self, room: OwnedSemaphorePermit) -> Result<Borrowed<'_>> {
        let kept = {
            let mut idle = self.idle();
            // Servers close what is idle for long.
            std::iter::from_fn(|| idle.pop()).find(|connection| !connection.is_closed())
        };
        let used = kept.is_some();
        let connection = match kept {
            Some(connection) => connection,
            None => Box::pin(self.connect()).await?,
        };
        Ok(Borrowed { connection, used, of: self, _room: room })
    }

    async fn connect(&self) -> Result<Connection> {
        match tokio::time::timeout(CONNECT, Connection::open(&self.address, self.tls.as_ref())).await {
            Ok(opened) => opened,
            Err(_) => Err(Error::new(ErrorKind::TimedOut, "the server does not take connections")),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Borrowed<'_> {
    /// Another connection in place of one that the server has closed.
    pub async fn renew(&mut self) -> Result<()> {
        self.connection = Box::pin(self.of.connect()).await?;
        self.used = false;
        Ok(())
    }

    /// Gives it back, for the next one.
    pub fn give_back(self) {
        if self.connection.usable {
            self.of.idle().push(self.connection);
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::BrokenPipe, "the rehearsal is over")
}

/// How servers prove who they are: by the certificates that this machine trusts.
pub(crate) fn trust() -> Result<Arc<rustls::ClientConfig>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::other)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |text: &str| text.parse::<Address>().map(|address| (address.to_string(), address.tls));
        assert_eq!(read("http://127.0.0.1:8080"), Ok(("127.0.0.1:8080".into(), false)));
        assert_eq!(read("http://127.0.0.1:8080/"), Ok(("127.0.0.1:8080".into(), false)));
        assert_eq!(read("https://book.example"), Ok(("book.example:443".into(), true)));
        assert_eq!(read("http://[::1]:81"), Ok(("[::1]:81".into(), false)));
        for wrong in ["127.0.0.1:8080", "ftp://x", "http://", "http://x:y", "http://me@x", "http://x/path"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
