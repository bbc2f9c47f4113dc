//! A venue: what it offers, when, and on what terms.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use crate::hall::Hall;
use crate::ids::{PersonId, SlotId, VenueId};
use crate::money::Won;
use crate::policy::Policy;

/// Places that a venue gives a slot when it says nothing else.
pub const DEFAULT_CAPACITY: u32 = 20;
/// The largest party that anybody may ask for.
pub const MAX_PARTY: u32 = 100;

/// A venue as the rules see it. Its `version` counts every change of anything in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Venue {
    /// Its id.
    pub id: VenueId,
    /// Decisions are conditional on it: a changed venue is read again before anybody is decided.
    pub version: u64,
    /// What staff can set.
    pub settings: Settings,
    /// What can be ordered ahead.
    pub menu: Vec<MenuItem>,
    /// Who runs it.
    pub staff: Vec<PersonId>,
}

/// What a venue's staff can set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// What it is called.
    pub name: String,
    /// What sort of venue it is.
    pub kind: Kind,
    /// What there is to book.
    pub inventory: Inventory,
    /// The zone in which its dates and times are meant.
    pub time_zone: Zone,
    /// When slots start, by day of the week.
    pub times: WeekTimes,
    /// The days on which there is a show, where not every week is like the other; then `times` does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shows: Vec<Show>,
    /// How many days ahead one may book.
    pub book_ahead_days: u16,
    /// How many people may join its lines in any second (B2); `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// Deposits, refunds, holds.
    pub policy: Policy,
}

/// What sort of venue it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Meals.
    Restaurant,
    /// Shows.
    Concert,
}

/// What there is to book in a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Inventory {
    /// So many people in all (A2).
    Places {
        /// How many.
        capacity: u32,
    },
    /// One reservation, whatever its size (A2).
    Exclusive,
    /// Numbered tables, each for one reservation (B1).
    Tables {
        /// Which ones.
        tables: Vec<Table>,
    },
    /// Numbered seats, one a head (C5).
    Seats {
        /// Which ones.
        sections: Hall,
    },
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Table {
    /// The number on it.
    pub number: u32,
    /// How many people it takes.
    pub seats: u32,
}

/// Something on the menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MenuItem {
    /// Its number on the menu.
    pub id: u32,
    /// What it is called.
    pub name: Arc<str>,
    /// What one costs.
    pub price: Won,
}

/// A time zone by its IANA name.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        let zone = TimeZone::get(name).ok()?;
        zone.iana_name().is_some().then_some(Self(zone))
    }

    /// Its IANA name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The zone itself.
    pub fn zone(&self) -> &TimeZone {
        &self.0
    }
}

impl Serialize for Zone {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name)
            .ok_or_else(|| serde::de::Error::custom("not a time zone; one is called \"Asia/Seoul\""))
    }
}

/// When a slot starts, to the minute, written `HH:MM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartTime(pub Time);

impl fmt::Display for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())
    }
}

impl FromStr for StartTime {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "not a time; write HH:MM, such as 19:00";
        let [h1, h2, b':', m1, m2] = text.as_bytes() else { return Err(WRONG) };
        let pair = |tens: u8, ones: u8| match (tens, ones) {
            (b'0'..=b'9', b'0'..=b'9') => i8::try_from((tens - b'0') * 10 + (ones - b'0')).map_err(|_| WRONG),
            _ => Err(WRONG),
        };
        Time::new(pair(*h1, *h2)?, pair(*m1, *m2)?, 0, 0).map(Self).map_err(|_| WRONG)
    }
}

impl Serialize for StartTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StartTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The times at which slots start, by day of the week.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WeekTimes {
    /// Mondays.
    pub monday: Vec<StartTime>,
    /// Tuesdays.
    pub tuesday: Vec<StartTime>,
    /// Wednesdays.
    pub wednesday: Vec<StartTime>,
    /// Thursdays.
    pub thursday: Vec<StartTime>,
    /// Fridays.
    pub friday: Vec<StartTime>,
    /// Saturdays.
    pub saturday: Vec<StartTime>,
    /// Sundays.
    pub sunday: Vec<StartTime>,
}

impl WeekTimes {
    /// On the hour, from the first to the last, every day.
    pub fn daily(first_hour: i8, last_hour: i8) -> Self {
        let times: Vec<_> = (first_hour..=last_hour)
            .filter_map(|hour| Time::new(hour, 0, 0, 0).ok())
            .map(StartTime)
            .collect();
        let each = || times.clone();
        Self {
            monday: each(),
            tuesday: each(),
            wednesday: each(),
            thursday: each(),
            friday: each(),
            saturday: each(),
            sunday: each(),
        }
    }

    /// The same times, each day's in order and each once.
    pub fn in_order(mut self) -> Self {
        let days = [
            &mut self.monday,
            &mut self.tuesday,
            &mut self.wednesday,
            &mut self.thursday,
            &mut self.friday,
            &mut self.saturday,
            &mut self.sunday,
        ];
        for times in days {
            times.sort_unstable();
            times.dedup();
        }
        self
    }

