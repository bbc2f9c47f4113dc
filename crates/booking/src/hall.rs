//! The hall of a concert: priced seats in sections and rows, and which of them are best.
//!
//! Sections are listed best first, rows from the front, and seats are numbered from 1 across a row. A seat is known by its
//! label, `SECTION-ROW-NUMBER`, so that it stays the same seat when other parts of the hall change.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::money::Won;

/// The most seats that one reservation takes.
pub const MAX_SEATS: u32 = 8;
/// The most seats that a hall has.
pub const MAX_HALL: u32 = 50_000;
const MAX_SECTIONS: usize = 100;
const MAX_ROWS: usize = 500;
const MAX_ROW: u32 = 200;

/// A seat, by its label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seat(Arc<str>);

impl Seat {
    /// The seat of this label, whether or not a hall has it.
    pub fn labelled(label: &str) -> Self {
        Self(label.into())
    }

    fn new(section: &str, row: &str, number: u32) -> Self {
        Self(format!("{section}-{row}-{number}").into())
    }

    /// Its label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Part of a hall whose seats cost the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Section {
    /// What it is called.
    pub name: String,
    /// What a seat costs.
    pub price: Won,
    /// From the front to the back.
    pub rows: Vec<Row>,
}

/// A row of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// How many seats it has.
    pub seats: u32,
}

/// All seats of a venue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Section>", into = "Vec<Section>")]
pub struct Hall {
    sections: Vec<Section>,
    /// The labels of all seats, row by row in the order of the sections: made once, compared often.
    rows: Vec<Vec<Seat>>,
    seats: u32,
}

impl From<Vec<Section>> for Hall {
    fn from(sections: Vec<Section>) -> Self {
        let label = |section: &Section, row: &Row| {
            (1..=row.seats).map(|n| Seat::new(&section.name, &row.name, n)).collect()
        };
        let rows: Vec<Vec<Seat>> = sections
            .iter()
            .flat_map(|section| section.rows.iter().map(move |row| label(section, row)))
            .collect();
        let seats = rows.iter().map(Vec::len).sum::<usize>();
        Self { sections, rows, seats: u32::try_from(seats).unwrap_or(u32::MAX) }
    }
}

impl From<Hall> for Vec<Section> {
    fn from(hall: Hall) -> Self {
        hall.sections
    }
}

/// Seats that are together, and how good they are: less is better.
struct Block<'h> {
    seats: &'h [Seat],
    /// Single seats that would be left alone beside it, then how far it is from the front and the middle.
    cost: (usize, usize),
}

impl Hall {
    /// Its sections, best first.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// How many seats it has.
    pub fn count(&self) -> u32 {
        self.seats
    }

