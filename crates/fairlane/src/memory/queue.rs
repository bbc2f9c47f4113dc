//! A line of tickets in memory: of fair locks and semaphores.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Clock, Memory, end_of, open};
use crate::Position;
use crate::backend::{Enter, Entered, Intent, Left, QueueKey};
use crate::error::Result;
use crate::lease::{Grant, Grip};
use crate::ticket::TicketId;

/// Longer lines are refused.
const LONGEST: usize = 1_000_000;

/// Past this many lines, those that only remember ended leases are swept out when a new one comes.
const SWEEP_FROM: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Line {
    last_number: u64,
    used: u32,
    waiting: BTreeMap<u64, Waiter>,
    tickets: HashMap<TicketId, State>,
    /// Ends of fixed leases, soonest first. Only whoever is first in line looks at the clock for them.
    leases: BTreeSet<(Instant, TicketId)>,
    /// Ends of graces, and of the memory of ended leases.
    ends: BTreeSet<(Instant, TicketId)>,
}

#[derive(Debug)]
struct Waiter {
    ticket: TicketId,
    permits: u32,
    lease: crate::Lease,
    bell: Arc<Notify>,
}

#[derive(Debug)]
enum State {
    Waiting { number: u64 },
    Held { permits: u32, grant: Grant },
    Parked { number: u64, until: Instant },
    Expired { until: Instant },
}

impl PartialOrd for TicketId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TicketId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// How long an ended lease is remembered, to tell a late release from a repeated one.
const REMEMBERED: Duration = Duration::from_secs(60);

impl Memory {
    /// One look at a line, with everything that time has ended already out of it.
    fn with_line<T>(&self, key: &QueueKey, act: impl FnOnce(&mut Line, &Clock, Instant) -> T) -> T {
        let now = Instant::now();
        let mut lines = open(&self.lines);
        // Where a lease ran out and nobody came again, the memory of it would stay. Sweeping when the map would grow
        // anyway makes it a constant cost per entry.
        if lines.len() >= SWEEP_FROM && lines.len() == lines.capacity() {
            lines.retain(|_, line| {
                line.expire(now);
                !line.tickets.is_empty()
            });
        }
        let line = lines.entry(Arc::clone(&key.base)).or_default();
        let first = line.first();
        line.expire(now);
        let result = act(line, &self.clock, now);
        line.advance(key.capacity, &self.clock, now);
        if line.first() != first {
            line.alert_first();
        }
        if line.tickets.is_empty() {
            lines.remove(&key.base);
            if lines.len() * 4 < lines.capacity() && lines.capacity() > SWEEP_FROM {
                lines.shrink_to_fit();
            }
        }
        result
    }

    pub(crate) async fn enter(&self, key: &QueueKey, step: &Enter<'_>) -> Result<Entered> {
        Ok(self.with_line(key, |line, clock, now| {
            line.advance(key.capacity, clock, now);
            line.enter(key.capacity, step, clock, now)
        }))
    }

    pub(crate) async fn leave(&self, key: &QueueKey, grip: &Grip) -> Result<Left> {
        Ok(self.with_line(key, |line, _, _| match line.tickets.get(&grip.ticket) {
            Some(State::Held { .. }) => {
                line.remove(&grip.ticket);
                Left::Released
            }
            _ => Left::Lost,
        }))
    }

    pub(crate) fn abandon(&self, key: &QueueKey, ticket: &TicketId) {
        self.with_line(key, |line, _, _| line.remove(ticket));
    }

    pub(crate) fn unseat(&self, _: &QueueKey, _: &TicketId) {}

    pub(crate) async fn position(&self, key: &QueueKey, ticket: &TicketId) -> Result<Option<Position>> {
        Ok(self.with_line(key, |line, _, _| match line.tickets.get(ticket) {
            Some(State::Waiting { number } | State::Parked { number, .. }) => Some(Position {
                number: *number,
                ahead: line.waiting.range(..number).count() as u64,
                waiting: line.waiting.len() as u64,
            }),
            _ => None,
        }))
    }

    pub(crate) async fn waiting(&self, key: &QueueKey) -> Result<u64> {
        Ok(self.with_line(key, |line, _, _| line.waiting.len() as u64))
    }
}

