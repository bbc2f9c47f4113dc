//! Trouble below and in front: a locked file, a full disk, clients that dawdle, more connections than there is room for.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::{TOMORROW, TestApp, places};
use crate::client::{Answer, Client, Guest};
use crate::crowd::{at_once, book, eventually, path, slot};
use crate::truth::{Truth, audit};

/// What a ticket came to, once it is decided.
async fn outcome(guest: &Guest, told: &Value) -> Value {
    let ticket = format!("/api/tickets/{}", told["ticket"]["id"].as_str().unwrap());
    let mut now = Value::Null;
    eventually("the ticket is decided", async || {
        now = guest.get(&ticket).await.expect(200).json();
        now["state"] != "waiting"
    })
    .await;
    now
}

/// Checks that somebody was told to come back, and with which ticket.
fn put_off(answer: &Answer) -> Value {
    let told = answer.clone().refused(503, "unavailable").json();
    assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0), "{answer:?}");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_keeps_everybody_in_line() {
    let app = TestApp::start().await;
    let venue = app.venue(places(20), app.person().0).await;
    let noon = slot(venue, TOMORROW, 1);
    let blocker = Truth::in_folder(app.folder.path());
    blocker.0.execute_batch("BEGIN IMMEDIATE").unwrap();
    let people: Vec<Guest> = (0..100).map(|_| app.guest()).collect();
    let (telling, mut told_so_far) = tokio::sync::mpsc::unbounded_channel();
    let crowd = tokio::spawn(at_once(people.clone().into_iter().map(move |guest| {
        let telling = telling.clone();
        async move {
            let answer = book(&guest, noon, 1).await;
            telling.send(answer.status.as_u16()).unwrap();
            answer
        }
    })));
    // Whoever was to be decided is let go; whoever is behind them waits in the call.
    assert_eq!(told_so_far.recv().await, Some(503));
    blocker.0.execute_batch("ROLLBACK").unwrap();

    let mut seated = 0;
    for (answer, guest) in crowd.await.unwrap().iter().zip(&people) {
        let won = match answer.status.as_u16() {
            503 => outcome(guest, &put_off(answer)).await["state"] == "seated",
            201 => true,
            _ => answer.clone().refused(409, "not-enough-places").status == 201,
        };
        seated += u32::from(won);
        let own = guest.get("/api/reservations").await.expect(200).json();
        assert_eq!(own["items"].as_array().unwrap().len(), usize::from(won));
    }
    assert_eq!((seated, blocker.held(noon)), (20, (20, 20)));
    let log = blocker.log(noon);
    audit(20, &log).unwrap();
    assert_eq!(log.iter().map(|(_, batch)| batch.len()).sum::<usize>(), 100);
    app.stop().await;
}

/// A small file system, gone with the test.
pub struct Small(PathBuf);

