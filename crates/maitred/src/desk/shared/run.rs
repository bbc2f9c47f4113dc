//! Running a shared lane: one call settles the batch before and draws the next.
//!
//! The right to run is a lease that renews itself. It is not needed for being right: a runner that lost it without
//! noticing fails the condition of the store, finds in the log what its successor decided, and says the same.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use booking::{Slot, SlotId, TicketId};
use fairlane::lanes::{Drawee, Drawn, LaneKey, Settlement};
use futures_util::FutureExt;
use tokio::time::Instant;

use super::{Shared, enter, key, lock, place, ticket, wire};
use crate::desk::guards::{AFTER_SUCCESS, Name};
use crate::desk::runner::Served;
use crate::desk::{Answer, Desk, Ticket};

/// How often the lease is renewed while a batch is in hand; a quarter of its length.
const RENEW: Duration = Duration::from_millis(500);
/// A lane that this version cannot read is left to others for so long.
const LEAVE_ALONE: Duration = Duration::from_secs(5);

/// What to do with the lane next.
enum Next {
    /// Nothing, until somebody enters.
    Nothing,
    /// Run it again, after the others that are ready.
    Again,
    /// Run it again after a while.
    Later(Duration),
}

/// Runs lanes until the desk closes.
pub(in crate::desk) async fn run(desk: Arc<Desk>) {
    let Some(shared) = &desk.shared else { return };
    while let Some(slot) = shared.ready.next().await {
        let next = match AssertUnwindSafe(desk.run_lane(shared, slot)).catch_unwind().await {
            Ok(next) => next,
            Err(_) => {
                tracing::error!(?slot, "running a lane died");
                Next::Later(LEAVE_ALONE)
            }
        };
        shared.ready.done(slot, matches!(next, Next::Again));
        if let Next::Later(pause) = next {
            let desk = desk.clone();
            tokio::spawn(async move {
                let Some(shared) = &desk.shared else { return };
                tokio::select! {
                    biased;
                    () = shared.closed.cancelled() => {}
                    () = tokio::time::sleep(pause) => shared.ready.push(slot),
                }
            });
        }
    }
}

impl Desk {
    async fn run_lane(&self, shared: &Shared, slot: SlotId) -> Next {
        if self.is_in_trouble() {
            // Whoever can reach the store should have it.
            return Next::Later(RENEW);
        }
        let key = key(slot);
        let mut settlement: Option<Settlement> = None;
        loop {
            let closing = shared.closed.is_cancelled();
            if closing || (settlement.is_some() && shared.ready.others_wait()) {
                let given = shared.lanes.give_back(&key, settlement.as_ref());
                let given = self.ask(shared, given).await;
                return if closing || given.is_err() { Next::Nothing } else { Next::Again };
            }
            // Read before drawing: whoever entered before this instant is in the batch or was served before.
            let drawn_at = self.clock.now();
            let draw = shared.lanes.draw(&key, self.limits.bounds.batch, settlement.as_ref());
            // What cannot be settled is in the log, where everybody finds it.
            let Ok(drawn) = self.ask(shared, draw).await else { return Next::Nothing };
            let (people, note) = match drawn {
                Drawn::Batch { people, note } => (people, note),
                Drawn::Nobody | Drawn::Taken => return Next::Nothing,
                Drawn::Grace(left) => return Next::Later(left),
            };
            let Some(people) = self.adopt(shared, slot, people) else {
                tracing::error!(?slot, "a request in line cannot be read; a newer version may");
                let _ = self.ask(shared, shared.lanes.give_back(&key, None)).await;
                return Next::Later(LEAVE_ALONE);
            };
            let cached = shared.cached(slot, note.as_deref());
            let serving = self.serve(slot, people.clone(), cached, drawn_at);
            let serving = AssertUnwindSafe(serving).catch_unwind();
            let served = tokio::select! {
                biased;
                served = serving => served,
                () = self.keep_lease(shared, &key) => Ok(Served::default()),
            };
            let Served { slot: slot_now, freed } = served.unwrap_or_else(|_| {
                tracing::error!(?slot, people = people.len(), "a batch died");
                let unanswered = people.iter().filter(|ticket| ticket.answer().is_none());
                unanswered.for_each(|ticket| self.settle(ticket, Answer::Failed));
                Served::default()
            });
            settlement = Some(settle(&people, slot_now.as_ref(), freed));
            if let Some(slot_now) = slot_now {
                lock(&shared.slots).insert(slot, (Instant::now(), slot_now));
            }
        }
    }

