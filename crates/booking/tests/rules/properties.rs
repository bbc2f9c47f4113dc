//! Whatever the batch: capacity, one place a person, tables, order, expiry.
//!
//! The expectations are re-derived here from the rows by counting, not by asking the code under test.

use std::collections::{HashMap, HashSet};

use booking::*;
use proptest::prelude::*;

use crate::world::{World, done, hall, person, places, tables};

/// What a generated guest does; indexes pick from the reservations made so far.
#[derive(Debug, Clone)]
enum Wish {
    Book {
        who: u32,
        party: u32,
    },
    /// So many seats side by side, from this one on.
    Seats {
        who: u32,
        from: u32,
        party: u32,
    },
    Join {
        who: u32,
        party: u32,
    },
    Unlist(u32),
    Pay(prop::sample::Index),
    Reseat(prop::sample::Index),
    Cancel(prop::sample::Index),
    Change(prop::sample::Index, u32),
    NoShow(prop::sample::Index),
}

#[derive(Debug, Clone)]
struct Step {
    wait: i64,
    wishes: Vec<Wish>,
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        6 => (0u32..12, 1u32..7).prop_map(|(who, party)| Wish::Book { who, party }),
        2 => (0u32..12, 1u32..7, 1u32..4).prop_map(|(who, from, party)| Wish::Seats { who, from, party }),
        2 => (0u32..12, 1u32..7).prop_map(|(who, party)| Wish::Join { who, party }),
        1 => (0u32..12).prop_map(Wish::Unlist),
        2 => any::<prop::sample::Index>().prop_map(Wish::Pay),
        1 => any::<prop::sample::Index>().prop_map(Wish::Reseat),
        2 => any::<prop::sample::Index>().prop_map(Wish::Cancel),
        2 => (any::<prop::sample::Index>(), 1u32..7).prop_map(|(at, party)| Wish::Change(at, party)),
        1 => any::<prop::sample::Index>().prop_map(Wish::NoShow),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (prop_oneof![3 => 0i64..30, 1 => 300i64..600], prop::collection::vec(wish(), 1..12));
    prop::collection::vec(step.prop_map(|(wait, wishes)| Step { wait, wishes }), 1..10)
}

fn inventory() -> impl Strategy<Value = Inventory> {
    prop_oneof![
        (1u32..25).prop_map(places),
        Just(Inventory::Exclusive),
        prop::collection::vec(1u32..8, 1..6).prop_map(|seats| tables(&seats)),
        prop::collection::vec(1u32..8, 1..4).prop_map(|rows| hall(&rows)),
    ]
}

fn commands(world: &mut World, wishes: &[Wish]) -> Vec<Command> {
    let mut made: Vec<_> = world.stored.values().map(|r| (r.id, r.person)).collect();
    made.sort();
    let pick = |at: &prop::sample::Index| made.get(at.index(made.len().max(1))).copied();
    let mut batch: Vec<Command> = wishes
        .iter()
        .filter_map(|wish| {
            let who = |person: PersonId| u32::try_from(person.0).unwrap();
            Some(match wish {
                Wish::Book { who, party } => world.book(*who, *party),
                Wish::Seats { who, from, party } => {
                    let seats: Vec<_> = (*from..from + party).map(|n| format!("A-1-{n}")).collect();
                    world.book_seats(*who, *party, &seats.iter().map(String::as_str).collect::<Vec<_>>())
                }
                Wish::Join { who, party } => world.join(*who, *party),
                Wish::Unlist(who) => world.command(*who, Action::Unlist {}),
                Wish::Pay(at) => pick(at).map(|(id, p)| world.pay(who(p), id))?,
                Wish::Reseat(at) => pick(at).map(|(id, p)| world.reseat(who(p), id))?,
                Wish::Cancel(at) => pick(at).map(|(id, p)| world.cancel(who(p), id))?,
                Wish::Change(at, party) => pick(at).map(|(id, p)| {
                    world.command(who(p), Action::Change { reservation: id, party: *party })
                })?,
                Wish::NoShow(at) => {
                    pick(at).map(|(id, p)| world.command(who(p), Action::NoShow { reservation: id }))?
                }
            })
        })
        .collect();
    // As the lane does: people who have a place first, each side in order.
    batch.sort_by_key(|command| !command.action.is_owners());
    batch
}

