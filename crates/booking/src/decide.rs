//! `decide`: one slot, an ordered batch of commands, and the time; out come an outcome for each and what to store.
//!
//! **Order.** Commands are decided one after the other. Whoever comes later sees what whoever came before has taken.
//!
//! **Sides.** People who already have a place here (pay, cancel, change) are owners and go first. Whoever wants one is a
//! guest and waits in order, also when they come from another slot ([`Action::Move`]) or have let their hold run out
//! ([`Action::Reseat`]): they have no place here to go first with.
//!
//! **Time.** Owners are judged at the instant at which they entered the lane, guests at the instant at which the batch
//! was drawn. So a hold cannot run out behind a crowd: whoever paid before the deadline has been decided before anybody
//! can take the place. A new hold runs from the instant of deciding, which may be later if the store was in trouble.
//!
//! **Once.** A request that stands in line under two tickets is done once: the id of the reservation that it makes comes with
//! it, so whichever ticket is second finds it made and gets the same answer.
//!
//! **Expiry.** An expired hold is free at once. Its row still says `TEMPORARY`, and the unique indexes believe the row,
//! so the expiry is part of the changes, ahead of whatever takes the place.
//!
//! **Waitlist.** Whatever frees is offered to those on the waitlist before anybody else is looked at (D7), so whoever comes
//! later finds only what nobody on the list can use.
//!
//! Money is only *asked for* here: a [`Movement`] that the wallet cannot bear makes the store refuse the batch and name
//! the ticket, which is then decided again as [refused](Known::foregone).

mod actions;
mod changes;
mod offers;
mod payments;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use changes::{Change, Changes, Movement, PaymentChange};
pub use payments::Payments;

use crate::hall::Seat;
use crate::ids::{PaymentId, PersonId, ReservationId, TicketId};
use crate::names::named;
use crate::payment::{EventId, News, What};
use crate::policy::CancelledBy;
use crate::reservation::{OrderLine, Payment, Reservation, Status};
use crate::slot::Slot;
use crate::venue::Venue;

/// One person's wish, in its place in line.
#[derive(Debug, Clone)]
pub struct Command {
    /// The place in line.
    pub ticket: TicketId,
    /// When it entered the lane.
    pub entered_at: Timestamp,
    /// Who wishes it.
    pub person: PersonId,
    /// What.
    pub action: Action,
}

/// What a command wants. Written by one process and read by another, which may be of another version: what is not known is
/// passed over, what may be missing is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Action {
    /// A new reservation. Boxed, so that a line full of tickets stays small.
    Book(Box<Booking>),
    /// Pay a hold.
    Pay {
        /// The hold.
        reservation: ReservationId,
    },
    /// Pay a hold that has run out: take a new place for it, as a new reservation (D9).
    Reseat {
        /// The hold that ran out.
        reservation: ReservationId,
        /// The id of the reservation that may take its place.
        afresh: ReservationId,
    },
    /// Give up a reservation.
    Cancel {
        /// Which.
        reservation: ReservationId,
        /// By whom, which decides the refund.
        by: CancelledBy,
    },
    /// Come with another party (D8).
    Change {
        /// Which reservation.
        reservation: ReservationId,
        /// The new size of the party.
        party: u32,
    },
    /// Come to this slot instead of another (D8).
    Move {
        /// Which reservation.
        reservation: ReservationId,
        /// The size of the party.
        party: u32,
    },
    /// Tidy up after a hold that has expired.
    Expire {
        /// Which.
        reservation: ReservationId,
    },
    /// The guests came.
    Complete {
        /// Which reservation.
        reservation: ReservationId,
    },
    /// The guests did not come.
    NoShow {
        /// Which reservation.
        reservation: ReservationId,
    },
    /// Hand out a refund that waited for the staff.
    Refund {
        /// Which reservation.
        reservation: ReservationId,
    },
    /// Wait for a place (D7).
    Join {
        /// The name that it will be made out to.
        name: Arc<str>,
        /// How many people.
        party: u32,
        /// The id of the reservation that may be offered.
        offer: ReservationId,
    },
    /// Wait no longer.
    Unlist {},
    /// Offer whatever is free to those who wait: a venue may have grown.
    Tend {},
    /// Begin to pay a hold with a provider.
    StartPayment {
        /// The hold.
        reservation: ReservationId,
        /// The id that the payment will have.
        payment: PaymentId,
        /// With whom.
        provider: Arc<str>,
    },
    /// What a provider says about a payment.
    Provider(Box<News>),
    /// A provider has the money for a hold that has run out: take a new place for it, as a new reservation (D9).
    ReseatPaid(Box<News>),
}

