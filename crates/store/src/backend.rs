//! What every database engine must offer, written down once.
//!
//! The list below becomes the trait that an engine implements, the methods of [`Store`], and the forwarding between them.
//! An engine has inherent `async` methods of these names, grouped in files by what they are about; the trait is what
//! makes engines interchangeable behind one type, so that nothing above the store is generic over a database.

use std::pin::Pin;

use booking::room::{Opening, OpeningId, Room, Terms, Token};
use booking::venue::{MenuItem, Settings};
use booking::{
    EventId, PaymentId, PersonId, ProviderPayment, RefundId, Reservation, ReservationId, Slot, SlotId,
    TicketId, Venue, VenueId, Waiting, Won,
};
use jiff::Timestamp;
use jiff::civil::Date;

use crate::error::{CommitError, Error};
use crate::postgres::Postgres;
use crate::records::{
    Account, AccountError, Batch, Charge, ChargeError, DueRefund, Entry, Logged, NewOpening, Occupancy,
    Overdue, Page, RequestKey, RoomBatch, ToLookAt,
};
use crate::sqlite::Sqlite;
#[cfg(feature = "controls")]
use crate::store::Controls;
use crate::store::Store;

/// An answer under way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

macro_rules! offered {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        /// A database engine.
        pub trait Backend: Send + Sync {
            $($(#[$doc])*
            fn $name(&self, $($argument: $kind),*) -> Answer<'_, $answer>;)*

            /// Ends whatever works in the background, once what it has in hand is done.
            fn close(&self);

            /// Switches protection off.
            #[cfg(feature = "controls")]
            fn set_controls(&mut self, controls: Controls) {
                let _ = controls;
            }
        }

        impl Store {
            $($(#[$doc])*
            pub async fn $name(&self, $($argument: $kind),*) -> $answer {
                self.backend.$name($($argument),*).await
            })*
        }

        offered!(@ Sqlite { $(fn $name($($argument: $kind),*) -> $answer;)* });
        offered!(@ Postgres { $(fn $name($($argument: $kind),*) -> $answer;)* });
    };
    (@ $engine:ident { $(fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)* }) => {
        // `$engine::name` is the inherent method, which goes before the trait's.
        impl Backend for $engine {
            $(fn $name(&self, $($argument: $kind),*) -> Answer<'_, $answer> {
                Box::pin($engine::$name(self, $($argument),*))
            })*

            fn close(&self) {
                $engine::close(self);
            }

            #[cfg(feature = "controls")]
            fn set_controls(&mut self, controls: Controls) {
                self.controls = controls;
            }
        }
    };
}

offered! {
    /// Stores a batch if slot and venue are as they were when it was decided; the slot's new version.
    fn commit(batch: Batch) -> Result<u64, CommitError>;

    /// The slot with everybody who holds a place in it.
    fn slot(id: SlotId) -> Result<Slot, Error>;
    /// These reservations, as far as they exist.
    fn reservations(ids: Vec<ReservationId>) -> Result<Vec<Reservation>, Error>;
    /// A person's reservations, newest first, from after the cursor.
    fn reservations_of(person: PersonId, after: Option<ReservationId>, limit: u32)
        -> Result<Page<Reservation>, Error>;
    /// A venue's reservations on one day, by time, then in the order in which they were won.
    fn reservations_on(venue: VenueId, date: Date) -> Result<Vec<Reservation>, Error>;
    /// What is taken at `now` of a venue's slots, from one to another; slots of which nothing is taken are left out.
    fn occupancy(from: SlotId, to: SlotId, now: Timestamp) -> Result<Vec<Occupancy>, Error>;
    /// Holds whose deadline has passed at `now`, the longest overdue first.
    fn overdue(now: Timestamp, limit: u32) -> Result<Vec<Overdue>, Error>;
    /// When the next hold runs out that has not been written down as expired.
    fn next_deadline() -> Result<Option<Timestamp>, Error>;

    /// Who waits for a place in a slot, in order.
    fn waitlist(slot: SlotId) -> Result<Vec<Waiting>, Error>;
    /// Where this person waits for a place.
    fn waits_of(person: PersonId) -> Result<Vec<(SlotId, Waiting)>, Error>;
    /// Slots from this one on for which anybody waits, at most so many.
    fn waited_for(from: SlotId, limit: u32) -> Result<Vec<SlotId>, Error>;

    /// What was decided about this ticket, if anything was.
    fn decided(ticket: TicketId) -> Result<Option<Logged>, Error>;
    /// What was decided about those of these tickets, all of one slot, about which anything was; in any order.
    fn decided_among(tickets: Vec<TicketId>) -> Result<Vec<Logged>, Error>;
    /// What this person used this key for.
    fn request_key(person: PersonId, key: String) -> Result<Option<RequestKey>, Error>;
    /// Forgets keys older than `before`, at most `limit` of them; how many it was.
    fn forget_keys(before: Timestamp, limit: u32) -> Result<usize, Error>;

    /// What a person's wallet holds.
    fn balance(person: PersonId) -> Result<Won, Error>;
    /// Puts points into wallets, in one transaction, each charge as far as its wallet bears it; with a key, once. What came
    /// of each.
    fn charge_all(charges: Vec<Charge>) -> Result<Vec<Result<Entry, ChargeError>>, Error>;
    /// A wallet's movements, newest first, from before the cursor.
    fn wallet_entries(person: PersonId, before: Option<i64>, limit: u32) -> Result<Page<Entry>, Error>;

    /// Payments that were begun for these reservations, or have paid for them.
    fn payments_about(reservations: Vec<ReservationId>) -> Result<Vec<ProviderPayment>, Error>;
    /// One payment.
    fn payment(id: PaymentId) -> Result<Option<ProviderPayment>, Error>;
    /// Those of these events that were heard before.
    fn events_heard(events: Vec<EventId>) -> Result<Vec<EventId>, Error>;
    /// The provider has taken a payment on, and calls it so; whether it was still to be.
    fn request_payment(id: PaymentId, reference: String, checkout_url: String, at: Timestamp) -> Result<bool, Error>;
    /// Open payments whose time has come to be looked at; nobody else is given them for a while.
    fn payments_to_look_at(now: Timestamp, limit: u32) -> Result<Vec<ToLookAt>, Error>;
    /// Refunds for which a provider is to be asked; nobody else is given them for a while.
    fn refunds_to_ask_for(now: Timestamp, limit: u32) -> Result<Vec<DueRefund>, Error>;
    /// The provider is asked for this refund again, but not before this instant.
    fn ask_again(id: RefundId, at: Timestamp) -> Result<(), Error>;
    /// What is on its way back through providers: how many refunds, and how much.
    fn refunds_due() -> Result<(u64, Won), Error>;
    /// The opening of a venue that counts, if it has one.
    fn opening(venue: VenueId) -> Result<Option<Opening>, Error>;
    /// Begins a new opening, with numbers of its own, in place of the one before; the room stays as it is.
    fn add_opening(venue: VenueId, opening: NewOpening) -> Result<Opening, Error>;
    /// Sets how a venue's room is run; begins `otherwise` where there is no opening.
    fn set_room(venue: VenueId, terms: Terms, otherwise: NewOpening) -> Result<Opening, Error>;
    /// The waiting room of a venue, with the latest tokens of these people.
    fn room(venue: VenueId, people: Vec<PersonId>) -> Result<Option<Room>, Error>;
    /// Stores a batch if the opening is as it was when it was decided.
    fn commit_room(batch: RoomBatch) -> Result<(), CommitError>;
    /// Gives numbers to the next of those who came before an opening that is due, `limit` at most, if it is at this
    /// version; whether all have one now.
    fn open_room(opening: OpeningId, version: u64, at: Timestamp, limit: u32) -> Result<bool, CommitError>;
    /// Who left a room before being let in: their numbers, above the highest that was, in order.
    fn left_waiting(opening: OpeningId) -> Result<Vec<u64>, Error>;
    /// A person's latest token.
    fn token(opening: OpeningId, person: PersonId) -> Result<Option<Token>, Error>;
    /// Notes that somebody inside has been seen; whether they are inside.
    fn seen(token: Token, at: Timestamp) -> Result<bool, Error>;
    /// Venues in whose rooms something is to be done at `now`: an opening is due, somebody is out of time, or there is room.
    fn due_rooms(now: Timestamp, limit: u32) -> Result<Vec<VenueId>, Error>;
    /// Who was drawn, by number, from after this one.
    fn drawn(opening: OpeningId, after: u64, limit: u32) -> Result<Vec<(u64, PersonId)>, Error>;

    /// All venues.
    fn venues() -> Result<Vec<Venue>, Error>;
    /// One venue.
    fn venue(id: VenueId) -> Result<Option<Venue>, Error>;
    /// Makes a venue and gives it its first member of staff.
    fn add_venue(settings: Settings, menu: Vec<MenuItem>, staff: Vec<PersonId>) -> Result<Venue, Error>;
    /// Replaces a venue's settings, if it still is at this version; whether it was.
    fn set_settings(id: VenueId, version: u64, settings: Settings) -> Result<bool, Error>;
    /// Replaces a venue's menu.
    fn set_menu(id: VenueId, menu: Vec<MenuItem>) -> Result<(), Error>;

    /// Makes an account, if nobody signs in with its address yet.
    fn add_account(account: Account, at: Timestamp) -> Result<(), AccountError>;
    /// The account that signs in with this address.
    fn account_by_email(email: String) -> Result<Option<Account>, Error>;

    /// Whether the database can be written to: for health checks.
    fn ping() -> Result<(), Error>;
    /// What time it is where the truth is kept, to the millisecond: the one clock that all processes can agree on.
    fn clock() -> Result<Timestamp, Error>;
    /// The next life of a line: later ones are greater, and none is given out twice.
    fn next_epoch() -> Result<u32, Error>;
}
