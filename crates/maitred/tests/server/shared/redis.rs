//! Redis may vanish at any instant (D4): nothing is oversold, nothing confirmed is lost, booking goes on, and the lines are
//! shared again once it is back.

use std::time::{Duration, Instant};

use booking::SlotId;
use tokio::task::block_in_place;

use super::audit::Findings;
use super::cluster::{Cluster, MEMBERS, places, slot};
use super::guests::{Ending, Visit};
use super::load::{Crowd, Load, rounds};
use crate::crowd::eventually;

const CAPACITY: u32 = 100_000;
/// Memory, in KiB, that a server may need more of while Redis does not answer.
const MORE_MEMORY: u64 = 64 * 1024;
const MORE_THREADS: u64 = 16;

/// Three servers under load on a few slots, one in twenty of whose guests pay.
async fn under_load(people: usize) -> (Cluster, Load, SlotId) {
    let cluster = Cluster::start().await;
    let venue = cluster.venue(places(CAPACITY)).await;
    let slots: Vec<_> = (0..3).map(|n| slot(venue, n)).collect();
    let first = slots[0];
    let people = cluster.people(people).await;
    let load = Load::start(&cluster, Crowd { people, slots, rate: 130, payers: 20 });
    load.flows().await;
    (cluster, load, first)
}

/// Everything is shared again, everybody is told, and nothing is wrong.
async fn recovered(cluster: &mut Cluster, load: Load) -> (Vec<Visit>, Findings) {
    cluster.all_are(200, "ready").await;
    load.flows().await;
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean();
    assert_eq!(findings.won, visits.len(), "there was room for all");
    for member in 0..MEMBERS {
        assert_eq!(cluster.metric(member, "maitred_degraded").await, 0.0);
        eventually("nobody waits", async || cluster.metric(member, "maitred_waiting").await == 0.0).await;
    }
    (visits, findings)
}

/// How many lines of its log a server has about Redis.
fn said_of_redis(cluster: &Cluster, member: usize) -> usize {
    cluster.log(member).lines().filter(|line| line.contains("Redis")).count()
}

/// How many keys of ours Redis keeps.
fn keys(cluster: &mut Cluster) -> i64 {
    block_in_place(|| cluster.one_redis().command(&["DBSIZE"]).number())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_emptied() {
    let (mut cluster, load, noon) = under_load(20_000).await;
    for _ in 0..5 {
        load.flows().await;
        let jam = load.piles_up(&cluster, noon).await;
        assert!(keys(&mut cluster) > 0, "void: there was nothing to lose");
        let struck = Instant::now();
        block_in_place(|| cluster.one_redis().command(&["FLUSHALL"]));
        drop(jam);
        load.flowed(struck, Instant::now()).await;
    }
    let (_, findings) = recovered(&mut cluster, load).await;
    assert!(findings.epochs > 1, "void: no line was born anew");
    assert_eq!(findings.inversions, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_killed_and_comes_back_empty() {
    for kills in rounds(5, 10) {
        redis_is_killed(kills).await;
    }
}

async fn redis_is_killed(kills: usize) {
    let (mut cluster, load, noon) = under_load(20_000).await;
    for _ in 0..kills {
        load.flows().await;
        let jam = load.piles_up(&cluster, noon).await;
        assert!(keys(&mut cluster) > 0, "void: there was nothing to lose");
        let (struck, before) = (Instant::now(), cluster.one_redis().id());
        block_in_place(|| cluster.one_redis().restart());
        assert_ne!(cluster.one_redis().id(), before);
        drop(jam);
        load.flowed(struck, Instant::now()).await;
        cluster.all_are(200, "ready").await;
    }
    let (_, findings) = recovered(&mut cluster, load).await;
    assert!(findings.epochs > 1, "void: no line was born anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_away_for_twenty_seconds() {
    let (mut cluster, load, _) = under_load(20_000).await;
    let quiet: Vec<_> = (0..MEMBERS).map(|member| said_of_redis(&cluster, member)).collect();
    let struck = Instant::now();
    block_in_place(|| cluster.one_redis().kill());
    cluster.all_are(200, "degraded").await;
    let degraded = Instant::now();
    for member in 0..MEMBERS {
        assert_eq!(cluster.metric(member, "maitred_degraded").await, 1.0);
    }
    tokio::time::sleep(Duration::from_secs(20).saturating_sub(struck.elapsed())).await;
    let back = Instant::now();
    block_in_place(|| cluster.one_redis().restart());
    load.flowed(struck, back).await;
    let rate = load.answers(degraded, back) as f64 / (back - degraded).as_secs_f64();
    assert!(rate >= 50.0, "{rate:.0} answers a second while Redis was away");
    let (visits, findings) = recovered(&mut cluster, load).await;
    let won = |visit: &&Visit| {
        let told = visit.log.last();
        matches!(visit.ending, Ending::Won(_))
            && told.is_some_and(|told| degraded < told.asked && told.at < back)
    };
    let meanwhile = visits.iter().filter(won).count();
    assert!(meanwhile >= 500, "{meanwhile} won a place while Redis was away");
    println!("{meanwhile} won a place while Redis was away; degraded after {:?}", degraded - struck);
    // Fair at each server.
    assert_eq!(findings.inversions, 0);
    for (member, quiet) in quiet.into_iter().enumerate() {
        assert!(
            said_of_redis(&cluster, member) >= quiet + 2,
            "it logs that Redis went and that it came back"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_does_not_answer_for_five_seconds() {
    let (mut cluster, load, _) = under_load(20_000).await;
    let before: Vec<_> = (0..MEMBERS).map(|member| cluster.size(member)).collect();
    let struck = Instant::now();
    cluster.one_redis().stop();
    let mut largest = before.clone();
    while struck.elapsed() < Duration::from_secs(5) {
        for (member, largest) in largest.iter_mut().enumerate() {
            let (memory, threads) = cluster.size(member);
            *largest = (largest.0.max(memory), largest.1.max(threads));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let back = Instant::now();
    cluster.one_redis().go_on();
    load.flowed(struck, back).await;
    for (before, largest) in before.iter().zip(&largest) {
        println!(
            "{} KiB and {} threads before, {} KiB and {} threads at most",
            before.0, before.1, largest.0, largest.1
        );
        assert!(largest.0 < before.0 + MORE_MEMORY && largest.1 < before.1 + MORE_THREADS);
    }
    let answers = load.answers(back - Duration::from_secs(2), back);
    assert!(answers >= 50, "void or stuck: {answers} answers in the last two seconds");
    recovered(&mut cluster, load).await;
}
