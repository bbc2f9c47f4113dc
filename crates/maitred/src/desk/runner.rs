//! Running a lane: draw a batch, decide it, store it, answer it.
//!
//! A batch that cannot be stored keeps its people in their order and is tried again until it can be; those who wait in
//! the call are let go after a while and come back with their tickets. Nothing is answered before it is stored.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use booking::decide::{Known, Payments};
use booking::{Change, Decision, EventId, Outcome, Refusal, Slot, SlotId, TicketId, When, decide};
use futures_util::FutureExt;
use jiff::Timestamp;
use store::{Batch, CommitError, Error, RequestKey, StoredKey};
use tokio::time::Instant;

use super::guards::Name;
use super::{Answer, Desk, Settled, Ticket};
use crate::chance;

/// How long a batch may fail before those who wait in the call are let go.
const TROUBLE: Duration = Duration::from_secs(1);
/// How long a batch may take without failing before they are.
const SLOW: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn run(desk: Arc<Desk>) {
    while let Some(mut turn) = desk.lanes.next().await {
        // Read before drawing: whoever entered before this instant is in the batch or was served before.
        let drawn = desk.clock.now();
        let (people, slot) = turn.draw();
        #[cfg(feature = "simulation")]
        if booking::flaws::has("lost-wake-up") && people.len() >= desk.limits.bounds.batch {
            desk.serve(*turn.key(), people, slot, drawn).await;
            std::mem::forget(turn);
            continue;
        }
        let serving = desk.serve(*turn.key(), people.clone(), slot, drawn);
        match AssertUnwindSafe(serving).catch_unwind().await {
            Ok(served) => turn.finish(served.slot),
            Err(_) => {
                tracing::error!(slot = ?turn.key(), people = people.len(), "a batch died");
                let unanswered = people.iter().filter(|ticket| ticket.answer().is_none());
                unanswered.for_each(|ticket| desk.settle(ticket, Answer::Failed));
                turn.finish(None);
            }
        }
    }
}

/// What became of a batch.
#[derive(Default)]
pub(super) struct Served {
    /// The slot as it is now, if it is known.
    pub(super) slot: Option<Slot>,
    /// Whose guards ended because a place was given up.
    pub(super) freed: Vec<Name>,
}

impl Desk {
    /// Serves a batch to the end.
    pub(super) async fn serve(
        &self,
        id: SlotId,
        mut people: Vec<Arc<Ticket>>,
        mut cached: Option<Slot>,
        drawn: Timestamp,
    ) -> Served {
        let started = Instant::now();
        let (mut foregone, mut made) = (HashMap::new(), HashSet::new());
        let (mut pause, mut stale, mut trouble) = (FIRST_PAUSE, 0, None);
        people.retain(|ticket| ticket.answer().is_none());
        // Anybody who stands in a shared line may have been decided already: by a runner that is taken for dead, by one before
        // it, or by the process that took the request, while it was cut off from Redis.
        let mut unsure = self.shared.is_some();
        // Who asks with a key that somebody of the same batch has as well, and all whose guards ended.
        let (mut behind, mut freed) = (Vec::new(), Vec::new());
        loop {
            if people.is_empty() {
                people.append(&mut behind);
            }
            if people.is_empty() {
                return Served { slot: cached, freed };
            }
            #[cfg(feature = "simulation")]
            if booking::flaws::has("rerun-not-idempotent") {
                unsure = false;
            }
            if unsure {
                // A commit that was sent and not heard of may still make its way, so this is asked before every attempt.
                match self.resolve(id, &mut people, cached.take()).await {
                    Ok(slot) => cached = Some(slot),
                    Err(_) => {
                        self.stumble(&people, started, &mut pause, &mut trouble).await;
                        continue;
                    }
                }
            }
            if people.is_empty() {
                continue;
            }
            let attempt = self.attempt(id, &people, cached.take(), (&foregone, &made), drawn);
            let attempt = watch(attempt, started, &people).await;
            match attempt {
                Ok((slot, given_up)) => {
                    cached = Some(slot);
                    freed.extend(given_up);
                    people.clear();
                }
                Err(CommitError::Stale) => {
                    metrics::counter!("maitred_stale_batches_total").increment(1);
                    stale += 1;
                    // Whoever was faster may have decided some of the same people: a successor that took them for ours.
                    unsure = true;
                    if stale > 3 {
                        // Not for long: processes that compete for a slot should take turns.
                        tokio::time::sleep(Duration::from_millis(20).mul_f64(chance::within(0.05..1.0)))
                            .await;
                    }
                    // Whether it was the venue or the slot: both are read again. A store in trouble shows next time.
                    let _ = self.venues.refresh(id.venue()).await;
                }
                Err(CommitError::Short(ticket)) => {
                    foregone.insert(ticket, Refusal::InsufficientPoints);
                }
                Err(CommitError::Decided(ticket)) => {
                    // What the store cannot tell now is found out in the next attempt.
                    if self.answer_from_log(&mut people, ticket, ticket).await.is_err() {
                        rest(&mut pause).await;
                    }
                }
                Err(CommitError::Made(ticket)) => {
                    // Known to be there it is not made again, unless it is somebody else's: then it can never be made.
                    if !made.insert(ticket)
                        && let Some(at) = people.iter().position(|one| one.id() == ticket)
                    {
                        tracing::error!(?ticket, "the id of its reservation is somebody else's");
                        self.settle(&people.remove(at), Answer::Failed);
                    }
                }
                Err(CommitError::KeyUsed(ticket)) => {
                    if self.answer_from_key(&mut people, &mut behind, ticket).await.is_err() {
                        rest(&mut pause).await;
                    }
                }
                Err(CommitError::Store(error @ (Error::Refused(_) | Error::Unreadable { .. }))) => {
                    tracing::error!(slot = ?id, people = people.len(), %error, "a batch can never be stored");
                    people.drain(..).for_each(|ticket| self.settle(&ticket, Answer::Failed));
                }
                Err(CommitError::Store(error)) => {
                    tracing::warn!(slot = ?id, people = people.len(), %error, "a batch was not stored; trying again");
                    metrics::counter!("maitred_failed_batches_total").increment(1);
                    self.stumble(&people, started, &mut pause, &mut trouble).await;
                    unsure = true;
                }
            }
        }
    }

