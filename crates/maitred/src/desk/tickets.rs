//! All tickets that this process can answer from memory: those in line, and those decided in the last while.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use booking::TicketId;
use tokio::time::Instant;

use super::ticket::Ticket;

/// How long a decided ticket is answered from memory; after that the decision log answers.
const REMEMBER: Duration = Duration::from_secs(15 * 60);
/// Decided tickets that a shard remembers at most, however young: a rush leaves millions.
const REMEMBERED: usize = 4_096;
const SHARDS: usize = 64;

pub(super) struct Tickets {
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    tickets: HashMap<TicketId, Arc<Ticket>>,
    /// Decided ones, the oldest first.
    decided: VecDeque<(Instant, TicketId)>,
}

impl Tickets {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, id: TicketId) -> MutexGuard<'_, Shard> {
        // Numbers of one line follow each other, so they spread evenly.
        let shard = usize::try_from(id.number() % SHARDS as u64).unwrap_or(0);
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, ticket: Arc<Ticket>) {
        self.shard(ticket.id()).tickets.insert(ticket.id(), ticket);
    }

    pub(super) fn get(&self, id: TicketId) -> Option<Arc<Ticket>> {
        self.shard(id).tickets.get(&id).cloned()
    }

    /// Notes that a ticket has its answer, and forgets what is too old or too much; those are returned.
    pub(super) fn decided(&self, id: TicketId) -> Vec<Arc<Ticket>> {
        let mut shard = self.shard(id);
        shard.decided.push_back((Instant::now(), id));
        shard.forget()
    }

    /// Tickets without an answer.
    pub(super) fn undecided(&self) -> Vec<Arc<Ticket>> {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        shards.flat_map(|shard| shard.undecided()).collect()
    }

    /// Forgets what is too old.
    pub(super) fn sweep(&self) -> Vec<Arc<Ticket>> {
        let shards = self.shards.iter();
        shards.flat_map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).forget()).collect()
    }
}

impl Shard {
    fn undecided(&self) -> Vec<Arc<Ticket>> {
        self.tickets.values().filter(|ticket| ticket.answer().is_none()).cloned().collect()
    }

    fn forget(&mut self) -> Vec<Arc<Ticket>> {
        let mut forgotten = Vec::new();
        while let Some(&(at, id)) = self.decided.front() {
            if self.decided.len() <= REMEMBERED && at.elapsed() < REMEMBER {
                break;
            }
            self.decided.pop_front();
            forgotten.extend(self.tickets.remove(&id));
        }
        forgotten
    }
}
