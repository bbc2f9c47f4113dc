//! A Redis server of one's own.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::{Process, free_port, until};

/// A `redis-server` without persistence, on a port of its own.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    options: Vec<String>,
    folder: PathBuf,
    process: Process,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl RedisServer {
    /// Starts one and waits until it answers.
    pub fn start() -> Self {
        Self::with_options(&[])
    }

    /// Starts one with more options: `["--maxmemory", "10mb"]`.
    ///
    /// # Panics
    /// If no server can be started.
    pub fn with_options(options: &[&str]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("testkit-redis-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        for _ in 0..5 {
            let port = free_port();
            let process = launch(port, &options, &folder);
            let mut server = Self { port, options: options.clone(), folder: folder.clone(), process };
            if server.answers() {
                return server;
            }
            // Somebody else took the port. The folder stays for the next try.
            server.folder = PathBuf::new();
        }
        panic!("redis-server did not start");
    }

    fn answers(&mut self) -> bool {
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while self.process.is_running() && std::time::Instant::now() < end {
            if matches!(self.try_command(&["PING"]), Ok(Reply::Text(text)) if text == "PONG") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Ends it without a warning.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again, empty, on the same port.
    ///
    /// # Panics
    /// If it does not come back.
    pub fn restart(&mut self) {
        self.process.kill();
        for _ in 0..20 {
            self.process = launch(self.port, &self.options, &self.folder);
            if self.answers() {
                return;
            }
        }
        panic!("redis-server did not come back on port {}", self.port);
    }

    /// Freezes it: connections stay, nothing is answered.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.process.go_on();
    }

    /// Sends one command on a connection of its own.
    ///
    /// # Panics
    /// If the server does not answer, or answers with an error.
    pub fn command(&self, parts: &[&str]) -> Reply {
        match self.try_command(parts) {
            Ok(Reply::Error(error)) => panic!("{parts:?}: {error}"),
            Ok(reply) => reply,
            Err(error) => panic!("{parts:?}: {error}"),
        }
    }

    /// Sends one command on a connection of its own.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn try_command(&self, parts: &[&str]) -> io::Result<Reply> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut request = format!("*{}\r\n", parts.len());
        for part in parts {
            request.push_str(&format!("${}\r\n{part}\r\n", part.len()));
        }
        (&stream).write_all(request.as_bytes())?;
        read_reply(&mut BufReader::new(stream))
    }

    /// How often clients have called `command`, since the start or the last `CONFIG RESETSTAT`.
    pub fn calls(&self, command: &str) -> u64 {
        self.stat("commandstats", &format!("cmdstat_{command}:calls="))
    }

    /// How many commands clients have called that work on data: scripts, and whatever else is not bookkeeping.
    pub fn client_calls(&self) -> u64 {
        ["evalsha", "eval", "set"].iter().map(|command| self.calls(command)).sum()
    }

    /// CPU seconds the server has used.
    pub fn cpu_seconds(&self) -> f64 {
        let info = self.command(&["INFO", "cpu"]).to_string();
        ["used_cpu_sys:", "used_cpu_user:"]
            .iter()
            .map(|field| number_after(&info, field).parse().unwrap_or(0.0))
            .sum()
    }

    fn stat(&self, section: &str, field: &str) -> u64 {
        number_after(&self.command(&["INFO", section]).to_string(), field).parse().unwrap_or(0)
    }

    /// Waits until a replica of this server has everything it was sent and the link is up.
    pub fn until_replicating(&self) {
        until("the replica is in sync", Duration::from_secs(20), || {
            self.command(&["INFO", "replication"]).to_string().contains("master_link_status:up")
        });
    }
}

fn launch(port: u16, options: &[String], folder: &PathBuf) -> Process {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--daemonize", "no", "--loglevel", "warning", "--protected-mode", "no"]);
    command
        .arg("--dir")
        .arg(folder)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process::start(&mut command)
}

fn number_after<'a>(text: &'a str, field: &str) -> &'a str {
    let rest = text.split_once(field).map_or("", |(_, rest)| rest);
    rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or("")
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.process.kill();
        if !self.folder.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A text, simple or bulk.
    Text(String),
    /// A number.
    Number(i64),
    /// Nothing.
    Nil,
    /// Several.
    List(Vec<Reply>),
    /// A refusal.
    Error(String),
}

impl Reply {
    /// The number, or 0.
    pub fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or(0),
            _ => 0,
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Error(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Nil => Ok(()),
            Self::List(list) => list.iter().try_for_each(|reply| writeln!(f, "{reply}")),
        }
    }
}

fn read_reply(reader: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let rest = line.trim_end().get(1..).unwrap_or("").to_owned();
    let length = || rest.parse::<i64>().map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
    Ok(match line.as_bytes()[0] {
        b'+' => Reply::Text(rest),
        b'-' => Reply::Error(rest),
        b':' => Reply::Number(length()?),
        b'$' => match usize::try_from(length()?) {
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                reader.read_exact(&mut bytes)?;
                Reply::Text(String::from_utf8_lossy(&bytes[..length]).into_owned())
            }
            Err(_) => Reply::Nil,
        },
        b'*' => match usize::try_from(length()?) {
            Ok(length) => Reply::List((0..length).map(|_| read_reply(reader)).collect::<io::Result<_>>()?),
            Err(_) => Reply::Nil,
        },
        _ => return Err(io::ErrorKind::InvalidData.into()),
    })
}
