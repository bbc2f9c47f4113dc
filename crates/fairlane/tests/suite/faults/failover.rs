//! Failover, with and without lost writes.

use std::time::Duration;

use fairlane::{Lease, RedisConfig, Topology};
use testkit::{Proxy, RedisCluster, RedisServer, until};
use tokio::time::{sleep, timeout};

use super::{Fenced, in_line, told_lost};
use crate::world::{LONG, connect, quick};

/// (13) The primary dies before the replica has heard of a grant, and the replica takes over: the lock is granted twice.
/// Every time, the fencing token catches the first holder's late write.
#[tokio::test]
async fn a_lost_grant_is_granted_twice_and_fenced() {
    let (mut double_grants, mut caught) = (0, 0);
    for _ in 0..3 {
        let mut primary = RedisServer::start();
        let replication = Proxy::to(primary.port());
        let replica =
            RedisServer::with_options(&["--replicaof", "127.0.0.1", &replication.port().to_string()]);
        replica.until_replicating();
        // The first holder's own way to Redis, which is cut as well: it cannot know.
        let way = Proxy::to(primary.port());
        let first = connect(quick(RedisConfig::single(way.url()))).await;
        replication.hold(true);
        let lease = Lease::Renewing(Duration::from_secs(5));
        let one = first.fair_lock("a").with_lease(lease).acquire().await.unwrap();
        way.cut();
        primary.kill();
        replica.command(&["REPLICAOF", "NO", "ONE"]);
        let urls = vec![primary.url(), replica.url()];
        let second = connect(quick(RedisConfig::new(Topology::Replicated(urls)))).await;
        let two =
            second.fair_lock("a").try_acquire(Duration::ZERO).await.expect("the replica knows of no holder");
        double_grants += u32::from(!one.is_lost());

        let mut resource = Fenced::default();
        assert!(resource.write(two.fencing_token()));
        caught += u32::from(!resource.write(one.fencing_token()));
        told_lost(&one).await;
    }
    assert_eq!(double_grants, 3, "the failure did not happen, so nothing was shown");
    assert_eq!(caught, double_grants);
}

/// Without lost writes nothing is granted twice: holder and waiters go on at the promoted replica.
#[tokio::test]
async fn holder_and_waiters_follow_a_promoted_replica() {
    let mut primary = RedisServer::start();
    let replica = RedisServer::with_options(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    replica.until_replicating();
    let config = quick(RedisConfig::new(Topology::Replicated(vec![primary.url(), replica.url()])));
    let (one, other) = (connect(config.clone()).await, connect(config).await);
    let held = one.fair_lock("a").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.fair_lock("a").acquire().await });
    in_line(&one.fair_lock("a"), 1).await;
    until("the replica has heard of it", LONG, || {
        replica.command(&["ZCARD", "fairlane:fair:{a}:queue"]).number() == 1
    });
    primary.kill();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    sleep(Duration::from_secs(1)).await;
    assert!(!held.is_lost() && !waiter.is_finished());
    let token = held.fencing_token();
    timeout(LONG, held.release()).await.unwrap().unwrap();
    let next = timeout(LONG, waiter).await.expect("the waiter is served").unwrap().unwrap();
    assert!(next.fencing_token() > token);
}

/// The same, found by asking a Sentinel.
#[tokio::test]
async fn sentinels_are_asked_for_the_primary() {
    let mut primary = RedisServer::start();
    let replica = RedisServer::with_options(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    replica.until_replicating();
    let folder = std::env::temp_dir().join(format!("fairlane-sentinel-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let port = testkit::free_port();
    let conf = folder.join("sentinel.conf");
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor tables 127.0.0.1 {} 1\n\
         sentinel down-after-milliseconds tables 500\nsentinel failover-timeout tables 3000\n",
        folder.display(),
        primary.port()
    );
    std::fs::write(&conf, text).unwrap();
    let mut command = std::process::Command::new("redis-server");
    command.arg(&conf).arg("--sentinel").stdout(std::process::Stdio::null());
    let _sentinel = testkit::Process::start(&mut command);
    until("the sentinel listens", LONG, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let sentinels = vec![format!("redis://127.0.0.1:{port}/")];
    let topology = Topology::Sentinel { sentinels, primary: "tables".to_owned() };
    let client = connect(quick(RedisConfig::new(topology))).await;
    let before = client.fair_lock("a").acquire().await.unwrap().fencing_token();
    client.flush().await.unwrap();
    until("the sentinel knows the replica", LONG, || {
        std::fs::read_to_string(&conf).is_ok_and(|text| text.contains("known-replica"))
    });
    primary.kill();
    let after = timeout(LONG, async {
        loop {
            match client.fair_lock("a").acquire().await {
                Ok(held) => break held.fencing_token(),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    });
    assert!(after.await.expect("the client finds the promoted replica") > before);
    let _ = std::fs::remove_dir_all(folder);
}

/// A primary of a cluster dies: its replica takes over, and so do those who wait.
#[tokio::test]
async fn a_cluster_loses_a_primary() {
    let mut cluster = RedisCluster::start();
    let config = quick(RedisConfig::cluster(cluster.urls())).with_attempts(30);
    let (one, other) = (connect(config.clone()).await, connect(config).await);
    let lease = Lease::Renewing(Duration::from_secs(20));
    let held = one.fair_lock("a").with_lease(lease).acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.fair_lock("a").with_lease(lease).acquire().await });
    in_line(&one.fair_lock("a"), 1).await;
    let key = "fairlane:fair:{a}:queue";
    let owner = (0..3)
        .find(|n| matches!(cluster.nodes()[*n].try_command(&["ZCARD", key]), Ok(testkit::Reply::Number(1))));
    let owner = owner.expect("one of the primaries has the line");
    let replica = &cluster.nodes()[owner + 3];
    until("the replica has heard of it", LONG, || {
        replica.command(&["INFO", "keyspace"]).to_string().contains("keys=")
    });
    cluster.nodes()[owner].kill();
    let token = held.fencing_token();
    timeout(LONG, held.release()).await.expect("released at the replica").unwrap();
    let next = timeout(LONG, waiter).await.expect("the waiter is served").unwrap().unwrap();
    assert!(next.fencing_token() > token);
}
