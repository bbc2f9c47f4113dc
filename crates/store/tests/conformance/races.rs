//! Many at once: commits share transactions, conflicts stay with whom they concern, and of two processes one wins.

use std::sync::Arc;

use booking::*;
use jiff::Timestamp;
use store::{Batch, CommitError, Error, Store};
use tokio::task::JoinSet;

use super::super::database::Database;
use super::world::{World, person, places, tables};

const SLOTS: i16 = 200;

#[tokio::test]
async fn parallel_commits_on_many_slots_all_succeed() {
    let world = World::new(places(20)).await;
    let answers = commit_all(&world, booking_for_each_slot(&world).await).await;
    for answer in answers {
        assert_eq!(answer.unwrap(), 1);
    }
    for n in 0..SLOTS {
        assert_eq!(world.load(world.slot(n)).await.people(), 2);
    }
}

#[tokio::test]
async fn a_conflict_rolls_back_only_itself() {
    let world = World::new(places(20)).await;
    let mut batches = booking_for_each_slot(&world).await;
    for batch in batches.iter_mut().skip(3).step_by(10) {
        batch.slot_version = 7;
    }
    let answers = commit_all(&world, batches).await;
    for (n, answer) in (0..SLOTS).zip(answers) {
        let slot = world.load(world.slot(n)).await;
        if n % 10 == 3 {
            assert!(matches!(answer, Err(CommitError::Stale)), "{answer:?}");
            assert_eq!((slot.version, slot.people()), (0, 0));
        } else {
            assert_eq!((answer.unwrap(), slot.version, slot.people()), (1, 1, 2));
        }
    }
}

async fn booking_for_each_slot(world: &World) -> Vec<Batch> {
    let mut batches = vec![];
    for n in 0..SLOTS {
        let slot = world.load(world.slot(n)).await;
        batches.push(world.decide(&slot, &[world.book(slot.id, 1, 2)]).await.0);
    }
    batches
}

async fn commit_all(world: &World, batches: Vec<Batch>) -> Vec<Result<u64, CommitError>> {
    let mut commits = JoinSet::new();
    for (n, batch) in batches.into_iter().enumerate() {
        let store = world.store.clone();
        commits.spawn(async move { (n, store.commit(batch).await) });
    }
    let mut answers = commits.join_all().await;
    answers.sort_by_key(|(n, _)| *n);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[tokio::test]
async fn an_epoch_is_never_drawn_twice() {
    let database = Database::new();
    let mut drawn = vec![];
    for _ in 0..3 {
        let processes = [database.open().await, database.open().await];
        let mut draws = JoinSet::new();
        for n in 0..20 {
            let store = processes[n % 2].clone();
            draws.spawn(async move { store.next_epoch().await.unwrap() });
        }
        let mut epochs = draws.join_all().await;
        epochs.sort_unstable();
        drawn.extend(epochs);
        processes.iter().for_each(|store| store.close());
    }
    assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "{drawn:?}");
}

#[tokio::test]
async fn all_processes_read_one_clock_that_goes_forward_and_is_exact_to_the_millisecond() {
    let database = Database::new();
    let processes = [database.open().await, database.open().await];
    // The database is on this machine.
    let millis = || Timestamp::now().as_millisecond();
    let mut read = vec![millis()];
    for n in 0..10 {
        let now = processes[n % 2].clock().await.unwrap();
        assert_eq!(now.subsec_nanosecond() % 1_000_000, 0, "{now}");
        read.push(now.as_millisecond());
    }
    read.push(millis());
    assert!(read.is_sorted(), "{read:?}");
}

/// What came of the rounds in which two processes each gave the only table away, from the same version of the slot.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rounds {
    one_won: u32,
    oversold: u32,
}

const ROUNDS: i16 = 200;

