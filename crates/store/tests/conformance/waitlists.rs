//! Who waits is kept in order, and what they are offered is theirs.

use booking::waitlist::MAX_PASSES;
use booking::*;

use super::world::{World, done, person, places};

#[tokio::test]
async fn whoever_waits_is_read_back_in_order() {
    let world = World::new(places(4)).await;
    let slot = world.slot(12);
    world.seat(slot, 1, 4).await;
    world.run(&[world.join(slot, 2, 2), world.join(slot, 3, 4)]).await;
    world.run(&[world.join(slot, 4, 1)]).await;
    let list = world.store.waitlist(slot).await.unwrap();
    let told: Vec<_> = list.iter().map(|w| (w.person, w.party, w.rank, w.passed)).collect();
    assert_eq!(told, [(person(2), 2, 1, 0), (person(3), 4, 2, 0), (person(4), 1, 3, 0)]);
    assert_eq!(world.load(slot).await.waitlist().parties(), list);
    assert_eq!(world.store.waits_of(person(3)).await.unwrap(), [(slot, list[1].clone())]);
    assert_eq!(world.store.waited_for(SlotId::from_i64(0), 10).await.unwrap(), [slot]);
}

#[tokio::test]
async fn what_frees_is_offered_in_the_same_batch() {
    let world = World::new(places(4)).await;
    let slot = world.slot(12);
    let first = world.seat(slot, 1, 4).await;
    world.run(&[world.join(slot, 2, 3), world.join(slot, 3, 4), world.join(slot, 4, 1)]).await;
    // Somebody who is not on the list stands in line behind the cancellation, and finds nothing.
    let outcomes = world.run(&[world.cancel(&first), world.book(slot, 5, 1)]).await;
    assert!(matches!(outcomes[1], Outcome::Refused(Refusal::NotEnoughPlaces { remaining: 0 })));
    let holders = world.load(slot).await;
    for (who, party) in [(2, 3), (4, 1)] {
        let offer = world.row(holders.of_person(person(who)).unwrap()).await.unwrap();
        assert_eq!((offer.party, offer.status(), offer.offered), (party, Status::Temporary, true));
    }
    let list = world.store.waitlist(slot).await.unwrap();
    assert_eq!(list.iter().map(|w| (w.person, w.passed)).collect::<Vec<_>>(), [(person(3), 1)]);
}

#[tokio::test]
async fn an_offer_that_lapses_goes_to_the_next() {
    let mut world = World::new(places(2)).await;
    let slot = world.slot(12);
    let first = world.seat(slot, 1, 2).await;
    world.run(&[world.join(slot, 2, 2), world.join(slot, 3, 2)]).await;
    world.run(&[world.cancel(&first)]).await;
    let lapsing = world.load(slot).await.of_person(person(2)).unwrap();
    assert_eq!(world.store.next_deadline().await.unwrap(), world.row(lapsing).await.map(|r| r.expires_at));
    world.wait(301);
    world.run(&[world.command(slot, 2, Action::Expire { reservation: lapsing })]).await;
    let slot = world.load(slot).await;
    assert!(slot.of_person(person(2)).is_none() && slot.of_person(person(3)).is_some());
    assert!(slot.waitlist().is_empty());
}

#[tokio::test]
async fn a_large_party_is_passed_five_times_and_then_gets_what_frees() {
    let world = World::new(places(6)).await;
    let slot = world.slot(12);
    let mut ones = Vec::new();
    for who in 1..=6 {
        ones.push(world.seat(slot, who, 1).await);
    }
    world.run(&[world.join(slot, 100, 6)]).await;
    for n in 0..MAX_PASSES {
        world.run(&[world.cancel(&ones.remove(0))]).await;
        // Nobody who fits waits, so anybody may have it; the large party is passed over.
        ones.push(world.seat(slot, 20 + n, 1).await);
    }
    assert_eq!(world.store.waitlist(slot).await.unwrap()[0].passed, MAX_PASSES);
    for last in ones {
        world.run(&[world.cancel(&last)]).await;
        let refused = world.run(&[world.book(slot, 50, 1)]).await;
        assert!(matches!(refused[0], Outcome::Refused(Refusal::NotEnoughPlaces { remaining: 0 })));
    }
    assert!(world.load(slot).await.of_person(person(100)).is_some(), "six places were kept for six people");
}

#[tokio::test]
async fn nobody_waits_for_what_has_begun() {
    let mut world = World::new(places(2)).await;
    let slot = world.slot(12);
    let seated = world.seat(slot, 1, 2).await;
    world.run(&[world.join(slot, 2, 2), world.join(slot, 3, 1)]).await;
    world.wait(40 * 86_400);
    world.run(&[world.command(slot, 2, Action::Tend {})]).await;
    assert!(world.store.waitlist(slot).await.unwrap().is_empty());
    assert_eq!(world.row(seated.id).await.unwrap().status(), Status::Expired);
    assert!(world.load(slot).await.holders().next().is_none(), "nor is anybody offered it");
}

#[tokio::test]
async fn a_batch_that_is_not_stored_changes_no_list() {
    let world = World::new(places(2)).await;
    let slot = world.slot(12);
    let seated = world.seat(slot, 1, 2).await;
    world.run(&[world.join(slot, 2, 2)]).await;
    let old = world.load(slot).await;
    world.run(&[world.join(slot, 3, 2)]).await;
    let (batch, _) = world.decide(&old, &[world.cancel(&seated)]).await;
    assert!(world.store.commit(batch).await.is_err(), "decided from a list that has moved on");
    assert_eq!(world.store.waitlist(slot).await.unwrap().len(), 2);
    assert_eq!(done(&world.run(&[world.cancel(&seated)]).await[0]).status(), Status::Canceled);
    assert_eq!(world.store.waitlist(slot).await.unwrap().len(), 1);
}
