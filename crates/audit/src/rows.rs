//! What goes in: rows as any database or simulation has them, and nothing else.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ids::{Id, Slot, Ticket};

/// A row of `venue`.
#[derive(Debug, Clone)]
pub struct Venue {
    /// Its number.
    pub id: i64,
    /// Counts its changes, from 1: one that never changed has always offered what it offers now.
    pub version: i64,
    /// Its settings, in JSON.
    pub settings: String,
}

/// A row of `reservation`, as far as it is audited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its id.
    pub id: Id,
    /// Where it is now.
    pub slot: Slot,
    /// Whose it is.
    pub person: Id,
    /// `TEMPORARY` and so on.
    pub status: String,
    /// How many people.
    pub party: i64,
    /// At which table.
    pub table: Option<i64>,
    /// `deposit` or `prepay`.
    pub payment: String,
    /// What it costs.
    pub price: i64,
    /// What was paid.
    pub paid: i64,
    /// What of that came back.
    pub refunded: i64,
    /// What is still to come back.
    pub refund_due: i64,
    /// Its deadline, in milliseconds since 1970.
    pub expires_at: i64,
    /// The ticket that made it.
    pub ticket: Ticket,
    /// The expired one that it stands in for.
    pub reseats: Option<Id>,
    /// The labels of its seats.
    pub seats: Vec<String>,
    /// Whether it was offered to somebody on the waitlist.
    pub offered: bool,
}

impl Reservation {
    /// Whether its status takes up places.
    pub fn holds(&self) -> bool {
        ["TEMPORARY", "CONFIRMED", "PREPAY_CONFIRM", "REFUND_PENDING"].contains(&self.status.as_str())
    }
}

/// A row of `decision`: one batch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The version of the slot that it made.
    pub version: i64,
    /// When, in milliseconds since 1970.
    pub decided_at: i64,
    /// What was decided, in order, in JSON.
    pub decisions: String,
}

/// All that is stored about one slot.
#[derive(Debug, Clone, Default)]
pub struct SlotRows {
    /// The version of its row; none if it has no row.
    pub version: Option<i64>,
    /// The reservations that are in it now, and those that were made in it, wherever they are now; each once.
    pub reservations: Vec<Reservation>,
    /// Its batches, by version.
    pub batches: Vec<Batch>,
    /// Who waits for a place.
    pub waiting: Vec<Waiting>,
    /// The seats that are held, by their labels, and by which reservation.
    pub seats: Vec<(String, Id)>,
}

/// A row of `waiting`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Who.
    pub person: Id,
    /// How many people.
    pub party: i64,
    /// The order: less is earlier.
    pub rank: i64,
    /// How often others were served before them.
    pub passed: i64,
    /// With which they joined.
    pub ticket: Ticket,
}

/// A row of `wallet_entry`.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number; those of one person ascend.
    pub id: i64,
    /// What came in, or went out.
    pub amount: i64,
    /// What the wallet held then.
    pub balance: i64,
    /// `charge`, `payment` or `refund`.
    pub kind: String,
    /// For which reservation.
    pub reservation: Option<Id>,
    /// The key of a charge.
    pub key: Option<String>,
}

/// A row of `payment`: money that a provider has taken, with what its refunds come to.
#[derive(Debug, Clone)]
pub struct Payment {
    /// Its id.
    pub id: Id,
    /// `PAID` and so on.
    pub status: String,
    /// What the provider has.
    pub captured: i64,
    /// The reservation that it has paid for.
    pub pays: Option<Id>,
    /// What has gone back.
    pub returned: i64,
    /// What is to go back.
    pub due: i64,
}

/// All that is stored about one person's money, with the reservations that it may have gone to.
#[derive(Debug, Clone, Default)]
pub struct PersonRows {
    /// What the wallet holds; none if there is no wallet.
    pub balance: Option<i64>,
    /// Its movements, by number.
    pub entries: Vec<Entry>,
    /// All of the person's reservations.
    pub reservations: Vec<Reservation>,
    /// The keys of the person's requests, each with its ticket.
    pub keys: Vec<(String, Ticket)>,
    /// The person's payments with providers.
    pub payments: Vec<Payment>,
}

/// A row of `opening`, as far as it is audited.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Its number.
    pub id: i64,
    /// Whose it is.
    pub venue: i64,
    /// The most that were ever to be inside at once.
    pub largest: i64,
    /// `arrival` or `draw`.
    pub order: String,
    /// What was drawn with.
    pub seed: Vec<u8>,
    /// What was published of it before.
    pub seed_hash: Vec<u8>,
    /// Whether everybody who came before has a number.
    pub opened: bool,
    /// How many had come when it opened.
    pub entrants: Option<i64>,
    /// How many came in all.
    pub arrivals: i64,
    /// How many numbers were given out.
    pub numbers: i64,
    /// The highest that was let in.
    pub let_in: i64,
}

