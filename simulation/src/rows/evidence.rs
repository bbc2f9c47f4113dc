//! The tables as `crates/audit` reads those of a real database.

use audit::{Auditor, Database, Finding, Id, Options, PersonRows, Slot, SlotRows, Ticket, Venue, Visit};
use booking::{Reservation, SlotId, Waiting};

use super::{Rows, millis};

fn reservation(r: &Reservation) -> audit::Reservation {
    audit::Reservation {
        id: Id(r.id.0),
        slot: Slot(r.slot.to_i64()),
        person: Id(r.person.0),
        status: r.status().as_str().to_owned(),
        party: r.party.into(),
        table: r.table.map(Into::into),
        payment: r.payment.as_str().to_owned(),
        price: r.price.0,
        paid: r.paid.0,
        refunded: r.refunded.0,
        refund_due: r.refund_due.0,
        expires_at: millis(r.expires_at),
        ticket: Ticket(r.ticket.to_u128()),
        reseats: r.reseats.map(|id| Id(id.0)),
        seats: r.seats.iter().map(ToString::to_string).collect(),
        offered: r.offered,
    }
}

fn waiting(w: &Waiting) -> audit::Waiting {
    audit::Waiting {
        person: Id(w.person.0),
        party: w.party.into(),
        rank: w.rank.into(),
        passed: w.passed.into(),
        ticket: Ticket(w.ticket.to_u128()),
    }
}

fn number(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

impl Rows {
    /// What the auditor finds in a slot and in the wallets of these people, as they are just now.
    pub fn audit_part(&self, slot: SlotId, people: &[u128], options: Options) -> Vec<Finding> {
        let mut auditor = Auditor::new(options);
        self.venues_shown()
            .filter(|venue| venue.id == i64::from(slot.venue().0))
            .for_each(|venue| auditor.venue(&venue));
        auditor.slot(Slot(slot.to_i64()), &self.slot_rows(slot));
        for person in people {
            auditor.person(Id(*person), &self.person_rows(*person));
        }
        auditor.finish().findings
    }

    /// What the auditor finds in everything, and in what guests were told of it.
    pub fn audit_all(&self, visits: &[Visit], options: Options) -> Vec<Finding> {
        let database = Database {
            venues: self.venues_shown().collect(),
            slots: self.slots.iter().map(|(slot, at)| (Slot(slot.to_i64()), number(*at))).collect(),
            reservations: self.reservations.values().map(|r| reservation(r)).collect(),
            batches: self
                .batches
                .iter()
                .flat_map(|(slot, batches)| batches.iter().map(|batch| (Slot(slot.to_i64()), batch.clone())))
                .collect(),
            wallets: self.balances.iter().map(|(person, held)| (Id(*person), *held)).collect(),
            entries: (0..self.entries.len()).map(|at| (Id(self.entries[at].0), self.entry(at))).collect(),
            keys: self.keys_shown().collect(),
            payments: self.payments_shown().collect(),
            openings: self.rooms.evidence().map(|(_, opening, tokens)| (opening, tokens)).collect(),
            waiting: self.waiting.iter().map(|((slot, _), w)| (Slot(slot.to_i64()), waiting(w))).collect(),
            seats: self
                .held_seats()
                .map(|(slot, seat, holder)| (Slot(slot.to_i64()), seat, holder))
                .collect(),
        };
        audit::audit(&database, visits, options).findings
    }

    /// What the auditor finds in the waiting rooms just now.
    pub fn audit_rooms(&self, options: Options) -> Vec<Finding> {
        let mut auditor = Auditor::new(options);
        self.rooms.evidence().for_each(|(_, opening, tokens)| auditor.opening(&opening, &tokens));
        auditor.finish().findings
    }

    fn payments_shown(&self) -> impl Iterator<Item = (Id, audit::Payment)> {
        self.outside.payments.values().map(|kept| {
            let payment = &kept.payment;
            let returned =
                payment.refunds.iter().filter(|refund| refund.returned).map(|refund| refund.amount.0);
            let shown = audit::Payment {
                id: Id(payment.id.0),
                status: payment.status.as_str().to_owned(),
                captured: payment.captured.0,
                pays: payment.pays.map(|id| Id(id.0)),
                returned: returned.sum(),
                due: payment.due().0,
            };
            (Id(payment.person.0), shown)
        })
    }

    /// What the table of held seats would say.
    fn held_seats(&self) -> impl Iterator<Item = (SlotId, String, Id)> {
        let held = self.reservations.values().filter(|r| r.status().holds_places());
        held.flat_map(|r| r.seats.iter().map(|seat| (r.slot, seat.to_string(), Id(r.id.0))))
    }

    fn venues_shown(&self) -> impl Iterator<Item = Venue> {
        self.venues.values().map(|venue| Venue {
            id: venue.id.0.into(),
            version: number(venue.version),
            settings: serde_json::to_string(&venue.settings).unwrap_or_default(),
        })
    }

    fn slot_rows(&self, slot: SlotId) -> SlotRows {
        let (first, last) = Slot(slot.to_i64()).tickets();
        let made = self.of_ticket.range(first.0..=last.0).map(|(_, id)| *id);
        let mut ids: Vec<u128> = self.of_slot.get(&slot).into_iter().flatten().copied().chain(made).collect();
        ids.sort_unstable();
        ids.dedup();
        SlotRows {
            version: self.slots.get(&slot).map(|version| number(*version)),
            reservations: ids
                .iter()
                .filter_map(|id| self.reservations.get(id))
                .map(|r| reservation(r))
                .collect(),
            batches: self.batches.get(&slot).cloned().unwrap_or_default(),
            waiting: self.waitlist(slot).iter().map(waiting).collect(),
            seats: self
                .held_seats()
                .filter(|(of, ..)| *of == slot)
                .map(|(_, seat, holder)| (seat, holder))
                .collect(),
        }
    }

    fn person_rows(&self, person: u128) -> PersonRows {
        let own = (0..self.entries.len()).filter(|at| self.entries[*at].0 == person);
        let theirs = self.reservations.values().filter(|r| r.person.0 == person);
        PersonRows {
            balance: self.balances.get(&person).copied(),
            entries: own.map(|at| self.entry(at)).collect(),
            reservations: theirs.map(|r| reservation(r)).collect(),
            payments: self
                .payments_shown()
                .filter(|(whose, _)| whose.0 == person)
                .map(|(_, payment)| payment)
                .collect(),
            keys: self
                .keys_shown()
                .filter(|(whose, ..)| whose.0 == person)
                .map(|(_, key, at)| (key, at))
                .collect(),
        }
    }

    fn entry(&self, at: usize) -> audit::Entry {
        let (_, key, entry) = &self.entries[at];
        audit::Entry {
            id: entry.id,
            amount: entry.amount.0,
            balance: entry.balance.0,
            kind: entry.kind.as_str().to_owned(),
            reservation: entry.reservation.map(|id| Id(id.0)),
            key: key.clone(),
        }
    }

    fn keys_shown(&self) -> impl Iterator<Item = (Id, String, Ticket)> {
        let keys = self.keys.iter();
        keys.map(|((person, key), (request, _))| (Id(*person), key.clone(), Ticket(request.ticket.to_u128())))
    }
}
