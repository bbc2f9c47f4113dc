//! Transactions that stand still: behind a lock that somebody else holds, with nobody left to hear of them, or open in the
//! hands of a server that sleeps. And servers that have only one connection for all of them.

use std::time::{Duration, Instant};

use booking::SlotId;

use super::cluster::{Cluster, places, slot};
use super::load::{Crowd, Load};
use crate::crowd::eventually;

/// Longer than a lease, and than any statement waits for a lock.
const LONG: Duration = Duration::from_secs(5);

async fn under_load(cluster: &Cluster) -> (Load, SlotId) {
    let noon = slot(cluster.venue(places(100_000)).await, 0);
    let people = cluster.people(20_000).await;
    let load = Load::start(cluster, Crowd { people, slots: vec![noon], rate: 130, payers: 20 });
    load.flows().await;
    (load, noon)
}

async fn recovered(cluster: &Cluster, load: Load) {
    cluster.all_are(200, "ready").await;
    load.flows().await;
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean().in_order();
    assert_eq!(findings.won, visits.len(), "there was room for all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_held_past_the_lease() {
    let cluster = Cluster::start().await;
    let (load, noon) = under_load(&cluster).await;
    let database = cluster.database.connect().await;
    let struck = Instant::now();
    let jam = cluster.database.jam(noon).await;
    eventually("a batch waits", async || database.somebody_is_jammed().await).await;
    let stood = database.version(noon).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(database.version(noon).await, stood, "void: it was not locked");
    drop(jam);
    load.flowed(struck, Instant::now()).await;
    recovered(&cluster, load).await;
}

/// Its statement may still be carried out when the lock is gone, and nobody is there to be told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_dies_while_its_batch_waits_for_a_lock() {
    let mut cluster = Cluster::start().await;
    let (load, noon) = under_load(&cluster).await;
    let database = cluster.database.connect().await;
    for _ in 0..5 {
        load.flows().await;
        let struck = Instant::now();
        let jam = cluster.database.jam(noon).await;
        eventually("a batch waits", async || database.somebody_is_jammed().await).await;
        let runner = cluster.until_run(noon).await;
        cluster.kill(runner);
        drop(jam);
        let stood = database.version(noon).await;
        cluster.launch(runner).await;
        // Once for what it had sent, once for its successor.
        eventually("the line moves", async || database.version(noon).await > stood + 1).await;
        load.flowed(struck, Instant::now()).await;
    }
    recovered(&cluster, load).await;
}

/// Everything but COMMIT has arrived when the server falls asleep: the slot is locked by somebody who will not come back
/// for it. PostgreSQL is told to end such a transaction after two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_sleeps_inside_a_transaction() {
    let mut cluster = Cluster::start().await;
    let (load, noon) = under_load(&cluster).await;
    let database = cluster.database.connect().await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND application_name = 'maitred' AND state = 'idle in transaction'";
    let runner = cluster.until_run(noon).await;
    // A message is a letter and four bytes of length, and then what it says.
    cluster.proxy(runner).trap_from(b"COMMIT\0", 5);
    eventually("a transaction is open", async || {
        cluster.proxy(runner).caught().is_some() && database.number(open).await > 0
    })
    .await;
    let struck = Instant::now();
    cluster.freeze(runner);
    let stood = database.version(noon).await;
    eventually("the line moves", async || database.version(noon).await > stood).await;
    println!("the line moved again after {:?}", struck.elapsed());
    assert!(struck.elapsed() < Duration::from_secs(8));
    tokio::time::sleep(LONG.saturating_sub(struck.elapsed())).await;
    cluster.thaw(runner);
    cluster.proxy(runner).release();
    load.flowed(struck, Instant::now()).await;
    recovered(&cluster, load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_is_enough() {
    let cluster = Cluster::configured("database_connections = 1").await;
    let (load, _) = under_load(&cluster).await;
    let since = Instant::now();
    tokio::time::sleep(LONG).await;
    load.flowed(since, Instant::now()).await;
    let database = cluster.database.connect().await;
    let used = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND application_name = 'maitred'";
    assert_eq!(database.number(used).await, 3);
    recovered(&cluster, load).await;
}
