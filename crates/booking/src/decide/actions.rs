//! What each command does when its turn comes.

use std::sync::Arc;

use jiff::Timestamp;

use super::changes::{Changes, Movement};
use super::{Action, Booking, Command, Decided, Decision, Known, Outcome, Payments, Refusal, Verdict, When};
use crate::hall::Seat;
use crate::ids::{PersonId, ReservationId};
use crate::money::Won;
use crate::policy::CancelledBy;
use crate::reservation::{IllegalTransition, Life, OrderLine, Payment, Reservation, Status};
use crate::slot::{NoRoom, Slot, Spot, Wanted};
use crate::venue::{Inventory, Venue};
use crate::wallet::EntryKind;

/// One batch while it is being decided.
pub(super) struct Turn<'a> {
    pub(super) slot: &'a mut Slot,
    pub(super) venue: &'a Venue,
    pub(super) known: &'a Known,
    pub(super) when: When,
    pub(super) decisions: Vec<Decision>,
    pub(super) changes: Changes,
    /// Payments with providers, as they are at this point of the batch.
    pub(super) payments: Payments,
    /// Something may be free that was not when the waitlist was last looked at.
    pub(super) freed: bool,
}

/// A command done: the reservation as it is now, and what to call it in the log.
pub(super) type Done = Result<(Arc<Reservation>, Verdict), Refusal>;

