//! Waiting rooms: whatever people wish, numbers have no gaps, nobody is overtaken and the room is never too full.

use std::collections::{BTreeMap, HashSet};

use booking::PersonId;
use booking::room::*;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

/// All tokens ever, as a database has them.
struct Stored {
    opening: Opening,
    tokens: BTreeMap<u64, Token>,
    now: Timestamp,
}

impl Stored {
    fn new(size: u32) -> Self {
        let now = "2026-12-01T01:00:00Z".parse().unwrap();
        let opening = Opening {
            id: OpeningId(1),
            version: 1,
            terms: Terms { enabled: true, size, ..Terms::default() },
            opens_at: now,
            order: Order::Arrival,
            seed: Seed([7; 32]),
            opened: true,
            arrivals: 0,
            numbers: 0,
            let_in: 0,
        };
        Self { opening, tokens: BTreeMap::new(), now }
    }

    fn inside(&self) -> Vec<Token> {
        self.tokens.values().filter(|token| token.state == State::Inside).copied().collect()
    }

    /// What a batch is given.
    fn read(&self, wishes: &[Wish]) -> Room {
        let waiting = self.tokens.values().filter(|token| token.state == State::Waiting);
        let mut next: Vec<_> = waiting.filter(|token| token.number.is_some()).copied().collect();
        next.sort_by_key(|token| token.number);
        next.truncate(usize::try_from(self.opening.terms.size).unwrap());
        let people: HashSet<_> = wishes
            .iter()
            .filter_map(|wish| match wish {
                Wish::Ask(person) | Wish::Leave(person) => Some(*person),
                Wish::Tick => None,
            })
            .collect();
        // The latest of each, because they come by arrival.
        let known = self.tokens.values().filter(|token| people.contains(&token.person));
        let known = known.map(|token| (token.person, *token)).collect();
        Room { opening: self.opening.clone(), inside: self.inside(), next, known }
    }

    fn run(&mut self, wishes: &[Wish]) -> Vec<Answer> {
        let mut room = self.read(wishes);
        let (answers, changes) = decide(&mut room, wishes, self.now);
        for ended in changes.ended {
            assert_eq!(self.tokens[&ended.was.arrival], ended.was);
            self.tokens.get_mut(&ended.was.arrival).unwrap().state = ended.state;
        }
        for token in changes.let_in.into_iter().chain(changes.new.into_iter().map(|(token, _)| token)) {
            self.tokens.insert(token.arrival, token);
        }
        self.opening = room.opening;
        answers
    }
}

fn person(n: u32) -> PersonId {
    PersonId(n.into())
}

#[derive(Debug, Clone)]
enum Step {
    Wishes(Vec<(bool, u32)>),
    Wait(i64),
    /// Somebody inside does something, or pays.
    Seen(prop::sample::Index),
    Pays(prop::sample::Index),
    Resize(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec((prop::bool::weighted(0.8), 0u32..30), 0..12).prop_map(Step::Wishes),
        2 => (0i64..200).prop_map(Step::Wait),
        2 => any::<prop::sample::Index>().prop_map(Step::Seen),
        3 => any::<prop::sample::Index>().prop_map(Step::Pays),
        1 => (1u32..8).prop_map(Step::Resize),
    ]
}