/// The terms of a new reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Booking {
    /// The id it will have.
    pub id: ReservationId,
    /// The name it is made out to.
    pub name: Arc<str>,
    /// How many people come.
    pub party: u32,
    /// The seats, where they are numbered; whichever are best if none are named.
    #[serde(skip_serializing_if = "<[_]>::is_empty", default)]
    pub seats: Arc<[Seat]>,
    /// The section in which to look for the best seats.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub section: Option<Arc<str>>,
    /// How it is to be paid.
    pub payment: Payment,
    /// What is ordered ahead, at the prices shown.
    #[serde(skip_serializing_if = "<[_]>::is_empty", default)]
    pub order: Arc<[OrderLine]>,
    /// The guest's words to the venue.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<Arc<str>>,
}

named! {
    /// What a command was about, as the decision log names it.
    Verdict {
        /// A new reservation.
        Book = "book",
        /// A payment.
        Pay = "pay",
        /// A late payment that took a new place.
        Reseat = "reseat",
        /// A cancellation.
        Cancel = "cancel",
        /// A change of party.
        Change = "change",
        /// A reservation that came from another slot.
        Move = "move",
        /// A hold that ran out.
        Expire = "expire",
        /// A visit.
        Complete = "complete",
        /// A missed visit.
        NoShow = "no-show",
        /// A refund handed out.
        Refund = "refund",
        /// Somebody new on the waitlist.
        Join = "join",
        /// Somebody no longer on it.
        Unlist = "unlist",
        /// A place offered to somebody on it.
        Offer = "offer",
        /// A look at what is free.
        Tend = "tend",
        /// A payment with a provider that was begun.
        StartPayment = "start-payment",
        /// A payment that a provider has.
        Paid = "paid",
        /// A payment with a provider that came to nothing.
        Unpaid = "unpaid",
        /// What a provider has returned of what a reservation cost.
        Returned = "returned",
        /// What a provider has returned of money that had bought nothing.
        GivenBack = "given-back",
    }
}

impl Verdict {
    /// Whether the command came in on the side of those who already have a place.
    pub fn is_owners(self) -> bool {
        !matches!(self, Self::Book | Self::Reseat | Self::Move | Self::Join)
    }
}

impl Verdict {
    /// Whether it is about the waitlist, and so about no reservation.
    pub fn is_about_waitlist(self) -> bool {
        matches!(self, Self::Join | Self::Unlist | Self::Tend)
    }
}

impl Action {
    /// What the decision log calls it.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Book(_) => Verdict::Book,
            Self::Pay { .. } => Verdict::Pay,
            Self::Reseat { .. } => Verdict::Reseat,
            Self::Cancel { .. } => Verdict::Cancel,
            Self::Change { .. } => Verdict::Change,
            Self::Move { .. } => Verdict::Move,
            Self::Expire { .. } => Verdict::Expire,
            Self::Complete { .. } => Verdict::Complete,
            Self::NoShow { .. } => Verdict::NoShow,
            Self::Refund { .. } => Verdict::Refund,
            Self::Join { .. } => Verdict::Join,
            Self::Unlist {} => Verdict::Unlist,
            Self::Tend {} => Verdict::Tend,
            Self::StartPayment { .. } => Verdict::StartPayment,
            Self::ReseatPaid(_) => Verdict::Reseat,
            Self::Provider(news) => match news.what {
                What::Paid { .. } => Verdict::Paid,
                What::Failed | What::Cancelled => Verdict::Unpaid,
                What::Returned { .. } => Verdict::Returned,
            },
        }
    }

    /// Whether it belongs to somebody who already has a place here, and so goes first.
    pub fn is_owners(&self) -> bool {
        self.verdict().is_owners()
    }

    /// The id of the reservation that it makes, if it makes one.
    pub fn makes(&self) -> Option<ReservationId> {
        match self {
            Self::Book(booking) => Some(booking.id),
            Self::Reseat { afresh, .. } => Some(*afresh),
            Self::ReseatPaid(news) => Some(ReservationId(news.payment.0)),
            _ => None,
        }
    }

    /// The id of the reservation that it may come to later, when its turn on the waitlist comes.
    pub fn may_be_offered(&self) -> Option<ReservationId> {
        match self {
            Self::Join { offer, .. } => Some(*offer),
            _ => None,
        }
    }

    /// The existing reservation that it is about.
    pub fn reservation(&self) -> Option<ReservationId> {
        match *self {
            Self::Book(_) | Self::Join { .. } | Self::Unlist {} | Self::Tend {} => None,
            Self::Provider(ref news) | Self::ReseatPaid(ref news) => Some(news.reservation),
            Self::Pay { reservation }
            | Self::StartPayment { reservation, .. }
            | Self::Reseat { reservation, .. }
            | Self::Cancel { reservation, .. }
            | Self::Change { reservation, .. }
            | Self::Move { reservation, .. }
            | Self::Expire { reservation }
            | Self::Complete { reservation }
            | Self::NoShow { reservation }
            | Self::Refund { reservation } => Some(reservation),
        }
    }

    /// What a provider has said, if that is what it is.
    pub fn news(&self) -> Option<&News> {
        match self {
            Self::Provider(news) | Self::ReseatPaid(news) => Some(news),
            _ => None,
        }
    }

    /// Whether deciding it takes knowing the payments of its reservation with providers.
    pub fn is_about_money(&self) -> bool {
        !matches!(
            self,
            Self::Book(_)
                | Self::Reseat { .. }
                | Self::Expire { .. }
                | Self::Complete { .. }
                | Self::NoShow { .. }
        )
    }
}