impl Line {
    fn enter(&mut self, capacity: u32, step: &Enter<'_>, clock: &Clock, now: Instant) -> Entered {
        let number = match self.tickets.get(step.ticket) {
            Some(State::Held { grant, .. }) => return Entered::Granted(*grant),
            Some(State::Expired { .. }) => return Entered::Gone,
            Some(State::Waiting { number } | State::Parked { number, .. }) => *number,
            None => match step.intent {
                Intent::Resume | Intent::Park => return Entered::Gone,
                Intent::NoWait | Intent::Queue
                    if self.waiting.is_empty() && self.used + step.permits <= capacity =>
                {
                    return Entered::Granted(self.grant(step.ticket, step.permits, step.lease, clock, now));
                }
                Intent::NoWait => return Entered::Busy,
                Intent::Queue if self.waiting.len() >= LONGEST => return Entered::Full,
                Intent::Queue => {
                    self.last_number += 1;
                    self.last_number
                }
            },
        };
        self.remove(step.ticket);
        if step.intent == Intent::Park {
            if step.grace.is_zero() {
                return Entered::Gone;
            }
            let until = now + step.grace;
            self.tickets.insert(step.ticket.clone(), State::Parked { number, until });
            self.ends.insert((until, step.ticket.clone()));
            return Entered::Parked;
        }
        let (ticket, bell) = (step.ticket.clone(), Arc::clone(step.bell));
        self.waiting.insert(number, Waiter { ticket, permits: step.permits, lease: step.lease, bell });
        self.tickets.insert(step.ticket.clone(), State::Waiting { number });
        self.advance(capacity, clock, now);
        if let Some(State::Held { grant, .. }) = self.tickets.get(step.ticket) {
            return Entered::Granted(*grant);
        }
        let look = if self.first() == Some(number) { self.leases.first().map(|(at, _)| *at) } else { None };
        Entered::Queued { epoch: clock.start_micros, number, look }
    }

    fn grant(
        &mut self,
        ticket: &TicketId,
        permits: u32,
        lease: crate::Lease,
        clock: &Clock,
        now: Instant,
    ) -> Grant {
        let valid_until = end_of(lease, now);
        let grant = Grant { token: clock.token(now), epoch: clock.start_micros, valid_until };
        self.used += permits;
        if let Some(until) = valid_until {
            self.leases.insert((until, ticket.clone()));
        }
        self.tickets.insert(ticket.clone(), State::Held { permits, grant });
        grant
    }

    /// Hands what is free to the head of the line, as often as it goes.
    fn advance(&mut self, capacity: u32, clock: &Clock, now: Instant) {
        while let Some(head) = self.waiting.first_entry() {
            if self.used + head.get().permits > capacity {
                break;
            }
            let Waiter { ticket, permits, lease, bell } = head.remove();
            self.grant(&ticket, permits, lease, clock, now);
            bell.notify_one();
        }
    }

    fn first(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(number, _)| *number)
    }

    /// Whoever has become the first in line is the one to look when a lease ends.
    fn alert_first(&self) {
        if let Some((_, waiter)) = self.waiting.first_key_value().filter(|_| !self.leases.is_empty()) {
            waiter.bell.notify_one();
        }
    }

    /// Ends what has reached its end.
    fn expire(&mut self, now: Instant) {
        while self.leases.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, ticket)) = self.leases.pop_first() else { break };
            if let Some(State::Held { permits, .. }) = self.tickets.remove(&ticket) {
                self.used -= permits;
            }
            let until = now + REMEMBERED;
            self.tickets.insert(ticket.clone(), State::Expired { until });
            self.ends.insert((until, ticket));
        }
        while self.ends.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, ticket)) = self.ends.pop_first() else { break };
            self.tickets.remove(&ticket);
        }
    }

    fn remove(&mut self, ticket: &TicketId) {
        match self.tickets.remove(ticket) {
            Some(State::Held { permits, grant }) => {
                self.used -= permits;
                if let Some(end) = grant.valid_until {
                    self.leases.remove(&(end, ticket.clone()));
                }
            }
            Some(State::Waiting { number }) => {
                self.waiting.remove(&number);
            }
            Some(State::Parked { until, .. } | State::Expired { until }) => {
                self.ends.remove(&(until, ticket.clone()));
            }
            None => {}
        }
        if self.tickets.len() * 4 < self.tickets.capacity() && self.tickets.capacity() > 64 {
            self.tickets.shrink_to_fit();
        }
    }
}