proptest! {
    #[test]
    fn numbers_have_no_gaps_and_nobody_is_overtaken(size in 1u32..6, steps in prop::collection::vec(step(), 1..60)) {
        let mut stored = Stored::new(size);
        let mut let_in = vec![];
        for step in steps {
            let before: Vec<_> = stored.inside().iter().map(|token| token.arrival).collect();
            let most = before.len().max(usize::try_from(stored.opening.terms.size).unwrap());
            match step {
                Step::Wishes(wishes) => {
                    let wishes: Vec<_> = wishes.into_iter()
                        .map(|(asks, who)| if asks { Wish::Ask(person(who)) } else { Wish::Leave(person(who)) })
                        .collect();
                    stored.run(&wishes);
                }
                Step::Wait(seconds) => {
                    stored.now += SignedDuration::from_secs(seconds);
                    stored.run(&[Wish::Tick]);
                }
                Step::Seen(who) if !before.is_empty() => {
                    let now = stored.now;
                    stored.tokens.get_mut(who.get(&before)).unwrap().seen_at = Some(now);
                }
                Step::Pays(who) if !before.is_empty() => {
                    stored.tokens.get_mut(who.get(&before)).unwrap().state = State::Done;
                    stored.run(&[Wish::Tick]);
                }
                Step::Resize(size) => stored.opening.terms.size = size,
                Step::Seen(_) | Step::Pays(_) => {}
            }
            let inside = stored.inside();
            prop_assert!(inside.len() <= most);
            let mut new: Vec<_> = inside.iter().filter(|t| !before.contains(&t.arrival)).filter_map(|t| t.number).collect();
            new.sort_unstable();
            let_in.extend(new);
            let live: Vec<_> = stored.tokens.values().filter(|t| t.state.is_live()).map(|t| t.person).collect();
            prop_assert_eq!(live.iter().collect::<HashSet<_>>().len(), live.len(), "one live token a person");
        }
        prop_assert!(let_in.is_sorted_by(|a, b| a < b), "{let_in:?}");
        let mut numbers: Vec<_> = stored.tokens.values().filter_map(|token| token.number).collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (1..=stored.opening.numbers).collect::<Vec<_>>());
    }
}

#[test]
fn whoever_asks_again_keeps_the_place() {
    let mut stored = Stored::new(1);
    let answers = stored.run(&[Wish::Ask(person(1)), Wish::Ask(person(2)), Wish::Ask(person(2))]);
    assert!(matches!(answers[0], Answer::Issued(Token { number: Some(1), state: State::Inside, .. })));
    assert!(matches!(answers[1], Answer::Issued(Token { number: Some(2), state: State::Waiting, .. })));
    assert!(matches!(answers[2], Answer::AlreadyIssued(Token { number: Some(2), .. })));
    assert!(matches!(stored.run(&[Wish::Leave(person(1))])[0], Answer::Left(_)));
    assert_eq!(stored.inside()[0].person, person(2), "the next is let in");
    assert_eq!(stored.run(&[Wish::Leave(person(1))]), [Answer::NotThere]);
    assert!(matches!(stored.run(&[Wish::Ask(person(1))])[0], Answer::Issued(Token { number: Some(3), .. })));
}

#[test]
fn idle_people_and_people_who_stay_too_long_make_room() {
    let mut stored = Stored::new(1);
    stored.run(&[Wish::Ask(person(1)), Wish::Ask(person(2))]);
    stored.now += SignedDuration::from_secs(179);
    stored.run(&[Wish::Tick]);
    assert_eq!(stored.inside()[0].person, person(1));
    stored.now += SignedDuration::from_secs(1);
    stored.run(&[Wish::Tick]);
    assert_eq!(stored.inside()[0].person, person(2));
    for _ in 0..10 {
        stored.now += SignedDuration::from_secs(60);
        let now = stored.now;
        stored.tokens.get_mut(&2).unwrap().seen_at = Some(now);
        stored.run(&[Wish::Tick]);
    }
    assert_eq!(stored.inside(), []);
}

#[test]
fn before_the_opening_nobody_has_a_number_and_a_draw_has_lots() {
    let mut stored = Stored::new(2);
    (stored.opening.opened, stored.opening.order) = (false, Order::Draw);
    stored.opening.opens_at += SignedDuration::from_secs(60);
    let wishes = [Wish::Ask(person(1)), Wish::Ask(person(2))];
    let mut room = stored.read(&wishes);
    let (_, changes) = decide(&mut room, &wishes, stored.now);
    let lots: Vec<_> = changes.new.iter().map(|(token, lot)| (token.number, lot.unwrap())).collect();
    assert!(lots.iter().all(|(number, _)| number.is_none()));
    assert_ne!(lots[0].1, lots[1].1);
    assert!(changes.let_in.is_empty() && room.inside.is_empty());
    assert!(!format!("{:?}", stored.opening).contains("7, 7"), "the seed is not printed");
}
