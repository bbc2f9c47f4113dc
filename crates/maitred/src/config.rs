//! Configuration: flags over environment over a TOML file over defaults. Read once, at start; a wrong value is named.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use confique::{Config as _, Layer as _};
use fairlane::{RedisConfig, Topology};
use store::Database;
use store::postgres::Options;

use crate::payments::{POINTS, Payments};

/// Everything that can be set.
#[derive(Debug, Clone, confique::Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct Config {
    /// Where to listen.
    #[config(env = "MAITRED_LISTEN", default = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// The folder with the database and the signing key.
    #[config(env = "MAITRED_DATA", default = "data")]
    pub data: PathBuf,
    /// The URL of a PostgreSQL database, instead of one in the folder.
    #[config(env = "MAITRED_DATABASE")]
    pub database: Option<SecretUrl>,
    /// Connections to PostgreSQL at the same time.
    #[config(env = "MAITRED_DATABASE_CONNECTIONS", default = 8)]
    pub database_connections: usize,
    /// The URL of a Redis server, to share lines with other processes; several with commas between are nodes of a cluster.
    #[config(env = "MAITRED_REDIS")]
    pub redis: Option<SecretUrl>,
    /// What several URLs of Redis are: `cluster`, `replicas` (one primary and its replicas) or `sentinel:NAME`.
    #[config(env = "MAITRED_REDIS_KIND", default = "cluster")]
    pub redis_kind: RedisKind,
    /// The lines.
    #[config(nested)]
    pub lane: Lane,
    /// The listener.
    #[config(nested)]
    pub http: Http,
    /// Access tokens.
    #[config(nested)]
    pub token: Token,
    /// The log.
    #[config(nested)]
    pub log: Log,
    /// Payment providers, by the name that guests choose them by. `MAITRED_PAYMENTS_NAME_URL`, `…_SECRET` and `…_KEY` go
    /// before what the file says.
    #[config(default = {})]
    pub payments: BTreeMap<String, PaymentProvider>,
}

/// A payment provider.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaymentProvider {
    /// Where it is asked.
    pub url: String,
    /// The keys with which it signs events: `whsec_` and base64. Several while one is being replaced.
    pub secret: Secrets,
    /// What we show it, as `Authorization: Bearer KEY`.
    pub key: Option<Secret>,
}

/// Something that is never printed.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// What it is.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(set)")
    }
}

/// One secret, or several: a text, texts with commas between, or a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "OneOrMore")]
pub struct Secrets(pub Vec<Secret>);

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl From<OneOrMore> for Secrets {
    fn from(secrets: OneOrMore) -> Self {
        let secrets = match secrets {
            OneOrMore::One(text) => text.split(',').map(|secret| secret.trim().to_owned()).collect(),
            OneOrMore::More(secrets) => secrets,
        };
        Self(secrets.into_iter().map(Secret).collect())
    }
}

/// The environment, as far as it is text.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// What the environment says about payment providers, over what the file says.
fn providers_in(
    mut providers: BTreeMap<String, PaymentProvider>,
    environment: impl Iterator<Item = (String, String)>,
) -> anyhow::Result<BTreeMap<String, PaymentProvider>> {
    for (variable, value) in environment {
        let Some(rest) = variable.strip_prefix("MAITRED_PAYMENTS_") else { continue };
        let Some((name, what)) = rest.rsplit_once('_') else { bail!("{variable} is not a setting") };
        let name = name.to_ascii_lowercase().replace('_', "-");
        let nothing = || PaymentProvider { url: String::new(), secret: Secrets::default(), key: None };
        let provider = providers.entry(name).or_insert_with(nothing);
        match what {
            "URL" => provider.url = value,
            "SECRET" => provider.secret = OneOrMore::One(value).into(),
            "KEY" => provider.key = Some(Secret(value)),
            _ => bail!("{variable} is not a setting; of a provider there are URL, SECRET and KEY"),
        }
    }
    Ok(providers)
}

/// The URL of a server. It may hold a password, so it is never printed as it is.
#[derive(Clone, serde::Deserialize)]
#[serde(transparent)]
pub struct SecretUrl(String);

impl From<String> for SecretUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl std::fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(set)")
    }
}

/// What several URLs of Redis are.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub enum RedisKind {
    /// Nodes of a Redis Cluster.
    Cluster,
    /// A primary and its replicas.
    Replicas,
    /// Sentinels, and what they call the primary.
    Sentinel(String),
}

impl TryFrom<String> for RedisKind {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.split_once(':') {
            None if text == "cluster" => Ok(Self::Cluster),
            None if text == "replicas" => Ok(Self::Replicas),
            Some(("sentinel", name)) if !name.is_empty() => Ok(Self::Sentinel(name.to_owned())),
            _ => Err("it must be cluster, replicas or sentinel:NAME"),
        }
    }
}

