//! A batch is stored whole, on the versions from which it was decided, or not at all.

use std::sync::Arc;

use booking::*;
use jiff::SignedDuration;
use store::{Batch, CommitError};

use super::world::{World, done, person, places, settings};

/// A batch that touches everything, and where to look for what it left.
struct Everything {
    batch: Batch,
    tickets: Vec<TicketId>,
    booked: ReservationId,
    paid: ReservationId,
}

const PAYER: u32 = 1;
const BOOKER: u32 = 2;

impl Everything {
    /// A payment, a booking with its key, and a refusal.
    async fn new(world: &World) -> Self {
        world.give(PAYER, 50_000).await;
        world.seat(world.slot(12), PAYER, 2).await;
        Self::again(world).await
    }

    async fn again(world: &World) -> Self {
        let slot = world.load(world.slot(12)).await;
        let paid = slot.of_person(person(PAYER)).unwrap();
        let pay = world.pay(slot.holder(paid).unwrap());
        let commands = [pay, world.book(slot.id, BOOKER, 2), world.book(slot.id, BOOKER + 1, 100)];
        let tickets: Vec<_> = commands.iter().map(|command| command.ticket).collect();
        let (mut batch, outcomes) = world.decide(&slot, &commands).await;
        assert!(matches!(outcomes[2], Outcome::Refused(Refusal::NotEnoughPlaces { .. })));
        batch.keys.push(world.key(BOOKER, "click", tickets[1]));
        Self { batch, booked: done(&outcomes[1]).id, tickets, paid }
    }

    /// Stores it; the answer, and how much of it is there afterwards: slot, rows, log, key, money.
    async fn commit(self, world: &World) -> (Result<u64, CommitError>, [bool; 6]) {
        let before = world.load(self.batch.slot).await.version;
        let slot = self.batch.slot;
        let answer = world.store.commit(self.batch).await;
        let mut logged = 0;
        for ticket in &self.tickets {
            logged += usize::from(world.store.decided(*ticket).await.unwrap().is_some());
        }
        assert!(logged == 0 || logged == self.tickets.len(), "a batch is logged whole");
        let left = [
            world.load(slot).await.version != before,
            world.row(self.booked).await.is_some(),
            world.row(self.paid).await.unwrap().status() != Status::Temporary,
            logged != 0,
            world.store.request_key(person(BOOKER), "click".into()).await.unwrap().is_some(),
            world.balance(PAYER).await != Won(50_000) || world.entries(PAYER).await.len() != 1,
        ];
        (answer, left)
    }
}

const ALL_OF_IT: [bool; 6] = [true; 6];
const NOTHING: [bool; 6] = [false; 6];

#[tokio::test]
async fn a_reservation_is_read_back_as_it_was_stored() {
    let world = World::new(places(20)).await;
    let slot = world.load(world.slot(12)).await;
    let line = |item, name: &str, price, quantity| OrderLine {
        item,
        name: name.into(),
        price: Won(price),
        quantity,
    };
    let full = Reservation {
        id: ReservationId(u128::MAX),
        person: PersonId(u128::MAX - 1),
        name: "김 “O’Hara” 🍲".into(),
        life: Life::stored(Status::RefundPending),
        party: 100,
        table: Some(u32::MAX),
        payment: Payment::Prepay,
        order: Arc::from([line(1, "Bibimbap", 9_000, 2), line(7, "물 \"still\"", 0, 1)]),
        price: Won(18_000),
        paid: Won(18_000),
        refunded: Won(1_000),
        refund_due: Won(17_000),
        expires_at: world.now + SignedDuration::from_millis(420_001),
        note: Some("by the window,\nplease".into()),
        version: 7,
        reseats: Some(ReservationId(3)),
        ..world.hold(slot.id, 1, None)
    };
    let plain = world.hold(slot.id, 2, None);

    let mut batch = world.empty_batch(&slot);
    batch.changes.new = vec![Arc::new(full.clone()), Arc::new(plain.clone())];
    world.store.commit(batch).await.unwrap();

    assert_eq!(world.row(full.id).await.unwrap(), full);
    assert_eq!(world.row(plain.id).await.unwrap(), plain);
    let loaded = world.load(slot.id).await;
    assert_eq!(**loaded.holder(full.id).unwrap(), full);
    assert_eq!((loaded.people(), loaded.holders().count()), (102, 2));
}

#[tokio::test]
async fn a_change_is_read_back_as_it_was_stored() {
    let world = World::new(places(20)).await;
    world.give(1, 50_000).await;
    let seated = world.seat(world.slot(12), 1, 2).await;
    let grown = done(&world.run(&[world.change(&seated, seated.slot, 5)]).await[0]);
    assert_eq!(world.row(seated.id).await.unwrap(), *grown);
    let paid = done(&world.run(&[world.pay(&grown)]).await[0]);
    assert_eq!(world.row(seated.id).await.unwrap(), *paid);
    let cancelled = done(&world.run(&[world.cancel(&paid)]).await[0]);
    assert_eq!(world.row(seated.id).await.unwrap(), *cancelled);
    assert_eq!((cancelled.status(), cancelled.refunded), (Status::Refunded, Won(25_000)));
}

