//! All tickets that this process can answer from memory: those in line, and those decided in the last while.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};
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
    /// Ids are our own, so nobody can choose them to collide; and those in it come in the same order in every run.
    tickets: HashMap<TicketId, Arc<Ticket>, BuildHasherDefault<DefaultHasher>>,
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

    /// Another copy of this ticket that is kept here: somebody asked for it here while it was being decided.
    pub(super) fn twin(&self, ticket: &Ticket) -> Option<Arc<Ticket>> {
        self.get(ticket.id()).filter(|kept| !std::ptr::eq(Arc::as_ptr(kept), ticket))
    }

    /// Notes that a ticket has its answer, and forgets what is too old or too much; those are returned.
    pub(super) fn decided(&self, ticket: &Ticket) -> Vec<Arc<Ticket>> {
        let id = ticket.id();
        let mut shard = self.shard(id);
        if !shard.tickets.get(&id).is_some_and(|kept| std::ptr::eq(Arc::as_ptr(kept), ticket)) {
            // Somebody else's, whom this process only decided.
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

#[cfg(test)]
mod tests {
    use super::*;
    use booking::{Action, Command, PersonId, ReservationId, SlotId};

    fn ticket() -> Arc<Ticket> {
        let ticket = TicketId::new(SlotId::from_i64(7), 2, 1);
        let (person, reservation) = (PersonId(1), ReservationId(1));
        let (entered_at, action) = (jiff::Timestamp::UNIX_EPOCH, Action::Pay { reservation });
        Arc::new(Ticket::new(Command { ticket, entered_at, person, action }, None, 7))
    }

    #[test]
    fn a_ticket_that_is_asked_for_while_it_is_decided_is_counted_once() {
        let tickets = Tickets::new();
        // The runner has a copy of its own of what another process took; then somebody asks here.
        let (in_hand, asked_for) = (ticket(), tickets.keep(ticket()));
        assert_eq!(tickets.open(), 1);
        tickets.decided(&in_hand);
        assert_eq!(tickets.open(), 1, "it is another copy that has its answer");
        let twin = tickets.twin(&in_hand).unwrap();
        assert!(Arc::ptr_eq(&twin, &asked_for) && tickets.twin(&twin).is_none());
        tickets.decided(&twin);
        assert_eq!(tickets.open(), 0);
    }
}