impl std::fmt::Display for RedisKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::Replicas => f.write_str("replicas"),
            Self::Sentinel(name) => write!(f, "sentinel:{name}"),
        }
    }
}

/// How long lines may be, and how they are run.
#[derive(Debug, Clone, confique::Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct Lane {
    /// People who may wait for one slot; whoever comes after them is told `line-full`.
    #[config(env = "MAITRED_LANE_MAX_WAITING", default = 200_000)]
    pub max_waiting: usize,
    /// People who may wait for all slots together.
    #[config(env = "MAITRED_LANE_MAX_TOTAL", default = 1_000_000)]
    pub max_total: usize,
    /// People who are decided together at most.
    #[config(env = "MAITRED_LANE_MAX_BATCH", default = 1_024)]
    pub max_batch: usize,
    /// Lines that are run at the same time.
    #[config(env = "MAITRED_LANE_RUNNERS", default = 16)]
    pub runners: usize,
}

/// What the listener bears.
#[derive(Debug, Clone, confique::Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct Http {
    /// Connections at the same time.
    #[config(env = "MAITRED_HTTP_MAX_CONNECTIONS", default = 12_000)]
    pub max_connections: usize,
    /// Seconds in which the head of a request must have arrived.
    #[config(env = "MAITRED_HTTP_HEAD_SECONDS", default = 10)]
    pub head_seconds: u64,
}

/// Access tokens.
#[derive(Clone, confique::Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct Token {
    /// Seconds that an access token is good.
    #[config(env = "MAITRED_TOKEN_SECONDS", default = 3_600)]
    pub seconds: u64,
    /// The key that signs them: base64url of 32 bytes at least. Kept beside the database when absent.
    #[config(env = "MAITRED_TOKEN_SIGNING_KEY")]
    pub signing_key: Option<String>,
}

/// The log.
#[derive(Debug, Clone, confique::Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct Log {
    /// What is logged: a level, or directives such as `info,maitred=debug`.
    #[config(env = "MAITRED_LOG_FILTER", default = "info,refinery_core=warn")]
    pub filter: String,
    /// `text` or `json`.
    #[config(env = "MAITRED_LOG_FORMAT", default = "text")]
    pub format: LogFormat,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// A key is never printed.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.signing_key.as_ref().map(|_| "(set)");
        f.debug_struct("Token").field("seconds", &self.seconds).field("signing_key", &key).finish()
    }
}

/// What was said on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// The folder with the database and the signing key [default: ./data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The URL of a PostgreSQL database, instead of one in the folder: postgres://USER:PASSWORD@HOST/DATABASE. Other users
    /// of the machine can read it here; MAITRED_DATABASE is more discreet
    #[arg(long, value_name = "URL")]
    pub database: Option<SecretUrl>,
    /// The URL of a Redis server, to share lines with other processes: redis://HOST:PORT; several with commas between are
    /// nodes of a cluster. MAITRED_REDIS is more discreet
    #[arg(long, value_name = "URL")]
    pub redis: Option<SecretUrl>,
    /// A TOML file with settings [default: ./maitred.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The error in one line. Of the picture of the place in the file only the key is kept: the value may be a secret.
fn sentence(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let picture = |line: &str| {
        let drawn = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).strip_prefix('|')?;
        Some(drawn.split_once('=').map(|(key, _)| key.trim().to_owned()))
    };
    let key = text.lines().find_map(|line| picture(line).flatten());
    let words = text.lines().filter(|line| picture(line).is_none() && !line.trim().is_empty());
    let words = words.map(|line| line.trim().trim_end_matches(':')).collect::<Vec<_>>().join(": ");
    key.map_or(words.clone(), |key| format!("{words} (at {key})"))
}

impl Config {
    /// The configuration out of all its sources.
    pub fn load(flags: &Flags) -> anyhow::Result<Self> {
        let mut said = <Self as confique::Config>::Layer::empty();
        said.listen = flags.listen;
        said.data = flags.data.clone();
        said.database = flags.database.clone();
        said.redis = flags.redis.clone();
        let file = match &flags.config {
            Some(path) if !path.exists() => bail!("there is no configuration file {}", path.display()),
            Some(path) => path.as_path(),
            None => Path::new("maitred.toml"),
        };
        let config = Self::builder().preloaded(said).env().file(file).load();
        let mut config = config.map_err(|error| anyhow::Error::msg(sentence(&error.into())))?;
        config.payments = providers_in(config.payments, environment())?;
        config.checked()
    }