impl Small {
    /// `None` where one may not mount.
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        let options = format!("size={size},mode=1777");
        let mounting =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).output().ok()?;
        mounting.status.success().then(|| Self(at.to_owned()))
    }

    /// Fills it to the last byte.
    pub fn fill(&self) {
        let mut filler = std::fs::File::create(self.filler()).unwrap();
        while filler.write(&[0; 4_096]).is_ok() {}
    }

    pub fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily, because a test that failed has files open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_nobody_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Small::mount(folder.path(), "2m") else {
        println!("skipped: mounting a small file system is not permitted here");
        return;
    };
    let app = TestApp::start_in(folder, TestApp::morning(), |_| {}, |store| store).await;
    let venue = app.venue(places(2_000), app.person().0).await;
    let noon = slot(venue, TOMORROW, 1);
    book(&app.guest(), noon, 1).await.expect(201);
    disk.fill();

    let (mut seated, mut waiting) = (Vec::new(), Vec::new());
    // What is left in the log of the database is used up first.
    while waiting.is_empty() && seated.len() < 1_000 {
        let guest = app.guest();
        let answer = book(&guest, noon, 1).await;
        match answer.status.as_u16() {
            201 => seated.push((guest, answer.json())),
            _ => waiting.push((guest, put_off(&answer))),
        }
    }
    assert!(!waiting.is_empty(), "the disk was never full");
    app.client.anybody().get("/health/ready").await.refused(503, "unavailable");
    let behind: Vec<Guest> = (0..20).map(|_| app.guest()).collect();
    let told = at_once(behind.clone().into_iter().map(|guest| async move {
        let body = crate::crowd::wish(noon, 1).to_string();
        guest.call(hyper::Method::POST, "/api/reservations", &[("prefer", "wait=1")], body).await
    }))
    .await;
    for (guest, answer) in behind.into_iter().zip(told) {
        let body = answer.json();
        match answer.status.as_u16() {
            202 => waiting.push((guest, serde_json::json!({"ticket": {"id": body["id"]}}))),
            _ => waiting.push((guest, put_off(&answer))),
        }
    }

    std::fs::remove_file(disk.filler()).unwrap();
    for (guest, told) in &waiting {
        let ticket = outcome(guest, told).await;
        assert_eq!(ticket["state"], "seated");
        seated.push((guest.clone(), ticket["outcome"]["reservation"].clone()));
    }
    book(&app.guest(), noon, 1).await.expect(201);
    app.client.anybody().get("/health/ready").await.expect(200);
    for (guest, reservation) in &seated {
        assert_eq!(&guest.get(&path(reservation)).await.expect(200).json(), reservation);
    }
    let truth = Truth::in_folder(app.folder.path());
    assert_eq!(truth.held(noon).0 as usize, seated.len() + 2);
    audit(2_000, &truth.log(noon)).unwrap();
    drop(truth);
    let folder = app.stop().await;
    drop(disk);
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_a_byte_a_second_is_shown_the_door() {
    let app = TestApp::start_with(|config| config.http.head_seconds = 1, |store| store).await;
    let address = app.server().address();
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = "GET /health/live HTTP/1.1\r\nhost: here\r\n\r\n";
    let mut sent = 0;
    for byte in head.as_bytes() {
        // Others do not notice.
        Client::new(app.client.base.clone()).anybody().get("/health/live").await.expect(200);
        if slow.write_all(&[*byte]).await.is_err() {
            break;
        }
        sent += 1;
        let mut answer = [0; 64];
        match tokio::time::timeout(Duration::from_secs(1), slow.read(&mut answer)).await {
            Ok(closed) => {
                assert!(closed.is_err() || closed.is_ok_and(|bytes| bytes == 0), "it was answered");
                break;
            }
            Err(_) => continue,
        }
    }
    assert!(sent < 10, "{sent} of {} bytes were waited for", head.len());
    // The control: the same bytes at once are answered.
    let mut quick = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut quick).await.starts_with("HTTP/1.1 200"));
    drop(quick);
    app.stop().await;
}

/// Sends one request and reads the beginning of its answer.
async fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /health/live HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 512];
    let bytes = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..bytes]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_bound_wait_for_their_turn() {
    let bound = |config: &mut maitred::config::Config| {
        config.http.max_connections = 2;
        config.http.head_seconds = 300;
    };
    let app = TestApp::start_with(bound, |store| store).await;
    let venue = app.venue(places(100), app.person().0).await;
    let address = app.server().address();
    let (mut first, mut second) =
        (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
    for stream in [&mut first, &mut second] {
        assert!(ask(stream).await.starts_with("HTTP/1.1 200"));
    }
    let mut third = tokio::spawn(async move { ask(&mut TcpStream::connect(address).await.unwrap()).await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut third).await;
    assert!(early.is_err(), "there was room for a third: {early:?}");
    drop(first);
    assert!(third.await.unwrap().starts_with("HTTP/1.1 200"));
    drop(second);

    // A crowd with a connection each: nobody is turned away.
    let noon = slot(venue, TOMORROW, 1);
    let people: Vec<Guest> = (0..50).map(|_| app.guest()).collect();
    let told = at_once(people.into_iter().map(|guest| async move {
        let client = Client::new(guest.client.base);
        book(&Guest { client, token: guest.token }, noon, 1).await
    }))
    .await;
    assert!(told.iter().all(|answer| answer.status == 201), "{told:?}");
    app.stop().await;
}
