//! One connection for all commands of a client, and what is done when it fails.
//!
//! The driver's own reconnecting keeps callers waiting for as long as it takes, so every sending has a deadline here.
//! A command is sent again, on a new connection if the old one is broken or silent; scripts bear being repeated. The
//! number of the attempt is the last argument of each script.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::config::{RedisConfig, Topology};
use super::script::Script;
use super::servers::{Connection, connect};
use crate::error::{Error, Result};

pub(super) struct Link {
    topology: Topology,
    call_timeout: Duration,
    attempts: u32,
    /// Where connections are driven.
    home: Handle,
    current: Mutex<Option<(u64, Connection)>>,
    /// What the server of the connection calls itself: another name each time it starts.
    server: Mutex<Arc<str>>,
    connecting: tokio::sync::Mutex<()>,
    generation: AtomicU64,
    start: Instant,
    /// When the last answer came, in µs since `start`: tells a slow server from a dead connection.
    last_answer: AtomicU64,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("topology", &self.topology).finish_non_exhaustive()
    }
}

/// A script with its keys and arguments, one after the other in one buffer.
pub(super) struct Call<'a> {
    script: &'a Script,
    keys: usize,
    bytes: String,
    ends: Vec<usize>,
}

impl<'a> Call<'a> {
    pub(super) fn new(script: &'a Script) -> Self {
        Self { script, keys: 0, bytes: String::with_capacity(512), ends: Vec::with_capacity(24) }
    }

    /// A key made of a base and the name of a part.
    pub(super) fn key(mut self, base: &str, part: &str) -> Self {
        debug_assert_eq!(self.keys, self.ends.len(), "keys come before arguments");
        self.keys += 1;
        self.bytes.push_str(base);
        self.arg(part)
    }

    pub(super) fn arg(mut self, arg: impl std::fmt::Display) -> Self {
        use std::fmt::Write;
        // Writing to a string does not fail.
        let _ = write!(self.bytes, "{arg}");
        self.ends.push(self.bytes.len());
        self
    }

    fn fill(&self, mut command: Cmd, attempt: u32) -> Cmd {
        command.arg(self.keys);
        let mut start = 0;
        for end in &self.ends {
            command.arg(&self.bytes[start..*end]);
            start = *end;
        }
        command.arg(attempt);
        command
    }
}

impl Link {
    pub(super) fn new(config: &RedisConfig, home: Handle) -> Self {
        Self {
            topology: config.topology.clone(),
            call_timeout: config.call_timeout,
            attempts: config.attempts,
            home,
            current: Mutex::new(None),
            server: Mutex::new("".into()),
            connecting: tokio::sync::Mutex::new(()),
            generation: AtomicU64::new(0),
            start: Instant::now(),
            last_answer: AtomicU64::new(0),
        }
    }

    /// Counts connections: it changes when the server may have changed.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Which server the connection leads to; empty if it does not say.
    pub(super) async fn server(&self) -> Result<Arc<str>> {
        self.ready().await?;
        Ok(self.server.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(super) async fn ready(&self) -> Result<()> {
        self.connection().await.map(drop).map_err(unavailable)
    }

    /// Sends a script until it is answered, as often as the configuration allows.
    pub(super) async fn call(&self, call: &Call<'_>) -> Result<Value> {
        self.call_up_to(call, self.attempts, None).await
    }

    /// Sends it once. For what is done again soon anyway.
    pub(super) async fn call_once(&self, call: &Call<'_>) -> Result<Value> {
        self.call_up_to(call, 1, None).await
    }

    /// Sends it once, if it is named on this connection and on no other.
    pub(super) async fn call_on(&self, call: &Call<'_>, generation: Option<u64>) -> Result<Value> {
        self.call_up_to(call, 1, generation).await
    }

    async fn call_up_to(&self, call: &Call<'_>, attempts: u32, on: Option<u64>) -> Result<Value> {
        let mut attempt = 0;
        loop {
            let error = match self.run(call, attempt, on).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            attempt += 1;
            if attempt >= attempts || !may_pass(&error) {
                return Err(unavailable(error));
            }
            let spread = crate::ticket::random() % 50;
            sleep(Duration::from_millis(u64::from(attempt) * 25 + spread)).await;
        }
    }

    async fn run(&self, call: &Call<'_>, attempt: u32, on: Option<u64>) -> RedisResult<Value> {
        match self.command_on(&call.fill(call.script.by_hash(), attempt), on).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.command_on(&call.fill(call.script.by_text(), attempt), on).await
            }
            other => other,
        }
    }

    /// One sending of one command.
    pub(super) async fn command(&self, command: &Cmd) -> RedisResult<Value> {
        self.command_on(command, None).await
    }

    async fn command_on(&self, command: &Cmd, on: Option<u64>) -> RedisResult<Value> {
        let (generation, mut connection) = self.connection().await?;
        if on.is_some_and(|on| on != generation) {
            return Err((ErrorKind::Io, "the connection is another than the caller knows").into());
        }
        let sent = self.elapsed();
        let error = match timeout(self.call_timeout, connection.send(command)).await {
            Ok(Ok(value)) => {
                self.last_answer.store(self.elapsed(), Ordering::Relaxed);
                return Ok(value);
            }
            Ok(Err(error)) => {
                if is_broken(&error) {
                    self.discard(generation);
                }
                error
            }
            Err(_) => {
                if self.last_answer.load(Ordering::Relaxed) < sent {
                    self.discard(generation);
                }
                timed_out()
            }
        };
        Err(error)
    }

    fn elapsed(&self) -> u64 {
        super::micros(self.start.elapsed())
    }

    fn current(&self) -> Option<(u64, Connection)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn discard(&self, generation: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|(it, _)| *it == generation) {
            *current = None;
        }
    }

    async fn connection(&self) -> RedisResult<(u64, Connection)> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let wait = self.call_timeout * 2;
        timeout(wait, async {
            let _one_at_a_time = self.connecting.lock().await;
            if let Some(current) = self.current() {
                return Ok(current);
            }
            let (topology, patience) = (self.topology.clone(), self.call_timeout);
            // Spawned there, the connection is driven there, whatever becomes of the caller's runtime.
            let connecting = self.home.spawn(async move {
                let mut connection = connect(&topology, patience).await?;
                let server = connection.run_id().await;
                RedisResult::Ok((connection, server))
            });
            let (connection, server) = connecting.await.map_err(|_| timed_out())??;
            *self.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
            let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            *current = Some((generation, connection.clone()));
            Ok((generation, connection))
        })
        .await
        .unwrap_or_else(|_| Err(timed_out()))
    }
}

fn is_broken(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_io_error()
        || error.is_connection_dropped()
        || matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

/// Whether the same command may succeed a moment later.
fn may_pass(error: &RedisError) -> bool {
    is_broken(error)
        || error.is_timeout()
        || error.is_connection_refusal()
        || matches!(
            error.kind(),
            ErrorKind::ClusterConnectionNotFound
                | ErrorKind::Server(
                    ServerErrorKind::BusyLoading
                        | ServerErrorKind::ClusterDown
                        | ServerErrorKind::TryAgain
                        | ServerErrorKind::NoScript
                )
        )
}

pub(super) fn timed_out() -> RedisError {
    RedisError::from(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time"))
}

pub(super) fn unavailable(source: RedisError) -> Error {
    Error::Unavailable { source: Box::new(source) }
}
