//! Ids: one type each, so that a slot is never taken for a venue.
//!
//! A slot and a ticket are *named* by what they are: a [`SlotId`] is venue, date and time in 64 bits, a [`TicketId`] is
//! slot, epoch and number in 128. So nobody has to look up which slot a ticket belongs to, and a ticket is found in the
//! decision log without an index row of its own. Clients see opaque strings.

use std::fmt;
use std::str::FromStr;

use jiff::ToSpan;
use jiff::civil::{Date, Time, date};

/// The text is not an id of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid id")]
pub struct InvalidId;

/// Lower-case Crockford base 32: no letters that are mistaken for digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 26 × 5 bits hold 128 bits; the first digit carries only three of them.
const DIGITS: usize = 26;

fn encode(value: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0u8; DIGITS];
    for (i, digit) in text.iter_mut().enumerate() {
        let shift = 5 * (DIGITS - 1 - i);
        *digit = ALPHABET[((value >> shift) & 31) as usize];
    }
    f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
}

fn decode(text: &str) -> Result<u128, InvalidId> {
    if text.len() != DIGITS {
        return Err(InvalidId);
    }
    text.bytes().try_fold(0u128, |value, byte| {
        let digit = ALPHABET.iter().position(|&a| a == byte).ok_or(InvalidId)?;
        // A first digit above 7 would be a 129th bit: a second spelling of another id.
        if value >> 123 != 0 { Err(InvalidId) } else { Ok((value << 5) | digit as u128) }
    })
}

macro_rules! wide_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                decode(text).map(Self)
            }
        }

        text_serde!($name);
    };
}

macro_rules! text_serde {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

wide_id!(
    /// A guest, or a member of a venue's staff.
    PersonId
);
wide_id!(
    /// One reservation, through all its states.
    ReservationId
);
wide_id!(
    /// One payment with a provider.
    PaymentId
);
wide_id!(
    /// Money on its way back through a provider.
    RefundId
);

/// A venue. They are public and few: a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VenueId(pub u32);

impl fmt::Display for VenueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for VenueId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let number: u32 = text.parse().map_err(|_| InvalidId)?;
        // One spelling an id ("+7" and "07" parse too), and 31 bits of a slot's id.
        if number.to_string() == text && number <= SlotId::MAX_VENUE {
            Ok(Self(number))
        } else {
            Err(InvalidId)
        }
    }
}

text_serde!(VenueId);

/// What people compete for: a venue at a date and time, packed as venue (31 bits), day (21) and minute (11).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(i64);

const FIRST_DAY: Date = date(1970, 1, 1);

impl SlotId {
    const MAX_VENUE: u32 = (1 << 31) - 1;

    /// The slot's id, unless the date is before 1970. Seconds do not count: slots start on the minute.
    pub fn new(venue: VenueId, date: Date, time: Time) -> Option<Self> {
        let day = date.since(FIRST_DAY).ok().map(|span| i64::from(span.get_days()))?;
        let minute = i64::from(time.hour()) * 60 + i64::from(time.minute());
        (day >= 0 && venue.0 <= Self::MAX_VENUE).then(|| Self(i64::from(venue.0) << 32 | day << 11 | minute))
    }

    /// The id as the database keeps it.
    pub fn to_i64(self) -> i64 {
        self.0
    }

    /// The id that the database kept. Whatever is not a slot's id shows as some slot that has no rows.
    pub fn from_i64(stored: i64) -> Self {
        Self(stored & i64::MAX)
    }

    /// The venue it belongs to.
    pub fn venue(self) -> VenueId {
        VenueId(u32::try_from(self.0 >> 32).unwrap_or(Self::MAX_VENUE))
    }

    /// The day, in the venue's time zone.
    pub fn date(self) -> Date {
        FIRST_DAY.saturating_add(((self.0 >> 11) & ((1 << 21) - 1)).days())
    }

    /// The start, in the venue's time zone.
    pub fn time(self) -> Time {
        let minute = i8::try_from((self.0 & 2047) % 60).unwrap_or(0);
        let hour = i8::try_from((self.0 & 2047) / 60).unwrap_or(0);
        Time::new(hour % 24, minute, 0, 0).unwrap_or(Time::midnight())
    }

    /// All slots of one venue on one day lie between these two, both included.
    pub fn day_range(venue: VenueId, date: Date) -> Option<(Self, Self)> {
        let first = Self::new(venue, date, Time::midnight())?;
        Some((first, Self(first.0 | 2047)))
    }
}

/// As the database keeps it.
impl serde::Serialize for SlotId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> serde::Deserialize<'de> for SlotId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer).map(Self::from_i64)
    }
}

impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotId({} {} {})", self.venue(), self.date(), self.time().strftime("%H:%M"))
    }
}