    /// Each row with its section and the labels of its seats.
    pub fn rows(&self) -> impl Iterator<Item = (&Section, &Row, &[Seat])> {
        let rows =
            self.sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row)));
        rows.zip(&self.rows).map(|((section, row), seats)| (section, row, seats.as_slice()))
    }

    /// What a seat costs; `None` if the hall has no such seat.
    pub fn price(&self, seat: &Seat) -> Option<Won> {
        let (section, rest) = seat.as_str().split_once('-')?;
        let (row, number) = rest.split_once('-')?;
        let section = self.sections.iter().find(|known| known.name == section)?;
        let row = section.rows.iter().find(|known| known.name == row)?;
        // Written in one way only: neither "07" nor "+7" is seat 7.
        let exists =
            number.parse().is_ok_and(|n: u32| (1..=row.seats).contains(&n) && n.to_string() == number);
        exists.then_some(section.price)
    }

    /// The best seats for so many people together: those that leave no single seat alone, as far as that can be avoided,
    /// then those nearest to the front and the middle. Sections farther down the list count as farther back.
    pub fn best(
        &self,
        people: u32,
        section: Option<&str>,
        is_free: impl Fn(&Seat) -> bool,
    ) -> Option<Vec<Seat>> {
        let people = usize::try_from(people).ok().filter(|people| *people > 0)?;
        let mut best: Option<Block<'_>> = None;
        let wanted = self.rows().filter(|(of, ..)| section.is_none_or(|name| of.name == name));
        for (front, (_, _, seats)) in wanted.enumerate() {
            // Nothing from here on can be nearer than what was found.
            if best.as_ref().is_some_and(|best| best.cost <= (0, 2 * front)) {
                break;
            }
            let free: Vec<bool> = seats.iter().map(&is_free).collect();
            for from in 0..=seats.len().saturating_sub(people) {
                let to = from + people;
                if to > seats.len() || !free[from..to].iter().all(|free| *free) {
                    continue;
                }
                // Twice the distance from the middle, so that it stays a whole number.
                let aside = (from + to).abs_diff(seats.len());
                let cost = (left_alone(&free, from, to), 2 * front + aside);
                if best.as_ref().is_none_or(|best| cost < best.cost) {
                    best = Some(Block { seats: &seats[from..to], cost });
                }
            }
        }
        best.map(|block| block.seats.to_vec())
    }

    /// The most people that can sit together.
    pub fn most_together(&self, section: Option<&str>, is_free: impl Fn(&Seat) -> bool) -> u32 {
        let wanted = self.rows().filter(|(of, ..)| section.is_none_or(|name| of.name == name));
        let longest = |seats: &[Seat]| {
            let runs = seats.split(|seat| !is_free(seat)).map(<[Seat]>::len);
            runs.max().unwrap_or(0)
        };
        let most = wanted.map(|(_, _, seats)| longest(seats)).max().unwrap_or(0);
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// What makes this hall impossible, if anything: where it is and what to do.
    pub fn fault(&self) -> Option<(String, &'static str)> {
        if !(1..=MAX_SECTIONS).contains(&self.sections.len()) {
            return Some(("/sections".into(), "must be between 1 and 100"));
        }
        let repeated = |names: Vec<&str>| {
            let mut sorted = names.clone();
            sorted.sort_unstable();
            sorted.windows(2).any(|pair| pair[0] == pair[1])
        };
        if repeated(self.sections.iter().map(|section| section.name.as_str()).collect()) {
            return Some(("/sections".into(), "must have different names"));
        }
        for (at, section) in self.sections.iter().enumerate() {
            let here = format!("/sections/{at}");
            if !is_name(&section.name) {
                return Some((format!("{here}/name"), NAME));
            }
            if !(Won::ZERO..=Won(10_000_000)).contains(&section.price) {
                return Some((format!("{here}/price"), "must be between 0 and 10,000,000 won"));
            }
            if !(1..=MAX_ROWS).contains(&section.rows.len()) {
                return Some((format!("{here}/rows"), "must be between 1 and 500"));
            }
            if repeated(section.rows.iter().map(|row| row.name.as_str()).collect()) {
                return Some((format!("{here}/rows"), "must have different names"));
            }
            if section.rows.iter().any(|row| !is_name(&row.name)) {
                return Some((format!("{here}/rows"), NAME));
            }
            if section.rows.iter().any(|row| !(1..=MAX_ROW).contains(&row.seats)) {
                return Some((format!("{here}/rows"), "must each have between 1 and 200 seats"));
            }
        }
        (self.seats > MAX_HALL).then(|| ("/sections".into(), "must have 50,000 seats at most"))
    }
}

const NAME: &str = "must be a name of 1 to 12 letters and digits";

fn is_name(name: &str) -> bool {
    (1..=12).contains(&name.chars().count()) && name.chars().all(char::is_alphanumeric)
}

