//! Which server, as whom, and how: read from a URL, shown without its password.

use std::fmt;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// How to reach a PostgreSQL database.
#[derive(Clone)]
pub struct Options {
    pub(super) config: Box<Config>,
    pub(super) tls: Tls,
    pub(super) connections: usize,
}

#[derive(Debug, Clone)]
pub(super) enum Tls {
    Off,
    /// The server's certificate must lead to one of these roots, or of the system's.
    Verified {
        roots: Option<PathBuf>,
    },
}

/// The text is not the URL of a PostgreSQL database. The text is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the URL of a PostgreSQL database ({0}); one is written postgres://USER:PASSWORD@HOST:PORT/DATABASE"
)]
pub struct InvalidUrl(String);

impl Options {
    /// Connections that a process opens at most, unless told otherwise.
    pub const CONNECTIONS: usize = 8;

    /// The database of a URL. Parameters are those of libpq as far as the driver knows them. With `sslmode=require`,
    /// `verify-ca` or `verify-full` the connection is over TLS and the server's certificate is verified, against the
    /// file of `sslrootcert` or the system's roots; with any other `sslmode`, or none, it is not over TLS.
    pub fn new(url: &str) -> Result<Self, InvalidUrl> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(InvalidUrl("it does not begin with postgres://".into()));
        }
        let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut rest, mut mode, mut roots) = (vec![], "", None);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => roots = Some(PathBuf::from(unescaped(value)?)),
                _ => rest.push(parameter),
            }
        }
        let mut config: Config = format!("{address}?{}", rest.join("&"))
            .parse()
            .map_err(|error: tokio_postgres::Error| InvalidUrl(reason(error)))?;
        let tls = match mode {
            "" | "disable" | "allow" | "prefer" => Tls::Off,
            "require" | "verify-ca" | "verify-full" => Tls::Verified { roots },
            _ => return Err(InvalidUrl("its sslmode is unknown".into())),
        };
        config.ssl_mode(if matches!(tls, Tls::Off) { SslMode::Disable } else { SslMode::Require });
        Ok(Self { config: Box::new(config), tls, connections: Self::CONNECTIONS })
    }

    /// The same with another bound on the number of connections; at least one.
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }
}

fn reason(error: tokio_postgres::Error) -> String {
    error.into_source().map_or_else(|| "it cannot be read".into(), |source| source.to_string())
}

fn unescaped(text: &str) -> Result<String, InvalidUrl> {
    let wrong = || InvalidUrl("its sslrootcert has a wrong % in it".into());
    let (mut bytes, mut rest) = (vec![], text.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| wrong())?);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (n, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            let port = ports.get(n).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}:{port}")?,
                Host::Unix(path) => write!(f, "{comma}{}:{port}", path.display())?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().or(self.config.get_user()).unwrap_or_default())
    }
}

/// As it is displayed: without the password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Options({self}, {:?}, {} connections)", self.tls, self.connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let url = "postgres://maitred:s3cret@db.example:6432/bookings?sslmode=verify-full&sslrootcert=/etc/my%20ca.pem";
        let options = Options::new(url).unwrap();
        assert_eq!(options.to_string(), "postgres://maitred@db.example:6432/bookings");
        assert!(!format!("{options:?}").contains("s3cret"));
        assert!(matches!(&options.tls, Tls::Verified { roots: Some(path) } if path.ends_with("my ca.pem")));
    }

    #[test]
    fn what_is_no_url_is_refused_without_being_repeated() {
        let wrong = [
            "",
            "s3cret",
            "mysql://u:s3cret@h/d",
            "postgres://u:s3cret@h:nothing/d",
            "postgres://u:s3cret@h/d?sslmode=s3cret",
            "postgres://u:s3cret@h/d?s3cret=1",
            "postgres://u:s3cret@h/d?sslrootcert=%s3cret",
        ];
        for url in wrong {
            let error = Options::new(url).unwrap_err().to_string();
            assert!(!error.contains("s3cret") || url.contains("?s3cret"), "{error}");
        }
    }
}
