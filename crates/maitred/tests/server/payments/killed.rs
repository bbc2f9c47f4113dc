//! Servers that die between asking a provider and writing down what it said.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use serde_json::json;

use super::provider::StandIn;
use crate::crowd::{book, eventually, path};
use crate::shared::{Cluster, MEMBERS, free_slot, room_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_that_was_made_when_its_server_died_is_made_once() {
    let time = Arc::new(AtomicI64::new(jiff::Timestamp::now().as_millisecond()));
    let provider = StandIn::open(time).await;
    let mut cluster = Cluster::configured(&provider.toml("card")).await;
    let venue = cluster.venue(room_for(2)).await;
    let guest = cluster.people(1).await.remove(0).at(&cluster.client(0));
    let held = book(&guest, free_slot(venue, 0), 2).await.expect(201).json();
    let begun =
        guest.post(&format!("{}/payment", path(&held)), json!({"method": "card"})).await.expect(200).json();
    let payment = begun["providerPayment"]["id"].as_str().unwrap();
    provider.deliver(&cluster.client(1), &provider.takes(payment)).await;
    assert_eq!(guest.get(&path(&held)).await.expect(200).json()["status"], "CONFIRMED");

    // The refund is made, and nobody hears of it.
    provider.books().mood.slow = Duration::from_secs(20);
    guest.post(&format!("{}/cancel", path(&held)), json!({})).await.expect(200);
    eventually("the refund is asked for", async || !provider.books().refunds.is_empty()).await;
    for member in 0..MEMBERS {
        cluster.kill(member);
    }
    assert_eq!(provider.keeps(), 0, "void: it was not made");
    provider.books().mood.slow = Duration::ZERO;
    for member in 0..MEMBERS {
        cluster.launch(member).await;
    }
    let guest = crate::client::Guest { client: cluster.client(2), ..guest };
    let pending = guest.get(&path(&held)).await.expect(200).json();
    assert_eq!(pending["status"], "REFUND_PENDING", "void: it was written down");
    eventually("it is asked for again and written down", async || {
        guest.get(&path(&held)).await.expect(200).json()["status"] == "REFUNDED"
    })
    .await;
    let refunds: Vec<_> = provider.books().refunds.values().cloned().collect();
    assert!(refunds.len() == 1 && refunds[0].asked >= 2, "{refunds:?}");
    assert_eq!(provider.keeps(), 0);
}
