//! `maitred audit` over both engines: a database after a rush is clean, and whatever is done to its rows behind the
//! program's back is found.

use std::path::Path;
use std::process::Output;

use booking::VenueId;
use serde_json::{Value, json};
use testkit::Postgres;

use crate::app::{TestApp, noon, places};
use crate::client::Guest;
use crate::crowd::{at_once, path};
use crate::process::{complaint, run, stdout};

/// Four places and twenty who want one; two pay, one cancels, one comes with another party, one goes to another slot.
async fn rush(app: &TestApp) -> VenueId {
    let (staff, _) = app.person();
    let venue = app.venue(places(4), staff).await;
    let people: Vec<Guest> = (0..20).map(|_| app.guest()).collect();
    let told = at_once(people.clone().into_iter().map(|guest| async move {
        guest
            .call(
                hyper::Method::POST,
                "/api/reservations",
                &[("prefer", "wait=10"), ("idempotency-key", "noon")],
                noon(venue, 1).to_string(),
            )
            .await
    }))
    .await;
    let won = people.iter().zip(&told).filter(|(_, answer)| answer.status == 201);
    let won: Vec<(&Guest, String)> = won.map(|(guest, answer)| (guest, path(&answer.json()))).collect();
    assert_eq!(won.len(), 4);
    for (guest, path) in &won[..2] {
        guest.post("/api/wallet/charges", json!({"amount": 20_000})).await.expect(201);
        guest.post(&format!("{path}/payment"), json!({"method": "points"})).await.expect(200);
    }
    let (guest, path) = &won[3];
    guest.post(&format!("{path}/cancel"), json!({})).await.expect(200);
    let (guest, path) = &won[0];
    change(guest, path, json!({"partySize": 2})).await;
    let (guest, path) = &won[2];
    change(guest, path, json!({"time": "13:00"})).await;
    app.guest().post("/api/reservations", noon(venue, 1)).await.expect(201);
    venue
}

async fn change(guest: &Guest, path: &str, change: Value) {
    guest.call(hyper::Method::PATCH, path, &[], change.to_string()).await.expect(200);
}

/// Statements, each with what must be said of it. Where the database itself would refuse one, what refuses is taken away.
const LIES: &[(&str, &[&str], &str)] = &[
    ("oversold", &["UPDATE reservation SET party = party + 3 WHERE status = 'TEMPORARY'"], "is oversold"),
    (
        "booked twice",
        &[
            "DROP INDEX one_place_a_person",
            "UPDATE reservation SET person = (SELECT min(CAST(person AS text)) FROM reservation \
             WHERE status = 'CONFIRMED')::uuid WHERE status = 'TEMPORARY' AND slot_id = (SELECT min(id) FROM slot)",
        ],
        "has two places",
    ),
    (
        "overtaken",
        &["UPDATE decision SET version = -version", "UPDATE decision SET version = 100 + version"],
        "was overtaken",
    ),
    ("a log that was cut", &["DELETE FROM decision WHERE version = 1"], "no decision made"),
    ("money made", &["UPDATE wallet SET balance = balance + 1"], "its entries come to"),
    ("money lost", &["DELETE FROM wallet_entry WHERE kind = 'payment'"], "counts"),
    (
        "a place for nothing",
        &["UPDATE reservation SET status = 'CONFIRMED' WHERE status = 'TEMPORARY'"],
        "paid",
    ),
];

/// The database of a test, tampered with and put back.
trait Behind {
    fn arguments(&self) -> Vec<String>;
    fn do_it(&self, sql: &str);
}

fn audited(folder: &Path, database: &dyn Behind, more: &[&str]) -> Output {
    let arguments = database.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(folder, &[&["audit"], &arguments[..], more].concat())
}

fn clean(folder: &Path, database: &dyn Behind, venue: VenueId) {
    let told = audited(folder, database, &[]);
    assert!(told.status.success(), "{told:?}");
    assert!(stdout(&told).contains("Nothing is wrong"), "{told:?}");
    let report: Value = serde_json::from_str(&stdout(&audited(folder, database, &["--json"]))).unwrap();
    let counts = &report["counts"];
    assert_eq!((&counts["slots"], &counts["reservations"]), (&json!(2), &json!(5)), "{report}");
    assert!(counts["decisions"].as_u64() >= Some(26) && counts["entries"] == 5, "{report}");
    let one = audited(folder, database, &["--venue", &venue.to_string()]);
    assert!(one.status.success() && stdout(&one).contains("2 slots"), "{one:?}");
    let none = complaint(&audited(folder, database, &["--venue", "999"]), 1);
    assert!(none.contains("no venue"), "{none}");
}

