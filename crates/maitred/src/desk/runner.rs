//! Running a lane: draw a batch, decide it, store it, answer it.
//!
//! A batch that cannot be stored keeps its people in their order and is tried again until it can be; those who wait in
//! the call are let go after a while and come back with their tickets. Nothing is answered before it is stored.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use booking::decide::Known;
use booking::{Decision, Outcome, Refusal, Slot, SlotId, TicketId, decide};
use futures_util::FutureExt;
use jiff::Timestamp;
use store::{Batch, CommitError, Error, Logged, RequestKey, StoredKey};
use tokio::time::Instant;

use super::{Answer, Desk, Settled, Ticket};

/// How long a batch may fail before those who wait in the call are let go.
const TROUBLE: Duration = Duration::from_secs(1);
/// How long a batch may take without failing before they are.
const SLOW: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn run(desk: Arc<Desk>) {
    while let Some(mut turn) = desk.lanes.next().await {
        // Read before drawing: whoever entered before this instant is in the batch or was served before.
        let now = desk.clock.now();
        let (people, slot) = turn.draw();
        let serving = desk.serve(*turn.key(), people.clone(), slot, now);
        match AssertUnwindSafe(serving).catch_unwind().await {
            Ok(slot) => turn.finish(slot),
            Err(_) => {
                tracing::error!(slot = ?turn.key(), people = people.len(), "a batch died");
                let unanswered = people.iter().filter(|ticket| ticket.answer().is_none());
                unanswered.for_each(|ticket| desk.settle(ticket, Answer::Failed));
                turn.finish(None);
            }
        }
    }
}

impl Desk {
    /// Serves a batch to the end; the slot as it is then.
    async fn serve(
        &self,
        id: SlotId,
        mut people: Vec<Arc<Ticket>>,
        mut cached: Option<Slot>,
        now: Timestamp,
    ) -> Option<Slot> {
        let started = Instant::now();
        let mut foregone = HashMap::new();
        let (mut pause, mut stale, mut unsure) = (FIRST_PAUSE, 0, false);
        while !people.is_empty() {
            if unsure {
                // A store that is still in trouble shows when the slot is asked for again.
                cached = self.resolve(id, &mut people).await.ok();
                if cached.is_none() {
                    if self.stumble(&people, started, &mut pause).await {
                        return None;
                    }
                    continue;
                }
                if people.is_empty() {
                    return cached;
                }
            }
            let attempt = self.attempt(id, &people, cached.take(), &foregone, now);
            let attempt = watch(attempt, started, &people).await;
            match attempt {
                Ok(slot) => return Some(slot),
                Err(CommitError::Stale) => {
                    metrics::counter!("maitred_stale_batches_total").increment(1);
                    stale += 1;
                    if stale > 3 {
                        rest(&mut pause).await;
                    }
                    // Whether it was the venue or the slot: both are read again. A store in trouble shows next time.
                    let _ = self.venues.refresh(id.venue()).await;
                }
                Err(CommitError::Short(ticket)) => {
                    foregone.insert(ticket, Refusal::InsufficientPoints);
                }
                Err(CommitError::Decided(ticket) | CommitError::KeyUsed(ticket)) => {
                    // A store in trouble shows next time.
                    let _ = self.answer_from_log(&mut people, ticket).await;
                }
                Err(CommitError::Store(error @ (Error::Refused(_) | Error::Unreadable { .. }))) => {
                    tracing::error!(slot = ?id, people = people.len(), %error, "a batch can never be stored");
                    people.drain(..).for_each(|ticket| self.settle(&ticket, Answer::Failed));
                }
                Err(CommitError::Store(error)) => {
                    tracing::warn!(slot = ?id, people = people.len(), %error, "a batch was not stored; trying again");
                    metrics::counter!("maitred_failed_batches_total").increment(1);
                    if self.stumble(&people, started, &mut pause).await {
                        return None;
                    }
                    unsure = true;
                }
            }
        }
        None
    }

    /// Pauses after trouble with the store, and lets go of those who have waited in the call for long; whether to give up.
    async fn stumble(&self, people: &[Arc<Ticket>], started: Instant, pause: &mut Duration) -> bool {
        let giving_up = self.giving_up.load(Ordering::Acquire);
        if giving_up || started.elapsed() >= TROUBLE {
            people.iter().for_each(|ticket| ticket.stall());
        }
        if !giving_up {
            rest(pause).await;
        }
        giving_up
    }

