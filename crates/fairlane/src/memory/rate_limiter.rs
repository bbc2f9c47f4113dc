//! The sliding window in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Memory, open};
use crate::backend::{Key, Take, Taken};
use crate::error::Result;
use crate::ticket::TicketId;

/// How long a waiter may be late for its turn before others take it.
const LATE: Duration = Duration::from_secs(1);

/// Past this many keys, those whose window has passed are swept out when a new one comes.
const SWEEP_FROM: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Window {
    /// The last `limit` passes, oldest first.
    passed: VecDeque<Instant>,
    window: Duration,
    last_number: u64,
    /// Who waits, and until when their turn is theirs.
    line: BTreeMap<u64, (TicketId, Instant)>,
    numbers: HashMap<TicketId, u64>,
}

impl Memory {
    pub(crate) async fn take(&self, key: &Key, take: &Take<'_>) -> Result<Taken> {
        let now = Instant::now();
        let mut rates = open(&self.rates);
        if rates.len() >= SWEEP_FROM && rates.len() == rates.capacity() {
            rates.retain(|_, window| window.is_needed(now));
        }
        let window = rates.entry(Arc::clone(&key.base)).or_default();
        Ok(match window.take(take, now) {
            Ok(()) => Taken::Passed(self.clock.micros_at(now)),
            Err(due) if due <= take.patience && !take.patience.is_zero() => {
                window.wait(take.ticket, now + due + LATE);
                Taken::Wait(due)
            }
            Err(due) => {
                window.forget(take.ticket);
                Taken::Refused(due)
            }
        })
    }

    pub(crate) fn untake(&self, key: &Key, ticket: &TicketId) {
        if let Some(window) = open(&self.rates).get_mut(&key.base) {
            window.forget(ticket);
        }
    }
}

impl Window {
    /// Passes, or says how long until it could.
    fn take(&mut self, take: &Take<'_>, now: Instant) -> std::result::Result<(), Duration> {
        let limit = take.limit as usize;
        self.window = take.window;
        self.expire(now);
        let live = |at: &Instant| *at + take.window > now;
        let used = self.passed.len() - self.passed.partition_point(|at| !live(at));
        let free = limit.saturating_sub(used);
        let rank = match self.numbers.get(take.ticket) {
            Some(number) => self.line.range(..number).count(),
            None => self.line.len(),
        };
        if rank < free {
            self.forget(take.ticket);
            self.passed.push_back(now);
            while self.passed.len() > limit {
                self.passed.pop_front();
            }
            return Ok(());
        }
        // Everybody in front takes one; the window then repeats, limit by limit.
        let behind = rank - free;
        let rounds = u32::try_from(behind / limit).unwrap_or(u32::MAX);
        let index = self.passed.len() - used + behind % limit;
        let freed = self.passed.get(index).map_or(now, |at| *at) + take.window;
        Err(freed.saturating_duration_since(now) + take.window.saturating_mul(rounds))
    }

    fn wait(&mut self, ticket: &TicketId, until: Instant) {
        let number = *self.numbers.entry(ticket.clone()).or_insert_with(|| {
            self.last_number += 1;
            self.last_number
        });
        self.line.insert(number, (ticket.clone(), until));
    }

    /// Turns come in order, so whoever missed theirs is in front.
    fn expire(&mut self, now: Instant) {
        while let Some(head) = self.line.first_entry().filter(|head| head.get().1 <= now) {
            let (ticket, _) = head.remove();
            self.numbers.remove(&ticket);
        }
    }

    fn forget(&mut self, ticket: &TicketId) {
        if let Some(number) = self.numbers.remove(ticket) {
            self.line.remove(&number);
        }
    }

    fn is_needed(&self, now: Instant) -> bool {
        !self.line.is_empty() || self.passed.back().is_some_and(|at| *at + self.window > now)
    }
}
