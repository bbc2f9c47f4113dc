//! Whether everybody was treated right, from what guests were told: no place sold twice, nobody overtaken, no answer lost.
//!
//! All figures are zero where nobody else books the rehearsed slots meanwhile. Where somebody does, a place that an outsider
//! frees may look like one too many.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;

use crate::run::Unit;
use crate::{Outcome, Record, Seating};

/// What must be zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exactness {
    /// Places sold beyond what was left.
    pub oversold: u64,
    /// Guests with two places in one slot, and tables or seats with two guests.
    pub double_bookings: u64,
    /// Guests who were overtaken: numbered behind somebody who came after they had their answer, or refused while
    /// somebody behind them got as much.
    pub inversions: u64,
    /// Guests who were told that they are seated, and whose reservation is not there.
    pub vanished: u64,
    /// Guests who never got an answer.
    pub lost_answers: u64,
    /// Answers that the contract does not have.
    pub unexplained: u64,
}

impl Exactness {
    /// Judges what became of everybody.
    pub(crate) fn of(records: &[Record], unit: Unit, remaining: &[u32]) -> Self {
        let mut slots: HashMap<u32, Vec<&Record>> = HashMap::new();
        for record in records {
            slots.entry(record.slot).or_default().push(record);
        }
        let count = |what: fn(&Record) -> bool| records.iter().filter(|record| what(record)).count() as u64;
        let mut exact = Self {
            vanished: count(|record| record.is_there == Some(false)),
            lost_answers: count(|record| record.outcome == Outcome::Lost),
            unexplained: count(|record| record.outcome == Outcome::Unexplained),
            double_bookings: count(|record| record.holds.is_some_and(|holds| holds > 1)),
            ..Self::default()
        };
        for (slot, records) in slots {
            let left = remaining.get(slot as usize).copied().unwrap_or(0);
            exact.oversold += oversold(&records, unit, left.into());
            exact.double_bookings += shared_spots(&records);
            exact.inversions += numbered_behind(&records) + refused_before_seated(&records);
        }
        exact
    }

    /// Whether all is well.
    pub fn is_exact(&self) -> bool {
        *self == Self::default()
    }
}

/// From when until when a reservation holds its place; without an end, for good.
fn held(seating: &Seating) -> (i64, Option<i64>) {
    let until = seating.until.filter(|_| !seating.paid);
    (seating.from.unwrap_or(i64::MIN), until)
}

/// The most that was held at a time, beyond what there was.
fn oversold(records: &[&Record], unit: Unit, left: i64) -> u64 {
    let mut changes = Vec::new();
    for record in records {
        let Some(seating) = record.seating.as_ref().filter(|seating| !seating.cancelled) else { continue };
        let size = match unit {
            Unit::People => i64::from(record.party),
            Unit::Reservations => 1,
        };
        let (from, until) = held(seating);
        changes.push((from, size));
        changes.extend(until.map(|until| (until, -size)));
    }
    // What ends in a millisecond is free in it.
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    u64::try_from(most - left).unwrap_or(0)
}

/// Tables and seats that two guests have at the same time.
fn shared_spots(records: &[&Record]) -> u64 {
    let mut spots: HashMap<String, Vec<(i64, Option<i64>)>> = HashMap::new();
    for seating in records.iter().filter_map(|record| record.seating.as_ref()).filter(|s| !s.cancelled) {
        let table = seating.table.map(|table| format!("table {table}"));
        for spot in seating.seats.iter().map(|seat| seat.to_string()).chain(table) {
            spots.entry(spot).or_default().push(held(seating));
        }
    }
    let shared = |mut held: Vec<(i64, Option<i64>)>| {
        held.sort_unstable();
        let pairs = held.windows(2);
        pairs.filter(|pair| pair[0].1.is_none_or(|until| until > pair[1].0)).count() as u64
    };
    spots.into_values().map(shared).sum()
}

/// Guests with a lower number than somebody who had theirs before they asked.
fn numbered_behind(records: &[&Record]) -> u64 {
    let mut asked: Vec<(Duration, (u32, u64))> = Vec::new();
    let mut knew: Vec<(Duration, (u32, u64))> = Vec::new();
    for record in records {
        let Some(place) = record.place else { continue };
        asked.push((record.sent, place));
        knew.extend(record.placed.map(|placed| (placed, place)));
    }
    asked.sort_unstable();
    knew.sort_unstable();
    let mut highest: HashMap<u32, u64> = HashMap::new();
    let (mut knew, mut behind) = (knew.into_iter().peekable(), 0);
    for (sent, (epoch, number)) in asked {
        while let Some((_, (epoch, number))) = knew.next_if(|(placed, _)| *placed < sent) {
            let highest = highest.entry(epoch).or_default();
            *highest = number.max(*highest);
        }
        behind += u64::from(highest.get(&epoch).is_some_and(|highest| *highest > number));
    }
    behind
}

