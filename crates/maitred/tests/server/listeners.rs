//! Thousands who listen to their place in one line: what each costs the server, and what happens when all are cut off and
//! come back at the same moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use booking::SlotId;
use hyper::Method;
use rusqlite::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{MutexGuard, Semaphore};
use tokio::time::timeout;

use crate::client::{Client, Guest};
use crate::crowd::{at_once, wish};
use crate::process::{Program, guests, maitred_with_files};
use crate::shared::{Embedded, alone};

/// What one more listener may cost, in bytes.
const EACH: u64 = 16 * 1_024;
/// How long anything may take on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);
/// Files beside those of the connections.
const SPARE: usize = 1_000;

/// Lets this process open so many files; `None`, and why, where that is forbidden.
async fn with_files(wanted: usize) -> Option<MutexGuard<'static, ()>> {
    let alone = alone().await;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    // "unlimited" is more than any number.
    let mut numbers = files.split_whitespace().map(|word| word.parse().unwrap_or(usize::MAX));
    let (soft, hard) = (numbers.next().unwrap(), numbers.next().unwrap());
    if hard < wanted {
        println!("skipped: {wanted} files are needed, and no more than {hard} may be opened here");
        return None;
    }
    if soft < wanted {
        let own = std::process::id().to_string();
        let raised = Command::new("prlimit").args(["--pid", &own, &format!("--nofile={wanted}:")]).status();
        assert!(raised.unwrap().success(), "prlimit did not raise the limit");
    }
    Some(alone)
}

/// A server on a file, and people who stand in line for a slot of it because somebody else holds the database.
struct Line {
    program: Program,
    people: Vec<Person>,
    jam: Connection,
}

/// Somebody in line.
#[derive(Clone)]
struct Person {
    guest: Guest,
    ticket: String,
    /// When to come back, as the server said.
    again: u64,
}

fn serve(folder: &Path, files: usize) -> Program {
    let mut command = maitred_with_files(folder, u32::try_from(files).unwrap());
    command.env("MAITRED_HTTP_MAX_CONNECTIONS", files.to_string());
    Program::try_serve_by(command, folder, &[]).unwrap()
}

async fn line_up(folder: &Path, places: u32, count: usize) -> Line {
    let slot = Embedded::new(folder, places).await.slots()[0];
    let program = serve(folder, count + SPARE);
    let jam = Connection::open(folder.join("data/maitred.db")).unwrap();
    jam.execute_batch("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE").unwrap();
    let guests = guests(folder, &program.client, count);
    let few = Arc::new(Semaphore::new(64));
    let entering = guests.into_iter().map(|guest| {
        let few = few.clone();
        tokio::spawn(async move {
            let _turn = few.acquire().await.unwrap();
            enter(guest, slot).await
        })
    });
    let mut people = Vec::with_capacity(count);
    for entering in entering.collect::<Vec<_>>() {
        people.push(entering.await.unwrap());
    }
    Line { program, people, jam }
}

async fn enter(guest: Guest, slot: SlotId) -> Person {
    let body = wish(slot, 1).to_string();
    let told = guest.call(Method::POST, "/api/reservations", &[("prefer", "wait=0")], body).await.expect(202);
    let again = told.header("retry-after").parse().unwrap();
    Person { ticket: told.json()["id"].as_str().unwrap().to_owned(), guest, again }
}

/// One connection, with nothing around it that would cost memory by the thousand.
struct Wire {
    stream: TcpStream,
    heard: String,
}

impl Wire {
    async fn ask(client: &Client, person: &Person, what: &str) -> Self {
        let address = client.base.strip_prefix("http://").unwrap();
        let (token, ticket) = (person.guest.token.as_deref().unwrap(), &person.ticket);
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "GET /api/tickets/{ticket}{what} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream, heard: String::new() }
    }

    /// Reads until the server has said one of these.
    async fn hears(&mut self, words: &[&str]) -> &str {
        let reading = async {
            let mut bytes = [0; 4_096];
            while !words.iter().any(|word| self.heard.contains(word)) {
                let read = self.stream.read(&mut bytes).await.unwrap();
                assert!(read > 0, "the end, after {}", self.heard);
                self.heard.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
            }
        };
        let heard = timeout(PATIENCE, reading).await;
        assert!(heard.is_ok(), "no {words:?} in {}", self.heard);
        &self.heard
    }
}

