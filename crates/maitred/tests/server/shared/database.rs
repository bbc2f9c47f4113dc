//! PostgreSQL is killed and comes back: whoever is in line keeps the place, everybody is told when to come again, and no
//! server has to be started anew.

use std::time::{Duration, Instant};

use super::cluster::{Cluster, MEMBERS, places, slot};
use super::guests::put_off;
use super::load::{Crowd, Load, rounds};
use crate::crowd::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_is_killed_under_load() {
    for kills in rounds(5, 10) {
        postgresql_is_killed(kills).await;
    }
}

async fn postgresql_is_killed(kills: usize) {
    let cluster = Cluster::with_own_postgres().await;
    let venue = cluster.venue(places(10_000)).await;
    let slots: Vec<_> = (0..3).map(|n| slot(venue, n)).collect();
    let noon = slots[0];
    let people = cluster.people(20_000).await;
    let load = Load::start(&cluster, Crowd { people, slots, rate: 130, payers: 20 });
    for _ in 0..kills {
        load.flows().await;
        let jam = load.piles_up(&cluster, noon).await;
        let struck = Instant::now();
        cluster.kill_postgres();
        drop(jam);
        cluster.all_are(503, "").await;
        // Longer than those in line wait before they are let go.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        cluster.restart_postgres();
        load.flowed(struck, Instant::now()).await;
        cluster.all_are(200, "ready").await;
        // Or a busy machine has ever more people to answer from one kill to the next.
        for member in 0..MEMBERS {
            eventually("few wait", async || cluster.metric(member, "maitred_waiting").await < 20.0).await;
        }
    }
    load.flows().await;
    let visits = load.ended().await;
    cluster.audit(&visits).await.clean();
    let unavailable = put_off(&visits);
    assert!(unavailable.iter().any(|told| told.ticket.is_some()), "those in line are told with their ticket");
}
