//! When guests come. Decided before the first one does, so that a slow server cannot keep anybody from coming.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::Slot;

/// When guests come.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Everybody in the same moment.
    AllAtOnce,
    /// Evenly, within so long.
    Over(Duration),
    /// At random, so many a second on average.
    Poisson(f64),
    /// Evenly, so many a second.
    Steady(f64),
    /// As they came once.
    Replay(Vec<Arrival>),
}

/// Somebody came.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// When, from the beginning.
    pub at: Duration,
    /// With how many people, itself included.
    pub party: Option<u32>,
    /// For what.
    pub slot: Option<Slot>,
}

/// No rehearsal lasts longer.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);
const FORMS: &str = "write \"all at once\", \"over 30s\", \"poisson 500/s\" or \"steady 500/s\"";

impl std::str::FromStr for Arrivals {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().to_ascii_lowercase();
        if text == "all at once" {
            return Ok(Self::AllAtOnce);
        }
        let (kind, figure) = text.split_once(' ').ok_or(FORMS)?;
        let rate = || {
            let rate: f64 =
                figure.trim().strip_suffix("/s").ok_or(FORMS)?.trim().parse().map_err(|_| FORMS)?;
            if (0.001..=1e9).contains(&rate) { Ok(rate) } else { Err(FORMS) }
        };
        match kind {
            "over" => time(figure).filter(|time| *time <= LONGEST).map(Self::Over).ok_or(FORMS),
            "poisson" => rate().map(Self::Poisson),
            "steady" => rate().map(Self::Steady),
            _ => Err(FORMS),
        }
    }
}

/// Reads `20s`, `1.5s`, `200ms` or `2m`.
pub fn time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (figure, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(figure.trim().parse::<f64>().ok()? * unit).ok()
}

impl Arrivals {
    /// Reads a file of arrivals: a line each, `SECONDS[,PARTY[,DATE TIME]]`, in any order; what follows `#` is a remark.
    pub fn replay(text: &str) -> Result<Self, String> {
        let mut arrivals = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |what: &str| {
                format!(
                    "line {number}: {what}; write SECONDS[,PARTY[,DATE TIME]], such as 0.250,2,2026-12-24 12:00"
                )
            };
            let mut fields = line.splitn(3, ',').map(str::trim);
            let at = fields.next().and_then(|at| at.parse::<f64>().ok());
            let at = at.and_then(|at| Duration::try_from_secs_f64(at).ok()).filter(|at| *at <= LONGEST);
            let at = at.ok_or_else(|| wrong("the first field is not a number of seconds within a day"))?;
            let party = fields.next().filter(|field| !field.is_empty());
            let party = party.map(|party| party.parse().ok().filter(|party| (1..=100).contains(party)));
            let party = party.map(|party| party.ok_or_else(|| wrong("the second field is not a party size")));
            let slot = fields.next().filter(|field| !field.is_empty());
            let slot = slot.map(|slot| slot.parse().map_err(|_| wrong("the third field is not a slot")));
            arrivals.push(Arrival { at, party: party.transpose()?, slot: slot.transpose()? });
        }
        if arrivals.is_empty() {
            return Err("it has no arrivals".into());
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        Ok(Self::Replay(arrivals))
    }

    /// When each of so many guests comes, in order.
    pub(crate) fn moments(&self, guests: u32, seed: u64) -> Box<dyn Iterator<Item = Duration> + Send + '_> {
        match self {
            Self::AllAtOnce => Box::new((0..guests).map(|_| Duration::ZERO)),
            Self::Over(time) => {
                let step = time.as_secs_f64() / f64::from(guests.max(1));
                Box::new((0..guests).map(move |n| Duration::from_secs_f64(step * f64::from(n))))
            }
            Self::Steady(rate) => {
                let rate = *rate;
                Box::new((0..guests).map(move |n| Duration::from_secs_f64(f64::from(n) / rate)))
            }
            Self::Poisson(rate) => {
                let (rate, mut chance, mut at) = (*rate, SmallRng::seed_from_u64(seed), 0.0_f64);
                Box::new((0..guests).map(move |_| {
                    // The time between two is exponential; the logarithm of zero is never taken.
                    at -= (1.0 - chance.random::<f64>()).ln() / rate;
                    Duration::from_secs_f64(at)
                }))
            }
            Self::Replay(arrivals) => Box::new(arrivals.iter().map(|arrival| arrival.at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_read() {
        let read = |text: &str| text.parse::<Arrivals>();
        assert_eq!(read("all at once"), Ok(Arrivals::AllAtOnce));
        assert_eq!(read("over 30s"), Ok(Arrivals::Over(Duration::from_secs(30))));
        assert_eq!(read("over 1.5 m"), Ok(Arrivals::Over(Duration::from_secs(90))));
        assert_eq!(read("Poisson 500/s"), Ok(Arrivals::Poisson(500.0)));
        for wrong in [
            "",
            "later",
            "over",
            "over 30",
            "poisson 500",
            "poisson 0/s",
            "poisson -1/s",
            "over -1s",
            "poisson NaN/s",
            "steady 1e-300/s",
            "over 9999999999999999999s",
        ] {
            assert_eq!(read(wrong), Err(FORMS), "{wrong}");
        }
    }

    #[test]
    fn guests_come_when_the_plan_says() {
        let moments = |arrivals: &Arrivals, guests| arrivals.moments(guests, 7).collect::<Vec<_>>();
        assert_eq!(moments(&Arrivals::AllAtOnce, 3), [Duration::ZERO; 3]);
        let over = moments(&Arrivals::Over(Duration::from_secs(4)), 4);
        assert_eq!(over, [0, 1, 2, 3].map(Duration::from_secs));
        let poisson = moments(&Arrivals::Poisson(1_000.0), 10_000);
        assert!(poisson.is_sorted());
        let took = poisson[9_999].as_secs_f64();
        assert!((9.0..11.0).contains(&took), "10,000 at 1,000 a second took {took} s");
        assert_eq!(poisson, moments(&Arrivals::Poisson(1_000.0), 10_000), "the same seed, the same crowd");
    }

    #[test]
    fn a_file_is_replayed() {
        let file = "# a Friday\n0.5,4\n0.25\n\n1,2,2026-12-24 12:00 # late\n";
        let Ok(Arrivals::Replay(arrivals)) = Arrivals::replay(file) else { panic!("not read") };
        let at: Vec<_> = arrivals.iter().map(|arrival| arrival.at.as_millis()).collect();
        assert_eq!(at, [250, 500, 1_000]);
        assert_eq!((arrivals[0].party, arrivals[1].party), (None, Some(4)));
        assert_eq!(arrivals[2].slot.as_ref().map(Slot::to_string).as_deref(), Some("2026-12-24 12:00"));
        for (wrong, says) in [
            ("", "no arrivals"),
            ("soon", "line 1"),
            ("1\n-1", "line 2"),
            ("1,0", "party"),
            ("1,101", "party"),
            ("1e19", "line 1"),
            ("1,2,noon", "slot"),
        ] {
            let error = Arrivals::replay(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong:?}: {error}");
        }
    }
}
