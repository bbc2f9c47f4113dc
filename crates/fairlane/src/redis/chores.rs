//! Giving back what was dropped.
//!
//! `Drop` cannot wait, so it leaves a note here. Each note is tried until Redis has answered, for a bounded time; after
//! that leases and graces end by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Shared;
use crate::backend::{Key, QueueKey};
use crate::error::{Error, Result};
use crate::ticket::TicketId;

/// How long a note is tried.
pub(super) const PERSISTENCE: Duration = Duration::from_secs(30);
/// How long notes are still tried after the last handle of the client is gone.
const FAREWELL: Duration = Duration::from_secs(2);
/// How many are under way at once.
const AT_ONCE: usize = 128;

#[derive(Debug)]
pub(super) enum Chore {
    Leave(QueueKey, TicketId),
    Unlock(Key, TicketId),
    Untake(Key, TicketId),
}

/// How many notes are not done yet.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    count: AtomicUsize,
    changed: Notify,
}

impl Outstanding {
    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn done(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    pub(super) async fn settled(&self, patience: Duration) -> Result<()> {
        let settled = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.count.load(Ordering::Acquire) == 0 {
                    return;
                }
                changed.await;
            }
        };
        timeout(patience, settled).await.map_err(|late| Error::Unavailable { source: Box::new(late) })
    }
}

/// Works until the last handle is gone.
pub(super) async fn work(shared: Arc<Shared>, mut inbox: mpsc::UnboundedReceiver<Chore>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut under_way = JoinSet::new();
    while let Some(chore) = inbox.recv().await {
        while under_way.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let shared = Arc::clone(&shared);
        under_way.spawn(async move {
            if let Err(error) = persist(&shared, &chore).await {
                tracing::warn!(%error, ?chore, "could not give back what was dropped; it ends with its lease");
            }
            shared.outstanding.done();
            drop(place);
        });
    }
    let rest = async { while under_way.join_next().await.is_some() {} };
    if timeout(FAREWELL, rest).await.is_err() {
        tracing::warn!("a client ended before everything was given back");
    }
}

async fn persist(shared: &Shared, chore: &Chore) -> Result<()> {
    let end = Instant::now() + PERSISTENCE;
    loop {
        let done = match chore {
            Chore::Leave(key, ticket) => shared.leave_line(key, ticket, 0, true).await.map(drop),
            Chore::Unlock(key, ticket) => shared.release_lock(key, ticket, true).await.map(drop),
            Chore::Untake(key, ticket) => shared.leave_rate(key, ticket).await,
        };
        match done {
            Err(Error::Unavailable { .. }) if Instant::now() < end => {
                sleep(Duration::from_millis(100 + crate::ticket::random() % 200)).await;
            }
            other => return other,
        }
    }
}
