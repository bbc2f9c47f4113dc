//! The sliding window in Redis.

use std::time::Duration;

use super::chores::Chore;
use super::link::Call;
use super::queue::padded;
use super::script::script;
use super::{Redis, Shared, micros};
use crate::backend::{Key, Take, Taken};
use crate::error::Result;
use crate::ticket::TicketId;

script!(TAKE = "rate_take.lua");
script!(LEAVE = "rate_leave.lua");

/// How long a waiter may be late for its turn before others take it.
const LATE: Duration = Duration::from_secs(1);

const LINE: &str = ":line";
const KEPT: &str = ":kept";

impl Redis {
    pub(crate) async fn take(&self, key: &Key, take: &Take<'_>) -> Result<Taken> {
        let call = Call::new(&TAKE)
            .key(&key.base, "")
            .key(&key.base, LINE)
            .key(&key.base, KEPT)
            .arg(&take.ticket.0)
            .arg(take.limit)
            .arg(micros(take.window))
            .arg(micros(take.patience))
            .arg(micros(LATE));
        let (word, number, _): (_, Option<u64>, Option<u64>) = padded(self.shared.link.call(&call).await?)?;
        let number = number.unwrap_or_default();
        Ok(match word.as_str() {
            "passed" => Taken::Passed(number),
            "wait" => Taken::Wait(Duration::from_micros(number)),
            _ => Taken::Refused(Duration::from_micros(number)),
        })
    }

    pub(crate) fn untake(&self, key: &Key, ticket: &TicketId) {
        self.send(Chore::Untake(key.clone(), ticket.clone()));
    }
}

impl Shared {
    pub(super) async fn leave_rate(&self, key: &Key, ticket: &TicketId) -> Result<()> {
        self.link
            .call(&Call::new(&LEAVE).key(&key.base, LINE).key(&key.base, KEPT).arg(&ticket.0))
            .await
            .map(drop)
    }
}