async fn race(world: &World, processes: [Arc<Store>; 2]) -> Rounds {
    let mut rounds = Rounds::default();
    for n in 0..ROUNDS {
        let slot = world.load(world.slot(n)).await;
        let commands = [world.book(slot.id, 1, 2), world.book(slot.id, 2, 2)];
        let (first, second) = tokio::join!(
            commit(world, &processes[0], &slot, &commands[0]),
            commit(world, &processes[1], &slot, &commands[1]),
        );
        let won = u32::from(first) + u32::from(second);
        let after = world.load(slot.id).await;
        assert_eq!(after.holders().count(), won as usize, "who was told so holds a place, and nobody else");
        rounds.one_won += u32::from(won == 1);
        rounds.oversold += u32::from(won == 2);
    }
    rounds
}

/// Commits what was decided from this copy of the slot; whether it was stored.
async fn commit(world: &World, store: &Store, slot: &Slot, command: &Command) -> bool {
    loop {
        let (batch, _) = world.decide(slot, std::slice::from_ref(command)).await;
        match store.commit(batch).await {
            Ok(_) => return true,
            Err(CommitError::Stale) => return false,
            // The other process held the database for too long: that is for the caller to try again.
            Err(CommitError::Store(Error::Unavailable(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn two(world: &World) -> [Arc<Store>; 2] {
    [world.database.open().await, world.database.open().await]
}

async fn two_careless(world: &World) -> [Arc<Store>; 2] {
    [world.database.open_careless().await, world.database.open_careless().await]
}

const ONE_WINS: Rounds = Rounds { one_won: ROUNDS.unsigned_abs() as u32, oversold: 0 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_that_decided_from_one_version_exactly_one_wins() {
    let world = World::new(tables(1)).await;
    assert_eq!(race(&world, two(&world).await).await, ONE_WINS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_alone_keeps_the_table_from_being_sold_twice() {
    let world = World::new(tables(1)).await;
    world.database.drop_unique_indexes();
    assert_eq!(race(&world, two(&world).await).await, ONE_WINS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_indexes_alone_keep_the_table_from_being_sold_twice() {
    let world = World::new(tables(1)).await;
    assert_eq!(race(&world, two_careless(&world).await).await, ONE_WINS);
}

/// The control of the three above: without version and indexes the same race sells the table twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_version_and_indexes_the_table_is_sold_twice() {
    let world = World::new(tables(1)).await;
    world.database.drop_unique_indexes();
    let rounds = race(&world, two_careless(&world).await).await;
    assert!(rounds.oversold > 0, "{rounds:?}");
}

#[tokio::test]
async fn everything_is_there_after_opening_again() {
    let world = World::new(tables(3)).await;
    let slot = world.slot(12);
    world.give(1, 50_000).await;
    let seated = world.seat(slot, 1, 2).await;
    let commands = [world.pay(&seated), world.book(slot, 2, 2)];
    let (mut batch, _) = world.decide(&world.load(slot).await, &commands).await;
    batch.keys.push(world.key(2, "click", commands[1].ticket));
    world.store.commit(batch).await.unwrap();

    let everything = async |store: &Store| {
        let slot = store.slot(slot).await.unwrap();
        let mut holders: Vec<_> = slot.holders().cloned().collect();
        holders.sort_by_key(|r| r.id);
        (
            (slot.version, holders, store.venues().await.unwrap()),
            store.decided(commands[0].ticket).await.unwrap().unwrap(),
            store.request_key(person(2), "click".into()).await.unwrap().unwrap(),
            store.wallet_entries(person(1), None, 10).await.unwrap(),
            store.balance(person(1)).await.unwrap(),
        )
    };
    let before = everything(&world.store).await;
    world.store.close();
    assert!(matches!(world.store.balance(person(1)).await, Err(Error::Closed)));
    assert!(matches!(world.store.next_epoch().await, Err(Error::Closed)));
    let reopened = world.database.open().await;
    assert_eq!(everything(&reopened).await, before);
    assert_eq!(before.0.0, 2);
}