    /// Renews the lease for as long as it is polled, and has no end. Whoever has lost the lane goes on: the store tells what
    /// counts. A process that cannot reach the store lets others try.
    async fn keep_lease(&self, shared: &Shared, key: &LaneKey) {
        loop {
            tokio::time::sleep(RENEW).await;
            if !self.is_in_trouble() {
                let _ = self.ask(shared, shared.lanes.renew(key)).await;
            }
        }
    }

    /// The tickets of those who were drawn; `None` if one of them is beyond this version.
    fn adopt(&self, shared: &Shared, slot: SlotId, people: Vec<Drawee>) -> Option<Vec<Arc<Ticket>>> {
        let mut adopted = Vec::with_capacity(people.len());
        for Drawee { place, payload, .. } in people {
            let id = ticket(slot, place);
            let ticket = match self.tickets.get(id) {
                Some(ticket) => ticket,
                None => {
                    let mut read = wire::read(id, &payload)?;
                    if read.origin.as_deref() == Some(shared.lanes.client()) {
                        // Drawn before its own entering was heard of.
                        read.origin = None;
                        self.tickets.keep(Arc::new(read))
                    } else {
                        Arc::new(read)
                    }
                }
            };
            adopted.push(ticket);
        }
        // Only now is it certain that all of them are served.
        adopted.iter().for_each(|ticket| ticket.in_hand.store(true, Ordering::Release));
        #[cfg(feature = "simulation")]
        if booking::flaws::has("order-by-arrival") {
            adopted.sort_by_key(|ticket| (!ticket.command.action.is_owners(), ticket.origin.is_some()));
        }
        Some(adopted)
    }
}

impl Shared {
    /// The slot as this process remembers it, if nobody has decided anything since.
    fn cached(&self, slot: SlotId, note: Option<&str>) -> Option<Slot> {
        let (_, cached) = lock(&self.slots).remove(&slot)?;
        (note == Some(version(&cached).as_str())).then_some(cached)
    }
}

/// What whoever draws next is told of the slot.
fn version(slot: &Slot) -> String {
    slot.version.to_string()
}

/// How a batch ended, for the line and for the processes that wait.
fn settle(people: &[Arc<Ticket>], slot: Option<&Slot>, freed: Vec<Name>) -> Settlement {
    let mut settlement = Settlement {
        keep: AFTER_SUCCESS,
        note: slot.map(version).unwrap_or_default(),
        decided: people.iter().filter(|ticket| !ticket.command.action.is_owners()).count(),
        ..Settlement::default()
    };
    let mut said: BTreeMap<&str, Vec<(TicketId, &Answer)>> = BTreeMap::new();
    for ticket in people {
        let Some(answer) = ticket.answer() else { continue };
        let (guard, claim) = enter::names(ticket.name());
        settlement.claims.extend(claim);
        match guard {
            Some(guard) if answer.is_won() => {
                settlement.kept.push((guard, place(ticket.id())));
            }
            guard => settlement.guards.extend(guard),
        }
        if let Some(origin) = &ticket.origin {
            said.entry(origin).or_default().push((ticket.id(), answer));
        }
    }
    for name in freed {
        if let Name::Place(slot, person) = name {
            settlement.forget.push((slot.to_i64().to_string().into(), person.to_string().into()));
        }
    }
    let messages = said.into_iter().map(|(to, answers)| (to.into(), wire::said(&answers)));
    settlement.messages = messages.collect();
    settlement
}