/// A place in the line of a slot. Tickets of one slot are ordered by epoch, then number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId {
    /// The slot whose line it is.
    pub slot: SlotId,
    place: u64,
}

impl TicketId {
    /// Numbers have 34 bits: 17 billion people in one life of a line. A life is drawn whenever a line is born anew, thousands a
    /// day where lines are shared; 29 bits of them last for half a billion, and keep the sign bit of a database's integer
    /// clear.
    const NUMBER_BITS: u32 = 34;
    const EPOCH_BITS: u32 = 29;

    /// The ticket with this number in this life of the line.
    pub fn new(slot: SlotId, epoch: u32, number: u64) -> Self {
        debug_assert!(epoch < 1 << Self::EPOCH_BITS && number < 1 << Self::NUMBER_BITS);
        Self { slot, place: u64::from(epoch) << Self::NUMBER_BITS | number & ((1 << Self::NUMBER_BITS) - 1) }
    }

    /// Which life of the line: numbers of different lives are not compared.
    pub fn epoch(self) -> u32 {
        u32::try_from(self.place >> Self::NUMBER_BITS).unwrap_or(0)
    }

    /// The number in line, from 1.
    pub fn number(self) -> u64 {
        self.place & ((1 << Self::NUMBER_BITS) - 1)
    }

    /// Epoch and number as one integer that orders the tickets of a slot.
    pub fn place_as_i64(self) -> i64 {
        // Epochs leave the sign bit clear; what is not a ticket's id may set it, and shows as some ticket that has no rows.
        (self.place & i64::MAX.cast_unsigned()).cast_signed()
    }

    /// The id as the database keeps it.
    pub fn to_u128(self) -> u128 {
        u128::from(self.slot.0.cast_unsigned()) << 64 | u128::from(self.place)
    }

    /// The id that [`TicketId::to_u128`] gave.
    pub fn from_u128(stored: u128) -> Self {
        let high = u64::try_from(stored >> 64).unwrap_or(0);
        let low = u64::try_from(stored & u128::from(u64::MAX)).unwrap_or(0);
        Self { slot: SlotId::from_i64(high.cast_signed()), place: low }
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(self.to_u128(), f)
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketId({:?} {}.{})", self.slot, self.epoch(), self.number())
    }
}

impl FromStr for TicketId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let value = decode(text)?;
        if value >> 127 != 0 { Err(InvalidId) } else { Ok(Self::from_u128(value)) }
    }
}

text_serde!(TicketId);

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::time;

    #[test]
    fn a_slot_is_its_venue_date_and_time() {
        let slot = SlotId::new(VenueId(7), date(2026, 12, 31), time(19, 30, 0, 0)).unwrap();
        assert_eq!(
            (slot.venue(), slot.date(), slot.time()),
            (VenueId(7), date(2026, 12, 31), time(19, 30, 0, 0))
        );
        assert_eq!(SlotId::from_i64(slot.to_i64()), slot);
        assert_eq!(SlotId::new(VenueId(7), date(1969, 12, 31), time(0, 0, 0, 0)), None);
    }

    #[test]
    fn a_ticket_is_its_slot_epoch_and_number() {
        let slot = SlotId::new(VenueId(SlotId::MAX_VENUE), date(2026, 12, 31), time(23, 59, 0, 0)).unwrap();
        let ticket = TicketId::new(slot, 3, 110_000);
        let read: TicketId = ticket.to_string().parse().unwrap();
        assert_eq!((read, read.slot, read.epoch(), read.number()), (ticket, slot, 3, 110_000));
        assert!(TicketId::new(slot, 2, 9) < TicketId::new(slot, 3, 1));
    }

    #[test]
    fn the_last_number_of_the_last_life_still_orders_after_all_others() {
        let slot = SlotId::new(VenueId(1), date(2026, 12, 31), time(19, 0, 0, 0)).unwrap();
        let (epoch, number) = ((1 << TicketId::EPOCH_BITS) - 1, (1 << TicketId::NUMBER_BITS) - 1);
        let last = TicketId::new(slot, epoch, number);
        assert_eq!((last.epoch(), last.number(), last.place_as_i64()), (epoch, number, i64::MAX));
        assert!(
            TicketId::new(slot, epoch, 1).place_as_i64()
                > TicketId::new(slot, epoch - 1, number).place_as_i64()
        );
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = ReservationId(u128::MAX);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "7", "zzzzzzzzzzzzzzzzzzzzzzzzzz", &id.to_string().to_uppercase()] {
            assert_eq!(wrong.parse::<ReservationId>(), Err(InvalidId), "{wrong}");
        }
        for wrong in ["", "07", "+7", "-7", "2147483648", "abc"] {
            assert_eq!(wrong.parse::<VenueId>(), Err(InvalidId), "{wrong}");
        }
    }
}
