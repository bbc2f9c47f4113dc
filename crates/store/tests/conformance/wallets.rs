//! Money: every movement is an entry, and the balance is their sum.

use booking::wallet::{EntryKind, MAX_BALANCE};
use booking::*;
use store::{Charge, ChargeError, CommitError};
use tokio::task::JoinSet;

use super::world::{World, done, person, places};

/// The entries, newest first, add up to the balance, and each says what the wallet held then.
async fn audit(world: &World, who: u32) {
    let mut entries = world.entries(who).await;
    entries.reverse();
    let mut sum = Won::ZERO;
    for entry in entries {
        sum = sum + entry.amount;
        assert_eq!(entry.balance, sum);
    }
    assert_eq!(world.balance(who).await, sum);
}

#[tokio::test]
async fn a_charge_is_an_entry() {
    let world = World::new(places(20)).await;
    assert_eq!(world.balance(1).await, Won::ZERO);
    assert_eq!(world.entries(1).await, []);
    let entry = world.store.charge(person(1), Won(5_000), None, world.now).await.unwrap();
    assert_eq!((entry.amount, entry.balance, entry.kind), (Won(5_000), Won(5_000), EntryKind::Charge));
    assert_eq!((entry.reservation, entry.at), (None, world.now));
    assert_eq!(world.entries(1).await, [entry]);
    world.give(1, 5_000).await;
    assert_eq!((world.balance(1).await, world.balance(2).await), (Won(10_000), Won::ZERO));
    audit(&world, 1).await;
}

#[tokio::test]
async fn a_charge_with_a_key_happens_once() {
    let world = World::new(places(20)).await;
    let charge = |who, amount| world.store.charge(person(who), Won(amount), Some("click".into()), world.now);
    let first = charge(1, 5_000).await.unwrap();
    world.give(1, 1_000).await;
    assert_eq!(charge(1, 5_000).await.unwrap(), first, "the same answer, whatever happened since");
    assert!(matches!(charge(1, 6_000).await, Err(ChargeError::KeyUsed)));
    assert_eq!(charge(2, 6_000).await.unwrap().amount, Won(6_000), "keys are a person's own");
    assert_eq!(world.balance(1).await, Won(6_000));
    audit(&world, 1).await;
}

#[tokio::test]
async fn a_wallet_holds_no_more_than_it_may() {
    let world = World::new(places(20)).await;
    let charge = |amount| world.store.charge(person(1), Won(amount), Some(format!("{amount}")), world.now);
    assert!(matches!(charge(MAX_BALANCE.0 + 1).await, Err(ChargeError::TooMuch)));
    assert_eq!(world.entries(1).await, []);
    charge(MAX_BALANCE.0).await.unwrap();
    assert!(matches!(charge(1).await, Err(ChargeError::TooMuch)));
    assert_eq!(world.balance(1).await, MAX_BALANCE);
    audit(&world, 1).await;
}

#[tokio::test]
async fn a_payment_and_a_refund_are_entries_of_the_reservation() {
    let world = World::new(places(20)).await;
    world.give(1, 30_000).await;
    let seated = world.seat(world.slot(12), 1, 4).await;
    let paid = done(&world.run(&[world.pay(&seated)]).await[0]);
    assert_eq!(world.balance(1).await, Won(10_000));
    world.run(&[world.cancel(&paid)]).await;
    assert_eq!(world.balance(1).await, Won(30_000));
    let entries: Vec<_> =
        world.entries(1).await.into_iter().map(|e| (e.kind, e.amount.0, e.reservation)).collect();
    let expected = [
        (EntryKind::Refund, 20_000, Some(seated.id)),
        (EntryKind::Payment, -20_000, Some(seated.id)),
        (EntryKind::Charge, 30_000, None),
    ];
    assert_eq!(entries, expected);
    audit(&world, 1).await;
}

