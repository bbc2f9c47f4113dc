//! The ways between the servers and what they share: cut, half-open (nothing comes back and nothing is refused), and losing
//! replies to what was done.

use std::time::{Duration, Instant};

use testkit::Proxy;

use super::audit::Findings;
use super::cluster::{Cluster, MEMBERS, places, slot};
use super::guests::Visit;
use super::load::{Crowd, Load};

/// Longer than any server waits for an answer.
const SILENCE: Duration = Duration::from_secs(4);

async fn under_load(people: usize) -> (Cluster, Load) {
    let cluster = Cluster::through_proxies().await;
    let venue = cluster.venue(places(100_000)).await;
    let people = cluster.people(people).await;
    let slots = (0..3).map(|n| slot(venue, n)).collect();
    let load = Load::start(&cluster, Crowd { people, slots, rate: 130, payers: 10 });
    load.flows().await;
    (cluster, load)
}

async fn recovered(cluster: &Cluster, load: Load) -> (Vec<Visit>, Findings) {
    cluster.all_are(200, "ready").await;
    load.flows().await;
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean();
    assert_eq!(findings.won, visits.len(), "there was room for all");
    assert!(visits.iter().any(|visit| visit.paid), "void: nobody has paid");
    (visits, findings)
}

/// Waits until a server is this.
async fn is(cluster: &Cluster, member: usize, status: u16, word: &str) {
    crate::crowd::eventually(&format!("{member} is {status} {word}"), async || {
        cluster.ready(member).await == (status, word.to_owned())
    })
    .await;
}

/// Cuts a server off, then lets it hear nothing; both times it shows how it is, the others go on, and it comes back.
async fn silenced(cluster: &Cluster, load: &Load, way: &Proxy, shown: (u16, &str)) {
    for half_open in [false, true] {
        load.flows().await;
        let struck = Instant::now();
        if half_open {
            way.hold(true)
        } else {
            way.cut()
        }
        is(cluster, 1, shown.0, shown.1).await;
        assert_eq!(cluster.ready(0).await, (200, "ready".into()));
        tokio::time::sleep(SILENCE.saturating_sub(struck.elapsed())).await;
        way.hold(false);
        way.mend();
        load.flowed(struck, Instant::now()).await;
        cluster.all_are(200, "ready").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_is_cut_off_from_redis_and_then_hears_nothing() {
    let (cluster, load) = under_load(20_000).await;
    silenced(&cluster, &load, cluster.way_to_redis(1), (200, "degraded")).await;
    let (_, findings) = recovered(&cluster, load).await;
    assert!(findings.epochs > 1, "void: nobody stood in a line of the server's own");
    assert_eq!(findings.inversions, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_is_cut_off_from_postgresql_and_then_hears_nothing() {
    let (cluster, load) = under_load(20_000).await;
    silenced(&cluster, &load, cluster.proxy(1), (503, "")).await;
    let (visits, _) = recovered(&cluster, load).await;
    let put_off = visits.iter().flat_map(|visit| &visit.log).filter(|told| told.status == Some(503));
    assert!(put_off.count() > 0, "void: nobody was put off");
}

/// Every so-manieth commit happens, and nobody is told; the connection is gone. The same for what is asked of Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_are_lost() {
    let (cluster, load) = under_load(20_000).await;
    let ways: Vec<(&Proxy, &[u8])> = (0..MEMBERS)
        .flat_map(|member| {
            [(cluster.proxy(member), &b"COMMIT\0"[..]), (cluster.way_to_redis(member), &b"EVALSHA"[..])]
        })
        .collect();
    let struck = Instant::now();
    for (way, word) in &ways {
        way.lose_replies_to(word, 20);
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    for (way, word) in &ways {
        way.lose_replies_to(word, 0);
    }
    load.flowed(struck, Instant::now()).await;
    let lost = |word: &[u8]| -> u64 {
        ways.iter().filter(|(_, of)| *of == word).map(|(way, _)| way.replies_lost()).sum()
    };
    let (commits, calls) = (lost(b"COMMIT\0"), lost(b"EVALSHA"));
    println!("{commits} replies to commits and {calls} of Redis were lost");
    assert!(
        commits >= 10 && calls >= 10,
        "void: {commits} replies to commits and {calls} of Redis were lost"
    );
    recovered(&cluster, load).await;
}