fn assert_sound(world: &World) {
    let holding = world.holding();
    let mut people: Vec<_> = holding.iter().map(|r| r.person).collect();
    people.sort();
    people.dedup();
    assert_eq!(people.len(), holding.len(), "one place-holding reservation a person");
    match &world.venue.settings.inventory {
        Inventory::Places { capacity } => {
            assert!(holding.iter().map(|r| r.party).sum::<u32>() <= *capacity, "never above capacity");
        }
        Inventory::Exclusive => assert!(holding.len() <= 1, "one reservation a slot"),
        Inventory::Tables { tables } => {
            let seats: HashMap<u32, u32> = tables.iter().map(|t| (t.number, t.seats)).collect();
            let mut taken: Vec<_> = holding.iter().map(|r| r.table.expect("a table")).collect();
            taken.sort();
            taken.dedup();
            assert_eq!(taken.len(), holding.len(), "no table twice");
            assert!(holding.iter().all(|r| seats[&r.table.unwrap()] >= r.party), "the table fits the party");
        }
        Inventory::Seats { sections } => {
            let mut taken: Vec<_> = holding.iter().flat_map(|r| r.seats.iter()).collect();
            let people: u32 = holding.iter().map(|r| r.party).sum();
            assert_eq!(taken.len(), usize::try_from(people).unwrap(), "a seat a head");
            taken.sort();
            taken.dedup();
            assert_eq!(taken.len(), usize::try_from(people).unwrap(), "no seat twice");
            assert!(taken.iter().all(|seat| sections.price(seat).is_some()), "seats of this hall");
        }
    }
    assert_list_is_sound(world);
}

/// Nobody waits for what is free, unless it is kept for somebody before them; nobody is passed too often.
fn assert_list_is_sound(world: &World) {
    for party in world.slot.waitlist().parties() {
        assert!(party.passed <= 5, "passed over too often");
        assert!(!has_room(world, party.party), "somebody waits although there is room");
        if party.passed == 5 {
            return;
        }
        assert!(
            world.holding().iter().all(|r| r.person != party.person),
            "whoever has a place waits for none"
        );
    }
}

/// Whether a new party would find room among these rows.
fn would_fit(world: &World, who: PersonId, party: u32) -> bool {
    let holding = world.holding();
    if holding.iter().any(|r| r.person == who) {
        return false;
    }
    // What is left is kept for somebody who waits.
    let kept = world.slot.waitlist().parties().iter().any(|waiting| waiting.passed == 5);
    !kept && has_room(world, party)
}

fn has_room(world: &World, party: u32) -> bool {
    let holding = world.holding();
    match &world.venue.settings.inventory {
        Inventory::Places { capacity } => holding.iter().map(|r| r.party).sum::<u32>() + party <= *capacity,
        Inventory::Exclusive => holding.is_empty(),
        Inventory::Tables { tables } => {
            tables.iter().any(|t| t.seats >= party && holding.iter().all(|r| r.table != Some(t.number)))
        }
        Inventory::Seats { sections } => {
            let taken: HashSet<_> = holding.iter().flat_map(|r| r.seats.iter()).collect();
            let rows = sections.rows().map(|(_, _, seats)| seats);
            let party = usize::try_from(party).unwrap();
            rows.flat_map(|row| row.windows(party))
                .any(|block| block.iter().all(|seat| !taken.contains(seat)))
        }
    }
}

/// Whoever names seats needs those, not so many side by side.
fn party_to_fit(world: &World, booking: &booking::decide::Booking) -> u32 {
    let names = world.venue.settings.inventory.hall().is_some() && !booking.seats.is_empty();
    if names { 1 } else { booking.party }
}

/// Whether all of these seats exist and nobody has any of them.
fn are_free(world: &World, seats: &[Seat]) -> bool {
    let Inventory::Seats { sections } = &world.venue.settings.inventory else { return false };
    let holding = world.holding();
    seats.iter().all(|seat| {
        sections.price(seat).is_some() && holding.iter().all(|holder| !holder.seats.contains(seat))
    })
}