/// A row of `queue_token`.
#[derive(Debug, Clone)]
pub struct Token {
    /// The how-manieth to come.
    pub arrival: i64,
    /// Whose it is.
    pub person: Id,
    /// Its number, if it has one.
    pub number: Option<i64>,
    /// `WAITING` and so on.
    pub state: String,
    /// When it was let in, in milliseconds since 1970.
    pub let_in_at: Option<i64>,
    /// When it ended.
    pub ended_at: Option<i64>,
}

/// A whole database in memory, for tests and simulations.
#[derive(Debug, Clone, Default)]
pub struct Database {
    /// All venues.
    pub venues: Vec<Venue>,
    /// The versions of the slots.
    pub slots: BTreeMap<Slot, i64>,
    /// All reservations.
    pub reservations: Vec<Reservation>,
    /// All batches, in any order.
    pub batches: Vec<(Slot, Batch)>,
    /// What wallets hold.
    pub wallets: BTreeMap<Id, i64>,
    /// All movements of money, in any order.
    pub entries: Vec<(Id, Entry)>,
    /// The keys of requests: whose, which, and the ticket.
    pub keys: Vec<(Id, String, Ticket)>,
    /// Who waits for a place.
    pub waiting: Vec<(Slot, Waiting)>,
    /// The seats that are held, and by which reservation.
    pub seats: Vec<(Slot, String, Id)>,
    /// Payments with providers, and whose they are.
    pub payments: Vec<(Id, Payment)>,
    /// All openings, with their tokens by arrival.
    pub openings: Vec<(Opening, Vec<Token>)>,
}

/// What a slot of a venue offers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Offer {
    Places { capacity: i64 },
    Exclusive,
    Tables { tables: Vec<Table> },
    Seats { sections: Vec<Section> },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Section {
    pub name: String,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Row {
    pub name: String,
    pub seats: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Table {
    pub number: i64,
    pub seats: i64,
}

/// What of a venue matters here.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub offer: Offer,
    /// How often it was changed.
    pub changes: i64,
}

impl Terms {
    pub(crate) fn of(venue: &Venue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Settings {
            inventory: Offer,
        }
        let settings: Settings = serde_json::from_str(&venue.settings).ok()?;
        Some(Self { offer: settings.inventory, changes: venue.version - 1 })
    }

    /// How much there is, in the unit in which it is counted.
    pub(crate) fn capacity(&self) -> i64 {
        match &self.offer {
            Offer::Places { capacity } => *capacity,
            Offer::Exclusive => 1,
            Offer::Tables { tables } => i64::try_from(tables.len()).unwrap_or(i64::MAX),
            Offer::Seats { sections } => {
                sections.iter().flat_map(|section| &section.rows).map(|row| row.seats).sum()
            }
        }
    }

    /// How many can certainly sit together in an empty hall, whichever section they want.
    pub(crate) fn together(&self) -> i64 {
        let Offer::Seats { sections } = &self.offer else { return 0 };
        let longest = |section: &Section| section.rows.iter().map(|row| row.seats).max().unwrap_or(0);
        sections.iter().map(longest).min().unwrap_or(0)
    }

    /// How much of it a party takes.
    pub(crate) fn takes(&self, party: i64) -> i64 {
        if matches!(self.offer, Offer::Places { .. } | Offer::Seats { .. }) { party } else { 1 }
    }

    /// Whether the hall has a seat of this label.
    pub(crate) fn has_seat(&self, label: &str) -> bool {
        let Offer::Seats { sections } = &self.offer else { return false };
        let mut parts = label.split('-');
        let (Some(section), Some(row), Some(number), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let rows = sections.iter().filter(|known| known.name == section).flat_map(|known| &known.rows);
        let mut rows = rows.filter(|known| known.name == row);
        rows.any(|row| number.parse().is_ok_and(|number: i64| (1..=row.seats).contains(&number)))
    }

    /// How many sit at this table at most; none if there is no such table.
    pub(crate) fn seats(&self, table: i64) -> Option<i64> {
        let Offer::Tables { tables } = &self.offer else { return None };
        tables.iter().find(|known| known.number == table).map(|table| table.seats)
    }
}

/// A line of the decision log.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Decision {
    #[serde(default)]
    pub ticket: Option<Ticket>,
    pub person: Id,
    pub verdict: String,
    pub party: i64,
    pub left: i64,
    #[serde(default)]
    pub reservation: Option<Id>,
    #[serde(default)]
    pub refused: Option<Refused>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Refused {
    pub code: String,
    #[serde(default)]
    pub remaining: Option<i64>,
}

impl Decision {
    /// Whether it was about somebody who wanted a place and stood in line for it.
    pub(crate) fn is_guests(&self) -> bool {
        ["book", "reseat", "move", "join"].contains(&self.verdict.as_str())
    }

    /// Whether it was refused because there was too little room.
    pub(crate) fn lacked_room(&self) -> bool {
        let room = ["not-enough-places", "table-unavailable", "seat-taken"];
        self.refused.as_ref().is_some_and(|refused| room.contains(&refused.code.as_str()))
    }
}