    /// The times of one day of the week.
    pub fn on(&self, day: Weekday) -> &[StartTime] {
        match day {
            Weekday::Monday => &self.monday,
            Weekday::Tuesday => &self.tuesday,
            Weekday::Wednesday => &self.wednesday,
            Weekday::Thursday => &self.thursday,
            Weekday::Friday => &self.friday,
            Weekday::Saturday => &self.saturday,
            Weekday::Sunday => &self.sunday,
        }
    }
}

/// The most days on which a venue lists shows.
pub const MAX_SHOWS: usize = 400;

/// A day with shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Show {
    /// Which day.
    pub date: Date,
    /// When they start.
    pub times: Vec<StartTime>,
}

/// Why a slot cannot be booked by anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOffered {
    /// The venue has no slot at this time on this day.
    NoSuchTime,
    /// It has started already.
    Past,
    /// It is too far ahead; the last day that can be booked.
    TooEarly(Date),
}

impl Venue {
    /// The slot at this date and time, if the venue offers it and it can still be booked at `now`.
    pub fn slot(&self, date: Date, time: StartTime, now: Timestamp) -> Result<SlotId, NotOffered> {
        let today = self.settings.time_zone.zone().to_datetime(now).date();
        if date < today {
            return Err(NotOffered::Past);
        }
        let last = today.saturating_add(i32::from(self.settings.book_ahead_days).days());
        if date > last {
            return Err(NotOffered::TooEarly(last));
        }
        if !self.times_on(date).contains(&time) {
            return Err(NotOffered::NoSuchTime);
        }
        let slot = SlotId::new(self.id, date, time.0).ok_or(NotOffered::Past)?;
        if self.start(slot) <= now { Err(NotOffered::Past) } else { Ok(slot) }
    }

    /// When slots start on a day.
    pub fn times_on(&self, date: Date) -> &[StartTime] {
        let Settings { shows, times, .. } = &self.settings;
        match shows.is_empty() {
            true => times.on(date.weekday()),
            false => shows.iter().find(|show| show.date == date).map_or(&[], |show| &show.times),
        }
    }

    /// When a slot of this venue starts.
    pub fn start(&self, slot: SlotId) -> Timestamp {
        let zone = self.settings.time_zone.zone();
        let local = slot.date().to_datetime(slot.time());
        // Only dates at the far end of the calendar have no instant; they count as never.
        zone.to_timestamp(local).unwrap_or(Timestamp::MAX - SignedDuration::from_hours(24))
    }

    /// Whether this person runs the venue.
    pub fn is_staff(&self, person: PersonId) -> bool {
        self.staff.contains(&person)
    }

    /// The menu item of this number.
    pub fn menu_item(&self, id: u32) -> Option<&MenuItem> {
        self.menu.iter().find(|item| item.id == id)
    }
}

impl Inventory {
    /// How much there is to book, in the unit in which it is booked: people, the slot itself, tables, or seats.
    pub fn capacity(&self) -> u32 {
        match self {
            Self::Places { capacity } => *capacity,
            Self::Exclusive => 1,
            Self::Tables { tables } => u32::try_from(tables.len()).unwrap_or(u32::MAX),
            Self::Seats { sections } => sections.count(),
        }
    }

    /// The hall, where there are numbered seats.
    pub fn hall(&self) -> Option<&Hall> {
        match self {
            Self::Seats { sections } => Some(sections),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn venue() -> Venue {
        Venue {
            id: VenueId(1),
            version: 1,
            settings: Settings {
                name: "Lunch".into(),
                kind: Kind::Restaurant,
                inventory: Inventory::Places { capacity: DEFAULT_CAPACITY },
                time_zone: Zone::named("Asia/Seoul").unwrap(),
                times: WeekTimes::daily(11, 14),
                shows: vec![],
                book_ahead_days: 60,
                requests_per_second: None,
                policy: Policy::default(),
            },
            menu: vec![],
            staff: vec![],
        }
    }

    #[test]
    fn past_is_judged_in_the_time_zone_of_the_venue() {
        let venue = venue();
        let noon: StartTime = "12:00".parse().unwrap();
        let at = |text: &str| venue.slot(date(2026, 12, 1), noon, text.parse().unwrap());
        // 11:59 and 12:00 in Seoul; in UTC it is still night.
        assert!(at("2026-12-01T02:59:59Z").is_ok());
        assert_eq!(at("2026-12-01T03:00:00Z"), Err(NotOffered::Past));
        assert_eq!(at("2026-12-02T00:00:00Z"), Err(NotOffered::Past));
        assert_eq!(at("2026-10-01T00:00:00Z"), Err(NotOffered::TooEarly(date(2026, 11, 30))));
        let late: StartTime = "15:00".parse().unwrap();
        assert_eq!(
            venue.slot(date(2026, 12, 1), late, "2026-12-01T00:00:00Z".parse().unwrap()),
            Err(NotOffered::NoSuchTime)
        );
    }

    #[test]
    fn times_have_one_spelling() {
        for wrong in ["", "9:00", "24:00", "12:60", "12:00:00", "1２:0", "+1:00", "noon"] {
            assert!(wrong.parse::<StartTime>().is_err(), "{wrong}");
        }
        assert_eq!("09:05".parse::<StartTime>().unwrap().to_string(), "09:05");
    }
}