fn smallest_fitting(world: &World, party: u32) -> Option<u32> {
    let Inventory::Tables { tables } = &world.venue.settings.inventory else { return None };
    let holding = world.holding();
    let free =
        tables.iter().filter(|t| t.seats >= party && holding.iter().all(|r| r.table != Some(t.number)));
    free.map(|t| t.seats).min()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_batch_oversells_or_seats_anybody_twice(inventory in inventory(), steps in steps()) {
        let mut world = World::new(inventory);
        for step in steps {
            world.wait(step.wait);
            let batch = commands(&mut world, &step.wishes);
            world.run(&batch);
            assert_sound(&world);
        }
    }

    /// Each booking is decided exactly as the rows stood at its turn: whoever fits is seated, at the smallest table,
    /// and whoever is refused would not have fitted. So nobody is refused for a place that somebody later gets.
    #[test]
    fn everybody_is_decided_by_what_was_left_at_their_turn(inventory in inventory(), steps in steps()) {
        let mut world = World::new(inventory);
        for step in steps {
            world.wait(step.wait);
            for command in commands(&mut world, &step.wishes) {
                // Those who wait are offered what has run out before anybody is looked at.
                let tend = world.command(99, Action::Tend {});
                world.run(&[tend]);
                let expected = match &command.action {
                    Action::Book(booking) => Some((
                        would_fit(&world, command.person, party_to_fit(&world, booking))
                            && (world.venue.settings.inventory.hall().is_none()
                                || booking.seats.is_empty()
                                || are_free(&world, &booking.seats)),
                        smallest_fitting(&world, booking.party),
                    )),
                    _ => None,
                };
                let outcome = world.run(std::slice::from_ref(&command)).remove(0);
                let Some((fits, seats)) = expected else { continue };
                prop_assert_eq!(matches!(outcome, Outcome::Done(_)), fits);
                if let (Some(seats), Inventory::Tables { tables }) = (seats, &world.venue.settings.inventory)
                    && fits
                {
                    let table = done(&outcome).table.unwrap();
                    prop_assert_eq!(tables.iter().find(|t| t.number == table).unwrap().seats, seats);
                }
            }
        }
    }

    /// How the line was cut into batches changes nothing for anybody.
    #[test]
    fn batches_do_not_matter(inventory in inventory(), steps in steps(), cut in 1usize..5) {
        let (mut whole, mut cut_up) = (World::new(inventory.clone()), World::new(inventory));
        for step in steps {
            whole.wait(step.wait);
            cut_up.wait(step.wait);
            let batch = commands(&mut whole, &step.wishes);
            commands(&mut cut_up, &step.wishes);
            let together = whole.run(&batch);
            let in_parts: Vec<_> = batch.chunks(cut).flat_map(|part| cut_up.run(part)).collect();
            let told = |outcomes: &[Outcome]| -> Vec<_> {
                outcomes.iter().map(|o| match o {
                    Outcome::Done(r) => (Some((r.id, r.status(), r.party, r.table, r.paid, r.refunded)), None),
                    Outcome::Noted => (None, None),
                    Outcome::Refused(refusal) => (None, Some(*refusal)),
                }).collect()
            };
            prop_assert_eq!(told(&together), told(&in_parts));
            prop_assert_eq!(&whole.stored, &cut_up.stored);
        }
    }

    /// Money is conserved: what wallets lost is what reservations were paid, less what came back.
    #[test]
    fn money_is_conserved(inventory in inventory(), steps in steps()) {
        let mut world = World::new(inventory);
        let mut moved = Won::ZERO;
        for step in steps {
            world.wait(step.wait);
            let batch = commands(&mut world, &step.wishes);
            moved = moved + world.run_counting(&batch).1;
            let kept: Won = world.stored.values().map(|r| r.paid - r.refunded).sum();
            prop_assert_eq!(-moved, kept);
            prop_assert!(world.stored.values().all(|r| r.refunded <= r.paid && r.refund_due == Won::ZERO));
        }
    }
}

/// The control: a rule that forgets expired holds, or counts them, is noticed by these properties.
#[test]
fn the_properties_notice_a_place_sold_twice() {
    let mut world = World::new(places(4));
    world.seat(1, 4);
    let mut twice = world.row(*world.stored.keys().next().unwrap()).clone();
    twice.id = ReservationId(7);
    twice.person = person(2);
    world.stored.insert(twice.id, twice.into());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_sound(&world))).is_err());
}