#[tokio::test]
async fn whoever_falls_short_by_one_won_pays_nothing() {
    let world = World::new(places(20)).await;
    world.give(1, 9_999).await;
    world.give(2, 10_000).await;
    let slot = world.slot(12);
    let (short, able) = (world.seat(slot, 1, 2).await, world.seat(slot, 2, 2).await);
    let commands = [world.pay(&able), world.pay(&short)];
    let (batch, _) = world.decide(&world.load(slot).await, &commands).await;
    let answer = world.store.commit(batch).await;
    assert!(matches!(answer, Err(CommitError::Short(ticket)) if ticket == commands[1].ticket), "{answer:?}");
    assert_eq!((world.balance(1).await, world.balance(2).await), (Won(9_999), Won(10_000)));
    assert_eq!(world.entries(2).await.len(), 1);

    world.run(&commands[..1]).await;
    assert_eq!(world.balance(2).await, Won::ZERO);
}

#[tokio::test]
async fn parallel_charges_all_count() {
    let world = World::new(places(20)).await;
    let mut charges = JoinSet::new();
    for n in 0..100 {
        let (store, now) = (world.store.clone(), world.now);
        // Each click arrives twice.
        charges
            .spawn(async move { store.charge(person(1), Won(100), Some(format!("{}", n / 2)), now).await });
    }
    for answer in charges.join_all().await {
        answer.unwrap();
    }
    assert_eq!((world.balance(1).await, world.entries(1).await.len()), (Won(5_000), 50));
    audit(&world, 1).await;

    let mut charges = JoinSet::new();
    for n in 1..=100 {
        let (store, now) = (world.store.clone(), world.now);
        charges.spawn(async move { store.charge(person(2), Won(n), None, now).await });
    }
    charges.join_all().await;
    assert_eq!((world.balance(2).await, world.entries(2).await.len()), (Won(5_050), 100));
    audit(&world, 2).await;
}

#[tokio::test]
async fn entries_are_paged_without_loss_or_repeats() {
    let world = World::new(places(20)).await;
    for amount in 1..=7 {
        world.give(1, amount).await;
        world.give(2, amount).await;
    }
    let (mut seen, mut before) = (vec![], None);
    loop {
        let page = world.store.wallet_entries(person(1), before, 3).await.unwrap();
        seen.extend(page.items.iter().map(|entry| entry.amount.0));
        let Some(next) = page.next else { break };
        before = Some(next.parse().unwrap());
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
}

fn charge(who: u32, amount: i64, key: Option<&str>, world: &World) -> Charge {
    Charge { person: person(who), amount: Won(amount), key: key.map(Into::into), at: world.now }
}

#[tokio::test]
async fn a_batch_of_charges_is_told_one_by_one() {
    let world = World::new(places(20)).await;
    world.give(1, 500).await;
    let before = world.store.charge(person(1), Won(7), Some("old".into()), world.now).await.unwrap();
    let charges = vec![
        charge(1, 100, Some("a"), &world),
        charge(2, 10, None, &world),
        charge(1, 7, Some("old"), &world),
        charge(1, 100, Some("a"), &world),
        charge(1, 101, Some("a"), &world),
        charge(1, 8, Some("old"), &world),
        charge(1, 1, None, &world),
        charge(2, 20, Some("a"), &world),
    ];
    let told = world.store.charge_all(charges).await.unwrap();
    let balance = |n: usize| told[n].as_ref().unwrap().balance.0;
    assert_eq!([balance(0), balance(1), balance(6), balance(7)], [607, 10, 608, 30]);
    assert_eq!(told[2].as_ref().unwrap(), &before);
    assert_eq!(told[3].as_ref().unwrap(), told[0].as_ref().unwrap());
    assert!([4, 5].iter().all(|n| matches!(told[*n], Err(ChargeError::KeyUsed))), "{told:?}");
    assert_eq!((world.balance(1).await, world.balance(2).await), (Won(608), Won(30)));
    audit(&world, 1).await;
    audit(&world, 2).await;
}

#[tokio::test]
async fn a_charge_that_does_not_fit_takes_no_other_down() {
    let world = World::new(places(20)).await;
    world.give(1, MAX_BALANCE.0 - 5).await;
    let amounts = [10, 3, 10, 1, 4, 1, 1];
    let charges = amounts.iter().map(|amount| charge(1, *amount, None, &world)).collect();
    let told = world.store.charge_all(charges).await.unwrap();
    let fits: Vec<_> = told.iter().map(Result::is_ok).collect();
    assert_eq!(fits, [false, true, false, true, false, true, false]);
    assert_eq!(world.balance(1).await, MAX_BALANCE);
    audit(&world, 1).await;
}
