//! Other processes: this test binary, started again to play one part.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use fairlane::{Client, Lease, Pass, RedisConfig};
use testkit::Process;
use tokio::task::JoinSet;

use crate::world::{LONG, connect, quick};

/// Names the part and its arguments.
const PART: &str = "FAIRLANE_CHILD";
/// Before every line that is meant for the parent; the test harness writes to the same stream.
const MARK: &str = ">>";

/// A process that plays a part. Killed when dropped.
pub(crate) struct Child {
    pub(crate) process: Process,
    lines: Receiver<String>,
}

impl Child {
    pub(crate) fn play(part: &str, url: &str) -> Self {
        Self::play_with(part, url, &[])
    }

    pub(crate) fn play_with(part: &str, url: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child::part", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(PART, format!("{part} {url}")).envs(environment.iter().copied());
        let mut process =
            Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null()));
        let stdout = process.child().stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some((_, text)) = line.split_once(MARK) {
                    let _ = sender.send(text.to_owned());
                }
            }
        });
        Self { process, lines }
    }

    /// What the child says next.
    pub(crate) fn says(&self) -> String {
        self.lines.recv_timeout(LONG).expect("the child says something")
    }

    /// What the child says next begins with `word`; the rest of it.
    pub(crate) fn says_after(&self, word: &str) -> String {
        let line = self.says();
        line.strip_prefix(word).unwrap_or_else(|| panic!("expected {word}, heard {line}")).trim().to_owned()
    }

    /// The same, without holding up the runtime.
    pub(crate) async fn hears(self, word: &'static str) -> (Self, String) {
        tokio::task::spawn_blocking(move || {
            let rest = self.says_after(word);
            (self, rest)
        })
        .await
        .unwrap()
    }
}

fn say(text: impl std::fmt::Display) {
    println!("{MARK}{text}");
}

/// Does nothing in the parent.
#[tokio::test]
async fn part() {
    let Ok(line) = std::env::var(PART) else { return };
    let mut words = line.split_whitespace();
    let (part, url) = (words.next().unwrap(), words.next().unwrap());
    let client = connect(quick(RedisConfig::single(url))).await;
    match part {
        "wait" => wait(&client).await,
        "thousand" => thousand(&client).await,
        "hold" => hold(&client).await,
        "hold-permits" => hold_permits(&client).await,
        "rate" => rate(&client).await,
        "crowd" => crowd(&client).await,
        other => panic!("no such part: {other}"),
    }
}

/// Waits for the lock, says so, and passes it on.
async fn wait(client: &Client) {
    let lock = client.fair_lock("a");
    say("asking");
    let held = lock.acquire().await.unwrap();
    say(format_args!("granted {}", held.fencing_token()));
    held.release().await.unwrap();
}

/// A thousand waiters that wait until killed.
async fn thousand(client: &Client) {
    let mut tasks = JoinSet::new();
    for _ in 0..1000 {
        let lock = client.fair_lock("a");
        tasks.spawn(async move { lock.acquire().await.map(drop) });
    }
    tasks.join_all().await;
}

/// Holds the lock until it is lost.
async fn hold(client: &Client) {
    let held =
        client.fair_lock("a").with_lease(Lease::Renewing(Duration::from_secs(1))).acquire().await.unwrap();
    say(format_args!("held {}", held.fencing_token()));
    held.lost().await;
    say(format_args!("lost {}", held.fencing_token()));
    assert!(held.is_lost());
    say(format_args!("released {}", held.release().await.is_ok()));
}

/// Holds all permits until killed.
async fn hold_permits(client: &Client) {
    let lease = Lease::Renewing(Duration::from_secs(1));
    let held = client.semaphore("a", 5).with_lease(lease).acquire(5).await.unwrap();
    say(format_args!("held {}", held.fencing_token()));
    std::future::pending::<()>().await;
}

/// Sends its share of a hundred requests at once, and reports when each passed.
async fn rate(client: &Client) {
    let limiter = client.rate_limiter("a", 10, Duration::from_secs(1));
    say("ready");
    let mut tasks = JoinSet::new();
    for _ in 0..34 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            match limiter.acquire(LONG).await.unwrap() {
                Pass::Granted { at_micros } => say(format_args!("passed {at_micros}")),
                Pass::Limited { .. } => say("limited"),
            }
        });
    }
    tasks.join_all().await;
}

/// Ten thousand waiters of one client, several times over; the resident memory after each time.
async fn crowd(client: &Client) {
    let lock = client.fair_lock("a").with_grace(Duration::ZERO);
    for _ in 0..4 {
        let held = lock.acquire().await.unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..10_000 {
            let lock = lock.clone();
            tasks.spawn(async move { lock.acquire().await.map(drop) });
        }
        while lock.waiting().await.unwrap() < 10_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        client.flush().await.unwrap();
        assert_eq!(lock.waiting().await.unwrap(), 0);
        held.release().await.unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        say(format_args!("resident {}", resident.trim().trim_end_matches(" kB")));
    }
}
