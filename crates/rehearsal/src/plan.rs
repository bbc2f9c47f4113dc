//! What is rehearsed: who comes, when, for what, and how patient they are.
//!
//! What a guest does follows from the seed and the guest's number alone, so a crowd takes no memory before it comes.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::{Address, Arrivals};

/// A rehearsal.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The servers; guests are spread over them, and each stays with its own.
    pub servers: Vec<Address>,
    /// The id of the venue.
    pub venue: String,
    /// What is asked for.
    pub slots: Vec<Slot>,
    /// How guests are spread over the slots.
    pub popularity: Popularity,
    /// When guests come.
    pub arrivals: Arrivals,
    /// How many.
    pub guests: u32,
    /// How many people a guest comes with, itself included.
    pub party: RangeInclusive<u32>,
    /// After this time a guest who still waits leaves the line.
    pub patience: Duration,
    /// The share of guests who close the page while they wait.
    pub abandon: f64,
    /// The share of seated guests who pay.
    pub pay: f64,
    /// The share of seated guests who cancel afterwards.
    pub cancel: f64,
    /// How guests wait.
    pub waiting: Waiting,
    /// Seconds that the server may wait with its answer.
    pub wait_in_call: u8,
    /// Whether requests carry an `Idempotency-Key`, so that a lost answer can be asked for again.
    pub keys: bool,
    /// Whether it is looked afterwards what guests really have.
    pub look_after: bool,
    /// Connections at the same time, to all servers together.
    pub connections: usize,
    /// What chance starts from: the same seed makes the same crowd.
    pub seed: u64,
}

/// Something to ask for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// `YYYY-MM-DD`, in the venue's time zone.
    pub date: String,
    /// `HH:MM`.
    pub time: String,
}

impl std::str::FromStr for Slot {
    type Err = &'static str;

    /// Reads `2026-12-24 12:00` or `2026-12-24T12:00`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "write a slot as \"2026-12-24 12:00\", in the venue's time zone";
        let (date, time) = text.trim().split_once([' ', 'T']).ok_or(wrong)?;
        let (day, start): (jiff::civil::Date, jiff::civil::Time) =
            (date.parse().map_err(|_| wrong)?, time.trim().parse().map_err(|_| wrong)?);
        Ok(Self { date: day.to_string(), time: start.strftime("%H:%M").to_string() })
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.date, self.time)
    }
}

/// How guests are spread over slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Popularity {
    /// All alike.
    Even,
    /// The n-th slot has a share of 1/n to this power.
    Zipf(f64),
}

/// How a guest waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Listens to events, as the web app does; where no connection is free for it, asks now and then.
    Listen,
    /// Asks now and then.
    Poll,
}

/// What one guest is up to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wish {
    pub slot: usize,
    pub party: u32,
    /// How long after coming the page is closed.
    pub closes_page_after: Option<Duration>,
    pub pays: bool,
    pub cancels: bool,
}

impl Plan {
    /// What this guest is up to.
    pub(crate) fn wish(&self, guest: u32, shares: &[f64]) -> Wish {
        let mut chance = self.chance(guest);
        let slot = choose(shares, chance.random());
        let party = chance.random_range(self.party.clone());
        let closes = chance.random_bool(self.abandon);
        let after = self.patience.mul_f64(chance.random());
        let (pays, cancels) = (chance.random_bool(self.pay), chance.random_bool(self.cancel));
        Wish { slot, party, closes_page_after: closes.then_some(after), pays, cancels }
    }

    /// This guest's own chance.
    pub(crate) fn chance(&self, guest: u32) -> SmallRng {
        SmallRng::seed_from_u64(self.seed ^ (u64::from(guest) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

impl Popularity {
    /// Up to where each slot's share of the guests goes, between 0 and 1.
    pub(crate) fn shares(self, slots: usize) -> Vec<f64> {
        let weight = |n: usize| match self {
            Self::Even => 1.0,
            Self::Zipf(power) => ((n + 1) as f64).powf(-power),
        };
        let total: f64 = (0..slots).map(weight).sum();
        let mut sum = 0.0;
        let share = |n| {
            sum += weight(n) / total;
            sum
        };
        (0..slots).map(share).collect()
    }
}

/// A slot, by a number between 0 and 1.
fn choose(shares: &[f64], chance: f64) -> usize {
    shares.partition_point(|upto| *upto <= chance).min(shares.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_and_written() {
        for text in ["2026-12-24 09:00", "2026-12-24T09:00", " 2026-12-24 09:00 "] {
            assert_eq!(text.parse::<Slot>().unwrap().to_string(), "2026-12-24 09:00");
        }
        assert!("tomorrow at noon".parse::<Slot>().is_err());
        assert!("2026-13-24 12:00".parse::<Slot>().is_err());
    }

    #[test]
    fn the_first_slot_is_the_most_popular() {
        let zipf = Popularity::Zipf(1.0).shares(10);
        let chosen: Vec<_> = (0..1_000).map(|n| choose(&zipf, f64::from(n) / 1_000.0)).collect();
        let count = |slot| chosen.iter().filter(|&&s| s == slot).count();
        assert!(count(0) > count(1) && count(1) > count(9) && count(9) > 0);
        assert!(chosen.iter().all(|&slot| slot < 10));
        let even = Popularity::Even.shares(10);
        let even: Vec<_> = (0..10).map(|n| choose(&even, f64::from(n) / 10.0 + 0.05)).collect();
        assert_eq!(even, (0..10).collect::<Vec<_>>());
    }
}
