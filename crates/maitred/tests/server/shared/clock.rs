//! The wall clock of one server jumps, an hour ahead and an hour back. Holds go by the database's clock and waiting by monotonic
//! time, so nobody's place runs out early and nobody's line stands still.

use std::time::{Duration, Instant};

use super::cluster::{Cluster, places, slot};
use super::load::{Crowd, Load};

const HOUR: i64 = 3_600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_of_one_server_jumps() {
    let mut cluster = Cluster::start().await;
    let venue = cluster.venue(places(100_000)).await;
    let slots: Vec<_> = (0..3).map(|n| slot(venue, n)).collect();
    let noon = slots[0];
    let people = cluster.people(20_000).await;
    let load = Load::start(&cluster, Crowd { people, slots, rate: 130, payers: 10 });
    load.flows().await;
    // The one that runs a line: its clock is the one that could do harm.
    let wrong = cluster.until_run(noon).await;
    for jump in [HOUR, -HOUR] {
        load.flows().await;
        let (struck, looks) = (Instant::now(), cluster.clock(wrong).looks());
        cluster.clock(wrong).turn(jump);
        // Long enough for the sweep, which would let go of everything that seems to have run out.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let over = Instant::now();
        let seen = cluster.clock(wrong).looks() - looks;
        assert!(seen > 100, "void: the wrong clock was looked at {seen} times");
        let answers = load.answers(over - Duration::from_secs(2), over);
        assert!(answers >= 100, "{answers} answers in the last two seconds");
        cluster.clock(wrong).turn(0);
        load.flowed(struck, over).await;
    }
    let visits = load.ended().await;
    let findings = cluster.audit(&visits).await.clean();
    assert_eq!((findings.won, findings.inversions), (visits.len(), 0));
    let expired = "SELECT count(*) FROM reservation WHERE status = 'EXPIRED'";
    assert_eq!(cluster.database.connect().await.number(expired).await, 0);
    let odd = "SELECT count(*) FROM reservation WHERE abs(expires_at - created_at - 420000) > 1000 \
               OR abs(created_at - extract(epoch FROM now()) * 1000) > 600000";
    assert_eq!(cluster.database.connect().await.number(odd).await, 0, "holds go by the database's clock");
}