/// Half of them listen, the others have asked and keep their connection; all at the same moment.
async fn all_come(client: &Client, people: &[Person]) -> Vec<Wire> {
    let coming = people.iter().cloned().enumerate().map(|(n, person)| {
        let client = client.clone();
        async move {
            let what = if n % 2 == 0 { "/events" } else { "" };
            let mut wire = Wire::ask(&client, &person, what).await;
            assert!(wire.hears(&["}"]).await.starts_with("HTTP/1.1 200"), "{}", wire.heard);
            wire
        }
    });
    at_once(coming).await
}

/// How each ticket ended, by asking until it has, on a new connection each time.
async fn endings(client: &Client, people: &[Person]) -> BTreeMap<&'static str, usize> {
    let asking = people.iter().cloned().map(|person| {
        let client = client.clone();
        async move {
            let give_up = Instant::now() + PATIENCE;
            loop {
                let mut wire = Wire::ask(&client, &person, "").await;
                let told = wire.hears(&[r#","epoch":"#]).await;
                let is = |state: &&str| told.contains(&format!(r#""state":"{state}""#));
                if let Some(state) = ["seated", "refused"].into_iter().find(is) {
                    return state;
                }
                assert!(Instant::now() < give_up, "still waiting: {told}");
                tokio::time::sleep(Duration::from_secs(person.again)).await;
            }
        }
    });
    let mut ended = BTreeMap::new();
    for state in at_once(asking).await {
        *ended.entry(state).or_default() += 1;
    }
    ended
}

/// Asks the server for a sign of life over and over; the longest that it took.
async fn slowest(client: Client, until: Arc<Semaphore>) -> Duration {
    let mut slowest = Duration::ZERO;
    while until.available_permits() == 0 {
        let asked = Instant::now();
        client.anybody().get("/health/live").await.expect(200);
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_are_cut_off_and_all_come_back() {
    const PEOPLE: usize = 10_000;
    let Some(_alone) = with_files(PEOPLE + SPARE).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let line = line_up(folder.path(), 4_000, PEOPLE).await;
    let mut instants = BTreeMap::<u64, usize>::new();
    line.people.iter().for_each(|person| *instants.entry(person.again).or_default() += 1);
    let fullest = instants.values().max().unwrap();
    assert!(instants.len() >= 3 && *fullest < PEOPLE / 2, "they would come together: {instants:?}");

    let client = line.program.client.clone();
    let there = all_come(&client, &line.people).await;
    let over = Arc::new(Semaphore::new(0));
    let alive = tokio::spawn(slowest(client.clone(), over.clone()));
    // All connections end, and all come back without a thought for each other.
    drop(there);
    let there = all_come(&client, &line.people).await;
    over.add_permits(1);
    let slowest = alive.await.unwrap();
    assert!(slowest < Duration::from_secs(10), "void of life for {slowest:?}");
    line.jam.execute_batch("ROLLBACK").unwrap();
    for mut wire in there.into_iter().step_by(2) {
        wire.hears(&["event: outcome"]).await;
    }
    let expected = BTreeMap::from([("seated", 4_000), ("refused", 6_000)]);
    assert_eq!(endings(&client, &line.people).await, expected);

    // The server itself ends, and everybody finds it again at once.
    line.program.kill();
    let program = serve(folder.path(), PEOPLE + SPARE);
    assert_eq!(endings(&program.client, &line.people).await, expected);
    program.client.anybody().get("/health/ready").await.expect(200);
}

/// Resident memory of a process, in bytes.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifteen_thousand_listeners_cost_little() {
    const PEOPLE: usize = 15_000;
    let Some(_alone) = with_files(PEOPLE + SPARE).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let line = line_up(folder.path(), 1_000, PEOPLE).await;
    let before = resident(line.program.id());
    let mut wires = Vec::with_capacity(PEOPLE);
    for person in &line.people {
        let mut wire = Wire::ask(&line.program.client, person, "/events").await;
        wire.hears(&["event: position"]).await;
        wires.push(wire);
    }
    // They are told nothing new for a while, and looked after all the same.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let each = resident(line.program.id()).saturating_sub(before) / PEOPLE as u64;
    println!("{each} bytes a listener");
    assert!(each <= EACH, "{each} bytes a listener");
    line.jam.execute_batch("ROLLBACK").unwrap();
    for wire in &mut wires {
        wire.hears(&["event: outcome"]).await;
    }
}