impl From<IllegalTransition> for Refusal {
    fn from(IllegalTransition { from, to }: IllegalTransition) -> Self {
        Self::IllegalTransition { from, to }
    }
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        slot: &'a mut Slot,
        venue: &'a Venue,
        known: &'a Known,
        when: When,
        commands: usize,
    ) -> Self {
        let decisions = Vec::with_capacity(commands);
        let (changes, payments) = (Changes::with_room_for(commands), known.payments.clone());
        // Somebody may have gone to another slot, which is decided there, or the venue may have grown.
        Self { slot, venue, known, when, decisions, changes, payments, freed: true }
    }

    pub(super) fn finish(self, outcomes: Vec<Outcome>) -> Decided {
        Decided { outcomes, decisions: self.decisions, changes: self.changes }
    }

    pub(super) fn decide(&mut self, command: &Command) -> Outcome {
        let at = if command.action.is_owners() { command.entered_at } else { self.when.drawn };
        #[cfg(feature = "simulation")]
        let at = match command.action {
            Action::Book(_) if crate::flaws::has("expired-hold-counted") => Timestamp::MIN,
            Action::Pay { .. } if crate::flaws::has("late-payment-accepted") => Timestamp::MIN,
            _ => at,
        };
        self.expire_until(at);
        #[cfg(feature = "simulation")]
        if crate::flaws::has("sold-around-the-list") && matches!(command.action, Action::Book(_)) {
            self.freed = false;
        }
        self.offer_what_is_free(at);
        let left = self.slot.open(self.inventory());
        let done = match self.known.foregone.get(&command.ticket) {
            Some(refusal) => Err(*refusal),
            None => self.act(command, at),
        };
        let party = match (&command.action, &done) {
            (Action::Book(booking), _) => booking.party,
            (Action::Change { party, .. } | Action::Move { party, .. } | Action::Join { party, .. }, _) => {
                *party
            }
            (_, Ok((Some(reservation), _))) => reservation.party,
            (_, Ok((None, _)) | Err(_)) => 0,
        };
        self.decisions.push(Decision {
            ticket: Some(command.ticket),
            person: command.person,
            verdict: done.as_ref().map_or(command.action.verdict(), |(_, verdict)| *verdict),
            party,
            left,
            reservation: done
                .as_ref()
                .map_or(command.action.reservation(), |(r, _)| r.as_ref().map(|reservation| reservation.id)),
            refused: done.as_ref().err().copied(),
        });
        self.offer_what_is_free(at);
        match done {
            Ok((Some(reservation), _)) => Outcome::Done(reservation),
            Ok((None, _)) => Outcome::Noted,
            Err(refusal) => Outcome::Refused(refusal),
        }
    }

    fn act(
        &mut self,
        command: &Command,
        at: Timestamp,
    ) -> Result<(Option<Arc<Reservation>>, Verdict), Refusal> {
        match &command.action {
            Action::Join { name, party, offer } => {
                return Ok((self.join(command, name, *party, *offer)?, Verdict::Join));
            }
            Action::Unlist {} => self.unlist(command.person),
            Action::Tend {} => self.freed = true,
            _ => {
                let (reservation, verdict) = self.act_on_reservation(command, at)?;
                return Ok((Some(reservation), verdict));
            }
        }
        Ok((None, command.action.verdict()))
    }

    fn act_on_reservation(&mut self, command: &Command, at: Timestamp) -> Done {
        match &command.action {
            Action::Book(booking) => self.book(command, booking),
            Action::Pay { reservation } => self.pay(command, *reservation, at),
            Action::Reseat { reservation, afresh } => self.reseat(command, *reservation, *afresh, at),
            Action::Cancel { reservation, by } => self.cancel(command, *reservation, *by, at),
            Action::Change { reservation, party } => {
                let before = self.find(*reservation)?;
                self.change(command, &before, *party, at)
            }
            Action::Move { reservation, party } => {
                let before = self.find_anywhere(*reservation)?;
                self.change(command, &before, *party, at)
            }
            #[cfg(feature = "simulation")]
            Action::Expire { reservation } if crate::flaws::has("sweep-without-state-check") => {
                let before = self.find(*reservation)?;
                let after = Reservation { life: Life::stored(Status::Expired), ..next(&before) };
                Ok((self.store(&before, after, command), Verdict::Expire))
            }
            Action::Expire { reservation } => self.expire(*reservation),
            Action::Complete { reservation } => self.close(command, *reservation, Status::Completed),
            Action::NoShow { reservation } => self.close(command, *reservation, Status::NoShow),
            Action::Refund { reservation } => self.refund(command, *reservation),
            Action::StartPayment { reservation, payment, provider } => {
                self.start_payment(command, *reservation, *payment, provider, at)
            }
            Action::Provider(news) => self.provider(command, news),
            Action::ReseatPaid(news) => self.reseat_paid(command, news, at),
            Action::Join { .. } | Action::Unlist {} | Action::Tend {} => Err(Refusal::NotFound),
        }
    }

    fn book(&mut self, command: &Command, booking: &Booking) -> Done {
        let now = self.when.decided;
        if let Some(made) = self.made_before(booking.id, command.person) {
            return Ok((made, Verdict::Book));
        }
        if self.slot.of_person(command.person).is_some() {
            return Err(Refusal::AlreadyBooked);
        }
        let wanted = match (&booking.section, &booking.seats) {
            (_, seats) if !seats.is_empty() => Wanted::Seats(seats),
            (Some(section), _) => Wanted::In(section),
            (None, _) => Wanted::Any,
        };
        let Spot { table, seats } = self.room_for(booking.party, wanted)?;
        let price = self.price(booking.party, booking.payment, &seats, &booking.order);
        let reservation = Reservation {
            id: booking.id,
            slot: self.slot.id,
            person: command.person,
            name: booking.name.clone(),
            life: Life::NEW,
            party: booking.party,
            table,
            seats,
            payment: booking.payment,
            order: booking.order.clone(),
            price,
            paid: Won::ZERO,
            refunded: Won::ZERO,
            refund_due: Won::ZERO,
            expires_at: now.saturating_add(self.venue.settings.policy.hold()).unwrap_or(Timestamp::MAX),
            note: booking.note.clone(),
            ticket: command.ticket,
            created_at: now,
            version: 1,
            reseats: None,
            offered: false,
        };
        Ok((self.take(reservation), Verdict::Book))
    }

    /// What a party costs: its seats and what it orders ahead, or the deposit.
    pub(super) fn price(&self, party: u32, payment: Payment, seats: &[Seat], order: &[OrderLine]) -> Won {
        let ordered = order.iter().filter_map(|line| line.price.times(line.quantity)).sum();
        match (self.inventory().hall(), payment) {
            (Some(hall), _) => seats.iter().filter_map(|seat| hall.price(seat)).sum::<Won>() + ordered,
            (None, Payment::Prepay) => ordered,
            (None, Payment::Deposit) => self.venue.settings.policy.deposit(party),
        }
    }

    fn pay(&mut self, command: &Command, id: ReservationId, at: Timestamp) -> Done {
        let before = self.find(id)?;
        let mut after = next(&before);
        settle(&mut after)?;
        self.nobody_is_paying(id, at)?;
        self.give_up_payments(id);
        self.move_money(command, &after, -(after.paid - before.paid), EntryKind::Payment);
        Ok((self.store(&before, after, command), Verdict::Pay))
    }

    /// A payment that comes too late takes a new place if there is one, and costs nothing if not (D9).
    fn reseat(&mut self, command: &Command, id: ReservationId, afresh: ReservationId, at: Timestamp) -> Done {
        let old = self.find(id)?;
        if let Some(made) = self.made_before(afresh, old.person) {
            return Ok((made, Verdict::Reseat));
        }
        let reservation = self.place_anew(command, &old, afresh, at)?;
        self.move_money(command, &reservation, -reservation.paid, EntryKind::Payment);
        Ok((self.take(reservation), Verdict::Reseat))
    }

    /// A hold that has run out, paid, in a new place.
    pub(super) fn place_anew(
        &self,
        command: &Command,
        old: &Reservation,
        afresh: ReservationId,
        at: Timestamp,
    ) -> Result<Reservation, Refusal> {
        if old.status() != Status::Expired {
            return Err(Refusal::IllegalTransition { from: old.status(), to: paid_status(old.payment) });
        }
        if self.slot.of_person(old.person).is_some() {
            return Err(Refusal::AlreadyBooked);
        }
        if self.venue.start(self.slot.id) <= at {
            return Err(Refusal::IllegalTransition { from: Status::Expired, to: paid_status(old.payment) });
        }
        // Whoever had chosen seats, and paid for those, is not moved to others.
        let wanted = if old.seats.is_empty() { Wanted::Any } else { Wanted::Seats(&old.seats) };
        let Spot { table, seats } = self.room_for(old.party, wanted)?;
        let mut reservation = Reservation {
            id: afresh,
            life: Life::NEW,
            table,
            seats,
            offered: false,
            ticket: command.ticket,
            created_at: self.when.decided,
            version: 1,
            reseats: Some(old.id),
            ..old.clone()
        };
        settle(&mut reservation)?;
        Ok(reservation)
    }

    /// Somebody who is not on the waitlist takes a place.
    pub(super) fn take(&mut self, reservation: Reservation) -> Arc<Reservation> {
        self.pass_all();
        self.seat(reservation)
    }

    fn cancel(&mut self, command: &Command, id: ReservationId, by: CancelledBy, at: Timestamp) -> Done {
        let before = self.find(id)?;
        let mut after = next(&before);
        // What is on its way back already is no part of it.
        let kept = before.paid - before.refunded - before.refund_due;
        // What a smaller party has forfeited already is no part of what its guest cancels now.
        let cancelled = if by == CancelledBy::Guest { kept.min(before.price) } else { kept };
        let due = self.refund_of(&before, cancelled, by, at);
        if before.refund_due + due == Won::ZERO {
            after.life.advance(Status::Canceled)?;
        } else {
            after.life.advance(Status::RefundPending)?;
            after.refund_due = before.refund_due + due;
            // Points come back in the same transaction, so the places are free at once.
            if !self.venue.settings.policy.refunds_by_staff {
                self.hand_out(command, &mut after);
            }
        }
        self.give_up_payments(id);
        Ok((self.store(&before, after, command), Verdict::Cancel))
    }

    fn refund(&mut self, command: &Command, id: ReservationId) -> Done {
        let before = self.find(id)?;
        let illegal = Refusal::IllegalTransition { from: before.status(), to: Status::Refunded };
        let undecided = before.refund_due - self.due_from_provider(id);
        if before.status() != Status::RefundPending || undecided == Won::ZERO {
            return Err(illegal);
        }
        let mut after = next(&before);
        self.hand_out(command, &mut after);
        Ok((self.store(&before, after, command), Verdict::Refund))
    }

    /// Hands out what is due and nobody has been asked for yet: through the provider what was paid there, the rest in points.
    fn hand_out(&mut self, command: &Command, reservation: &mut Reservation) {
        let due = reservation.refund_due - self.due_from_provider(reservation.id);
        let points = due - self.give_back(command, reservation.id, due);
        reservation.refund_due = reservation.refund_due - points;
        reservation.refunded = reservation.refunded + points;
        self.move_money(command, reservation, points, EntryKind::Refund);
        #[cfg(feature = "simulation")]
        if crate::flaws::has("refund-twice") {
            self.move_money(command, reservation, points, EntryKind::Refund);
        }
        if reservation.refund_due == Won::ZERO {
            let refunded = reservation.life.advance(Status::Refunded);
            debug_assert!(refunded.is_ok(), "only what is pending is handed out");
        }
    }

    /// Another party or another slot, in one step: the old place is given up only when the new one is secured (D8).
    /// What a confirmed party costs more is paid now; what it costs less comes back at the rate of a cancellation.
    fn change(&mut self, command: &Command, before: &Reservation, party: u32, at: Timestamp) -> Done {
        let id = before.id;
        let unchangeable = Refusal::IllegalTransition { from: before.status(), to: before.status() };
        if !before.status().holds_places()
            || before.status() == Status::RefundPending
            || before.has_expired(at)
        {
            return Err(unchangeable);
        }
        if self.slot.of_person(before.person).is_some_and(|own| own != id) {
            return Err(Refusal::AlreadyBooked);
        }
        if before.status() == Status::Temporary {
            self.nobody_is_paying(id, at)?;
        }
        let Spot { table, seats } = self.room_instead_of(before, party)?;
        let price = self.price(party, before.payment, &seats, &before.order);
        let mut after = Reservation { party, table, seats, price, slot: self.slot.id, ..next(before) };
        if before.status() != Status::Temporary && price > before.price {
            after.paid = before.paid + (price - before.price);
            self.move_money(command, &after, before.price - price, EntryKind::Payment);
        } else if before.status() != Status::Temporary && price < before.price {
            let back = self.refund_of(before, before.price - price, CancelledBy::Guest, at);
            let outside = self.give_back(command, id, back);
            after.refund_due = before.refund_due + outside;
            after.refunded = before.refunded + (back - outside);
            self.move_money(command, &after, back - outside, EntryKind::Refund);
        }
        if self.slot.holder(id).is_none_or(|here| here.party < party) {
            self.pass_all();
        }
        self.unlist(before.person);
        Ok((self.store(before, after, command), command.action.verdict()))
    }

    fn expire(&mut self, id: ReservationId) -> Done {
        // Whatever had run out by now was expired before this command was looked at.
        let now = self.find(id)?;
        match now.status() {
            Status::Expired => Ok((now, Verdict::Expire)),
            from => Err(Refusal::IllegalTransition { from, to: Status::Expired }),
        }
    }

    fn close(&mut self, command: &Command, id: ReservationId, to: Status) -> Done {
        let before = self.find(id)?;
        let mut after = next(&before);
        after.life.advance(to)?;
        let verdict = command.action.verdict();
        Ok((self.store(&before, after, command), verdict))
    }

    fn expire_until(&mut self, at: Timestamp) {
        while let Some(id) = self.slot.first_expired(at) {
            let Some(before) = self.slot.holder(id).cloned() else { return };
            #[cfg(feature = "simulation")]
            if before.offered && crate::flaws::has("offer-never-lapses") {
                return;
            }
            let mut after = next(&before);
            if after.life.advance(Status::Expired).is_err() {
                debug_assert!(false, "only holds have a deadline");
                return;
            }
            let after = Arc::new(after);
            self.changes.update(&before, after.clone(), None);
            self.slot.put(after);
            self.freed = true;
            self.decisions.push(Decision {
                ticket: None,
                person: before.person,
                verdict: Verdict::Expire,
                party: before.party,
                left: self.slot.open(self.inventory()),
                reservation: Some(id),
                refused: None,
            });
        }
    }

    /// The reservation that this very request has made already. It stands in line under two tickets when it was entered
    /// again because the reply to the first entry was lost; whichever comes second gets the same answer and changes nothing.
    pub(super) fn made_before(&self, id: ReservationId, person: PersonId) -> Option<Arc<Reservation>> {
        self.find_anywhere(id).ok().filter(|made| made.person == person)
    }

    /// The reservation as it is at this point of the batch, if it is this slot's.
    pub(super) fn find(&self, id: ReservationId) -> Result<Arc<Reservation>, Refusal> {
        let found = self.find_anywhere(id)?;
        if found.slot == self.slot.id { Ok(found) } else { Err(Refusal::Elsewhere) }
    }

    pub(super) fn find_anywhere(&self, id: ReservationId) -> Result<Arc<Reservation>, Refusal> {
        let here = self.slot.holder(id).or_else(|| self.changes.current(id));
        here.or_else(|| self.known.reservations.get(&id)).cloned().ok_or(Refusal::NotFound)
    }

    pub(super) fn store(
        &mut self,
        before: &Reservation,
        after: Reservation,
        command: &Command,
    ) -> Arc<Reservation> {
        let after = Arc::new(after);
        self.changes.update(before, after.clone(), Some(command.ticket));
        self.slot.put(after.clone());
        self.freed = true;
        after
    }

    /// Puts a new reservation into the slot; whoever has a place waits for none.
    pub(super) fn seat(&mut self, reservation: Reservation) -> Arc<Reservation> {
        let reservation = Arc::new(reservation);
        self.unlist(reservation.person);
        self.slot.put(reservation.clone());
        self.changes.insert(reservation.clone());
        reservation
    }

    fn move_money(&mut self, command: &Command, reservation: &Reservation, amount: Won, kind: EntryKind) {
        if amount != Won::ZERO {
            let (person, id) = (reservation.person, reservation.id);
            self.changes.movements.push(Movement {
                person,
                amount,
                kind,
                reservation: id,
                ticket: command.ticket,
            });
        }
    }

    fn refund_of(&self, reservation: &Reservation, amount: Won, by: CancelledBy, at: Timestamp) -> Won {
        let settings = &self.venue.settings;
        let start = self.venue.start(reservation.slot);
        amount.percent(settings.policy.refund_percent(
            start,
            settings.time_zone.zone(),
            reservation.party,
            by,
            at,
        ))
    }

    /// Room for somebody who has no place here.
    fn room_for(&self, party: u32, wanted: Wanted<'_>) -> Result<Spot, Refusal> {
        let inventory = self.inventory();
        if self.slot.waitlist().keeps_what_is_left() {
            return Err(match inventory {
                Inventory::Tables { .. } => Refusal::TableUnavailable { remaining: 0 },
                Inventory::Seats { .. } => Refusal::SeatTaken { remaining: 0 },
                _ => Refusal::NotEnoughPlaces { remaining: 0 },
            });
        }
        self.slot.room_for(inventory, party, wanted, None).map_err(no_room)
    }

    /// Room for another party in the place of one that is here or comes from another slot: the same seats if it can be.
    fn room_instead_of(&self, before: &Reservation, party: u32) -> Result<Spot, Refusal> {
        let same = !before.seats.is_empty() && party == before.party;
        let wanted = if same { Wanted::Seats(&before.seats) } else { Wanted::Any };
        match self.slot.holder(before.id) {
            // What it has already is not taken from anybody who waits.
            Some(here) if party <= here.party => {
                self.slot.room_for(self.inventory(), party, wanted, Some(before.id)).map_err(no_room)
            }
            Some(_) if !self.slot.waitlist().keeps_what_is_left() => {
                self.slot.room_for(self.inventory(), party, wanted, Some(before.id)).map_err(no_room)
            }
            _ => self.room_for(party, wanted),
        }
    }

    /// When the batch is decided.
    pub(super) fn now(&self) -> Timestamp {
        self.when.decided
    }

    fn inventory(&self) -> &'a Inventory {
        &self.venue.settings.inventory
    }
}

fn no_room(no_room: NoRoom) -> Refusal {
    match no_room {
        NoRoom::Places(remaining) => Refusal::NotEnoughPlaces { remaining },
        NoRoom::Tables(remaining) => Refusal::TableUnavailable { remaining },
        NoRoom::Seats(remaining) => Refusal::SeatTaken { remaining },
    }
}

/// A copy to change, one version on.
pub(super) fn next(before: &Reservation) -> Reservation {
    Reservation { version: before.version + 1, ..before.clone() }
}

pub(super) fn paid_status(payment: Payment) -> Status {
    match payment {
        Payment::Deposit => Status::Confirmed,
        Payment::Prepay => Status::PrepayConfirm,
    }
}

/// Marks a hold as paid in full.
pub(super) fn settle(reservation: &mut Reservation) -> Result<(), IllegalTransition> {
    reservation.life.advance(paid_status(reservation.payment))?;
    reservation.paid = reservation.price;
    Ok(())
}
