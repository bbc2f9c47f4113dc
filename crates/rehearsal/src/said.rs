//! What servers say, as far as a guest understands it. One lenient shape for all of it: what an answer means follows from
//! its status and from which members are there.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

/// A body.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Said<'a> {
    #[serde(borrow)]
    pub id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub state: Option<Cow<'a, str>>,
    pub epoch: Option<u32>,
    pub number: Option<u64>,
    #[serde(borrow)]
    pub code: Option<Cow<'a, str>>,
    /// A token for the waiting room.
    #[serde(borrow)]
    pub token: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub ticket: Option<Ticket<'a>>,
    #[serde(borrow)]
    pub outcome: Option<Settled<'a>>,
    pub amount_due: Option<i64>,
    pub created_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub table: Option<u32>,
    #[serde(borrow)]
    pub seats: Vec<Cow<'a, str>>,
}

/// A place in line, briefly.
#[derive(Debug, Deserialize)]
pub(crate) struct Ticket<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    pub epoch: u32,
    pub number: u64,
}

/// How a ticket ended.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Settled<'a> {
    pub status: u16,
    #[serde(borrow)]
    pub reservation: Option<Box<Said<'a>>>,
    #[serde(borrow)]
    pub problem: Option<Box<Said<'a>>>,
}

impl<'a> Said<'a> {
    /// Understands a body.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// The place in line that this is about.
    pub fn place(&self) -> Option<(u32, u64)> {
        match &self.ticket {
            Some(ticket) => Some((ticket.epoch, ticket.number)),
            None => self.epoch.zip(self.number),
        }
    }

    pub fn code(&self) -> &str {
        self.code.as_deref().unwrap_or_default()
    }

    pub fn state(&self) -> &str {
        self.state.as_deref().unwrap_or_default()
    }
}