/// How many single seats would have nobody beside them and nothing free beside them.
fn left_alone(free: &[bool], from: usize, to: usize) -> usize {
    let is_free = |at: Option<usize>| at.and_then(|at| free.get(at)).copied().unwrap_or(false);
    let before = is_free(from.checked_sub(1)) && !is_free(from.checked_sub(2));
    let after = is_free(Some(to)) && !is_free(Some(to + 1));
    usize::from(before) + usize::from(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hall(rows: &[u32]) -> Hall {
        let rows =
            rows.iter().zip(1..).map(|(&seats, n): (_, u32)| Row { name: n.to_string(), seats }).collect();
        Hall::from(vec![Section { name: "A".into(), price: Won(100), rows }])
    }

    fn best(hall: &Hall, people: u32, taken: &[&str]) -> Option<Vec<String>> {
        let taken: HashSet<_> = taken.iter().copied().collect();
        let seats = hall.best(people, None, |seat| !taken.contains(seat.as_str()))?;
        Some(seats.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_best_seats_are_in_the_middle_of_the_front() {
        assert_eq!(best(&hall(&[9, 9]), 1, &[]).unwrap(), ["A-1-5"]);
        assert_eq!(best(&hall(&[10, 10]), 2, &[]).unwrap(), ["A-1-5", "A-1-6"]);
        assert_eq!(best(&hall(&[3, 9]), 5, &[]).unwrap(), ["A-2-3", "A-2-4", "A-2-5", "A-2-6", "A-2-7"]);
        assert_eq!(best(&hall(&[3]), 4, &[]), None);
    }

    #[test]
    fn nobody_is_left_to_sit_alone_where_that_can_be_avoided() {
        // The middle two would leave a single seat on each side.
        assert_eq!(best(&hall(&[4, 4]), 2, &[]).unwrap(), ["A-1-1", "A-1-2"]);
        // In a row of three, two always leave one alone: the second row does not.
        assert_eq!(best(&hall(&[3, 4]), 2, &[]).unwrap(), ["A-2-1", "A-2-2"]);
        assert_eq!(best(&hall(&[3]), 2, &[]).unwrap(), ["A-1-1", "A-1-2"]);
        assert_eq!(best(&hall(&[5, 5]), 2, &["A-1-3"]).unwrap(), ["A-1-1", "A-1-2"]);
    }

    #[test]
    fn taken_seats_are_passed_over_until_none_are_left() {
        let hall = hall(&[5, 5]);
        let mut taken: HashSet<Seat> = HashSet::new();
        while let Some(seats) = hall.best(2, None, |seat| !taken.contains(seat)) {
            assert!(seats.iter().all(|seat| taken.insert(seat.clone())));
        }
        assert_eq!(taken.len(), 8, "two rows of five have two pairs each");
        assert_eq!(hall.most_together(None, |seat| !taken.contains(seat)), 1);
    }

    #[test]
    fn a_label_names_one_seat() {
        let hall = hall(&[5]);
        let prices = ["A-1-5", "A-1-6", "A-1-05", "A-1-+5", "A-1-0", "A-2-1", "B-1-1", "A-1", "", "A-1-5-1"]
            .map(|label| hall.price(&Seat::labelled(label)));
        assert_eq!(prices.iter().flatten().count(), 1);
        assert_eq!(prices[0], Some(Won(100)));
    }

    #[test]
    fn an_impossible_hall_is_named() {
        assert_eq!(hall(&[5]).fault(), None);
        let section = |name: &str, rows| Section { name: name.into(), price: Won(1), rows };
        let row = |name: &str, seats| Row { name: name.into(), seats };
        for (sections, at) in [
            (vec![], "/sections"),
            (vec![section("A-1", vec![row("1", 1)])], "/sections/0/name"),
            (vec![section("A", vec![])], "/sections/0/rows"),
            (vec![section("A", vec![row("1", 1), row("1", 2)])], "/sections/0/rows"),
            (vec![section("A", vec![row("1", 201)])], "/sections/0/rows"),
            (vec![section("A", vec![row("1", 1)]), section("A", vec![row("1", 1)])], "/sections"),
        ] {
            assert_eq!(Hall::from(sections).fault().map(|(pointer, _)| pointer).as_deref(), Some(at));
        }
    }
}
