//! The database itself forbids a place twice, and what is freed in a batch can be taken in it.

use std::sync::Arc;

use booking::*;
use store::CommitError;

use super::world::{World, changed, done, person, places, tables};

#[tokio::test]
async fn one_person_never_holds_two_places_in_a_slot() {
    let world = World::new(places(20)).await;
    let first = world.seat(world.slot(12), 1, 2).await;
    let slot = world.load(first.slot).await;
    let second = world.hold(slot.id, 1, None);
    let mut batch = world.empty_batch(&slot);
    batch.changes.new = vec![Arc::new(world.hold(slot.id, 2, None)), Arc::new(second)];

    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));

    let after = world.load(slot.id).await;
    assert_eq!((after.version, after.holders().count()), (1, 1));
    assert_eq!(after.of_person(person(1)), Some(first.id));
    world.seat(world.slot(13), 1, 2).await;
}

#[tokio::test]
async fn no_table_is_taken_twice_in_a_slot() {
    let world = World::new(tables(2)).await;
    let first = world.seat(world.slot(12), 1, 2).await;
    let slot = world.load(first.slot).await;
    let mut batch = world.empty_batch(&slot);
    batch.changes.new =
        vec![Arc::new(world.hold(slot.id, 2, Some(2))), Arc::new(world.hold(slot.id, 3, first.table))];

    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));

    let after = world.load(slot.id).await;
    assert_eq!((after.version, after.holders().count()), (1, 1));
    let elsewhere = world.seat(world.slot(13), 2, 2).await;
    assert_eq!(elsewhere.table, first.table, "another slot has the same tables");
}

#[tokio::test]
async fn a_party_cannot_change_to_a_table_that_is_taken() {
    let world = World::new(tables(2)).await;
    let slot = world.slot(12);
    let (first, second) = (world.seat(slot, 1, 2).await, world.seat(slot, 2, 2).await);
    let mut batch = world.empty_batch(&world.load(slot).await);
    batch.changes.changed = vec![changed(&second, |r| r.table = first.table)];
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));
    assert_eq!(world.row(second.id).await.unwrap(), *second);
}

#[tokio::test]
async fn whoever_cancelled_can_book_again_any_number_of_times() {
    let world = World::new(tables(1)).await;
    let slot = world.slot(12);
    for _ in 0..5 {
        let seated = world.seat(slot, 1, 2).await;
        done(&world.run(&[world.cancel(&seated)]).await[0]);
    }
    world.seat(slot, 1, 2).await;
    assert_eq!(world.load(slot).await.people(), 2);
}

#[tokio::test]
async fn whoever_let_a_hold_expire_can_book_again_in_the_batch_that_expires_it() {
    let mut world = World::new(tables(1)).await;
    let slot = world.slot(12);
    for _ in 0..3 {
        let held = world.seat(slot, 1, 2).await;
        world.wait(7 * 60);
        // Its row still says TEMPORARY, for the same person and the same table.
        assert_eq!(world.row(held.id).await.unwrap().status(), Status::Temporary);
        let again = world.seat(slot, 1, 2).await;
        assert_eq!(again.table, held.table);
        assert_eq!(world.row(held.id).await.unwrap().status(), Status::Expired);
        world.wait(7 * 60);
    }
}

#[tokio::test]
async fn a_place_is_cancelled_and_taken_by_others_in_one_batch() {
    let world = World::new(tables(1)).await;
    let first = world.seat(world.slot(12), 1, 2).await;
    let commands = [world.cancel(&first), world.book(first.slot, 2, 4)];
    let outcomes = world.run(&commands).await;
    assert_eq!(done(&outcomes[1]).table, first.table);
    assert_eq!(world.row(first.id).await.unwrap().status(), Status::Canceled);
}

#[tokio::test]
async fn what_is_booked_given_up_and_booked_again_in_one_batch_is_stored() {
    let world = World::new(tables(1)).await;
    let slot = world.load(world.slot(12)).await;
    let first = world.book(slot.id, 1, 2);
    let booked = done(&world.decide(&slot, std::slice::from_ref(&first)).await.1[0]);
    let outcomes = world.run(&[first, world.cancel(&booked), world.book(slot.id, 1, 3)]).await;
    assert_eq!(world.row(booked.id).await.unwrap().status(), Status::Canceled);
    assert_eq!(world.load(slot.id).await.of_person(person(1)), Some(done(&outcomes[2]).id));
}

/// Seats parties at tables 1, 2, …, then gives each the table of the next in one batch, and the last one the first.
async fn rotate(parties: u32) {
    let world = World::new(tables(parties)).await;
    let slot = world.slot(12);
    let mut seated = vec![];
    for who in 1..=parties {
        seated.push(world.seat(slot, who, 4).await);
    }
    let mut batch = world.empty_batch(&world.load(slot).await);
    let next = seated.iter().cycle().skip(1);
    batch.changes.changed =
        seated.iter().zip(next).map(|(r, next)| changed(r, |r| r.table = next.table)).collect();
    world.store.commit(batch).await.unwrap();

    for (before, next) in seated.iter().zip(seated.iter().cycle().skip(1)) {
        let after = world.row(before.id).await.unwrap();
        assert_eq!((after.table, after.version), (next.table, before.version + 1));
    }
}

#[tokio::test]
async fn two_parties_swap_tables() {
    rotate(2).await;
}

#[tokio::test]
async fn three_parties_swap_tables_in_a_round() {
    rotate(3).await;
}
