//! What an audit can find, each with a sentence and the ids that it is about.

use serde::Serialize;
use thiserror::Error;

use crate::ids::{Id, Slot, Ticket};

/// Something that must never be. Its text is the sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[allow(missing_docs, reason = "the sentence of each says what its fields are")]
pub enum Finding {
    #[error("{slot} was oversold: {held} of {capacity} were held after batch {version}")]
    Oversold { slot: Slot, version: i64, held: i64, capacity: i64 },
    #[error("{slot} is oversold: its reservations hold {held} of {capacity}")]
    OversoldNow { slot: Slot, held: i64, capacity: i64 },
    #[error("{person} has two places in {slot}: {first} and {second}")]
    BookedTwice { slot: Slot, person: Id, first: Id, second: Id },
    #[error("table {table} of {slot} is taken twice: by {first} and by {second}")]
    TableTwice { slot: Slot, table: i64, first: Id, second: Id },
    #[error("{reservation} in {slot} is at table {table}, which is not there or too small")]
    WrongTable { slot: Slot, reservation: Id, table: i64 },

    #[error("seat {seat} of {slot} is taken twice: by {first} and by {second}")]
    SeatTwice { slot: Slot, seat: String, first: Id, second: Id },
    #[error(
        "{reservation} in {slot} is for {party} and has the seats {seats:?}, which is not a seat of this hall for each"
    )]
    WrongSeats { slot: Slot, reservation: Id, party: i64, seats: Vec<String> },
    #[error("the seats that are held in {slot} are not those of its reservations: {seat}")]
    HeldSeatsDiffer { slot: Slot, seat: String },
    #[error("{to} got a place in {slot} that {waiting} was waiting for")]
    SoldAroundTheList { slot: Slot, waiting: Id, to: Id },
    #[error("{to} was offered a place in {slot} before {waiting}, who came first and could have had it")]
    OfferedOutOfTurn { slot: Slot, waiting: Id, to: Id },
    #[error("{person} was offered a place in {slot} and was not waiting for one")]
    OfferedToNobody { slot: Slot, person: Id },
    #[error("those who are stored as waiting for {slot} are not those who should be")]
    WaitlistDiffers { slot: Slot },

    #[error("{ticket} was overtaken in {slot}: {by} came later and won what it was refused")]
    Overtaken { slot: Slot, ticket: Ticket, by: Ticket },
    #[error("{ticket} was decided after {after}, which came later")]
    OutOfOrder { slot: Slot, ticket: Ticket, after: Ticket },
    #[error("{ticket} was refused {code} although {left} were left for a party of {party}")]
    WronglyRefused { slot: Slot, ticket: Ticket, code: String, party: i64, left: i64 },
    #[error("in batch {version} of {slot} the log says that {told} were left when {left} were")]
    WrongLeft { slot: Slot, version: i64, told: i64, left: i64 },
    #[error("{ticket} was refused while {reservation}, whose deadline had passed, was counted")]
    ExpiredHoldCounted { slot: Slot, ticket: Ticket, reservation: Id },

    #[error("{ticket} was decided twice")]
    DecidedTwice { ticket: Ticket },
    #[error("{ticket} was decided in {slot}, which is not its slot")]
    DecidedElsewhere { ticket: Ticket, slot: Slot },
    #[error("no decision made {reservation}, which is in {slot}")]
    Undecided { reservation: Id, slot: Slot },
    #[error("{ticket} won {reservation}, which is not stored so")]
    Unmade { ticket: Ticket, reservation: Id },
    #[error("{slot} has no batch of version {version}, and nobody who left it then")]
    BatchMissing { slot: Slot, version: i64 },
    #[error("{slot} has two batches of version {version}")]
    BatchTwice { slot: Slot, version: i64 },
    #[error("{reservation} has left {slot}, whose version does not know of it")]
    LeftUnseen { reservation: Id, slot: Slot },
    #[error("{slot} is at version {stored}, and its log at {logged}")]
    WrongVersion { slot: Slot, stored: i64, logged: i64 },
    #[error("{what} cannot be read")]
    Unreadable { what: String },
    #[error("{slot} belongs to a venue that is not there")]
    NoVenue { slot: Slot },

    #[error("batch {version} of {slot}: {reservation} was in no state for \"{verdict}\"")]
    IllegalTransition { slot: Slot, version: i64, reservation: Id, verdict: String },
    #[error("{reservation} is {status}, which is not where its decisions have led it")]
    WrongStatus { reservation: Id, status: String },
    #[error("{reservation} is for {party}, and by its decisions for {decided}")]
    WrongParty { reservation: Id, party: i64, decided: i64 },
    #[error("{reservation} expired {early} ms before its deadline")]
    ExpiredEarly { reservation: Id, early: i64 },
    #[error("{reservation} in {slot} has been held for {late} ms past its deadline")]
    HeldTooLong { reservation: Id, slot: Slot, late: i64 },

    #[error("the wallet of {person} holds {balance}, and its entries come to {sum}")]
    WalletDiffers { person: Id, balance: i64, sum: i64 },
    #[error("entry {entry} of {person} says that the wallet held {told} when it held {balance}")]
    WrongBalance { person: Id, entry: i64, told: i64, balance: i64 },
    #[error("the wallet of {person} was overdrawn by entry {entry}")]
    Overdrawn { person: Id, entry: i64 },
    #[error("entry {entry} of {person} is a {what} of {amount}")]
    WrongEntry { person: Id, entry: i64, what: String, amount: i64 },
    #[error("{person} has entries and no wallet")]
    NoWallet { person: Id },
    #[error("entry {entry} of {person} is for {reservation}, which is not a reservation of theirs")]
    EntryAstray { person: Id, entry: i64, reservation: Id },
    #[error("{person} was charged {times} times for {reservation}: {charged} in all, and it counts {paid}")]
    ChargedTwice { person: Id, reservation: Id, times: usize, charged: i64, paid: i64 },
    #[error("{reservation} counts {paid} as paid, and {charged} was")]
    PaidDiffers { reservation: Id, paid: i64, charged: i64 },
    #[error("{reservation} counts {refunded} as returned, and {returned} was")]
    RefundedDiffers { reservation: Id, refunded: i64, returned: i64 },
    #[error("{reservation} is {status} with {paid} of {price} paid, {refunded} returned and {due} due")]
    StatusAndMoney { reservation: Id, status: String, price: i64, paid: i64, refunded: i64, due: i64 },
    #[error(
        "{payment} of {person} bought nothing: {captured} was taken, {returned} returned, and {due} is due"
    )]
    MoneyKept { person: Id, payment: Id, captured: i64, returned: i64, due: i64 },
    #[error("{payment} of {person} returns more than was taken: {captured}, and {returned} and {due}")]
    ReturnedTooMuch { person: Id, payment: Id, captured: i64, returned: i64, due: i64 },
    #[error("{payment} of {person} is {status}, and {captured} was taken")]
    CapturedUnpaid { person: Id, payment: Id, status: String, captured: i64 },
    #[error("{payment} of {person} pays for {reservation}, which is not a reservation of theirs")]
    PaymentAstray { person: Id, payment: Id, reservation: Id },
    #[error("{reservation} counts {due} as due, and providers are to return {asked}")]
    DueDiffers { reservation: Id, due: i64, asked: i64 },
    #[error("{person} has used the key \"{key}\" twice")]
    KeyTwice { person: Id, key: String },

    #[error("opening {opening} has no {what} {expected}, or has it twice")]
    GapInRoom { opening: i64, what: String, expected: i64 },
    #[error("the seed of opening {opening} is not the one whose hash was published")]
    SeedDiffers { opening: i64 },
    #[error(
        "{person} has number {number} in opening {opening}, which is not the rank that arrival or lot gives"
    )]
    WrongRank { opening: i64, number: i64, person: Id },
    #[error("{person} has two live tokens in opening {opening}")]
    TwoTokens { opening: i64, person: Id },
    #[error("number {number} of opening {opening} does not fit people having been let in up to {let_in}")]
    LetInWrongly { opening: i64, number: i64, let_in: i64 },
    #[error("number {number} of opening {opening} was let in before {before}")]
    LetInBefore { opening: i64, number: i64, before: i64 },
    #[error("{inside} people were inside at once in opening {opening}, whose room held {size} at most")]
    TooManyInside { opening: i64, inside: i64, size: i64 },

    #[error("{person} was promised {reservation} in {slot}, and does not have it")]
    PromiseLost { person: Id, slot: Slot, reservation: Id },
    #[error("{person} was refused {code} in {slot}, and the log does not say so")]
    RefusalUnknown { person: Id, slot: Slot, code: String },
    #[error("{person} was turned away from {slot}, and {ticket} was decided")]
    DecidedBehindTheirBack { person: Id, slot: Slot, ticket: Ticket },
    #[error("{person} has {reservation} in {slot}, and was not told so by any answer")]
    NotAskedFor { person: Id, slot: Slot, reservation: Id },
    #[error("{person} was given different answers in {slot}")]
    TwoAnswers { person: Id, slot: Slot },
    #[error("{person} was given different answers for the key \"{key}\"")]
    TwoAnswersForKey { person: Id, key: String },
    #[error("{person} has paid for {reservation}, and it is not paid")]
    PaymentLost { person: Id, reservation: Id },
    #[error("{ticket} has a lower number than somebody who knew theirs before it came")]
    Misnumbered { ticket: Ticket },
}

