//! A reservation moves from slot to slot in one batch of the slot it goes to (D8).

use booking::*;
use store::CommitError;

use super::world::{World, done, person, places, tables};

#[tokio::test]
async fn a_move_bumps_the_version_of_the_slot_it_leaves() {
    let world = World::new(tables(1)).await;
    let (noon, one) = (world.slot(12), world.slot(13));
    let seated = world.seat(noon, 1, 2).await;
    let before = world.load(noon).await;

    let moved = done(&world.run(&[world.change(&seated, one, 3)]).await[0]);

    assert_eq!(world.row(seated.id).await.unwrap(), *moved);
    assert_eq!((moved.slot, moved.party, moved.table), (one, 3, seated.table));
    let (left, joined) = (world.load(noon).await, world.load(one).await);
    assert_eq!((left.version, left.people()), (before.version + 1, 0));
    assert_eq!((joined.version, joined.of_person(person(1))), (1, Some(seated.id)));

    // Whoever still has the old copy of the slot that was left cannot decide from it.
    let (batch, _) = world.decide(&before, &[world.book(noon, 2, 2)]).await;
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));
    world.seat(noon, 2, 2).await;
}

#[tokio::test]
async fn a_batch_in_which_many_leave_one_slot_bumps_it_once() {
    let world = World::new(places(20)).await;
    let (noon, one) = (world.slot(12), world.slot(13));
    let seated = [world.seat(noon, 1, 2).await, world.seat(noon, 2, 2).await, world.seat(noon, 3, 2).await];
    let commands: Vec<_> = seated.iter().map(|r| world.change(r, one, 2)).collect();
    world.run(&commands).await;
    assert_eq!((world.load(noon).await.version, world.load(noon).await.people()), (4, 0));
    assert_eq!((world.load(one).await.version, world.load(one).await.people()), (1, 6));
}

#[tokio::test]
async fn a_move_is_refused_when_the_reservation_has_changed_meanwhile() {
    let world = World::new(places(20)).await;
    let (noon, one) = (world.slot(12), world.slot(13));
    world.seat(one, 2, 2).await;
    let seated = world.seat(noon, 1, 2).await;
    let commands = [world.change(&seated, one, 2), world.book(one, 3, 2)];
    let (batch, _) = world.decide(&world.load(one).await, &commands).await;
    let cancelled = done(&world.run(&[world.cancel(&seated)]).await[0]);

    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));

    assert_eq!(world.row(seated.id).await.unwrap(), *cancelled);
    assert_eq!(
        world.load(noon).await.version,
        2,
        "a move that failed does not touch the slot it would have left"
    );
    assert_eq!((world.load(one).await.version, world.load(one).await.people()), (1, 2));
    assert_eq!(world.store.decided(commands[0].ticket).await.unwrap(), None);

    // Decided again from what is stored, the move is refused and the other guest is seated.
    let outcomes = world.run(&commands).await;
    assert!(matches!(outcomes[0], Outcome::Refused(Refusal::IllegalTransition { .. })));
    done(&outcomes[1]);
}

#[tokio::test]
async fn nobody_moves_into_a_slot_where_they_hold_a_place() {
    let world = World::new(places(20)).await;
    let (noon, one) = (world.slot(12), world.slot(13));
    let (here, there) = (world.seat(noon, 1, 2).await, world.seat(one, 1, 2).await);
    let mut batch = world.empty_batch(&world.load(one).await);
    batch.changes.changed = vec![super::world::changed(&here, |r| r.slot = one)];
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));

    // Giving up the place there makes way, in the same batch.
    let outcomes = world.run(&[world.cancel(&there), world.change(&here, one, 2)]).await;
    assert_eq!(done(&outcomes[1]).slot, one);
    assert_eq!(world.load(one).await.of_person(person(1)), Some(here.id));
}