    fn checked(self) -> anyhow::Result<Self> {
        ensure!(
            (1..=1_000).contains(&self.database_connections),
            "database_connections must be between 1 and 1000"
        );
        self.store()?;
        self.redis()?;
        ensure!(self.lane.max_waiting >= 1, "lane.max_waiting must be at least 1");
        ensure!(self.lane.max_total >= 1, "lane.max_total must be at least 1");
        ensure!((1..=10_000).contains(&self.lane.max_batch), "lane.max_batch must be between 1 and 10000");
        ensure!((1..=1_000).contains(&self.lane.runners), "lane.runners must be between 1 and 1000");
        ensure!(self.http.max_connections >= 1, "http.max_connections must be at least 1");
        ensure!((1..=300).contains(&self.http.head_seconds), "http.head_seconds must be between 1 and 300");
        ensure!((60..=604_800).contains(&self.token.seconds), "token.seconds must be between 60 and 604800");
        if let Some(key) = &self.token.signing_key {
            crate::signing::Signer::from_text(key).context("token.signing_key is wrong")?;
        }
        for name in self.payments.keys() {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            ensure!(
                (1..=32).contains(&name.len()) && name.chars().all(plain) && name != POINTS,
                "payments.{name} must have a name of 1 to 32 lower-case letters, digits and hyphens, and not {POINTS}"
            );
        }
        Payments::new(&self.payments)?;
        self.log.filter.parse::<tracing_subscriber::EnvFilter>().context("log.filter is wrong")?;
        Ok(self)
    }

    /// How long an access token is good.
    pub fn token_lifetime(&self) -> Duration {
        Duration::from_secs(self.token.seconds)
    }

    /// Where the truth is kept.
    pub fn store(&self) -> anyhow::Result<Database> {
        let Some(url) = &self.database else { return Ok(Database::Sqlite(self.data.join("maitred.db"))) };
        let options = Options::new(&url.0).context("database is wrong")?;
        Ok(Database::Postgres(options.with_connections(self.database_connections)))
    }

    /// Where lines are shared, if they are.
    pub fn redis(&self) -> anyhow::Result<Option<RedisConfig>> {
        let Some(SecretUrl(urls)) = &self.redis else { return Ok(None) };
        ensure!(
            self.database.is_some(),
            "redis shares lines between processes, and so needs a database they share: set --database too"
        );
        let urls: Vec<_> = urls.split(',').map(|url| url.trim().to_owned()).collect();
        let good = |url: &String| {
            ["redis://", "rediss://"]
                .iter()
                .any(|scheme| url.strip_prefix(scheme).is_some_and(|host| !host.is_empty()))
        };
        ensure!(urls.iter().all(good), "redis is wrong: a URL of it is written redis://HOST:PORT");
        let topology = match (&self.redis_kind, urls.as_slice()) {
            (RedisKind::Sentinel(primary), _) => {
                Topology::Sentinel { sentinels: urls, primary: primary.clone() }
            }
            (_, [url]) => Topology::Single(url.clone()),
            (RedisKind::Cluster, _) => Topology::Cluster(urls),
            (RedisKind::Replicas, _) => Topology::Replicated(urls),
        };
        Ok(Some(RedisConfig::new(topology).with_prefix("maitred").with_attempts(1).with_connect_later()))
    }

    /// The effective values as TOML, without secrets.
    pub fn shown(&self) -> String {
        let database = match self.store() {
            Ok(database @ Database::Postgres(_)) => {
                format!("# database is {database}, its password not shown")
            }
            _ => "# database is in the folder of data".to_owned(),
        };
        let key = match &self.token.signing_key {
            Some(_) => "# signing_key is set and not shown".to_owned(),
            None if self.database.is_some() => "# signing_key is kept in the database".to_owned(),
            None => format!("# signing_key is kept in {}", self.data.join("signing.key").display()),
        };
        let format = match self.log.format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        let redis = match &self.redis {
            Some(_) => "# redis is set and not shown",
            None => "# redis is not used: lines are kept in this process",
        };
        let providers = self.payments.iter().map(|(name, provider)| {
            let key = provider.key.as_ref().map_or("", |_| "# key is set and not shown\n");
            let keys = provider.secret.0.len();
            format!(
                "\n[payments.{name}]\nurl = {:?}\n# secret is set ({keys}) and not shown\n{key}",
                provider.url
            )
        });
        let providers: String = providers.collect();
        format!(
            "listen = \"{}\"\ndata = {:?}\n{database}\ndatabase_connections = {}\n{redis}\nredis_kind = \"{}\"\n\n[lane]\nmax_waiting = {}\nmax_total = {}\nmax_batch = {}\nrunners = {}\n\n\
             [http]\nmax_connections = {}\nhead_seconds = {}\n\n[token]\nseconds = {}\n{key}\n\n\
             [log]\nfilter = {:?}\nformat = \"{format}\"\n{providers}",
            self.listen,
            self.data,
            self.database_connections,
            self.redis_kind,
            self.lane.max_waiting,
            self.lane.max_total,
            self.lane.max_batch,
            self.lane.runners,
            self.http.max_connections,
            self.http.head_seconds,
            self.token.seconds,
            self.log.filter,
        )
    }
}
