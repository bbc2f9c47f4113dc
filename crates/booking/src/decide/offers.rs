//! The waitlist while a batch is decided: who joins, who leaves, and who is offered what has become free (D7).

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::actions::Turn;
use super::{Command, Decision, Refusal, Verdict};
use crate::ids::{PersonId, ReservationId};
use crate::money::Won;
use crate::reservation::{Life, Payment, Reservation};
use crate::slot::{Spot, Wanted};
use crate::waitlist::{MAX_WAITING, Waiting};

impl Turn<'_> {
    /// Puts somebody on the list. The same request under another ticket may come when the offer has been made already, and
    /// perhaps lapsed: then that is what it came to, and nobody joins again.
    pub(super) fn join(
        &mut self,
        command: &Command,
        name: &Arc<str>,
        party: u32,
        offer: ReservationId,
    ) -> Result<Option<Arc<Reservation>>, Refusal> {
        if let Some(made) = self.made_before(offer, command.person) {
            return Ok(Some(made));
        }
        if self.slot.of_person(command.person).is_some() {
            return Err(Refusal::AlreadyBooked);
        }
        let waitlist = self.slot.waitlist();
        if let Some(waiting) = waitlist.find(command.person) {
            // The same request under another ticket, or asked for again: they keep their rank.
            return if waiting.party == party { Ok(None) } else { Err(Refusal::AlreadyWaiting) };
        }
        if waitlist.parties().len() >= MAX_WAITING {
            return Err(Refusal::WaitlistFull);
        }
        let waiting = Waiting {
            person: command.person,
            name: name.clone(),
            party,
            rank: waitlist.next_rank(),
            passed: 0,
            ticket: command.ticket,
            offer,
            since: self.when.decided,
        };
        self.changes.waitlist.insert(command.person, Some(waiting.clone()));
        self.slot.waitlist_mut().join(waiting);
        self.freed = true;
        Ok(None)
    }

    /// Takes somebody off the list. What was kept for them may be free for others.
    pub(super) fn unlist(&mut self, person: PersonId) {
        if self.slot.waitlist_mut().leave(person).is_some() {
            self.changes.waitlist.insert(person, None);
            self.freed = true;
        }
    }

    /// Somebody who is not on the list takes what nobody on it can use.
    pub(super) fn pass_all(&mut self) {
        self.pass_before(u32::MAX);
    }

    fn pass_before(&mut self, rank: u32) {
        for passed in self.slot.waitlist_mut().pass_before(rank) {
            self.changes.waitlist.insert(passed.person, Some(passed));
        }
    }

    /// Offers what has become free to those who wait, each to the first that fits.
    pub(super) fn offer_what_is_free(&mut self, at: Timestamp) {
        if !std::mem::take(&mut self.freed) || self.slot.waitlist().is_empty() {
            return;
        }
        // Nobody is offered a place in what has begun, and nobody need wait for it.
        if self.venue.start(self.slot.id) <= at {
            return self.close_list();
        }
        while let Some((waiting, spot)) = self.next_offer() {
            self.pass_before(waiting.rank);
            self.offer(waiting, spot);
        }
        self.freed = false;
    }

    fn close_list(&mut self) {
        let people: Vec<_> = self.slot.waitlist().parties().iter().map(|waiting| waiting.person).collect();
        for person in people {
            self.unlist(person);
            self.decisions.push(Decision {
                ticket: None,
                person,
                verdict: Verdict::Unlist,
                party: 0,
                left: self.slot.open(&self.venue.settings.inventory),
                reservation: None,
                refused: None,
            });
        }
        self.freed = false;
    }

    fn next_offer(&self) -> Option<(Waiting, Spot)> {
        let mut spots = HashMap::new();
        let mut spot_for = |party| {
            let inventory = &self.venue.settings.inventory;
            let room = || self.slot.room_for(inventory, party, Wanted::Any, None).ok();
            spots.entry(party).or_insert_with(room).clone()
        };
        let waiting = self.slot.waitlist().first_that_fits(|waiting| spot_for(waiting.party).is_some())?;
        Some((waiting.clone(), spot_for(waiting.party)?))
    }

    fn offer(&mut self, waiting: Waiting, Spot { table, seats }: Spot) {
        let settings = &self.venue.settings;
        let payment = if seats.is_empty() { Payment::Deposit } else { Payment::Prepay };
        let price = self.price(waiting.party, payment, &seats, &[]);
        let now = self.when.decided;
        let reservation = self.seat(Reservation {
            id: waiting.offer,
            slot: self.slot.id,
            person: waiting.person,
            name: waiting.name,
            life: Life::NEW,
            party: waiting.party,
            table,
            seats,
            payment,
            order: Arc::default(),
            price,
            paid: Won::ZERO,
            refunded: Won::ZERO,
            refund_due: Won::ZERO,
            expires_at: now.saturating_add(settings.policy.offer()).unwrap_or(Timestamp::MAX),
            note: None,
            ticket: waiting.ticket,
            created_at: now,
            version: 1,
            reseats: None,
            offered: true,
        });
        self.decisions.push(Decision {
            ticket: None,
            person: reservation.person,
            verdict: Verdict::Offer,
            party: reservation.party,
            left: self.slot.open(&settings.inventory),
            reservation: Some(reservation.id),
            refused: None,
        });
    }
}