/// Something that is worth knowing and may be in order.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[allow(missing_docs, reason = "the sentence of each says what its fields are")]
pub enum Note {
    #[error("{reservation} in {slot} is {late} ms past its deadline and not swept yet")]
    NotSwept { reservation: Id, slot: Slot, late: i64 },
    #[error("{ticket} was decided after {after}, which came later, and lost nothing by it")]
    OutOfOrder { slot: Slot, ticket: Ticket, after: Ticket },
    #[error("the settings of venue {venue} have changed, so its capacities are taken from its log")]
    VenueChanged { venue: i64 },
}

impl Finding {
    /// The name of its kind: `oversold`.
    pub fn kind(&self) -> String {
        let written = serde_json::to_value(self).ok();
        written.and_then(|value| Some(value["kind"].as_str()?.to_owned())).unwrap_or_default()
    }
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Slots.
    pub slots: u64,
    /// Batches of their logs.
    pub batches: u64,
    /// Decisions in those.
    pub decisions: u64,
    /// Reservations that are in those slots.
    pub reservations: u64,
    /// People whose money was looked at.
    pub people: u64,
    /// Movements of it.
    pub entries: u64,
    /// Places in waiting rooms.
    pub tokens: u64,
    /// Visits that clients told of.
    pub visits: u64,
}

/// What an audit came to.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What was looked at.
    pub counts: Counts,
    /// What must not be: [`Report::MOST`] of it at most.
    pub findings: Vec<Finding>,
    /// How much more there was.
    pub more: u64,
    /// What may be in order: [`Report::MOST`] of it at most.
    pub notes: Vec<Note>,
}

impl Report {
    /// What is kept in full. A database that is all wrong need not fill the memory.
    pub const MOST: usize = 10_000;

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// How many findings of this kind were kept.
    pub fn of_kind(&self, kind: &str) -> usize {
        self.findings.iter().filter(|finding| finding.kind() == kind).count()
    }

    pub(crate) fn find(&mut self, finding: Finding) {
        if self.findings.len() < Self::MOST {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn note(&mut self, note: Note) {
        if self.notes.len() < Self::MOST {
            self.notes.push(note);
        }
    }
}