#[tokio::test]
async fn a_slot_is_made_by_its_first_batch_and_moves_by_one_version_a_batch() {
    let world = World::new(places(20)).await;
    let slot = world.slot(12);
    assert_eq!(world.load(slot).await.version, 0);
    for (who, version) in (1..).zip(1..=5) {
        world.seat(slot, who, 2).await;
        assert_eq!(world.load(slot).await.version, version);
    }
    assert_eq!(world.load(world.slot(13)).await.version, 0, "slots are independent of each other");
}

#[tokio::test]
async fn a_batch_is_stored_whole() {
    let world = World::new(places(20)).await;
    let (answer, left) = Everything::new(&world).await.commit(&world).await;
    assert_eq!((answer.unwrap(), left), (2, ALL_OF_IT));
}

#[tokio::test]
async fn nothing_of_a_batch_is_stored_on_another_version_of_the_slot() {
    for wrong in [0, 2, 1_000] {
        let world = World::new(places(20)).await;
        let mut everything = Everything::new(&world).await;
        everything.batch.slot_version = wrong;
        let (answer, left) = everything.commit(&world).await;
        assert!(matches!(answer, Err(CommitError::Stale)), "{answer:?}");
        assert_eq!(left, NOTHING);
    }
}

#[tokio::test]
async fn a_batch_decided_before_another_one_is_stale() {
    let world = World::new(places(20)).await;
    let everything = Everything::new(&world).await;
    world.seat(world.slot(12), 9, 2).await;
    let (answer, left) = everything.commit(&world).await;
    assert!(matches!(answer, Err(CommitError::Stale)), "{answer:?}");
    assert_eq!(left, NOTHING);
}

#[tokio::test]
async fn nothing_of_a_batch_is_stored_on_another_version_of_the_venue() {
    let world = World::new(places(20)).await;
    let everything = Everything::new(&world).await;
    assert!(world.store.set_settings(world.venue.id, 1, settings(places(2))).await.unwrap());
    let (answer, left) = everything.commit(&world).await;
    assert!(matches!(answer, Err(CommitError::Stale)), "{answer:?}");
    assert_eq!(left, NOTHING);
}

#[tokio::test]
async fn nothing_of_a_batch_is_stored_for_a_venue_that_is_not_there() {
    let world = World::new(places(20)).await;
    let elsewhere = SlotId::from_i64(world.slot(12).to_i64() + (1 << 32));
    let batch = world.empty_batch(&Slot::empty(elsewhere));
    let answer = world.store.commit(batch).await;
    assert!(matches!(answer, Err(CommitError::Stale)), "{answer:?}");
    assert_eq!(world.load(elsewhere).await.version, 0);
}

#[tokio::test]
async fn nothing_of_a_batch_is_stored_when_a_wallet_falls_short() {
    let world = World::new(places(20)).await;
    let mut everything = Everything::new(&world).await;
    let last = *everything.tickets.last().unwrap();
    let movement = everything.batch.changes.movements[0];
    // Somebody who never had a wallet, and somebody whose wallet bears the first payment but not the second.
    for short in [Movement { person: person(99), ..movement }, Movement { amount: Won(-40_001), ..movement }]
    {
        everything.batch.changes.movements.push(Movement { ticket: last, ..short });
        let (answer, left) = everything.commit(&world).await;
        assert!(matches!(answer, Err(CommitError::Short(ticket)) if ticket == last), "{answer:?}");
        assert_eq!(left, NOTHING);
        everything = Everything::again(&world).await;
    }
}

#[tokio::test]
async fn nothing_of_a_batch_is_stored_when_a_key_is_used() {
    let world = World::new(places(20)).await;
    let mut everything = Everything::new(&world).await;
    let key = world.key(9, "used", everything.tickets[0]);
    everything.batch.keys.extend([key.clone(), key]);
    let ticket = everything.tickets[0];
    let (answer, left) = everything.commit(&world).await;
    assert!(matches!(answer, Err(CommitError::KeyUsed(used)) if used == ticket), "{answer:?}");
    assert_eq!(left, NOTHING);
}

#[tokio::test]
async fn a_batch_of_refusals_is_only_a_row_of_the_log() {
    let world = World::new(places(1)).await;
    let slot = world.slot(12);
    let commands = [world.book(slot, 1, 2), world.book(slot, 2, 100)];
    for (round, version) in [(0, 1), (1, 2)] {
        let outcomes = world.run(&commands[round..]).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Refused(_))));
        assert_eq!(world.load(slot).await.version, version, "a refusal is as conditional as a success");
    }
    assert_eq!(world.load(slot).await.holders().count(), 0);
    let logged = world.store.decided(commands[0].ticket).await.unwrap().unwrap();
    assert_eq!((logged.batch, logged.decided_at), (1, world.now));
    assert_eq!(logged.decision.refused, Some(Refusal::NotEnoughPlaces { remaining: 1 }));
}

#[tokio::test]
async fn a_stale_batch_of_refusals_is_refused_too() {
    let world = World::new(places(1)).await;
    let slot = world.load(world.slot(12)).await;
    let refused = world.book(slot.id, 1, 2);
    let (batch, _) = world.decide(&slot, std::slice::from_ref(&refused)).await;
    world.seat(slot.id, 2, 1).await;
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));
    assert_eq!(world.store.decided(refused.ticket).await.unwrap(), None);
}
