//! Who waits in which line, and how they hear that it is their turn.
//!
//! Redis publishes a called ticket to its client's own channel: one subscription per client, one message per turn. A
//! message is a hint. The heartbeat tells the same again, so a lost one costs at most a heartbeat.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::{Shared, servers};
use crate::backend::QueueKey;
use crate::ticket::TicketId;

/// One line with waiters of this client.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) key: QueueKey,
    seats: HashMap<TicketId, Arc<Notify>>,
    /// The life of the line as last heard of; 0 before the first answer.
    pub(super) epoch: u64,
    pub(super) last_sent: Instant,
    /// When the last sign of life that was answered had been sent.
    pub(super) last_heard: Instant,
}

impl Watch {
    /// Everybody takes a step: the line may have forgotten them.
    pub(super) fn ring_all(&self) {
        for bell in self.seats.values() {
            bell.notify_one();
        }
    }

    pub(super) fn ring(&self, ticket: &TicketId) -> bool {
        self.seats.get(ticket).map(|bell| bell.notify_one()).is_some()
    }
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    lines: Mutex<HashMap<Arc<str>, Watch>>,
    /// Rung when there is something to watch again.
    pub(super) work: Notify,
}

impl Watches {
    pub(super) fn open(&self) -> MutexGuard<'_, HashMap<Arc<str>, Watch>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seat(&self, key: &QueueKey, ticket: &TicketId, bell: &Arc<Notify>) {
        let mut lines = self.open();
        let first = lines.is_empty();
        let now = Instant::now();
        let watch = lines.entry(Arc::clone(&key.base)).or_insert_with(|| Watch {
            key: key.clone(),
            seats: HashMap::new(),
            epoch: 0,
            last_sent: now,
            last_heard: now,
        });
        watch.seats.insert(ticket.clone(), Arc::clone(bell));
        drop(lines);
        if first {
            self.work.notify_one();
        }
    }

    pub(super) fn unseat(&self, key: &QueueKey, ticket: &TicketId) {
        let mut lines = self.open();
        let Some(watch) = lines.get_mut(&key.base) else { return };
        watch.seats.remove(ticket);
        if watch.seats.is_empty() {
            lines.remove(&key.base);
            shrink(&mut lines);
        } else {
            shrink(&mut watch.seats);
        }
    }

    pub(super) fn ring(&self, base: &str, ticket: &TicketId) {
        if let Some(watch) = self.open().get(base) {
            watch.ring(ticket);
        }
    }

    pub(super) fn queued(&self, key: &QueueKey, epoch: u64) {
        if let Some(watch) = self.open().get_mut(&key.base) {
            watch.epoch = epoch;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open().is_empty()
    }
}

/// Gives memory back after a rush.
pub(super) fn shrink<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > 1024 && map.len() * 4 < map.capacity() {
        map.shrink_to(map.len() * 2);
    }
}

/// Listens for as long as the client lives, on a new connection whenever the old one ends.
pub(super) async fn listen(shared: Arc<Shared>) {
    loop {
        if let Err(error) = listen_once(&shared).await {
            tracing::debug!(%error, "listening for wake-ups failed");
        }
        shared.lanes.disconnected();
        sleep(Duration::from_millis(50 + crate::ticket::random() % 200)).await;
    }
}

async fn listen_once(shared: &Shared) -> ::redis::RedisResult<()> {
    let patience = shared.config.call_timeout;
    let wakes = format!("{}{}", shared.channel, shared.client);
    let lanes = format!("{}{}", shared.config.lane_channel(), shared.client);
    let open = async {
        let client = servers::primary(&shared.config.topology, patience).await?;
        let mut subscription = client.get_async_pubsub().await?;
        subscription.subscribe(&[&wakes, &lanes]).await?;
        ::redis::RedisResult::Ok(subscription)
    };
    let Ok(subscription) = timeout(patience * 2, open).await else { return Ok(()) };
    let mut messages = subscription?.into_on_message();
    // Whatever was published while nobody listened is found by looking.
    for watch in shared.watches.open().values_mut() {
        watch.last_sent = watch.last_sent.checked_sub(shared.config.heartbeat).unwrap_or(watch.last_sent);
    }
    shared.lanes.connected();
    while let Some(message) = messages.next().await {
        let Ok(text) = std::str::from_utf8(message.get_payload_bytes()) else { continue };
        if message.get_channel_name() == lanes {
            shared.lanes.hear(text);
        } else if let Some((ticket, base)) = text.split_once(' ') {
            shared.watches.ring(base, &TicketId(ticket.into()));
        }
    }
    Ok(())
}