    /// The slot as it is stored, with everybody answered whose decision was stored without our knowing.
    ///
    /// The slot is read before the log: a commit that was sent and still makes its way either is in the log by now, or
    /// moves the slot on from the version that was read, and then the next attempt is stale. The other way round it could
    /// land in between, and people would be decided twice.
    async fn resolve(&self, id: SlotId, people: &mut Vec<Arc<Ticket>>) -> Result<Slot, Error> {
        let slot = self.store.slot(id).await?;
        self.answer_decided(people).await?;
        Ok(slot)
    }

    /// Decides and stores once, and answers if that worked.
    async fn attempt(
        &self,
        id: SlotId,
        people: &[Arc<Ticket>],
        cached: Option<Slot>,
        foregone: &HashMap<TicketId, Refusal>,
        now: Timestamp,
    ) -> Result<Slot, CommitError> {
        let venue =
            self.venues.get(id.venue()).await?.ok_or(Error::Unreadable { what: "the venue of a slot" })?;
        let mut slot = match cached {
            Some(slot) => slot,
            None => self.store.slot(id).await?,
        };
        let known = Known { reservations: self.named_by(people, &slot).await?, foregone: foregone.clone() };
        let commands = people.iter().map(|ticket| &ticket.command);
        let decided = decide(&mut slot, &venue, &known, commands, now);
        let batch = Batch {
            slot: id,
            slot_version: slot.version,
            venue_version: venue.version,
            decided_at: now,
            changes: decided.changes,
            decisions: decided.decisions.clone(),
            keys: people.iter().filter_map(|ticket| stored_key(ticket)).collect(),
        };
        let committing = Instant::now();
        slot.version = self.store.commit(batch).await?;
        metrics::histogram!("maitred_commit_seconds").record(committing.elapsed());
        #[expect(clippy::cast_precision_loss, reason = "a batch is shorter than 2^52")]
        metrics::histogram!("maitred_batch_size").record(people.len() as f64);
        self.answer(people, decided.outcomes, decided.decisions, now, slot.version);
        Ok(slot)
    }

    /// The reservations that the batch is about and that hold no place here, as they are in the store.
    async fn named_by(
        &self,
        people: &[Arc<Ticket>],
        slot: &Slot,
    ) -> Result<HashMap<booking::ReservationId, Arc<booking::Reservation>>, Error> {
        let ids = people.iter().filter_map(|ticket| ticket.command.action.reservation());
        let missing: Vec<_> = ids.filter(|id| slot.holder(*id).is_none()).collect();
        if missing.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.store.reservations(missing).await?;
        Ok(found.into_iter().map(|reservation| (reservation.id, Arc::new(reservation))).collect())
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

    /// Answers everybody whose decision is in the log already, and leaves them out.
    async fn answer_decided(&self, people: &mut Vec<Arc<Ticket>>) -> Result<(), Error> {
        // A batch is stored whole or not at all, so its first ticket tells for all of them.
        let Some(first) = people.first().map(|ticket| ticket.id()) else { return Ok(()) };
        if self.store.decided(first).await?.is_some() {
            let tickets: Vec<_> = people.iter().map(|ticket| ticket.id()).collect();
            for ticket in tickets {
                self.answer_from_log(people, ticket).await?;
            }
        }
        Ok(())
    }

    /// Answers one ticket from the log, if it is there, and leaves it out of the batch.
    async fn answer_from_log(&self, people: &mut Vec<Arc<Ticket>>, id: TicketId) -> Result<(), Error> {
        let Some(at) = people.iter().position(|ticket| ticket.id() == id) else { return Ok(()) };
        let answer = match self.store.decided(id).await? {
            Some(logged) => Answer::Decided(Box::new(self.recall(logged).await?)),
            // Its key belongs to a request that another process took: this one is not decided at all.
            None => Answer::Failed,
        };
        self.settle(&people.remove(at), answer);
        Ok(())
    }

    /// A decision from the log, with the reservation as it is now.
    pub async fn recall(&self, logged: Logged) -> Result<Settled, Error> {
        let Logged { decision, decided_at, batch } = logged;
        let outcome = match (decision.refused, decision.reservation) {
            (Some(refusal), _) => Outcome::Refused(refusal),
            (None, Some(id)) => match self.store.reservation(id).await? {
                Some(reservation) => Outcome::Done(Arc::new(reservation)),
                None => Outcome::Refused(Refusal::NotFound),
            },
            (None, None) => Outcome::Refused(Refusal::NotFound),
        };
        Ok(Settled { outcome, decision, decided_at, batch })
    }
}

/// Pauses, longer each time; not for the same time as others that met the same trouble.
async fn rest(pause: &mut Duration) {
    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
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
