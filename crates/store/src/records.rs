//! What goes in and out of the store beside the domain's own types.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use booking::room::{self, Opening, Order, Seed, Terms};
use booking::wallet::EntryKind;
use booking::{
    Changes, Decision, OrderLine, PersonId, ProviderPayment, RefundId, ReservationId, Seat, SlotId, TicketId,
    Verdict, Won,
};
use jiff::Timestamp;

use crate::error::Error;

/// A decided batch of one slot: stored whole, or not at all.
#[derive(Debug)]
pub struct Batch {
    /// Which slot.
    pub slot: SlotId,
    /// The version of the slot from which it was decided; 0 for one that does not exist yet.
    pub slot_version: u64,
    /// The version of the venue from which it was decided.
    pub venue_version: u64,
    /// When.
    pub decided_at: Timestamp,
    /// What changes.
    pub changes: Changes,
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
    /// The keys of the requests that it decided.
    pub keys: Vec<StoredKey>,
}

impl Batch {
    /// The first and the last place of those who wanted one.
    pub(crate) fn guests(&self) -> Option<(i64, i64)> {
        self.places(|decision| !decision.verdict.is_owners())
    }

    /// The first and the last place of those who had one.
    pub(crate) fn owners(&self) -> Option<(i64, i64)> {
        self.places(|decision| decision.verdict.is_owners())
    }

    fn places(&self, side: impl Fn(&Decision) -> bool) -> Option<(i64, i64)> {
        let places = self.decisions.iter().filter(|decision| side(decision)).filter_map(|d| d.ticket);
        places.map(|ticket| ticket.place_as_i64()).fold(None, |range, place| {
            Some(range.map_or((place, place), |(from, to): (i64, i64)| (from.min(place), to.max(place))))
        })
    }

    /// Who has paid, and so is done in the waiting room, whatever else the same batch did about what was paid.
    pub fn payers(&self) -> Vec<PersonId> {
        let pays = |decision: &&Decision| {
            decision.refused.is_none()
                && matches!(decision.verdict, Verdict::Pay | Verdict::Paid | Verdict::Reseat)
        };
        let paid: HashSet<_> =
            self.decisions.iter().filter(pays).filter_map(|decision| decision.reservation).collect();
        let after = self.changes.changed.iter().map(|change| &change.after).chain(&self.changes.new);
        let mut payers: Vec<_> = after.filter(|r| paid.contains(&r.id)).map(|r| r.person).collect();
        payers.sort_unstable();
        payers.dedup();
        payers
    }

    /// What was decided, as the log keeps it.
    pub(crate) fn log(&self) -> Result<String, Error> {
        serde_json::to_string(&self.decisions).map_err(|_| Error::Unreadable { what: "a decision" })
    }
}

/// What was ordered ahead, as a column keeps it; nothing if nothing was.
pub(crate) fn order_text(order: &[OrderLine]) -> Option<String> {
    // Order lines are plain data: writing them cannot fail.
    if order.is_empty() { None } else { serde_json::to_string(order).ok() }
}

/// Labels of seats, as a column keeps them; nothing if there are none. No label has a comma in it.
pub(crate) fn seats_text(seats: &[Seat]) -> Option<String> {
    let labels: Vec<_> = seats.iter().map(Seat::as_str).collect();
    (!labels.is_empty()).then(|| labels.join(","))
}

/// Seats from a column.
pub(crate) fn seats_in(text: Option<&str>) -> Arc<[Seat]> {
    text.map_or_else(Arc::default, |text| text.split(',').map(Seat::labelled).collect())
}

/// A person's `Idempotency-Key`, with what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// Whose.
    pub person: PersonId,
    /// The key as it was sent.
    pub key: String,
    /// What was asked, and which ticket answers it.
    pub request: RequestKey,
}

/// What a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// A hash of the request's body: the same key with another body is a mistake.
    pub body: [u8; 32],
    /// The ticket that answers it.
    pub ticket: TicketId,
}

/// A decision as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// What was decided.
    pub decision: Decision,
    /// When.
    pub decided_at: Timestamp,
    /// The version of the slot that the batch made: which batch it was.
    pub batch: u64,
}

/// Tickets of one slot to be found in the log.
pub(crate) struct Sought {
    tickets: HashSet<TicketId>,
    found: BTreeMap<u64, Vec<Logged>>,
}

impl Sought {
    /// The search for these, and the slot in whose log to look.
    pub(crate) fn new(tickets: Vec<TicketId>) -> Option<(SlotId, Self)> {
        let slot = tickets.first()?.slot;
        debug_assert!(tickets.iter().all(|ticket| ticket.slot == slot), "tickets of one slot");
        Some((slot, Self { tickets: tickets.into_iter().collect(), found: BTreeMap::new() }))
    }

    /// The first and the last place that is sought in each life of the line: what lies between two lives is not looked at.
    pub(crate) fn ranges(&self) -> Vec<(i64, i64)> {
        let mut ranges = BTreeMap::new();
        for ticket in &self.tickets {
            let place = ticket.place_as_i64();
            let (from, to) = ranges.entry(ticket.epoch()).or_insert((place, place));
            (*from, *to) = (place.min(*from), place.max(*to));
        }
        ranges.into_values().collect()
    }

