//! The peers in Java: built once, started as processes of their own, ended by their ids.
//!
//! ```ignore
//! let java = spring::build()?;
//! let setup = spring::Setup { virtual_threads: java.has_virtual_threads(), ..Setup::new(Mode::FairLock, &database, &redis) };
//! let peer = Spring::start(&java, &setup)?;
//! // … send requests to `peer.address` …
//! ```

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::SystemTime;

use crate::Result;
use crate::served::Served;

#[cfg(test)]
mod tests;

/// The newest Java there is, and the peers' classes.
#[derive(Debug)]
pub struct Java {
    program: PathBuf,
    version: u32,
    project: PathBuf,
}

impl Java {
    /// Its feature release: 17, 21, 25.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Whether waiting threads can be virtual.
    pub fn has_virtual_threads(&self) -> bool {
        self.version >= 21
    }

    fn command(&self, class: &str) -> Command {
        let target = self.project.join("target");
        let mut command = Command::new(&self.program);
        // The README beside the pom says why these.
        command.args(["-Xms2g", "-Xmx2g", "-XX:+UseParallelGC", "-XX:+ExitOnOutOfMemoryError"]);
        if self.version >= 23 {
            command.arg("--sun-misc-unsafe-memory-access=allow");
        }
        let classes = format!("{}:{}/*", target.join("peer.jar").display(), target.join("lib").display());
        command.args(["-cp", &classes, class]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// Packages the peers with Maven unless nothing has changed, and finds the newest JDK: `JAVA_HOME`, or in `/usr/lib/jvm`.
pub fn build() -> Result<Java> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/spring");
    let (version, home) = newest_jdk()?;
    let packaged = modified(&project.join("target/peer.jar"));
    let sources = newest(&project.join("src")).max(modified(&project.join("pom.xml")));
    if packaged.is_none() || packaged < sources {
        // What was fetched once is there; only the first time needs the registry.
        let built = package(&project, &home, &["-o"]).or_else(|_| package(&project, &home, &[]));
        built.map_err(|error| format!("the Java peers cannot be built: {error}"))?;
    }
    Ok(Java { program: home.join("bin/java"), version, project })
}

fn package(project: &Path, home: &Path, more: &[&str]) -> Result<()> {
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-DskipTests"]).args(more).arg("package");
    let output = maven.current_dir(project).env("JAVA_HOME", home).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stdout).into())
}

fn newest_jdk() -> Result<(u32, PathBuf)> {
    let chosen = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let installed =
        std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let version = |home: PathBuf| Some((feature_release(&home)?, home));
    let found = match chosen {
        Some(home) => version(home),
        None => installed.filter_map(version).max(),
    };
    found.ok_or_else(|| {
        "there is no JDK: install the Debian package default-jdk-headless, or set JAVA_HOME".into()
    })
}

/// What the JDK's own file says: `JAVA_VERSION="25.0.1"`. None if it cannot compile.
fn feature_release(home: &Path) -> Option<u32> {
    if !home.join("bin/javac").exists() {
        return None;
    }
    let release = std::fs::read_to_string(home.join("release")).ok()?;
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    version.split(['.', '"', '-', '+']).next()?.parse().ok()
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// When anything below was changed last.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries
        .map(|entry| if entry.path().is_dir() { newest(&entry.path()) } else { modified(&entry.path()) })
        .max()?
}

/// Which of the two systems a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Guard, waiting counter, fair lock with 2 s, one transaction.
    FairLock,
    /// Rate limiter, fair lock with 10 s, semaphore, claim, one transaction.
    Admission,
}

/// How a peer is started. [`Setup::new`] has the best settings that were found; change what a workload needs.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Which system.
    pub mode: Mode,
    /// Whether requests run on virtual threads; needs [`Java::has_virtual_threads`].
    pub virtual_threads: bool,
    /// Places of every slot.
    pub capacity: u32,
    /// `postgres://USER@HOST:PORT/DATABASE`; the tables are made when they are missing.
    pub database: String,
    /// `redis://HOST:PORT`.
    pub redis: String,
    /// Requests that the limiter of [`Mode::Admission`] lets through for each venue; none is no limit.
    pub rate_per_second: Option<u32>,
    /// Redisson's own pool sizes instead of ours.
    pub default_pools: bool,
}

impl Setup {
    /// Twenty places a slot, threads of the system, no rate limit, raised pools.
    pub fn new(mode: Mode, database: &str, redis: &str) -> Self {
        let (database, redis) = (database.into(), redis.into());
        let (virtual_threads, capacity, rate_per_second, default_pools) = (false, 20, None, false);
        Self { mode, virtual_threads, capacity, database, redis, rate_per_second, default_pools }
    }

    fn arguments(&self) -> Result<Vec<String>> {
        let (user, rest) = self
            .database
            .strip_prefix("postgres://")
            .and_then(|rest| rest.split_once('@'))
            .ok_or("a database is postgres://USER@HOST:PORT/DATABASE")?;
        let mode = if self.mode == Mode::FairLock { "fair-lock" } else { "admission" };
        let pools = if self.default_pools { "defaults" } else { "raised" };
        Ok(vec![
            format!("--peer.mode={mode}"),
            format!("--peer.virtual-threads={}", self.virtual_threads),
            format!("--peer.capacity={}", self.capacity),
            format!("--peer.jdbc-url=jdbc:postgresql://{rest}"),
            format!("--peer.jdbc-user={user}"),
            format!("--peer.redis-url={}", self.redis.trim_end_matches('/')),
            format!("--peer.rate-per-second={}", self.rate_per_second.unwrap_or(1_000_000_000)),
            format!("--peer.redisson-pools={pools}"),
            "--peer.ends-with-input=true".into(),
        ])
    }
}

/// Starts a peer and waits until it is ready. It is cold: see that it is warmed up before it is measured.
pub fn start(java: &Java, setup: &Setup) -> Result<Served> {
    Served::of(java.command("peer.ReservationServer").args(setup.arguments()?))
}

/// Redisson in a process of its own, which measures what it is told and stays warm in between.
#[derive(Debug)]
pub struct RedissonMeasure {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for RedissonMeasure {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What Redisson reached.
#[derive(Debug, Clone, Copy)]
pub struct Reached {
    /// Operations a second.
    pub per_second: f64,
    /// Calls that threw.
    pub failed: u64,
    /// Of a hand-over, how many stood in line and listened: small pools have no room for everybody.
    pub queued: u64,
}

impl RedissonMeasure {
    /// Connects one client to Redis, with Redisson's own pool sizes or with ours.
    pub fn start(java: &Java, redis: &str, default_pools: bool) -> Result<Self> {
        let pools = if default_pools { "defaults" } else { "raised" };
        let mut process =
            java.command("peer.RedissonMeasure").args([redis.trim_end_matches('/'), pools]).spawn()?;
        let to = process.stdin.take().ok_or("no input")?;
        let from = BufReader::new(process.stdout.take().ok_or("no output")?);
        Ok(Self { process, to, from })
    }

    /// Runs one measurement, as the class names them: `hand-over 1000 5`. It answers within its time and 75 s.
    pub fn run(&mut self, measurement: &str) -> Result<Reached> {
        writeln!(self.to, "{measurement}")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let answer: serde_json::Value = serde_json::from_str(&line)?;
        if let Some(error) = answer["error"].as_str() {
            return Err(format!("{measurement}: {error}").into());
        }
        let per_second = answer["perSecond"].as_f64().ok_or("no figure")?;
        let count = |name: &str| answer[name].as_u64().unwrap_or(0);
        Ok(Reached { per_second, failed: count("failed"), queued: count("queued") })
    }
}