/// Why somebody did not get what they wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Refusal {
    /// The person holds a place in this slot already (A4).
    AlreadyBooked,
    /// Fewer places are left than the party needs (A2).
    NotEnoughPlaces {
        /// What is left.
        remaining: u32,
    },
    /// No free table fits the party (B1).
    TableUnavailable {
        /// How many tables are free, all too small.
        remaining: u32,
    },
    /// Some of the seats are taken, or not so many are together (C6).
    SeatTaken {
        /// How many are left, or together at most.
        remaining: u32,
    },
    /// The person waits for a place in this slot already (D7).
    AlreadyWaiting,
    /// The waitlist is as long as it may be.
    WaitlistFull,
    /// The state machine has no such move.
    IllegalTransition {
        /// Where the reservation stands.
        from: Status,
        /// Where it was to go.
        to: Status,
    },
    /// The wallet cannot bear it.
    InsufficientPoints,
    /// The guest is paying at a provider.
    PaymentInProgress,
    /// A provider has taken another amount than was asked for: it goes back.
    WrongAmount,
    /// A provider has said it before, or something that came after it.
    Repeated,
    /// The reservation is in another slot now: ask there.
    Elsewhere,
    /// There is no such reservation.
    NotFound,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It was done; the reservation as it is now.
    Done(Arc<Reservation>),
    /// It was done, and is about no reservation: the waitlist has changed.
    Noted,
    /// It was refused, and changed no reservation. Money that a provider has taken for nothing goes back.
    Refused(Refusal),
}

/// One line of the decision log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The place in line; a hold that ran out by itself and an offer have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ticket: Option<TicketId>,
    /// Whose wish it was.
    pub person: PersonId,
    /// What was decided.
    pub verdict: Verdict,
    /// The size of the party.
    pub party: u32,
    /// What was left when the turn came.
    pub left: u32,
    /// The reservation it made or changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reservation: Option<ReservationId>,
    /// Why not, if not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<Refusal>,
}

/// What a batch came to.
#[derive(Debug)]
pub struct Decided {
    /// One outcome for each command, in the same order.
    pub outcomes: Vec<Outcome>,
    /// The lines of the log: one for each command, one for each hold that ran out and one for each offer.
    pub decisions: Vec<Decision>,
    /// What to store.
    pub changes: Changes,
}

/// What a batch needs to know beside the slot.
#[derive(Debug, Default)]
pub struct Known {
    /// Reservations that it refers to and that hold no place in the slot: expired ones, or ones of another slot. One that a
    /// booking would make tells that it was made before.
    pub reservations: HashMap<ReservationId, Arc<Reservation>>,
    /// Refusals that are certain already, because the store found that a wallet cannot bear what the ticket wants.
    pub foregone: HashMap<TicketId, Refusal>,
    /// Payments with providers for the reservations that it is about.
    pub payments: Payments,
    /// Those of its providers' events that were heard before.
    pub events: HashSet<EventId>,
}

/// The instants of a batch.
#[derive(Debug, Clone, Copy)]
pub struct When {
    /// When it was drawn: guests are judged by it, however long the store kept them waiting since.
    pub drawn: Timestamp,
    /// When it is decided: what is new is dated by it.
    pub decided: Timestamp,
}

/// Decides a batch in order. `slot` is left as it will be once the changes are stored.
pub fn decide<'c>(
    slot: &mut Slot,
    venue: &Venue,
    known: &Known,
    commands: impl ExactSizeIterator<Item = &'c Command>,
    when: When,
) -> Decided {
    let mut turn = actions::Turn::new(slot, venue, known, when, commands.len());
    let outcomes = commands.map(|command| turn.decide(command)).collect();
    turn.finish(outcomes)
}
