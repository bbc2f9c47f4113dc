//! The rules of booking, without I/O: what may be booked, by whom, for how much.
//!
//! Nothing here knows of databases, networks, clocks or chance. Time and fresh ids come in as arguments, so the
//! same inputs give the same decisions in the server, in a test and in a simulation. The heart is
//! [`decide()`](decide::decide): the state of one slot and an ordered batch of commands in, outcomes and changes out.

pub mod decide;
#[cfg(feature = "simulation")]
pub mod flaws;
pub mod hall;
pub mod ids;
pub mod money;
pub mod names;
pub mod payment;
pub mod policy;
pub mod reservation;
pub mod room;
pub mod slot;
pub mod terms;
pub mod venue;
pub mod waitlist;
pub mod wallet;

pub use decide::{
    Action, Change, Changes, Command, Decided, Decision, Movement, Outcome, PaymentChange, Refusal, Verdict,
    When, decide,
};
pub use hall::{Hall, Seat};
pub use ids::{PaymentId, PersonId, RefundId, ReservationId, SlotId, TicketId, VenueId};
pub use money::Won;
pub use payment::{EventId, News, PaymentStatus, ProviderPayment, What};
pub use reservation::{IllegalTransition, Life, OrderLine, Payment, Reservation, Status};
pub use slot::{Slot, Spot};
pub use venue::{Inventory, Table, Venue};
pub use waitlist::{Waiting, Waitlist};
