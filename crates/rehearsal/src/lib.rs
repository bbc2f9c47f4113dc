//! A dress rehearsal: a crowd of synthetic guests against a running server, and whether everybody was treated right.
//!
//! ```text
//!  plan ─► arrivals ─► guest ─► connections ─► the server
//!          when each   presses,  keep-alive,
//!          one comes   waits,    a bounded number
//!                      pays
//!             tally  what can be seen while it goes on
//!             record what became of each guest ─► exact, report, page
//! ```
//!
//! Guests come when the plan says, whether or not the server keeps up, and every latency counts from that moment: a server
//! that stalls is not spared the guests who would have come meanwhile. Everything is judged from outside, by what guests
//! were told; nothing here shares code with the server. Other servers with the same calls can be driven too: whoever answers
//! 202 without a ticket is asked again.

mod answer;
mod arrivals;
mod call;
mod connections;
mod exact;
mod guest;
mod page;
mod plan;
mod record;
mod report;
mod room;
mod run;
mod said;
mod tally;
mod wire;

pub use arrivals::{Arrival, Arrivals, time};
pub use connections::{Address, BadAddress};
pub use exact::Exactness;
pub use page::page;
pub use plan::{Plan, Popularity, Slot, Waiting};
pub use record::{Outcome, Record, Seating};
pub use report::{Percentiles, Report};
pub use run::{Failed, Tokens, Unit, run};
pub use tally::{Tally, View};