struct File(tempfile::TempDir);

impl Behind for File {
    fn arguments(&self) -> Vec<String> {
        vec!["--data".into(), self.0.path().to_str().unwrap().into()]
    }

    fn do_it(&self, sql: &str) {
        crate::truth::Truth::in_folder(self.0.path()).0.execute_batch(sql).unwrap();
    }
}

struct Server(&'static Postgres, String);

impl Behind for Server {
    fn arguments(&self) -> Vec<String> {
        vec!["--database".into(), self.0.url(&self.1)]
    }

    fn do_it(&self, sql: &str) {
        self.0.execute(&self.1, sql).unwrap();
    }
}

fn found(folder: &Path, database: &dyn Behind, name: &str, sentence: &str) {
    let told = audited(folder, database, &[]);
    assert_eq!(told.status.code(), Some(1), "{name} is not found: {told:?}");
    let text = stdout(&told);
    assert!(
        text.lines().any(|line| line.starts_with("WRONG: ") && line.contains(sentence)),
        "{name}: {text}"
    );
    let report: Value = serde_json::from_str(&stdout(&audited(folder, database, &["--json"]))).unwrap();
    assert!(!report["findings"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_to_a_file_is_found() {
    let app = TestApp::start().await;
    let venue = rush(&app).await;
    let folder = tempfile::tempdir().unwrap();
    {
        // It runs, and is audited meanwhile.
        let running = ["--data".to_owned(), app.folder.path().to_str().unwrap().to_owned()];
        let told = run(folder.path(), &["audit", &running[0], &running[1]]);
        assert!(told.status.success(), "{told:?}");
    }
    let data = File(app.stop().await);
    let contents = || {
        let files = std::fs::read_dir(data.0.path()).unwrap().map(|file| file.unwrap().path());
        let lasting = files.filter(|file| !file.to_str().unwrap().ends_with("-shm"));
        lasting.map(|file| (std::fs::read(&file).unwrap(), file)).collect::<std::collections::BTreeSet<_>>()
    };
    let before = contents();
    clean(folder.path(), &data, venue);
    assert_eq!(contents(), before, "an audit writes nothing");
    for (name, lie, sentence) in LIES {
        let copy = File(tempfile::tempdir().unwrap());
        data.do_it(&format!("VACUUM INTO '{}'", copy.0.path().join("maitred.db").display()));
        clean(folder.path(), &copy, venue);
        for sql in *lie {
            copy.do_it(&for_sqlite(sql));
        }
        found(folder.path(), &copy, name, sentence);
    }
}

/// SQLite keeps ids as blobs, and compares them without a cast.
fn for_sqlite(sql: &str) -> String {
    sql.replace("min(CAST(person AS text))", "min(person)").replace("::uuid", "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_to_a_server_is_found() {
    let (server, name) = tokio::task::block_in_place(|| Postgres::shared(|_| {}));
    let url = server.url(&name);
    let app = TestApp::start_with(|config| config.database = Some(url.into()), |store| store).await;
    let venue = rush(&app).await;
    app.stop().await;
    let folder = tempfile::tempdir().unwrap();
    clean(folder.path(), &Server(server, name.clone()), venue);
    for (number, (what, lie, sentence)) in LIES.iter().enumerate() {
        let copy = Server(server, format!("{name}_{number}"));
        tokio::task::block_in_place(|| {
            server.execute("postgres", &format!("CREATE DATABASE {} TEMPLATE {name}", copy.1)).unwrap();
            for sql in *lie {
                copy.do_it(sql);
            }
        });
        found(folder.path(), &copy, what, sentence);
    }
}

#[test]
fn what_cannot_be_audited_is_told_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let told = complaint(&run(folder.path(), &["audit"]), 1);
    assert!(told.contains("--data") && std::fs::read_dir(folder.path()).unwrap().next().is_none(), "{told}");
    std::fs::write(folder.path().join("maitred.db"), "").unwrap();
    let told = complaint(&run(folder.path(), &["audit", "--data", "."]), 1);
    assert!(told.contains("maitred migrate"), "{told}");
    complaint(&run(folder.path(), &["audit", "--venue", "first"]), 2);
}
