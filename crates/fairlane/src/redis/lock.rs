//! The unfair lock in Redis, and the sign by which an emptied Redis is noticed.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::redis::{Value, cmd};
use tokio::time::Instant;

use super::chores::Chore;
use super::link::Call;
use super::queue::{answer, padded};
use super::script::script;
use super::{Redis, Shared, micros};
use crate::Lease;
use crate::backend::{Attempt, Key, Left};
use crate::error::Result;
use crate::lease::{Grant, Grip};
use crate::ticket::TicketId;

script!(ACQUIRE = "lock_acquire.lua");
script!(RENEW = "lock_renew.lua");
script!(RELEASE = "lock_release.lua");

impl Redis {
    pub(crate) async fn lock(&self, key: &Key, ticket: &TicketId, lease: Lease) -> Result<Attempt> {
        let seen = self.shared.highest_token.load(Ordering::Relaxed);
        let call =
            Call::new(&ACQUIRE).key(&key.base, "").arg(&ticket.0).arg(micros(lease.length())).arg(seen);
        let sent = Instant::now();
        let (word, number, _): (_, Option<u64>, Option<u64>) = padded(self.shared.link.call(&call).await?)?;
        let number = number.unwrap_or_default();
        if word == "granted" {
            self.shared.saw_token(number);
            let valid_until = Some(sent + lease.length());
            return Ok(Attempt::Granted(Grant { token: number, epoch: 0, valid_until }));
        }
        Ok(Attempt::Taken(Duration::from_micros(number)))
    }

    pub(crate) async fn unlock(&self, key: &Key, grip: &Grip) -> Result<Left> {
        self.shared.release_lock(key, &grip.ticket, false).await
    }

    pub(crate) fn abandon_lock(&self, key: &Key, ticket: &TicketId) {
        self.send(Chore::Unlock(key.clone(), ticket.clone()));
    }
}

impl Shared {
    pub(super) async fn release_lock(&self, key: &Key, ticket: &TicketId, uncertain: bool) -> Result<Left> {
        let call = Call::new(&RELEASE).key(&key.base, "").arg(&ticket.0).arg(u8::from(uncertain));
        let word: String = answer(self.link.call(&call).await?)?;
        Ok(if word == "released" { Left::Released } else { Left::Lost })
    }

    pub(super) async fn renew_lock(
        &self,
        key: &Key,
        ticket: &TicketId,
        lease: Duration,
        token: u64,
        adopt: bool,
    ) -> Result<Value> {
        let call = Call::new(&RENEW)
            .key(&key.base, "")
            .arg(&ticket.0)
            .arg(micros(lease))
            .arg(token)
            .arg(u8::from(adopt));
        self.link.call_once(&call).await
    }

    /// Sets a small key of this client's own. If it was set a moment ago and is gone, Redis has been emptied. One command
    /// per heartbeat, and only while something is held; without it a holder would learn of a `FLUSHALL` by its next
    /// renewal, many seconds later.
    pub(super) async fn look_for_presence(&self) {
        let lives = (self.config.heartbeat * 60).max(Duration::from_secs(1));
        let mut command = cmd("SET");
        command.arg(format!("{}:here:{{{}}}", self.config.prefix, self.client)).arg(1).arg("GET");
        command.arg("PX").arg(u64::try_from(lives.as_millis()).unwrap_or(u64::MAX));
        let sent = Instant::now();
        let Ok(before) = self.link.command(&command).await else { return };
        let marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner).replace(sent);
        if before == Value::Nil && marked.is_some_and(|at| sent - at < lives / 2) {
            self.emptied.store(true, Ordering::Release);
        }
    }
}