    /// Looks through a batch, once however often it is met.
    pub(crate) fn look_at(
        &mut self,
        batch: u64,
        decided_at: Timestamp,
        decisions: &str,
    ) -> Result<(), Error> {
        if self.found.contains_key(&batch) {
            return Ok(());
        }
        let decisions = decisions_in(decisions)?.into_iter();
        let sought = decisions.filter(|d| d.ticket.is_some_and(|ticket| self.tickets.contains(&ticket)));
        let logged = sought.map(|decision| Logged { decision, decided_at, batch }).collect();
        self.found.insert(batch, logged);
        Ok(())
    }

    /// What was found, each ticket once.
    pub(crate) fn found(mut self) -> Vec<Logged> {
        let found = self.found.into_values().flatten();
        found
            .filter(|logged| logged.decision.ticket.is_some_and(|ticket| self.tickets.remove(&ticket)))
            .collect()
    }
}

/// The decision about one ticket, if it is in this batch. Its ticket is how a decision begins, so the thousand others of the batch
/// are not read: after a restart everybody who was answered asks at once.
pub(crate) fn decision_in(text: &str, ticket: TicketId) -> Result<Option<Decision>, Error> {
    let Some(at) = text.find(&format!("{{\"ticket\":\"{ticket}\"")) else { return Ok(None) };
    let mut from_here = serde_json::Deserializer::from_str(&text[at..]).into_iter();
    from_here.next().transpose().map_err(|_| Error::Unreadable { what: "the decision log" })
}

/// The decisions of a batch, as the log keeps them.
pub(crate) fn decisions_in(text: &str) -> Result<Vec<Decision>, Error> {
    serde_json::from_str(text).map_err(|_| Error::Unreadable { what: "the decision log" })
}

/// A person with a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Who.
    pub id: PersonId,
    /// The address they sign in with.
    pub email: String,
    /// What they are called.
    pub name: String,
    /// The hash of their password, in PHC format.
    pub password_hash: String,
}

/// Why an account was not made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AccountError {
    /// Somebody signs in with this address already.
    #[error("the address is taken")]
    EmailTaken,
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Points to be put into a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Whose wallet.
    pub person: PersonId,
    /// How much.
    pub amount: Won,
    /// With a key it happens once, however often it is asked for.
    pub key: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// Why a wallet was not charged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ChargeError {
    /// It would hold more than a wallet may.
    #[error("the wallet would hold too much")]
    TooMuch,
    /// The key was used for another amount.
    #[error("the key was used for another amount")]
    KeyUsed,
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] Error),
}

/// A movement in a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number, ascending.
    pub id: i64,
    /// How much came in, or went out.
    pub amount: Won,
    /// What the wallet held then.
    pub balance: Won,
    /// Why.
    pub kind: EntryKind,
    /// For which reservation.
    pub reservation: Option<ReservationId>,
    /// When.
    pub at: Timestamp,
}

/// A decided batch of one waiting room: stored whole, or not at all.
#[derive(Debug, Clone)]
pub struct RoomBatch {
    /// The opening as it will be; its version is the one from which the batch was decided.
    pub opening: Opening,
    /// What changes.
    pub changes: room::Changes,
    /// When.
    pub at: Timestamp,
}

/// An opening that is to be.
#[derive(Debug, Clone)]
pub struct NewOpening {
    /// When the sale opens.
    pub opens_at: Timestamp,
    /// How those who come before are ordered.
    pub order: Order,
    /// What a draw is made with.
    pub seed: Seed,
    /// How the room is run where the venue had none before.
    pub terms: Terms,
}

/// What is taken of a slot at some instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy {
    /// Which slot.
    pub slot: SlotId,
    /// How many people hold places.
    pub people: u32,
    /// How many reservations hold places.
    pub reservations: u32,
    /// How many of those people have still to pay.
    pub held_people: u32,
    /// How many of those reservations have still to be paid.
    pub held_reservations: u32,
    /// Which tables are taken.
    pub tables: Vec<u32>,
    /// Whether what is left is kept for somebody on the waitlist.
    pub kept: bool,
}

/// A hold whose deadline has passed, with its row still saying `TEMPORARY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdue {
    /// Which slot.
    pub slot: SlotId,
    /// Which reservation.
    pub reservation: ReservationId,
    /// Whose.
    pub person: PersonId,
}

/// A payment of which no provider has heard after so many milliseconds is looked at: whoever began it may have died.
pub const LOOK_FIRST: i64 = 15_000;
/// Nobody else looks at what somebody has in hand for so many milliseconds, which is longer than a provider is waited for.
pub const LOOK_AGAIN: i64 = 15_000;

/// An open payment to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToLookAt {
    /// Which.
    pub payment: ProviderPayment,
    /// How often it has been, with this time.
    pub looks: u32,
}

/// A refund for which a provider is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRefund {
    /// Which.
    pub id: RefundId,
    /// How much.
    pub amount: Won,
    /// How often it was asked for, with this time.
    pub asked: u32,
    /// Of which payment.
    pub payment: ProviderPayment,
}

/// Part of a list, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// This part.
    pub items: Vec<T>,
    /// Where the next part begins, if there is one.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A part of this size, out of one row more than that: the row too many tells that there is a next part.
    pub(crate) fn of(mut items: Vec<T>, limit: u32, cursor: impl Fn(&T) -> String) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }
}
