//! Entering a shared line. While one call is on its way, whoever wants to enter the same lane gathers for the next: an
//! idle lane is entered at once, a crowd by the hundred.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use booking::{Command, SlotId};
use fairlane::lane::Refused;
use fairlane::lanes::{Entered, Entering, Entry, Terms};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::{Away, Shared, key, lock, place, slot_of, ticket, wire};
use crate::chance;
use crate::desk::guards::Name;
use crate::desk::{Answer, Desk, Key, Line, SECOND, Ticket, Turned, Wish, side};

/// How many enter with one call.
const TOGETHER: usize = 256;
/// How often an epoch is drawn for a lane that keeps changing under the call.
const DRAWS: usize = 5;

/// Those who wait to enter a lane, while somebody is on the way.
pub(super) type Outbox = Vec<Waiting>;

/// Whether Redis took part; if not, the wish comes back.
type Reply = Result<Result<Arc<Ticket>, Turned>, Wish>;

pub(super) struct Waiting {
    wish: Wish,
    request: u64,
    entered_at: Timestamp,
    reply: oneshot::Sender<Reply>,
}

impl Waiting {
    fn give_back(self) {
        let _ = self.reply.send(Err(self.wish));
    }
}

enum Failure {
    Away,
    Store(store::Error),
}

impl From<Away> for Failure {
    fn from(Away: Away) -> Self {
        Self::Away
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// What keeps others from asking for the same: in the lane, or in all lanes of the venue.
pub(super) fn names(name: Name) -> (Option<Box<str>>, Option<Box<str>>) {
    #[cfg(feature = "simulation")]
    if booking::flaws::has("guard-missing") {
        return (None, None);
    }
    match name {
        Name::Place(_, person) => (Some(person.to_string().into()), None),
        Name::Reservation(id) => (None, Some(format!("r{id}").into())),
        Name::Expiry(id) => (None, Some(format!("x{id}").into())),
        Name::List(slot, person) => (None, Some(format!("w{}:{person}", slot.to_i64()).into())),
        Name::Tending(slot) => (None, Some(format!("t{}", slot.to_i64()).into())),
        Name::News(name) => (None, Some(format!("n{name:x}").into())),
    }
}

/// Names a request: by its key if it has one, so that it is the same wherever it is sent.
fn request(key: Option<&Key>) -> u64 {
    let Some(key) = key else { return chance::short() };
    let hash = Sha256::new().chain_update(key.body).chain_update(key.text.as_bytes()).finalize();
    hash.iter().take(8).fold(0, |name, byte| name << 8 | u64::from(*byte))
}

impl Desk {
    /// Takes a place in a shared line; the wish comes back if Redis is away.
    pub(in crate::desk) async fn enter_shared(self: &Arc<Self>, shared: &Shared, wish: Wish) -> Reply {
        if shared.shut.load(Ordering::Acquire) {
            return Ok(Err(Refused::Closed.into()));
        }
        let waiting = self.tickets.open();
        if waiting >= self.limits.bounds.total && !wish.action.is_owners() {
            return Ok(Err(Refused::Full { waiting }.into()));
        }
        let slot = wish.slot;
        let (reply, answer) = oneshot::channel();
        let request = request(wish.key.as_ref());
        let waiting = Waiting { wish, request, entered_at: self.clock.now(), reply };
        let on_the_way = match lock(&shared.outboxes).entry(slot) {
            std::collections::hash_map::Entry::Occupied(mut outbox) => {
                outbox.get_mut().push(waiting);
                None
            }
            std::collections::hash_map::Entry::Vacant(nobody) => {
                nobody.insert(Outbox::new());
                Some(waiting)
            }
        };
        if let Some(first) = on_the_way {
            // In a task of its own: whoever gathers behind must not be left when this caller goes away.
            tokio::spawn(self.clone().carry(slot, vec![first]));
        }
        // The task replies to everybody, unless it dies of an error of ours.
        answer.await.unwrap_or(Ok(Err(Refused::Closed.into())))
    }

    /// Carries people into a lane, and whoever has gathered meanwhile, until nobody has.
    async fn carry(self: Arc<Self>, slot: SlotId, mut people: Outbox) {
        let Some(shared) = &self.shared else { return };
        while !people.is_empty() {
            if shared.is_up() {
                self.carry_once(shared, slot, people).await;
            } else {
                // Nobody waits for a server that is known not to answer.
                let gathered = lock(&shared.outboxes).get_mut(&slot).map(std::mem::take).unwrap_or_default();
                people.into_iter().chain(gathered).for_each(Waiting::give_back);
            }
            let mut outboxes = lock(&shared.outboxes);
            people = match outboxes.get_mut(&slot) {
                Some(outbox) if !outbox.is_empty() => outbox.drain(..outbox.len().min(TOGETHER)).collect(),
                _ => {
                    outboxes.remove(&slot);
                    Vec::new()
                }
            };
        }
    }

    async fn carry_once(&self, shared: &Shared, slot: SlotId, people: Outbox) {
        let rate = people.iter().find_map(|waiting| waiting.wish.rate);
        let entries: Vec<_> = people.iter().map(|waiting| self.entry(shared, waiting)).collect();
        match self.send(shared, slot, rate, &entries).await {
            Ok((entered, born)) => {
                for (waiting, entered) in people.into_iter().zip(entered) {
                    let Waiting { wish, request, entered_at, reply } = waiting;
                    let answer = match entered {
                        Entered::In(at) => {
                            let (ticket, person) = (ticket(slot, at), wish.person);
                            let command = Command { ticket, entered_at, person, action: wish.action };
                            self.keep(shared, Ticket::new(command, wish.key, request), born)
                        }
                        Entered::InProgress(at) => Err(Turned::InProgress(ticket(slot, at))),
                        Entered::InProgressIn(lane, at) => {
                            Err(Turned::InProgress(ticket(slot_of(&lane).unwrap_or(slot), at)))
                        }
                        Entered::Limited(after) => Err(Turned::Limited(after)),
                        Entered::Full { waiting } => Err(Refused::Full { waiting }.into()),
                        Entered::Left => Err(Refused::Closed.into()),
                    };
                    // Whoever went away keeps the place all the same.
                    let _ = reply.send(Ok(answer));
                }
            }
            Err(Failure::Away) => {
                people.into_iter().for_each(Waiting::give_back);
            }
            Err(Failure::Store(error)) => {
                let turned = |waiting: Waiting| drop(waiting.reply.send(Ok(Err(error.clone().into()))));
                people.into_iter().for_each(turned);
            }
        }
    }

    fn entry(&self, shared: &Shared, waiting: &Waiting) -> Entry {
        let Waiting { wish, request, entered_at, .. } = waiting;
        let (guard, claim) = names(Name::of(wish.slot, wish.person, &wish.action));
        let origin = shared.lanes.client();
        Entry {
            side: side(&wish.action),
            request: *request,
            guard,
            claim,
            limited: wish.rate.is_some(),
            before: None,
            payload: wire::write(origin, *entered_at, wish.person, *request, &wish.action, wish.key.as_ref()),
        }
    }

    /// One call, or a few where the lane is born with it.
    async fn send(
        &self,
        shared: &Shared,
        slot: SlotId,
        rate: Option<u32>,
        entries: &[Entry],
    ) -> Result<(Vec<Entered>, u32), Failure> {
        let key = key(slot);
        let mut epoch = None;
        for _ in 0..DRAWS {
            if shared.has_moved() {
                self.raise(shared).await?;
            }
            let generation = Some(shared.generation.load(Ordering::Acquire));
            let terms = Terms {
                bound: self.limits.bounds.lane,
                rate: rate.map(|limit| (limit, SECOND)),
                floor: shared.floor.load(Ordering::Acquire),
                epoch,
                known: shared.knows(slot),
                generation,
            };
            match self.ask(shared, shared.lanes.enter(&key, &terms, entries)).await? {
                Entering::NeedsEpoch => epoch = Some(self.draw_epoch(Line::Shared).await?),
                Entering::Done { entered, born, run } => {
                    if shared.saw(slot, born) {
                        shared.alarm.notify_one();
                    }
                    if run {
                        shared.ready.push(slot);
                    }
                    return Ok((entered, born));
                }
            }
        }
        Err(Failure::Away)
    }

    /// Keeps a ticket that stands in a shared line. Its answer may have been faster.
    fn keep(&self, shared: &Shared, ticket: Ticket, born: u32) -> Result<Arc<Ticket>, Turned> {
        let person = ticket.command.person;
        ticket.life.store(born, Ordering::Release);
        let ticket = self.tickets.keep(Arc::new(ticket));
        if ticket.command.person != person {
            tracing::error!(ticket = %ticket.id(), "a number was given out twice");
            return Err(Refused::Closed.into());
        }
        if let Some(answer) = lock(&shared.early).remove(&ticket.id()) {
            self.settle(&ticket, answer);
        }
        if !shared.is_up() {
            // Redis went away after it took this one in.
            let _gate = shared.gate.write().unwrap_or_else(PoisonError::into_inner);
            if !shared.is_up() && ticket.stands_elsewhere() && ticket.answer().is_none() {
                self.stand_here(ticket.clone());
            }
        }
        Ok(ticket)
    }

    /// Enters people again who stood in a line that is gone, in the places they had. In order, or they would overtake each
    /// other.
    pub(super) async fn bring_back(&self, shared: &Shared, slot: SlotId, mut people: Vec<Arc<Ticket>>) {
        people.retain(|ticket| ticket.answer().is_none());
        people.sort_unstable_by_key(|ticket| ticket.id());
        for people in people.chunks(TOGETHER) {
            let entries: Vec<_> = people.iter().map(|ticket| returning(shared, ticket)).collect();
            let Ok((entered, born)) = self.send(shared, slot, None, &entries).await else { return };
            for (ticket, entered) in people.iter().zip(entered) {
                match entered {
                    Entered::In(_) => {
                        ticket.again.store(true, Ordering::Release);
                        ticket.life.store(born, Ordering::Release);
                    }
                    Entered::Left => self.settle(ticket, Answer::Left),
                    _ => {}
                }
            }
        }
    }
}

fn returning(shared: &Shared, ticket: &Ticket) -> Entry {
    let command = &ticket.command;
    let (guard, claim) = names(ticket.name());
    let origin = ticket.origin.as_deref().unwrap_or(shared.lanes.client());
    let key = ticket.key.as_deref();
    Entry {
        side: side(&command.action),
        request: ticket.request,
        guard,
        claim,
        limited: false,
        before: Some(place(ticket.id())),
        payload: wire::write(
            origin,
            command.entered_at,
            command.person,
            ticket.request,
            &command.action,
            key,
        ),
    }
}