/// Guests who got as much as somebody ahead of them was refused, with nothing given back between.
fn refused_before_seated(records: &[&Record]) -> u64 {
    let mut line: Vec<_> = records.iter().filter_map(|record| Some((record.place?, *record))).collect();
    line.sort_unstable_by_key(|(place, _)| *place);
    let gave_back = |record: &&Record| record.seating.as_ref().is_some_and(|seating| seating.cancelled);
    if records.iter().any(gave_back) {
        // When a cancellation took effect is not known from outside.
        return 0;
    }
    let mut ends: Vec<i64> = records.iter().filter_map(|record| held(record.seating.as_ref()?).1).collect();
    ends.sort_unstable();
    let (mut refused, mut ended, mut overtaken) = (None::<u32>, 0, 0);
    for (_, record) in line {
        if record.is_refused_for_want() {
            refused = Some(refused.map_or(record.party, |party| party.min(record.party)));
        } else if let Some(seating) = &record.seating {
            let by_now = ends.partition_point(|end| seating.from.is_some_and(|from| *end <= from));
            if by_now > ended {
                ended = by_now;
                refused = None;
            }
            overtaken += u64::from(refused.is_some_and(|party| party <= record.party));
        }
    }
    overtaken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest who came at this second, with this number.
    fn guest(number: u64, party: u32, outcome: Outcome) -> Record {
        let at = Duration::from_secs(number);
        let seated = outcome == Outcome::Seated;
        Record {
            guest: u32::try_from(number).unwrap(),
            slot: 0,
            party,
            arrived: at,
            sent: at,
            placed: Some(at + Duration::from_millis(500)),
            place: Some((1, number)),
            outcome,
            settled: at + Duration::from_millis(500),
            code: (outcome == Outcome::Refused).then_some("not-enough-places"),
            seating: seated
                .then(|| Box::new(Seating { from: i64::try_from(number).ok(), ..Seating::default() })),
            is_there: seated.then_some(true),
            holds: seated.then_some(1),
        }
    }

    fn judge(records: &[Record], remaining: u32) -> Exactness {
        Exactness::of(records, Unit::People, &[remaining])
    }

    fn seated(record: &mut Record) -> &mut Seating {
        record.seating.as_mut().unwrap()
    }

    #[test]
    fn a_crowd_that_was_treated_right() {
        let crowd = [
            guest(1, 4, Outcome::Seated),
            guest(2, 4, Outcome::Refused),
            guest(3, 2, Outcome::Seated),
            guest(4, 1, Outcome::Refused),
        ];
        assert!(judge(&crowd, 6).is_exact(), "a smaller party behind a larger one may fit");
    }

    #[test]
    fn every_lie_is_found() {
        let two = [guest(1, 4, Outcome::Seated), guest(2, 4, Outcome::Seated)];
        assert_eq!(judge(&two, 7).oversold, 1);

        let overtaken = [guest(1, 2, Outcome::Refused), guest(2, 2, Outcome::Seated)];
        assert_eq!(judge(&overtaken, 2).inversions, 1);

        let mut late = [guest(1, 1, Outcome::Seated), guest(2, 1, Outcome::Seated)];
        late[1].place = Some((1, 0));
        assert_eq!(judge(&late, 2).inversions, 1, "came later, and has the lower number");
        late[1].place = Some((2, 0));
        assert!(judge(&late, 2).is_exact(), "numbers of different epochs are not compared");

        let mut twice = [guest(1, 1, Outcome::Seated)];
        twice[0].holds = Some(2);
        assert_eq!(judge(&twice, 2).double_bookings, 1);

        let mut gone = [guest(1, 1, Outcome::Seated)];
        gone[0].is_there = Some(false);
        assert_eq!(judge(&gone, 2).vanished, 1);

        let mut same_seat = two.clone();
        same_seat.iter_mut().for_each(|guest| seated(guest).seats = vec!["A-1-1".into()]);
        assert_eq!(judge(&same_seat, 8).double_bookings, 1);
        let mut same_table = two.clone();
        same_table.iter_mut().for_each(|guest| seated(guest).table = Some(3));
        assert_eq!(judge(&same_table, 8).double_bookings, 1);

        assert_eq!(judge(&[guest(1, 1, Outcome::Lost)], 1).lost_answers, 1);
        assert_eq!(judge(&[guest(1, 1, Outcome::Unexplained)], 1).unexplained, 1);
    }

    #[test]
    fn a_hold_that_ran_out_may_be_sold_again() {
        let mut crowd =
            [guest(1, 2, Outcome::Seated), guest(2, 2, Outcome::Refused), guest(3, 2, Outcome::Seated)];
        assert_eq!(judge(&crowd, 2), Exactness { oversold: 2, inversions: 1, ..Exactness::default() });
        seated(&mut crowd[0]).until = Some(3);
        assert!(judge(&crowd, 2).is_exact(), "it was free from its deadline on");
        seated(&mut crowd[0]).paid = true;
        assert_eq!(judge(&crowd, 2).oversold, 2, "unless it was paid");
    }

    #[test]
    fn tables_are_counted_by_the_reservation() {
        let two = [guest(1, 4, Outcome::Seated), guest(2, 4, Outcome::Seated)];
        assert!(Exactness::of(&two, Unit::Reservations, &[2]).is_exact());
        assert_eq!(Exactness::of(&two, Unit::Reservations, &[1]).oversold, 1);
    }
}