    /// Pauses after trouble with the store, and lets go of those who have waited in the call for long.
    async fn stumble<'d>(
        &'d self,
        people: &[Arc<Ticket>],
        started: Instant,
        pause: &mut Duration,
        trouble: &mut Option<Trouble<'d>>,
    ) {
        if started.elapsed() >= TROUBLE {
            trouble.get_or_insert_with(|| Trouble::began(&self.in_trouble));
            people.iter().for_each(|ticket| ticket.stall());
        }
        rest(pause).await;
    }

    /// The slot as it is stored, with everybody answered whose decision was stored without our knowing.
    ///
    /// The slot is read before the log: a commit that was sent and still makes its way either is in the log by now, or
    /// moves the slot on from the version that was read, and then the next attempt is stale. The other way round it could
    /// land in between, and people would be decided twice.
    ///
    /// A copy of the slot from before will do: what was decided since is in the log, or moves the version on.
    async fn resolve(
        &self,
        id: SlotId,
        people: &mut Vec<Arc<Ticket>>,
        cached: Option<Slot>,
    ) -> Result<Slot, Error> {
        let slot = match cached {
            Some(slot) => slot,
            None => self.store.slot(id).await?,
        };
        self.answer_decided(people).await?;
        Ok(slot)
    }

    /// Decides and stores once, and answers if that worked.
    async fn attempt(
        &self,
        id: SlotId,
        people: &[Arc<Ticket>],
        cached: Option<Slot>,
        (foregone, made): (&HashMap<TicketId, Refusal>, &HashSet<TicketId>),
        drawn: Timestamp,
    ) -> Result<(Slot, Vec<Name>), CommitError> {
        let venue =
            self.venues.get(id.venue()).await?.ok_or(Error::Unreadable { what: "the venue of a slot" })?;
        let mut slot = match cached {
            Some(slot) => slot,
            None => self.store.slot(id).await?,
        };
        let reservations = self.named_by(people, made, &slot).await?;
        let (payments, events) = self.payments_of(people).await?;
        let known = Known { reservations, foregone: foregone.clone(), payments, events };
        let commands = people.iter().map(|ticket| &ticket.command);
        // A hold that was kept waiting by the store runs from now; who had expired is judged by when the batch was drawn.
        let when = When { drawn, decided: self.clock.now() };
        let decided = decide(&mut slot, &venue, &known, commands, when);
        let freed: Vec<_> = decided.changes.changed.iter().filter_map(given_up).collect();
        let batch = Batch {
            slot: id,
            slot_version: slot.version,
            venue_version: venue.version,
            decided_at: when.decided,
            changes: decided.changes,
            decisions: decided.decisions.clone(),
            keys: people.iter().filter_map(|ticket| stored_key(ticket)).collect(),
        };
        #[cfg(feature = "simulation")]
        if booking::flaws::has("settle-before-commit") {
            let (outcomes, decisions) = (decided.outcomes.clone(), decided.decisions.clone());
            self.answer(people, outcomes, decisions, when.decided, slot.version + 1);
        }
        let committing = Instant::now();
        slot.version = self.store.commit(batch).await?;
        freed.iter().for_each(|name| self.guards.clear(*name));
        metrics::histogram!("maitred_commit_seconds").record(committing.elapsed());
        #[expect(clippy::cast_precision_loss, reason = "a batch is shorter than 2^52")]
        metrics::histogram!("maitred_batch_size").record(people.len() as f64);
        self.answer(people, decided.outcomes, decided.decisions, when.decided, slot.version);
        Ok((slot, freed))
    }

    /// The reservations that the batch is about and that hold no place here, as they are in the store; also those that these
    /// tickets would make and that are there already.
    async fn named_by(
        &self,
        people: &[Arc<Ticket>],
        made: &HashSet<TicketId>,
        slot: &Slot,
    ) -> Result<HashMap<booking::ReservationId, Arc<booking::Reservation>>, Error> {
        let made = people.iter().filter(|ticket| made.contains(&ticket.id()));
        let made = made.filter_map(|ticket| ticket.command.action.makes());
        let offered = people.iter().filter_map(|ticket| ticket.command.action.may_be_offered());
        let ids = people.iter().filter_map(|ticket| ticket.command.action.reservation());
        let ids = ids.chain(made).chain(offered);
        let missing: Vec<_> = ids.filter(|id| slot.holder(*id).is_none()).collect();
        if missing.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.store.reservations(missing).await?;
        Ok(found.into_iter().map(|reservation| (reservation.id, Arc::new(reservation))).collect())
    }

    /// What is known of payments with providers that the batch is about, and which of its news were heard before.
    async fn payments_of(&self, people: &[Arc<Ticket>]) -> Result<(Payments, HashSet<EventId>), Error> {
        let actions = || people.iter().map(|ticket| &ticket.command.action);
        let about: Vec<_> =
            actions().filter(|a| a.is_about_money()).filter_map(|a| a.reservation()).collect();
        if about.is_empty() {
            return Ok(Default::default());
        }
        let payments = self.store.payments_about(about).await?.into_iter().collect();
        let events: Vec<_> = actions().filter_map(|a| a.news()?.event.clone()).collect();
        let heard = if events.is_empty() { vec![] } else { self.store.events_heard(events).await? };
        Ok((payments, heard.into_iter().collect()))
    }

    fn answer(
        &self,
        people: &[Arc<Ticket>],
        outcomes: Vec<Outcome>,
        decisions: Vec<Decision>,
        decided_at: Timestamp,
        batch: u64,
    ) {
        // Holds that ran out by themselves are in the log without a ticket.
        let decisions = decisions.into_iter().filter(|decision| decision.ticket.is_some());
        for ((ticket, outcome), decision) in people.iter().zip(outcomes).zip(decisions) {
            debug_assert_eq!(decision.ticket, Some(ticket.id()));
            self.settle(ticket, Answer::Decided(Box::new(Settled { outcome, decision, decided_at, batch })));
        }
    }
}

