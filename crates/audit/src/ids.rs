//! Ids as they are stored, and as people are shown them. Read here from their written form, not with the program's own types.

use std::fmt;

use jiff::ToSpan;
use jiff::civil::{Date, date};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn spell(value: u128) -> String {
    (0..26).rev().map(|digit| char::from(DIGITS[((value >> (5 * digit)) & 31) as usize])).collect()
}

fn read(text: &str) -> Option<u128> {
    let digit = |byte| DIGITS.iter().position(|&known| known == byte);
    let fits = text.len() == 26 && text.as_bytes()[0] <= b'7';
    fits.then(|| text.bytes().try_fold(0, |value, byte| Some(value << 5 | digit(byte)? as u128))).flatten()
}

/// A person or a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u128);

/// A place in the line of a slot: slot, life of the line, and number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u128);

/// A venue at a date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Slot(pub i64);

impl Ticket {
    const NUMBER_BITS: u32 = 34;

    /// The ticket of this number in this life of a slot's line.
    pub fn new(slot: Slot, epoch: u64, number: u64) -> Self {
        Self(u128::from(slot.0.cast_unsigned()) << 64 | u128::from(epoch << Self::NUMBER_BITS | number))
    }

    /// Whose line it is in.
    pub fn slot(self) -> Slot {
        Slot(u64::try_from(self.0 >> 64).unwrap_or(0).cast_signed())
    }

    fn place(self) -> u64 {
        u64::try_from(self.0 & u128::from(u64::MAX)).unwrap_or(0)
    }

    /// In which life of the line. Numbers of different lives are not compared.
    pub fn epoch(self) -> u64 {
        self.place() >> Self::NUMBER_BITS
    }

    /// The number in line.
    pub fn number(self) -> u64 {
        self.place() & ((1 << Self::NUMBER_BITS) - 1)
    }
}

impl Slot {
    /// The venue's number.
    pub fn venue(self) -> i64 {
        self.0 >> 32
    }

    /// The slots of a venue lie between these two, both included.
    pub fn range_of(venue: i64) -> (Self, Self) {
        (Self(venue << 32), Self(venue << 32 | 0xffff_ffff))
    }

    /// The tickets of this slot lie between these two, both included.
    pub fn tickets(self) -> (Ticket, Ticket) {
        let first = u128::from(self.0.cast_unsigned()) << 64;
        (Ticket(first), Ticket(first | u128::from(u64::MAX)))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&spell(self.0))
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}.{})", spell(self.0), self.epoch(), self.number())
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FIRST: Date = date(1970, 1, 1);
        let (day, minute) = ((self.0 >> 11) & ((1 << 21) - 1), self.0 & 2047);
        let day = FIRST.saturating_add(day.days());
        write!(f, "{day} {:02}:{:02} at venue {}", minute / 60, minute % 60, self.venue())
    }
}

/// As the log and the API write them.
macro_rules! written {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&spell(self.0))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                read(&text).map(Self).ok_or_else(|| D::Error::custom("not an id"))
            }
        }

        impl std::str::FromStr for $name {
            type Err = &'static str;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                read(text).map(Self).ok_or("not an id")
            }
        }
    };
}

written!(Id);
written!(Ticket);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_as_the_log_writes_it() {
        let ticket: Ticket = "0000001001f9ga0000c000001e".parse().unwrap();
        assert_eq!(spell(ticket.0), "0000001001f9ga0000c000001e");
        let ticket = Ticket::new(Slot(1 << 32 | 20_000 << 11 | 720), 3, 46);
        assert_eq!((ticket.slot().venue(), ticket.epoch(), ticket.number()), (1, 3, 46));
        assert_eq!(ticket.slot().to_string(), "2024-10-04 12:00 at venue 1");
        assert_eq!(spell(ticket.0).parse(), Ok(ticket));
        assert_eq!("7zzzzzzzzzzzzzzzzzzzzzzzzz".parse(), Ok(Id(u128::MAX)));
        for wrong in ["", "8zzzzzzzzzzzzzzzzzzzzzzzzz", "lllllllllllllllllllllllllL"] {
            assert!(wrong.parse::<Id>().is_err());
        }
    }
}
