//! All tickets that this process can answer from memory: those in line, and those decided in the last while.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// How many have no answer.
    open: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    tickets: HashMap<TicketId, Arc<Ticket>>,
    /// Decided ones, the oldest first.
    decided: VecDeque<(Instant, TicketId)>,
}

impl Tickets {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), open: AtomicUsize::new(0) }
    }

    fn shard(&self, id: TicketId) -> MutexGuard<'_, Shard> {
        // Numbers of one line follow each other, so they spread evenly.
        let shard = usize::try_from(id.number() % SHARDS as u64).unwrap_or(0);
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a ticket; the one that is here already, if there is one.
    pub(super) fn keep(&self, ticket: Arc<Ticket>) -> Arc<Ticket> {
        let mut shard = self.shard(ticket.id());
        let kept = shard.tickets.entry(ticket.id()).or_insert_with(|| {
            self.open.fetch_add(1, Ordering::Relaxed);
            ticket
        });
        kept.clone()
    }

    /// How many have no answer.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) fn get(&self, id: TicketId) -> Option<Arc<Ticket>> {
        self.shard(id).tickets.get(&id).cloned()
    }

    /// Notes that a ticket has its answer, and forgets what is too old or too much; those are returned.
    pub(super) fn decided(&self, ticket: &Ticket) -> Vec<Arc<Ticket>> {
        let id = ticket.id();
        let mut shard = self.shard(id);
        if !shard.tickets.get(&id).is_some_and(|kept| std::ptr::eq(&raw const **kept, ticket)) {
            // Somebody else's, whom this process only decided. The same place may be kept here as well, because its guest has
            // asked here: that one gets its own answer, and must not be counted twice.
            return Vec::new();
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
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
