//! Redis fails over to a replica that has not heard of the last writes: they are really lost, because they are kept back on their
//! way to it. Who waited is put in again in order, and nobody is decided twice or sold what is sold.

use std::time::{Duration, Instant};

use tokio::task::block_in_place;

use super::cluster::{Cluster, MEMBERS, Redis, places, slot};
use super::load::{Crowd, Load};
use crate::crowd::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_fails_over_to_an_older_copy() {
    let mut cluster = Cluster::over_replicas().await;
    let venue = cluster.venue(places(100_000)).await;
    let slots: Vec<_> = (0..3).map(|n| slot(venue, n)).collect();
    let noon = slots[0];
    let people = cluster.people(20_000).await;
    let load = Load::start(&cluster, Crowd { people, slots, rate: 130, payers: 20 });
    load.flows().await;

    let Redis::Replicas { replication, .. } = &cluster.redis else { unreachable!() };
    replication.hold(true);
    // Long enough for many to be decided of whom the replica never hears, and some to wait.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let jam = load.piles_up(&cluster, noon).await;
    let struck = Instant::now();
    let Redis::Replicas { primary, replica, replication } = &mut cluster.redis else { unreachable!() };
    let lost = block_in_place(|| {
        let written = |info: String| -> u64 {
            let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:")).unwrap();
            offset.trim().parse().unwrap()
        };
        let (had, heard) = [&*primary, &*replica]
            .map(|server| written(server.command(&["INFO", "replication"]).to_string()))
            .into();
        primary.kill();
        replication.cut();
        replica.command(&["REPLICAOF", "NO", "ONE"]);
        had - heard
    });
    assert!(lost > 100_000, "void: only {lost} bytes were lost");
    drop(jam);
    load.flowed(struck, Instant::now()).await;
    cluster.all_are(200, "ready").await;
    println!("{lost} bytes were lost; everything was shared again within {:?}", struck.elapsed());
    load.flows().await;
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean();
    assert_eq!((findings.won, findings.inversions), (visits.len(), 0), "there was room for all, in order");
    assert!(findings.epochs > 1, "void: no line was born anew");
    for member in 0..MEMBERS {
        eventually("nobody waits", async || cluster.metric(member, "maitred_waiting").await == 0.0).await;
    }
}