/// Whose guard ends because they have given up a place: they may ask for it again at once.
fn given_up(change: &Change) -> Option<Name> {
    let after = &change.after;
    let left = change.from_slot.or_else(|| (!after.status().holds_places()).then_some(after.slot))?;
    Some(Name::Place(left, after.person))
}

/// A batch that cannot be stored, counted until it could be or was given up.
struct Trouble<'a>(&'a AtomicUsize);

impl<'a> Trouble<'a> {
    fn began(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Trouble<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Pauses, longer each time; not for the same time as others that met the same trouble.
async fn rest(pause: &mut Duration) {
    tokio::time::sleep(pause.mul_f64(chance::within(0.5..1.0))).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

/// Lets go of those who wait in the call if an attempt takes too long; the attempt itself goes on.
async fn watch<T>(attempt: impl Future<Output = T>, started: Instant, people: &[Arc<Ticket>]) -> T {
    tokio::pin!(attempt);
    match tokio::time::timeout_at(started + SLOW, &mut attempt).await {
        Ok(done) => done,
        Err(_) => {
            people.iter().for_each(|ticket| ticket.stall());
            attempt.await
        }
    }
}

fn stored_key(ticket: &Ticket) -> Option<StoredKey> {
    let key = ticket.key.as_ref()?;
    Some(StoredKey {
        person: ticket.command.person,
        key: key.text.to_string(),
        request: RequestKey { body: key.body, ticket: ticket.id() },
    })
}
