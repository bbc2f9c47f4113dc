//! What a batch stores: each reservation at most once, what frees ahead of what takes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::ids::{PaymentId, PersonId, ReservationId, SlotId, TicketId};
use crate::money::Won;
use crate::payment::{EventId, News, ProviderPayment};
use crate::reservation::Reservation;
use crate::waitlist::Waiting;
use crate::wallet::EntryKind;

/// A stored reservation that the batch changes.
#[derive(Debug, Clone)]
pub struct Change {
    /// The reservation as it will be.
    pub after: Arc<Reservation>,
    /// The version of the row from which that was decided; the change is conditional on it.
    pub from_version: u32,
    /// The slot it comes from, where that is another: its version moves too, so that nobody decides from an old copy.
    pub from_slot: Option<SlotId>,
    /// Whether it lets go of places, of a table or of seats, and so has to happen before anybody takes them.
    pub frees: bool,
    /// The ticket that asked for it; none for a hold that ran out.
    pub ticket: Option<TicketId>,
}

/// Money into (positive) or out of (negative) a wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Movement {
    /// Whose wallet.
    pub person: PersonId,
    /// How much.
    pub amount: Won,
    /// Why.
    pub kind: EntryKind,
    /// For which reservation.
    pub reservation: ReservationId,
    /// The ticket that is refused if the wallet cannot bear it.
    pub ticket: TicketId,
}

/// A payment with a provider that the batch begins or changes.
#[derive(Debug, Clone)]
pub struct PaymentChange {
    /// The payment as it will be.
    pub after: ProviderPayment,
    /// The version of the row from which that was decided; 0 for a new one.
    pub from_version: u32,
}

/// All that one batch stores beside the slot's version and the log.
#[derive(Debug, Default)]
pub struct Changes {
    /// New reservations, in order.
    pub new: Vec<Arc<Reservation>>,
    /// Changed reservations, each once.
    pub changed: Vec<Change>,
    /// Movements of money, in order.
    pub movements: Vec<Movement>,
    /// Who is on the waitlist now, as they stand there, and who no longer is.
    pub waitlist: BTreeMap<PersonId, Option<Waiting>>,
    /// Payments with providers, each once.
    pub payments: Vec<PaymentChange>,
    /// Events of providers that were heard, each once.
    pub events: Vec<(EventId, PaymentId)>,
    heard: HashSet<EventId>,
    payment_position: HashMap<PaymentId, usize>,
    position: HashMap<ReservationId, Position>,
}

#[derive(Debug, Clone, Copy)]
enum Position {
    New(usize),
    Changed(usize),
}

impl Changes {
    pub(super) fn with_room_for(commands: usize) -> Self {
        Self { new: Vec::with_capacity(commands), ..Self::default() }
    }

    /// The reservation as this batch has left it so far.
    pub(super) fn current(&self, id: ReservationId) -> Option<&Arc<Reservation>> {
        Some(match *self.position.get(&id)? {
            Position::New(at) => &self.new[at],
            Position::Changed(at) => &self.changed[at].after,
        })
    }

    pub(super) fn insert(&mut self, reservation: Arc<Reservation>) {
        self.position.insert(reservation.id, Position::New(self.new.len()));
        self.new.push(reservation);
    }

    pub(super) fn put_payment(&mut self, after: ProviderPayment, from_version: u32) {
        match self.payment_position.get(&after.id) {
            Some(&at) => self.payments[at].after = after,
            None => {
                self.payment_position.insert(after.id, self.payments.len());
                self.payments.push(PaymentChange { after, from_version });
            }
        }
    }

    /// Remembers the event, so that it is heard once.
    pub(super) fn heard(&mut self, news: &News) {
        let Some(event) = &news.event else { return };
        if self.heard.insert(event.clone()) {
            self.events.push((event.clone(), news.payment));
        }
    }

    /// Whether this batch has heard the event.
    pub(super) fn has_heard(&self, event: &EventId) -> bool {
        self.heard.contains(event)
    }

    pub(super) fn update(&mut self, before: &Reservation, after: Arc<Reservation>, ticket: Option<TicketId>) {
        let frees = !after.status().holds_places()
            || before.table != after.table
            || before.seats != after.seats
            || before.slot != after.slot;
        match self.position.get(&after.id) {
            Some(&Position::New(at)) => self.new[at] = after,
            Some(&Position::Changed(at)) => {
                let change = &mut self.changed[at];
                change.frees |= frees;
                change.ticket = ticket.or(change.ticket);
                change.after = after;
            }
            None => {
                self.position.insert(after.id, Position::Changed(self.changed.len()));
                let from_slot = (before.slot != after.slot).then_some(before.slot);
                self.changed.push(Change { from_version: before.version, from_slot, frees, ticket, after });
            }
        }
    }
}
