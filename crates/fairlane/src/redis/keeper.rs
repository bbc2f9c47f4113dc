//! The client's own thread: signs of life for those who wait, renewal for those who hold.
//!
//! One thread and one task for all lines and all leases of a client, apart from the program's workers: a program that
//! is busy keeps what it holds. What is due is looked for ten times a second, so neither an acquire nor a release has
//! to wake anybody.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::chores::{self, Chore, Outstanding};
use super::config::RedisConfig;
use super::lanes::LaneDesk;
use super::link::Link;
use super::wakeups::{self, Watches, shrink};
use super::{Shared, queue::Renewed};
use crate::backend::{QueueKey, Target};
use crate::error::{Error, Result};
use crate::lease::Grip;
use crate::ticket::{TicketId, random};

const TICK: Duration = Duration::from_millis(100);
/// How many commands the keeper has under way at once.
const AT_ONCE: usize = 64;

/// Grants, each with the time of its next renewal.
#[derive(Debug, Default)]
pub(super) struct Kept {
    grips: Mutex<HashMap<TicketId, (Arc<Grip>, Instant)>>,
    work: Notify,
}

impl Kept {
    pub(super) fn open(&self) -> MutexGuard<'_, HashMap<TicketId, (Arc<Grip>, Instant)>> {
        self.grips.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, grip: &Arc<Grip>) {
        let due = Instant::now() + grip.lease.length() / 3;
        let mut grips = self.open();
        let first = grips.is_empty();
        grips.insert(grip.ticket.clone(), (Arc::clone(grip), due));
        drop(grips);
        if first {
            self.work.notify_one();
        }
    }

    pub(super) fn let_go(&self, ticket: &TicketId) {
        let mut grips = self.open();
        grips.remove(ticket);
        shrink(&mut grips);
    }

    /// Those to renew now, put off until their next time; with `all`, also those that only need to be confirmed.
    fn due(&self, now: Instant, all: bool) -> Vec<Arc<Grip>> {
        let mut due = Vec::new();
        self.open().retain(|_, (grip, at)| {
            if grip.is_lost() {
                return false;
            }
            if all || (grip.lease.renews() && *at <= now) {
                *at = now + grip.lease.length() / 3;
                due.push(Arc::clone(grip));
            }
            true
        });
        due
    }

    fn again_soon(&self, ticket: &TicketId) {
        if let Some((_, at)) = self.open().get_mut(ticket) {
            *at = Instant::now();
        }
    }

    fn is_empty(&self) -> bool {
        self.open().is_empty()
    }
}

/// Starts the thread. It ends by itself when the sending side of `inbox` is gone and the rest has been done.
pub(super) fn start(
    config: RedisConfig,
    client: &Arc<str>,
    inbox: mpsc::UnboundedReceiver<Chore>,
) -> Result<Arc<Shared>> {
    let cannot = |source: std::io::Error| Error::Unavailable { source: Box::new(source) };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let shared = Arc::new(Shared {
        link: Link::new(&config, runtime.handle().clone()),
        channel: config.channel(),
        config,
        client: Arc::clone(client),
        watches: Watches::default(),
        kept: Kept::default(),
        lanes: LaneDesk::default(),
        outstanding: Outstanding::default(),
        highest_token: Default::default(),
        emptied: Default::default(),
        marked: Default::default(),
    });
    let theirs = Arc::clone(&shared);
    let body = move || {
        runtime.block_on(async {
            tokio::spawn(wakeups::listen(Arc::clone(&theirs)));
            tokio::spawn(keep(Arc::clone(&theirs)));
            if theirs.config.connect_later {
                let early = Arc::clone(&theirs);
                // What fails now is tried again with the first call.
                tokio::spawn(async move { early.link.ready().await });
            }
            chores::work(theirs, inbox).await;
        });
    };
    thread::Builder::new().name("fairlane".to_owned()).spawn(body).map_err(cannot)?;
    Ok(shared)
}

