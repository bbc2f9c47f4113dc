//! Lines over a Redis Cluster: a venue's are on one of its nodes, which may die or hand them to another under load.

use std::io;
use std::time::{Duration, Instant};

use booking::VenueId;
use testkit::{RedisCluster, Reply, until};
use tokio::task::block_in_place;

use super::cluster::{Cluster, Redis, places, slot};
use super::load::{Crowd, Load};

const CAPACITY: u32 = 10_000;

fn in_cluster(cluster: &mut Cluster) -> &mut RedisCluster {
    match &mut cluster.redis {
        Redis::Cluster(cluster) => cluster,
        _ => panic!("there is no Redis Cluster"),
    }
}

/// Where Redis keeps what has this key: the number of its hash slot.
fn hash_slot(cluster: &mut RedisCluster, key: &str) -> io::Result<i64> {
    let asked = cluster.nodes().iter().find_map(|node| node.try_command(&["CLUSTER", "KEYSLOT", key]).ok());
    asked.map(|reply| reply.number()).ok_or_else(|| io::ErrorKind::NotConnected.into())
}

/// The node that serves a key, as most of those that can be asked see it.
pub fn home(cluster: &mut RedisCluster, key: &str) -> io::Result<usize> {
    let wanted = hash_slot(cluster, key)?;
    let ports: Vec<i64> = cluster.nodes().iter().map(|node| i64::from(node.port())).collect();
    let mut seen = vec![0; ports.len()];
    for node in cluster.nodes() {
        let Ok(Reply::List(ranges)) = node.try_command(&["CLUSTER", "SLOTS"]) else { continue };
        for range in ranges {
            let Reply::List(range) = range else { continue };
            let [Reply::Number(first), Reply::Number(last), Reply::List(primary), ..] = &range[..] else {
                continue;
            };
            let home = primary.get(1).and_then(|port| ports.iter().position(|p| *p == port.number()));
            if let (true, Some(home)) = ((*first..=*last).contains(&wanted), home) {
                seen[home] += 1;
            }
        }
    }
    let most = (0..seen.len()).max_by_key(|node| seen[*node]).filter(|node| 2 * seen[*node] >= seen.len());
    most.ok_or_else(|| io::ErrorKind::NotConnected.into())
}

async fn under_load() -> (Cluster, Load, VenueId) {
    let cluster = Cluster::over_redis_cluster().await;
    let venue = cluster.venue(places(CAPACITY)).await;
    let people = cluster.people(20_000).await;
    let slots = (0..3).map(|n| slot(venue, n)).collect();
    let load = Load::start(&cluster, Crowd { people, slots, rate: 130, payers: 20 });
    load.flows().await;
    (cluster, load, venue)
}

async fn recovered(cluster: &Cluster, load: Load) {
    cluster.all_are(200, "ready").await;
    load.flows().await;
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean();
    assert_eq!(findings.won, visits.len(), "there was room for all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_of_the_venue_dies() {
    let (mut cluster, load, venue) = under_load().await;
    let key = format!("maitred:lane:{{{venue}}}");
    let (struck, first) = block_in_place(|| {
        let cluster = in_cluster(&mut cluster);
        let home = home(cluster, &key).unwrap();
        let node = &mut cluster.nodes()[home];
        assert!(node.command(&["DBSIZE"]).number() > 0, "void: nothing was kept there");
        let struck = Instant::now();
        node.kill();
        (struck, home)
    });
    block_in_place(|| {
        let cluster = in_cluster(&mut cluster);
        until("a replica takes over", Duration::from_secs(20), || {
            std::thread::sleep(Duration::from_millis(50));
            home(cluster, &key).is_ok_and(|now| now != first)
        });
    });
    load.flowed(struck, Instant::now()).await;
    println!("a replica took over after {:?}", struck.elapsed());
    recovered(&cluster, load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_venue_moves_to_another_primary() {
    let (mut cluster, load, venue) = under_load().await;
    let key = format!("maitred:lane:{{{venue}}}");
    for _ in 0..3 {
        load.flows().await;
        let struck = Instant::now();
        let moved = block_in_place(|| {
            let cluster = in_cluster(&mut cluster);
            let from = home(cluster, &key).unwrap();
            move_slot(cluster, &key, from, (from + 1) % 3)
        });
        assert!(moved > 1, "void: there was nothing to move");
        println!("{moved} keys moved within {:?}", struck.elapsed());
        load.flowed(struck, Instant::now()).await;
    }
    recovered(&cluster, load).await;
}

/// Hands the hash slot of a key to another primary, as `redis-cli --cluster reshard` does it, but so slowly that its keys
/// are on both for a while; how many there were.
fn move_slot(cluster: &mut RedisCluster, key: &str, from: usize, to: usize) -> usize {
    let slot = hash_slot(cluster, key).unwrap().to_string();
    let nodes = cluster.nodes();
    let ids: Vec<String> = nodes.iter().map(|node| node.command(&["CLUSTER", "MYID"]).to_string()).collect();
    nodes[to].command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[from]]);
    nodes[from].command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[to]]);
    let (port, mut moved) = (nodes[to].port().to_string(), 0);
    loop {
        let keys = nodes[from].command(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"]).to_string();
        let keys: Vec<&str> = keys.lines().collect();
        if keys.is_empty() {
            break;
        }
        moved += keys.len();
        let target = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        nodes[from].command(&[&target[..], &keys[..]].concat());
        std::thread::sleep(Duration::from_millis(100));
    }
    nodes[to].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[to]]);
    nodes[from].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[to]]);
    moved
}
