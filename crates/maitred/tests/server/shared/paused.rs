//! The runner of a line sleeps past its lease with a batch in its hands. The batch is caught on its way to the database, so
//! that it is certain what was in its hands and when it arrives.

use std::time::{Duration, Instant};

use booking::SlotId;

use super::cluster::{Cluster, places, slot};
use super::load::{Crowd, Load};
use crate::crowd::eventually;

/// Longer than a lease, and than what its successor needs.
const SLEEP: Duration = Duration::from_secs(4);

/// Three servers under load on one slot.
async fn under_load() -> (Cluster, Load, SlotId) {
    let cluster = Cluster::with_own_postgres().await;
    let noon = slot(cluster.venue(places(10_000)).await, 0);
    let people = cluster.people(20_000).await;
    let load = Load::start(&cluster, Crowd { people, slots: vec![noon], rate: 130, payers: 0 });
    load.flows().await;
    (cluster, load, noon)
}

/// Load flowed all the time, goes on, and nothing is wrong.
async fn recovered(cluster: &Cluster, load: Load, struck: Instant) {
    load.flowed(struck, Instant::now()).await;
    load.flows().await;
    let visits = load.ended().await;
    cluster.audit(&visits).await.clean().in_order();
}

/// Lets the runner of a line fall asleep just when it has sent a batch, which is kept back; who it was.
async fn asleep_with_a_batch(cluster: &mut Cluster, slot: SlotId) -> usize {
    for _ in 0..50 {
        let runner = cluster.until_run(slot).await;
        cluster.proxy(runner).trap(b"BEGIN\0");
        let mut caught = false;
        let deadline = Instant::now() + Duration::from_millis(500);
        while !caught && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let what = cluster.proxy(runner).caught().unwrap_or_default();
            // The log of a batch is sent with it, last before the end.
            caught = [&b"\"verdict\""[..], b"COMMIT\0"]
                .iter()
                .all(|part| what.windows(part.len()).any(|w| w == *part));
        }
        if caught {
            cluster.freeze(runner);
            return runner;
        }
        cluster.proxy(runner).release();
    }
    panic!("void: no batch was caught");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_arrives_after_the_lease_is_refused() {
    let (mut cluster, load, noon) = under_load().await;
    let database = cluster.database.connect().await;
    let struck = Instant::now();
    let sleeper = asleep_with_a_batch(&mut cluster, noon).await;
    let (stood, refused) = (database.version(noon).await, database.refused_batches().await);
    tokio::time::sleep(SLEEP).await;
    assert!(database.version(noon).await > stood, "void: nobody took the line over");
    assert_ne!(cluster.runner(noon).await, Some(sleeper), "the line has another runner");
    cluster.proxy(sleeper).release();
    eventually("the late batch is refused", async || database.refused_batches().await > refused).await;
    cluster.thaw(sleeper);
    recovered(&cluster, load, struck).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_stored_while_its_runner_sleeps_is_not_decided_again() {
    let (mut cluster, load, noon) = under_load().await;
    let database = cluster.database.connect().await;
    let struck = Instant::now();
    let sleeper = asleep_with_a_batch(&mut cluster, noon).await;
    let stood = database.version(noon).await;
    cluster.proxy(sleeper).release();
    eventually("its batch is stored", async || database.version(noon).await > stood).await;
    tokio::time::sleep(SLEEP).await;
    assert!(database.version(noon).await > stood + 1, "void: nobody took the line over");
    cluster.thaw(sleeper);
    recovered(&cluster, load, struck).await;
}