/// Finds what is due and sees to it in tasks of their own: a server that is slow to answer for one lock holds up no
/// other. Each has a deadline, and is not due again before, so they do not pile up.
async fn keep(shared: Arc<Shared>) {
    let mut under_way = JoinSet::new();
    let mut generation = shared.link.generation();
    let mut last_look = Instant::now();
    loop {
        if shared.watches.is_empty() && shared.kept.is_empty() {
            tokio::select! {
                () = shared.watches.work.notified() => {}
                () = shared.kept.work.notified() => {}
            }
            last_look = Instant::now();
        }
        while under_way.try_join_next().is_some() {}
        let now = Instant::now();
        if !shared.kept.is_empty() && now - last_look >= shared.config.heartbeat {
            last_look = now;
            let shared = Arc::clone(&shared);
            under_way.spawn(async move { shared.look_for_presence().await });
        }
        // A new connection may lead to a server that knows nothing of this client, and so may the old one.
        let moved = std::mem::replace(&mut generation, shared.link.generation()) != generation;
        let emptied = shared.emptied.swap(false, Ordering::AcqRel);
        let grips = shared.kept.due(now, moved || emptied);
        if !grips.is_empty() {
            let shared = Arc::clone(&shared);
            under_way.spawn(async move {
                stream::iter(grips).for_each_concurrent(AT_ONCE, |grip| shared.renew_one(grip)).await;
            });
        }
        let lines = shared.silent_lines(now);
        if !lines.is_empty() {
            let shared = Arc::clone(&shared);
            under_way.spawn(async move {
                stream::iter(lines).for_each_concurrent(AT_ONCE, |key| shared.beat_one(key)).await;
            });
        }
        sleep(TICK).await;
    }
}

impl Shared {
    pub(super) async fn renew_one(&self, grip: Arc<Grip>) {
        let sent = Instant::now();
        // What is held for a fixed time is confirmed for what is left of it.
        let lease = match grip.valid_until() {
            Some(until) if !grip.lease.renews() => until.saturating_duration_since(sent),
            _ => grip.lease.length(),
        };
        let mut outcome = self.renew_grip(&grip, lease, false).await;
        if matches!(outcome, Ok(Renewed::Forgotten)) && grip.is_live() && !grip.is_lost() {
            outcome = self.renew_grip(&grip, lease, true).await;
            if !grip.is_live() {
                // Released meanwhile: it must not have been put back behind the caller's back.
                let _ = match &grip.target {
                    Target::Queue(key) => self.leave_line(key, &grip.ticket, 0, false).await,
                    Target::Lock(key) => self.release_lock(key, &grip.ticket, false).await,
                };
                return;
            }
        }
        match outcome {
            Ok(Renewed::Until(epoch)) => grip.renewed(epoch, sent + lease),
            Ok(Renewed::Forgotten | Renewed::Lost) => {
                grip.mark_lost();
                self.kept.let_go(&grip.ticket);
            }
            Err(_) => self.kept.again_soon(&grip.ticket),
        }
    }

    /// The lines whose next sign of life is due.
    fn silent_lines(&self, now: Instant) -> Vec<QueueKey> {
        let mut due = Vec::new();
        // A little early, each time by something else, so that clients that started together do not stay together.
        let spread = self.config.heartbeat.mul_f64((random() % 1000) as f64 / 4000.0);
        let beaten = now.checked_sub(spread).unwrap_or(now);
        for watch in self.watches.open().values_mut() {
            if watch.epoch != 0 && now - watch.last_sent >= self.config.heartbeat {
                watch.last_sent = beaten;
                due.push(watch.key.clone());
            }
        }
        due
    }

    async fn beat_one(&self, key: QueueKey) {
        let sent = Instant::now();
        let Ok((epoch, called)) = self.heartbeat(&key).await else { return };
        let mut lines = self.watches.open();
        let Some(watch) = lines.get_mut(&key.base) else { return };
        let late = sent.saturating_duration_since(watch.last_heard) > self.config.liveness();
        watch.last_heard = watch.last_heard.max(sent);
        // After a gap the waiters here may have been taken for dead, and a new life of the line knows none of them.
        if late || epoch != watch.epoch {
            watch.epoch = epoch;
            watch.ring_all();
        }
        for ticket in called {
            watch.ring(&ticket);
        }
    }
}
