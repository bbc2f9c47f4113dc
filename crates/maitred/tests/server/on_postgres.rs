//! Servers side by side on one PostgreSQL database.

use std::time::{Duration, Instant};

use testkit::Postgres;
use tokio::task::JoinSet;

use crate::app::{TestApp, noon, places, tables};

async fn on(url: &str) -> TestApp {
    TestApp::start_with(|config| config.database = Some(url.to_owned().into()), |store| store).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_sell_ten_tables_ten_times_and_know_each_others_guests() {
    let url = tokio::task::spawn_blocking(|| {
        let (server, name) = Postgres::shared(|_| {});
        server.url(&name)
    });
    let url = url.await.unwrap();
    let apps = [on(&url).await, on(&url).await];
    let (staff, _) = apps[0].person();
    let venue = apps[0].venue(tables(10, 4), staff).await;

    let mut asking = JoinSet::new();
    for n in 0..60 {
        // Signed by one server, shown to the other.
        let token = apps[n % 2].guest().token.unwrap();
        let guest = apps[(n + 1) % 2].client.guest(token);
        asking.spawn(async move {
            let (body, patience) = (noon(venue, 2).to_string(), [("prefer", "wait=10")]);
            guest.call(hyper::Method::POST, "/api/reservations", &patience, body).await.status.as_u16()
        });
    }
    let mut statuses = asking.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![201; 10], vec![409; 50]].concat());
    for app in apps {
        app.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgresql_is_away_the_answer_is_503_and_then_business_goes_on() {
    let server = Postgres::alone();
    let app = on(&server.url("postgres")).await;
    let (staff, _) = app.person();
    let venue = app.venue(places(10_000), staff).await;
    app.guest().post("/api/reservations", noon(venue, 1)).await.expect(201);

    tokio::task::spawn_blocking(|| server.kill()).await.unwrap();
    // Processes of the server that was killed may still answer for a moment, and what they answer stands.
    let give_up = Instant::now() + Duration::from_secs(60);
    let away = loop {
        let (body, patience) = (noon(venue, 1).to_string(), [("prefer", "wait=10")]);
        let answer = app.guest().call(hyper::Method::POST, "/api/reservations", &patience, body).await;
        if answer.status != 201 {
            break answer.refused(503, "unavailable");
        }
        assert!(Instant::now() < give_up, "it was never away");
    };
    assert!(away.header("retry-after").parse::<u64>().unwrap() > 0);

    tokio::task::spawn_blocking(|| server.restart()).await.unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while app.guest().post("/api/reservations", noon(venue, 1)).await.status != 201 {
        assert!(Instant::now() < give_up, "it did not come back");
    }
    app.stop().await;
}
