//! kill -9 of whoever runs the line, in the middle of load, again and again (A8, B6): everybody gets exactly one answer, and
//! the line stands still for no longer than a lease.

use std::time::{Duration, Instant};

use super::cluster::{Cluster, places, slot};
use super::load::{Crowd, Load, rounds};
use crate::crowd::eventually;

const CAPACITY: u32 = 1_500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_runners_die() {
    for kills in rounds(30, 30) {
        runners_die(kills).await;
    }
}

async fn runners_die(kills: usize) {
    let mut cluster = Cluster::start().await;
    let noon = slot(cluster.venue(places(CAPACITY)).await, 0);
    let people = cluster.people(60_000).await;
    let database = cluster.database.connect().await;
    let load = Load::start(&cluster, Crowd { people, slots: vec![noon], rate: 130, payers: 20 });
    let mut pauses = Vec::new();
    for _ in 0..kills {
        load.flows().await;
        let runner = cluster.until_run(noon).await;
        let struck = Instant::now();
        cluster.kill(runner);
        // What it had sent to the database may still land: that is no sign of life.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let stood = database.version(noon).await;
        let ((), moved) = tokio::join!(cluster.launch(runner), async {
            eventually("the line moves", async || database.version(noon).await > stood).await;
            struck.elapsed()
        });
        pauses.push(moved);
        load.flowed(struck, struck + moved).await;
    }
    // Until those who come have nothing left to win.
    let taken = "SELECT count(*) FROM reservation";
    eventually("it is sold out", async || database.number(taken).await == i64::from(CAPACITY)).await;
    load.flows().await;
    let visits = load.ended().await;
    pauses.sort_unstable();
    let (median, longest) = (pauses[kills / 2], pauses[kills - 1]);
    println!(
        "after kill -9 of its runner the line moved again within {median:?} (median), {longest:?} at most"
    );

    let findings = cluster.audit(&visits).await.clean().in_order();
    assert!(findings.cut > 0, "void: nobody was cut off");
    assert!(visits.iter().filter(|visit| visit.paid).count() > 0, "void: nobody has paid");
    assert!(findings.won == CAPACITY as usize && findings.refused > 0, "{findings:?}");
    assert_eq!(findings.epochs, 1, "the line outlives whoever runs it");
    // A lease is 2 s; the rest is for a machine that starts a server at the same time.
    assert!(median < Duration::from_secs(3), "the line stood still for {median:?}");
    assert!(longest < Duration::from_secs(5), "once the line stood still for {longest:?}");
}

/// SIGTERM is the orderly way: a server that stops hands over at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_replaced_one_by_one_and_nobody_notices() {
    let mut cluster = Cluster::start().await;
    let noon = slot(cluster.venue(places(10_000)).await, 0);
    let people = cluster.people(20_000).await;
    let load = Load::start(&cluster, Crowd { people, slots: vec![noon], rate: 130, payers: 0 });
    for member in 0..super::cluster::MEMBERS {
        load.flows().await;
        let struck = Instant::now();
        cluster.terminate(member).await;
        load.flowed(struck, Instant::now()).await;
        cluster.launch(member).await;
    }
    load.flows().await;
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean().in_order();
    assert_eq!(findings.won, visits.len());
}
