//! More people than can be decided: the line has a bound, whoever comes on top is told when to come back, nothing grows, and when it is
//! over it is over at once.

use std::time::{Duration, Instant};

use super::cluster::{Cluster, MEMBERS, places, slot};
use super::guests::{Ending, Visit};
use super::load::{Crowd, Load};

/// How long nothing is decided of what everybody wants.
const OVERLOAD: Duration = Duration::from_secs(8);
/// How long it may be felt afterwards.
const RECOVERY: Duration = Duration::from_secs(6);
/// Memory, in KiB, that a server may need more of.
const MORE_MEMORY: u64 = 64 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_is_shed_and_leaves_nothing_behind() {
    let cluster = Cluster::configured("[lane]\nmax_waiting = 100").await;
    let noon = slot(cluster.venue(places(100_000)).await, 0);
    let people = cluster.people(8_000).await;
    let load = Load::start(&cluster, Crowd { people, slots: vec![noon], rate: 150, payers: 20 });
    load.flows().await;
    let before: Vec<_> = (0..MEMBERS).map(|member| cluster.size(member).0).collect();
    let struck = Instant::now();
    let jam = cluster.database.jam(noon).await;
    tokio::time::sleep(OVERLOAD).await;
    drop(jam);
    let over = Instant::now();
    load.flowed(struck, over).await;
    tokio::time::sleep((over + 2 * RECOVERY).saturating_duration_since(Instant::now())).await;
    for (member, before) in before.into_iter().enumerate() {
        let now = cluster.size(member).0;
        assert!(now < before + MORE_MEMORY, "{member} grew from {before} to {now} KiB");
    }
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean().in_order();
    let full = |visit: &&Visit| visit.ending == Ending::Turned("line-full".into());
    let turned = visits.iter().filter(full).count();
    assert!(turned > 200 && findings.turned == turned, "void: {turned} were turned away");
    let mut seconds = std::collections::BTreeMap::<u64, [usize; 2]>::new();
    for visit in &visits {
        let second = visit.log[0].asked.saturating_duration_since(struck).as_secs();
        seconds.entry(second).or_default()[usize::from(full(&visit))] += 1;
    }
    println!("got in and turned away, by seconds since it began: {seconds:?}");
    let since = over + RECOVERY;
    let later: Vec<_> = visits.iter().filter(|visit| visit.log[0].asked > since).collect();
    let in_vain = later.iter().filter(|visit| !matches!(visit.ending, Ending::Won(_))).count();
    println!("{turned} were turned away; {in_vain} of {} who came {RECOVERY:?} after it", later.len());
    assert!(later.len() > 200 && in_vain == 0, "{in_vain} of {} did not get in", later.len());
    for visit in visits.iter().filter(full) {
        let last = visit.log.last().unwrap();
        assert!(last.status == Some(429) && last.retry_after, "{last:?}");
    }
}
