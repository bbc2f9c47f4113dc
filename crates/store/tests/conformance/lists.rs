//! Lists: what is taken, what is overdue, whose reservations, which day's.

use std::sync::Arc;

use booking::*;
use jiff::SignedDuration;
use jiff::civil::date;
use store::Occupancy;

use super::world::{World, done, person, places, tables};

#[tokio::test]
async fn occupancy_counts_who_holds_a_place_at_that_instant() {
    let mut world = World::new(tables(9)).await;
    let slot = world.slot(12);
    let mut batch = world.empty_batch(&world.load(slot).await);
    for (&status, n) in Status::ALL.iter().zip(1..) {
        let life = Life::stored(status);
        batch.changes.new.push(Arc::new(Reservation { life, party: 1 << n, ..world.hold(slot, n, Some(n)) }));
    }
    world.store.commit(batch).await.unwrap();
    world.seat(world.slot(14), 1, 3).await;
    world.seat(world.slot(15), 1, 3).await;

    let occupied = async |world: &World| {
        let mut slots = world.store.occupancy(slot, world.slot(14), world.now).await.unwrap();
        for slot in &mut slots {
            slot.tables.sort_unstable();
        }
        slots
    };
    let taken = |slot, people, held_people, held_reservations, tables: &[u32]| {
        let reservations = u32::try_from(tables.len()).unwrap();
        let tables = tables.into();
        Occupancy { slot, people, reservations, held_people, held_reservations, tables, kept: false }
    };
    let later = taken(world.slot(14), 3, 3, 1, &[1]);
    assert_eq!(occupied(&world).await, [taken(slot, 2 + 4 + 8 + 16, 2, 1, &[1, 2, 3, 4]), later.clone()]);
    world.wait(7 * 60 - 1);
    assert_eq!(occupied(&world).await[0].people, 30);
    // The deadline itself is too late.
    world.wait(1);
    assert_eq!(occupied(&world).await, [taken(slot, 4 + 8 + 16, 0, 0, &[2, 3, 4])]);
}

#[tokio::test]
async fn occupancy_without_tables_is_a_count_of_people() {
    let world = World::new(places(20)).await;
    let slot = world.slot(12);
    world.seat(slot, 1, 3).await;
    let cancelled = world.seat(slot, 2, 2).await;
    world.run(&[world.cancel(&cancelled)]).await;
    let occupied = world.store.occupancy(slot, slot, world.now).await.unwrap();
    let (people, reservations) = (3, 1);
    let (held_people, held_reservations, tables) = (people, reservations, vec![]);
    let taken = Occupancy { slot, people, reservations, held_people, held_reservations, tables, kept: false };
    assert_eq!(occupied, [taken]);
}

#[tokio::test]
async fn overdue_holds_come_in_the_order_of_their_deadlines_and_a_few_at_a_time() {
    let mut world = World::new(places(20)).await;
    let mut holds = vec![];
    for n in [3, 1, 2] {
        holds.push(world.seat(world.slot(n), 1, 2).await);
        world.wait(1);
    }
    world.give(2, 10_000).await;
    let paid = world.seat(world.slot(1), 2, 2).await;
    world.run(&[world.pay(&paid)]).await;

    let first = holds[0].expires_at;
    let at = |seconds| first + SignedDuration::from_secs(seconds);
    let overdue = async |seconds, limit| {
        let overdue = world.store.overdue(at(seconds), limit).await.unwrap();
        overdue.into_iter().map(|o| (o.slot, o.reservation, o.person)).collect::<Vec<_>>()
    };
    let expected: Vec<_> = holds.iter().map(|r| (r.slot, r.id, r.person)).collect();
    assert_eq!(overdue(-1, 9).await, []);
    assert_eq!(overdue(0, 9).await, expected[..1]);
    assert_eq!(overdue(100, 2).await, expected[..2]);
    assert_eq!(overdue(100, 9).await, expected, "what is paid is never overdue");
}

#[tokio::test]
async fn a_persons_reservations_are_paged_without_loss_or_repeats() {
    let mut world = World::new(places(20)).await;
    let mut booked = vec![];
    for n in 0..10 {
        booked.push(world.seat(world.slot(n), 1, 1).await.id);
        world.seat(world.slot(n), 2, 1).await;
        // Some are of the same instant.
        world.wait(i64::from(n % 3 == 0));
    }
    booked.reverse();
    for limit in [1, 3, 10, 11] {
        let (mut seen, mut after, mut pages) = (vec![], None, 0);
        loop {
            let page = world.store.reservations_of(person(1), after, limit).await.unwrap();
            assert!(page.items.iter().all(|r| r.person == person(1)) && page.items.len() <= limit as usize);
            seen.extend(page.items.iter().map(|r| r.id));
            pages += 1;
            // Somebody who books while another turns the pages changes nothing about the rest of them.
            world.seat(world.slot(100 + i16::try_from(world.number()).unwrap()), 3, 1).await;
            let Some(next) = page.next else { break };
            after = Some(next.parse().unwrap());
        }
        assert_eq!((&seen, pages), (&booked, 10_u32.div_ceil(limit)), "in pages of {limit}");
    }
    let of_nobody = world.store.reservations_of(person(4), None, 10).await.unwrap();
    assert_eq!((of_nobody.items, of_nobody.next), (vec![], None));
}

#[tokio::test]
async fn nobody_pages_on_from_the_reservation_of_another() {
    let world = World::new(places(20)).await;
    let mine = world.seat(world.slot(12), 1, 1).await;
    world.seat(world.slot(13), 2, 1).await;
    let page = world.store.reservations_of(person(2), Some(mine.id), 10).await.unwrap();
    assert_eq!(page.items, []);
}

#[tokio::test]
async fn a_day_is_listed_by_time_and_then_in_the_order_of_winning() {
    let world = World::new(places(20)).await;
    let evening = world.seat(world.slot(19), 1, 1).await;
    let noon = [world.seat(world.slot(12), 2, 1).await, world.seat(world.slot(12), 1, 1).await];
    let midnight = world.seat(world.slot(0), 1, 1).await;
    let last = world.seat(world.slot(23), 1, 1).await;
    world.seat(world.slot(24), 1, 1).await;
    let cancelled = done(&world.run(&[world.cancel(&noon[0])]).await[0]);

    let listed = world.store.reservations_on(world.venue.id, date(2026, 12, 1)).await.unwrap();
    let expected = [&midnight, &cancelled, &noon[1], &evening, &last].map(|r| (**r).clone());
    assert_eq!(listed, expected, "with what was cancelled, without the day after");
    let elsewhere = VenueId(world.venue.id.0 + 1);
    assert_eq!(world.store.reservations_on(elsewhere, date(2026, 12, 1)).await.unwrap(), []);
    assert_eq!(world.store.reservations_on(world.venue.id, date(1969, 12, 1)).await.unwrap(), []);
}

#[tokio::test]
async fn reservations_are_found_as_far_as_they_exist() {
    let world = World::new(places(20)).await;
    let (first, second) = (world.seat(world.slot(12), 1, 1).await, world.seat(world.slot(13), 1, 1).await);
    let found = world.store.reservations(vec![second.id, ReservationId(1), first.id]).await.unwrap();
    assert_eq!(found, [(*second).clone(), (*first).clone()]);
    assert_eq!(world.row(ReservationId(1)).await, None);
}
