//! The limit of a venue (B2) holds over all servers together.

use std::time::{Duration, Instant};

use booking::VenueId;
use tokio::task::JoinSet;

use super::cluster::{Cluster, places, slot};
use super::guests::{Ending, Plan, Visit};
use super::load::Flow;

const LIMIT: usize = 10;
const SENT: usize = 100;

/// A hundred people in three seconds, at all three servers, in turn.
async fn crowd(cluster: &Cluster, venue: VenueId) -> Vec<Visit> {
    let noon = slot(venue, 0);
    let mut visits = JoinSet::new();
    let mut beat = tokio::time::interval(Duration::from_millis(30));
    for (n, person) in cluster.people(SENT).await.into_iter().enumerate() {
        beat.tick().await;
        let (plan, doors) =
            (Plan { person, slot: noon, party: 1, first: n, wait: 5, pays: false }, cluster.doors());
        visits.spawn(async move { plan.carry_out(&doors, &Flow::default()).await });
    }
    visits.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_a_second_get_in_at_three_servers_together() {
    let cluster = Cluster::start().await;
    let mut settings = places(1_000);
    settings["requestsPerSecond"] = LIMIT.into();
    let limited = cluster.venue(settings).await;
    let visits = crowd(&cluster, limited).await;

    let findings = cluster.audit(&visits).await.clean().in_order();
    let (won, turned) = (findings.won, findings.turned);
    // Ten at once, and ten more in each second that follows.
    assert!(
        (3 * LIMIT - 5..=4 * LIMIT).contains(&won) && won + turned == SENT,
        "{won} got in, {turned} did not"
    );
    for told in
        visits.iter().filter(|visit| !matches!(visit.ending, Ending::Won(_))).map(|visit| &visit.log[0])
    {
        assert_eq!(
            (told.status, told.code.as_deref(), told.retry_after),
            (Some(429), Some("rate-limited"), true)
        );
    }
    // In the server's order: whoever came in ten places later came in a second later.
    let mut let_in: Vec<(u64, Instant, Instant)> = visits
        .iter()
        .filter(|visit| matches!(visit.ending, Ending::Won(_)))
        .map(|visit| (visit.log[0].ticket.unwrap().number(), visit.log[0].asked, visit.log[0].at))
        .collect();
    let_in.sort_unstable();
    for window in let_in.windows(LIMIT + 1) {
        let (first, last) = (window[0], window[LIMIT]);
        assert!(last.2 - first.1 >= Duration::from_secs(1), "eleven in {:?}", last.2 - first.1);
    }

    // The control: without the limit, all get in.
    let open = cluster.venue(places(1_000)).await;
    let visits = crowd(&cluster, open).await;
    assert!(visits.iter().all(|visit| matches!(visit.ending, Ending::Won(_))), "{visits:?}");
}
