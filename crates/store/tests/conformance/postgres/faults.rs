//! A server that dies, hangs or is away, and transactions that get in each other's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use booking::*;
use store::{CommitError, Error, Store};
use testkit::Postgres;
use tokio::task::JoinSet;

use super::database::Database;
use super::suite::world::{World, done, person, places};

async fn world_on(server: &'static Postgres) -> Arc<World> {
    Arc::new(World::on(Database::at(server, "postgres"), places(1_000_000)).await)
}

/// Waits until the store answers again by itself.
async fn until_back(store: &Store) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while let Err(error) = store.ping().await {
        assert!(Instant::now() < give_up, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Does to a server what takes a while.
async fn act(server: &'static Postgres, act: impl FnOnce(&Postgres) + Send + 'static) {
    tokio::task::spawn_blocking(move || act(server)).await.unwrap();
}

/// What a client wrote down: tickets it was told are decided, and tickets of which it does not know.
#[derive(Default)]
struct Notes {
    told: Vec<TicketId>,
    unknown: Vec<TicketId>,
}

const CLIENTS: i16 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_confirmed_survives_a_killed_server_and_the_rest_happened_once_or_not_at_all() {
    let server = Postgres::alone();
    let world = world_on(server).await;
    let (told, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    for n in 0..CLIENTS {
        let (world, told, stop) = (world.clone(), told.clone(), stop.clone());
        clients.spawn(async move { client(&world, world.slot(n), &told, &stop).await });
    }
    let flowing = |more: usize| {
        let (told, from) = (told.clone(), told.load(Ordering::SeqCst));
        async move {
            let give_up = Instant::now() + Duration::from_secs(20);
            while told.load(Ordering::SeqCst) < from + more {
                assert!(Instant::now() < give_up, "no load flows");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    for _ in 0..3 {
        flowing(200).await;
        act(server, Postgres::kill).await;
        act(server, Postgres::restart).await;
    }
    flowing(200).await;
    stop.store(true, Ordering::SeqCst);
    let notes = clients.join_all().await;
    until_back(&world.store).await;

    let (mut confirmed, mut unknown, mut unknown_but_there) = (0, 0, 0);
    for notes in notes {
        for ticket in notes.told {
            assert!(
                world.store.decided(ticket).await.unwrap().is_some(),
                "{ticket:?} was confirmed and is lost"
            );
            confirmed += 1;
        }
        for ticket in notes.unknown {
            unknown += 1;
            unknown_but_there += usize::from(world.store.decided(ticket).await.unwrap().is_some());
        }
    }
    // Each reservation is one ticket's, so that what is there is what was confirmed and some of what is unknown.
    let mut there = 0;
    for n in 0..CLIENTS {
        there += world.load(world.slot(n)).await.holders().count();
    }
    assert_eq!(there, confirmed + unknown_but_there);
    assert!(confirmed >= 800 && unknown > 0, "{confirmed} confirmed, {unknown} unknown");
}

/// Books for one person after the other in a slot of its own, deciding each time from what is stored.
async fn client(world: &World, slot: SlotId, told: &AtomicUsize, stop: &AtomicBool) -> Notes {
    let mut notes = Notes::default();
    for who in 1.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let Ok(slot) = world.store.slot(slot).await else { continue };
        let command = world.book(slot.id, who, 1);
        let ticket = command.ticket;
        let (batch, _) = world.decide(&slot, &[command]).await;
        match world.store.commit(batch).await {
            Ok(_) => {
                notes.told.push(ticket);
                told.fetch_add(1, Ordering::SeqCst);
            }
            Err(CommitError::Store(Error::Unavailable(_))) => notes.unknown.push(ticket),
            // One of which it did not know has happened meanwhile.
            Err(CommitError::Stale) => {}
            Err(error) => panic!("{error}"),
        }
    }
    notes
}

/// Asks many things at once; all must be told that the database is away, and soon.
async fn everybody_is_told(store: &Arc<Store>, within: Duration) {
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for n in 0..200 {
        let store = store.clone();
        asking.spawn(async move { store.balance(person(n)).await });
    }
    for answer in asking.join_all().await {
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
    assert!(began.elapsed() < within, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_server_is_away_everybody_is_told_within_a_second_and_then_it_is_back() {
    let server = Postgres::alone();
    let world = world_on(server).await;
    for _ in 0..2 {
        act(server, Postgres::kill).await;
        // Processes of its own answer for an instant longer.
        while world.store.ping().await.is_ok() {}
        for _ in 0..3 {
            everybody_is_told(&world.store, Duration::from_secs(1)).await;
        }
        act(server, Postgres::restart).await;
        until_back(&world.store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_server_hangs_nobody_hangs_with_it() {
    let server = Postgres::alone();
    let world = world_on(server).await;
    act(server, Postgres::freeze).await;
    everybody_is_told(&world.store, Duration::from_secs(4)).await;
    // By now the connections that hang are given up, and it is known that the server is away.
    for _ in 0..3 {
        everybody_is_told(&world.store, Duration::from_secs(2)).await;
    }
    act(server, Postgres::thaw).await;
    until_back(&world.store).await;
    world.seat(world.slot(12), 1, 2).await;
}

#[tokio::test]
async fn a_slot_that_somebody_else_holds_is_unavailable_until_they_let_go() {
    let world = World::new(places(20)).await;
    let slot = world.slot(12);
    world.seat(slot, 1, 2).await;
    let other = another(&world).await;
    other.batch_execute("BEGIN; SELECT * FROM slot FOR UPDATE").await.unwrap();

    let command = world.book(slot, 2, 2);
    let (batch, _) = world.decide(&world.load(slot).await, std::slice::from_ref(&command)).await;
    let began = Instant::now();
    let refused = world.store.commit(batch).await;
    assert!(matches!(refused, Err(CommitError::Store(Error::Unavailable(_)))), "{refused:?}");
    assert!(
        began.elapsed() < Duration::from_millis(1_700),
        "the server gave up first: {:?}",
        began.elapsed()
    );

    other.batch_execute("COMMIT").await.unwrap();
    world.run(&[command]).await;
    assert_eq!(world.load(slot).await.people(), 4);
}

/// A client past the store.
async fn another(world: &World) -> tokio_postgres::Client {
    let url = world.database.url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_deadlock_is_tried_again_until_it_is_none() {
    let world = World::new(places(20)).await;
    let (noon, one) = (world.slot(12), world.slot(13));
    let seated = world.seat(noon, 1, 2).await;
    world.seat(one, 2, 2).await;
    let (batch, _) = world.decide(&world.load(one).await, &[world.change(&seated, one, 2)]).await;

    // The other way round than everybody does it: the later slot first.
    let other = another(&world).await;
    let lock = |slot: SlotId| format!("SELECT * FROM slot WHERE id = {} FOR UPDATE", slot.to_i64());
    other.batch_execute(&format!("BEGIN; {}", lock(one))).await.unwrap();
    let began = Instant::now();
    let cross = async {
        let waits =
            "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
        while other.query(waits, &[]).await.unwrap().is_empty() {}
        other.batch_execute(&lock(noon)).await.unwrap();
        assert!(began.elapsed() > Duration::from_millis(900), "there was no deadlock");
        other.batch_execute("COMMIT").await.unwrap();
    };
    let (stored, ()) = tokio::join!(world.store.commit(batch), cross);
    assert_eq!(stored.unwrap(), 2);
    assert_eq!((world.load(noon).await.people(), world.load(one).await.people()), (0, 4));
}

#[tokio::test]
async fn a_character_that_the_server_cannot_keep_takes_nobody_down() {
    let world = World::new(places(20)).await;
    let slot = world.load(world.slot(12)).await;
    let odd = Reservation { note: Some("a\0b".into()), ..world.hold(slot.id, 1, None) };
    let mut batch = world.empty_batch(&slot);
    batch.changes.new = vec![Arc::new(odd.clone()), Arc::new(world.hold(slot.id, 2, None))];
    world.store.commit(batch).await.unwrap();
    assert_eq!(world.row(odd.id).await.unwrap().note.as_deref(), Some("a\u{fffd}b"));
}

#[tokio::test]
async fn moves_in_opposite_directions_do_not_get_stuck() {
    let world = World::new(places(1_000)).await;
    let (noon, one) = (world.slot(12), world.slot(13));
    let mut guests = [world.seat(noon, 1, 2).await, world.seat(one, 2, 2).await];
    let second = world.database.open().await;
    let began = Instant::now();
    for round in 0..50 {
        // Each goes to where the other is, decided from the same instant: one of them may be stale, none is stuck.
        let targets = [guests[1].slot, guests[0].slot];
        for (n, store) in [(0, &world.store), (1, &second)] {
            assert_ne!(guests[n].slot, targets[n], "round {round}");
            assert!(store.ping().await.is_ok());
        }
        let mut batches = vec![];
        for n in 0..2 {
            let slot = world.load(targets[n]).await;
            batches.push(world.decide(&slot, &[world.change(&guests[n], targets[n], 2)]).await);
        }
        let (second_batch, first_batch) = (batches.pop().unwrap(), batches.pop().unwrap());
        let (first, other) = tokio::join!(world.store.commit(first_batch.0), second.commit(second_batch.0));
        let stored = [first, other].map(|answer| match answer {
            Ok(_) => true,
            Err(CommitError::Stale) => false,
            Err(error) => panic!("{error}"),
        });
        assert!(stored.contains(&true), "round {round}: at least one gets through");
        for (n, outcomes) in [first_batch.1, second_batch.1].iter().enumerate() {
            if stored[n] {
                guests[n] = done(&outcomes[0]);
            } else {
                guests[n] = done(&world.run(&[world.change(&guests[n], targets[n], 2)]).await[0]);
            }
        }
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
