//! Numbered seats: kept as they were chosen, and never held twice.

use std::sync::Arc;

use booking::*;
use store::CommitError;

use super::world::{World, changed, done, row_of};

fn labels(seats: &[Seat]) -> Vec<&str> {
    seats.iter().map(Seat::as_str).collect()
}

#[tokio::test]
async fn seats_are_read_back_as_they_were_chosen() {
    let world = World::new(row_of(5)).await;
    let slot = world.slot(19);
    let seated = done(&world.run(&[world.book_seats(slot, 1, 2, &["A-1-4", "A-1-2"])]).await[0]);
    assert_eq!(labels(&seated.seats), ["A-1-4", "A-1-2"]);
    assert_eq!(world.row(seated.id).await.unwrap(), *seated);
    assert_eq!(seated.price, Won(60_000));
    let loaded = world.load(slot).await;
    assert_eq!(loaded.of_seat(&Seat::labelled("A-1-2")).unwrap().id, seated.id);
    assert_eq!(loaded.remaining(&world.venue.settings.inventory), 3);
}

#[tokio::test]
async fn the_database_forbids_a_seat_twice() {
    let world = World::new(row_of(5)).await;
    let first = world.seat(world.slot(19), 1, 2).await;
    let slot = world.load(first.slot).await;
    let mut thief = world.hold(slot.id, 2, None);
    thief.seats = Arc::from([Seat::labelled("A-1-5"), first.seats[0].clone()]);
    let mut batch = world.empty_batch(&slot);
    batch.changes.new = vec![Arc::new(thief.clone())];
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));
    assert_eq!(world.load(slot.id).await.holders().count(), 1, "all or none");

    // Another show has the same seats.
    let other = world.slot(20);
    let seated = done(&world.run(&[world.book_seats(other, 2, 2, &labels(&first.seats))]).await[0]);
    // And nobody moves onto a seat that is taken.
    let mut batch = world.empty_batch(&world.load(slot.id).await);
    batch.changes.changed = vec![changed(&seated, |r| r.slot = slot.id)];
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));
    assert_eq!(world.row(seated.id).await.unwrap(), *seated);
}

#[tokio::test]
async fn what_is_freed_in_a_batch_is_taken_in_it() {
    let mut world = World::new(row_of(2)).await;
    let slot = world.slot(19);
    let seats = ["A-1-1", "A-1-2"];
    for who in 1..5 {
        let seated = done(&world.run(&[world.book_seats(slot, who, 2, &seats)]).await[0]);
        let batch = [world.cancel(&seated), world.book_seats(slot, who + 10, 2, &seats)];
        let outcomes = world.run(&batch).await;
        let next = done(&outcomes[1]);
        // A hold that runs out is free the moment it does.
        world.wait(421);
        assert!(world.row(next.id).await.unwrap().has_expired(world.now));
    }
}

#[tokio::test]
async fn two_parties_swap_seats_in_one_batch() {
    let world = World::new(row_of(2)).await;
    let slot = world.slot(19);
    let one = done(&world.run(&[world.book_seats(slot, 1, 1, &["A-1-1"])]).await[0]);
    let two = done(&world.run(&[world.book_seats(slot, 2, 1, &["A-1-2"])]).await[0]);
    let mut batch = world.empty_batch(&world.load(slot).await);
    batch.changes.changed =
        vec![changed(&one, |r| r.seats = two.seats.clone()), changed(&two, |r| r.seats = one.seats.clone())];
    world.store.commit(batch).await.unwrap();
    assert_eq!(world.row(one.id).await.unwrap().seats, two.seats);
    let taken = world.load(slot).await;
    assert_eq!(taken.of_seat(&two.seats[0]).unwrap().id, one.id);
}

#[tokio::test]
async fn a_smaller_party_keeps_some_of_its_seats() {
    let world = World::new(row_of(9)).await;
    let seats = ["A-1-1", "A-1-2", "A-1-3"];
    let seated = done(&world.run(&[world.book_seats(world.slot(19), 1, 3, &seats)]).await[0]);
    let fewer = done(&world.run(&[world.change(&seated, seated.slot, 2)]).await[0]);
    assert_eq!((labels(&fewer.seats), fewer.price), (vec!["A-1-2", "A-1-3"], Won(60_000)));
    done(&world.run(&[world.book_seats(world.slot(19), 2, 1, &["A-1-1"])]).await[0]);
}

#[tokio::test]
async fn a_party_moves_to_the_same_seats_of_another_show() {
    let world = World::new(row_of(5)).await;
    let seated = done(&world.run(&[world.book_seats(world.slot(19), 1, 2, &["A-1-1", "A-1-2"])]).await[0]);
    let moved = done(&world.run(&[world.change(&seated, world.slot(20), 2)]).await[0]);
    assert_eq!((moved.slot, &moved.seats), (world.slot(20), &seated.seats));
    // The seats that were left are free, those that were taken are not.
    done(&world.run(&[world.book_seats(world.slot(19), 2, 2, &labels(&seated.seats))]).await[0]);
    let refused = world.run(&[world.book_seats(world.slot(20), 2, 2, &labels(&seated.seats))]).await;
    assert!(matches!(refused[0], Outcome::Refused(Refusal::SeatTaken { .. })));
}
