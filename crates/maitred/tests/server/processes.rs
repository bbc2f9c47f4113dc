//! The program as its users start it: commands, configuration, restarts, and what it says when it cannot.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::Client;
use crate::process::{Program, complaint, guests, maitred, run, stdout};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

async fn sign_in(client: &Client, email: &str) -> String {
    let told =
        client.anybody().post("/api/sessions", json!({"email": email, "password": "demo-password"})).await;
    told.expect(200).json()["accessToken"].as_str().unwrap().to_owned()
}

async fn venues(client: &Client) -> Vec<Value> {
    client.anybody().get("/api/venues").await.expect(200).json()["items"].as_array().unwrap().clone()
}

/// Noon of the day after tomorrow in Seoul, whenever this runs.
fn lunch(venue: &Value) -> Value {
    let today = jiff::Timestamp::now().in_tz("Asia/Seoul").unwrap().date();
    let date = (today + jiff::Span::new().days(2)).to_string();
    json!({"venueId": venue["id"], "date": date, "time": "12:00", "partySize": 2, "payment": "deposit"})
}

#[tokio::test]
async fn it_serves_without_any_configuration() {
    let folder = folder();
    let program = Program::serve(folder.path(), &[]);
    assert!(folder.path().join("data/maitred.db").exists());
    program.client.anybody().get("/health/ready").await.expect(200);
    assert_eq!(venues(&program.client).await, Vec::<Value>::new());
    let page = program.client.anybody().get("/").await.expect(200);
    assert!(page.text.contains("/docs"), "{page:?}");
}

#[tokio::test]
async fn the_demo_survives_a_restart_and_is_there_once() {
    let folder = folder();
    let program = Program::serve(folder.path(), &["--demo"]);
    let accounts = ["staff@demo.maitred", "guest1@demo.maitred", "guest2@demo.maitred"];
    let mut tokens = Vec::new();
    for email in accounts {
        assert!(program.greeting.contains(email), "{}", program.greeting);
        tokens.push(sign_in(&program.client, email).await);
    }
    let offered = venues(&program.client).await;
    let capacities: Vec<_> = offered.iter().map(|venue| (&venue["inventory"], &venue["capacity"])).collect();
    let expected = [("places", 20), ("places", 1), ("tables", 10), ("seats", 50)];
    let expected = expected.map(|(inventory, capacity)| (json!(inventory), json!(capacity)));
    assert_eq!(capacities, expected.each_ref().map(|(inventory, capacity)| (inventory, capacity)));
    let guest = program.client.guest(&tokens[1]);
    let booked = guest.post("/api/reservations", lunch(&offered[0])).await.expect(201).json();
    program.terminate();
    assert!(program.ended_within(std::time::Duration::from_secs(10)).await.success());

    let program = Program::serve(folder.path(), &["--demo"]);
    assert_eq!(venues(&program.client).await, offered);
    // The key is kept beside the database, so whoever was signed in still is.
    let guest = program.client.guest(&tokens[1]);
    let kept = guest.get("/api/reservations").await.expect(200).json();
    assert_eq!(kept["items"], json!([booked]));
    assert_eq!(guest.get("/api/wallet").await.json()["balance"], 1_000_000);
    sign_in(&program.client, accounts[0]).await;
}

