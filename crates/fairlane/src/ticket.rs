//! A place in line that outlives the call that took it.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// A place in the line of a fair lock or a semaphore.
///
/// It is plain data: turn it into text, hand it to a browser, parse it in another process, and resume there. Whoever
/// knows it can take the place, so its id is not guessable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) id: TicketId,
    /// The life of the line in which the number was given; a new one begins when Redis has been emptied.
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

impl Ticket {
    /// The number in line. Numbers of one line only grow, also after Redis was emptied; they are not gapless.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.number, self.id.0)
    }
}

impl FromStr for Ticket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.splitn(3, '.');
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or(Error::BadTicket);
        let (epoch, number) = (number()?, number()?);
        match parts.next() {
            // The id becomes part of a field name in Redis: nothing but what `mint` makes is let through.
            Some(id)
                if id.len() <= 64
                    && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
                    && !id.is_empty() =>
            {
                Ok(Self { id: TicketId(id.into()), epoch, number })
            }
            _ => Err(Error::BadTicket),
        }
    }
}

/// Names one request across resends, processes and restarts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TicketId(pub(crate) Arc<str>);

/// Mints ticket ids for one client: 128 random bits that tell clients apart, and a counter.
#[derive(Debug)]
pub(crate) struct Mint {
    pub(crate) client: Arc<str>,
    next: AtomicU64,
}

impl Mint {
    pub(crate) fn new() -> Self {
        let client = format!("{:016x}{:016x}", random(), random());
        Self { client: client.into(), next: AtomicU64::new(0) }
    }

    pub(crate) fn ticket(&self) -> TicketId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        TicketId(format!("{}-{number:x}", self.client).into())
    }
}

/// 64 bits from the operating system's entropy by way of the standard library's hash keys.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_survives_being_text() {
        let ticket = Ticket { id: Mint::new().ticket(), epoch: 7, number: 41 };
        assert_eq!(ticket.to_string().parse::<Ticket>().unwrap(), ticket);
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "1", "1.2", "1.2.", "x.2.ab", "1.2.ab:cd", "1.2.ab\n"] {
            assert!(matches!(text.parse::<Ticket>(), Err(Error::BadTicket)), "{text:?}");
        }
    }
}
