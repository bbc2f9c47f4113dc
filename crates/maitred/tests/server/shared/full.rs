//! The disk of PostgreSQL is full: whoever is in line is told when to come back and keeps the place, nothing that was answered
//! is lost, and when there is room again business goes on, whether or not the server had to be started anew.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use testkit::Postgres;
use tokio::task::block_in_place;

use super::cluster::{Cluster, places, slot};
use super::guests::put_off;
use super::load::{Crowd, Load};
use crate::trouble::Small;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_of_postgresql_is_full() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let Some(disk) = Small::mount(folder.path(), "192m") else {
        println!("skipped: mounting a small file system is not permitted here");
        return;
    };
    let settings = ["max_wal_size=32MB", "min_wal_size=32MB", "wal_recycle=off", "wal_init_zero=on"];
    let cluster = Cluster::over_postgres(|| Postgres::within(folder.path(), &settings)).await;
    let venue = cluster.venue(places(100_000)).await;
    let slots: Vec<_> = (0..3).map(|n| slot(venue, n)).collect();
    let people = cluster.people(20_000).await;
    let load = Load::start(&cluster, Crowd { people, slots, rate: 130, payers: 20 });
    load.flows().await;

    let struck = Instant::now();
    block_in_place(|| disk.fill());
    // What is left in the log of the server is used up first.
    cluster.all_are(503, "").await;
    println!("full after {:?}", struck.elapsed());
    tokio::time::sleep(Duration::from_secs(2)).await;
    std::fs::remove_file(disk.filler()).unwrap();
    load.flowed(struck, Instant::now()).await;
    cluster.revive_postgres();
    cluster.all_are(200, "ready").await;
    load.flows().await;
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean();
    assert_eq!(findings.won, visits.len(), "there was room for all");
    put_off(&visits);
    drop(cluster);
}