#[tokio::test]
async fn tokens_are_for_guests_of_their_own() {
    let folder = folder();
    let program = Program::serve(folder.path(), &["--demo"]);
    let room = venues(&program.client).await[0].clone();
    let people = guests(folder.path(), &program.client, 3);
    for guest in &people {
        guest.post("/api/reservations", lunch(&room)).await.expect(201);
    }
    for guest in &people {
        let own = guest.get("/api/reservations").await.expect(200).json();
        assert_eq!(own["items"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn flags_are_stronger_than_the_environment_and_that_than_the_file() {
    let folder = folder();
    let file = "listen = \"127.0.0.1:1\"\ndata = \"from-file\"\n[lane]\nmax_batch = 11\nrunners = 3\n";
    std::fs::write(folder.path().join("maitred.toml"), file).unwrap();
    let secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA";
    let shown = maitred(folder.path())
        .args(["config", "--listen", "127.0.0.1:3"])
        .env("MAITRED_LISTEN", "127.0.0.1:2")
        .env("MAITRED_LANE_MAX_BATCH", "22")
        .env("MAITRED_TOKEN_SIGNING_KEY", secret)
        .output()
        .unwrap();
    assert!(shown.status.success());
    let shown = stdout(&shown);
    for line in [
        "listen = \"127.0.0.1:3\"",
        "data = \"from-file\"",
        "max_batch = 22",
        "runners = 3",
        "head_seconds = 10",
    ] {
        assert!(shown.lines().any(|l| l == line), "no {line} in {shown}");
    }
    assert!(!shown.contains(secret), "{shown}");
    // What it prints is a file that it takes.
    std::fs::write(folder.path().join("printed.toml"), &shown).unwrap();
    let again = run(folder.path(), &["config", "--config", "printed.toml"]);
    assert!(again.status.success(), "{again:?}");
    assert!(stdout(&again).contains("max_batch = 22"));
}

#[test]
fn wrong_settings_are_named() {
    let with_file = |text: &str| {
        let folder = folder();
        std::fs::write(folder.path().join("maitred.toml"), text).unwrap();
        complaint(&run(folder.path(), &["serve", "--listen", "127.0.0.1:0"]), 1)
    };
    let with_environment = |name: &str, value: &str| {
        let folder = folder();
        complaint(&maitred(folder.path()).arg("config").env(name, value).output().unwrap(), 1)
    };
    let wrong = [
        (with_file("[lane]\nmax_bach = 1\n"), "max_bach"),
        (with_file("colour = 1\n"), "colour"),
        (with_file("[lane]\nmax_batch = 0\n"), "lane.max_batch"),
        (with_file("[lane]\nmax_batch = \"many\"\n"), "max_batch"),
        (with_file("[token]\nseconds = 60 signing_key = \"short\"\n"), "seconds"),
        (with_environment("MAITRED_LANE_MAX_BATCH", "many"), "MAITRED_LANE_MAX_BATCH"),
        (with_environment("MAITRED_TOKEN_SIGNING_KEY", "short"), "token.signing_key"),
        (with_environment("MAITRED_LOG_FILTER", "a=b=c"), "log.filter"),
    ];
    for (told, name) in wrong {
        assert!(told.contains(name), "no {name} in {told}");
        assert!(!told.contains("short"), "a key is never shown: {told}");
    }
    let missing = complaint(&run(folder().path(), &["config", "--config", "nowhere.toml"]), 1);
    assert!(missing.contains("nowhere.toml"), "{missing}");
    complaint(&run(folder().path(), &["config", "--listen", "here"]), 2);
}

#[test]
fn migrate_says_what_it_did() {
    let folder = folder();
    let first = run(folder.path(), &["migrate"]);
    assert!(first.status.success() && stdout(&first).contains("data/maitred.db: V1"), "{first:?}");
    let second = run(folder.path(), &["migrate"]);
    assert_eq!(stdout(&second), "data/maitred.db: nothing to do\n");
}

#[test]
fn the_document_is_printed() {
    let printed = run(folder().path(), &["openapi"]);
    let document: Value = serde_json::from_str(&stdout(&printed)).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.") && document["paths"].is_object());
}

#[test]
fn every_command_has_an_example_and_wrong_usage_exits_with_2() {
    let folder = folder();
    let help = run(folder.path(), &["--help"]);
    assert!(help.status.success());
    for command in ["serve", "token", "config", "migrate", "audit", "openapi"] {
        assert!(stdout(&help).contains(command));
        let help = run(folder.path(), &[command, "--help"]);
        let text = stdout(&help);
        assert!(help.status.success() && text.contains("Example:\n  "), "{text}");
        assert!(text.contains(&format!("maitred {command}")), "{text}");
    }
    for wrong in [
        &[][..],
        &["dance"],
        &["serve", "--dance"],
        &["token"],
        &["token", "--count", "0"],
        &["openapi", "x"],
    ] {
        let told = complaint(&run(folder.path(), wrong), 2);
        assert!(told.contains("--help") || told.contains("Usage"), "{told}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "wrong usage leaves nothing behind");
}

#[tokio::test]
async fn what_cannot_be_had_is_told_in_one_sentence() {
    let folder = folder();
    let program = Program::serve(folder.path(), &[]);
    let taken = program.client.base.strip_prefix("http://").unwrap();
    let told = complaint(&quiet(folder.path(), &["serve", "--listen", taken]), 1);
    assert!(told.contains(taken) && told.contains("--listen"), "{told}");

    // A file where a folder should be cannot be written into, not even by root.
    std::fs::write(folder.path().join("file"), "").unwrap();
    for command in ["serve", "migrate", "token"] {
        let count = if command == "token" { &["--count", "1"][..] } else { &[] };
        let told = complaint(&quiet(folder.path(), &[&[command, "--data", "file/data"], count].concat()), 1);
        assert!(told.contains("file/data"), "{told}");
    }
    std::fs::create_dir(folder.path().join("damaged")).unwrap();
    std::fs::write(folder.path().join("damaged/maitred.db"), "this is no database ".repeat(100)).unwrap();
    let told = complaint(&quiet(folder.path(), &["serve", "--data", "damaged"]), 1);
    assert!(told.contains("damaged/maitred.db"), "{told}");
}

/// Runs a command that logs nothing, so that all it says is its complaint. A port is given, in case it does serve.
fn quiet(folder: &Path, arguments: &[&str]) -> std::process::Output {
    maitred(folder)
        .args(arguments)
        .env("MAITRED_LOG_FILTER", "off")
        .env("MAITRED_LISTEN", "127.0.0.1:0")
        .output()
        .unwrap()
}
