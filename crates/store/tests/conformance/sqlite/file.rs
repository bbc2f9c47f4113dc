//! What only SQLite has: a file, its log, and others who hold it.

use std::sync::Barrier;

use store::{CommitError, Error, Store};

use super::database::Database;
use super::suite::world::{World, places};

#[tokio::test]
async fn the_file_keeps_a_write_ahead_log() {
    let world = World::new(places(20)).await;
    let mode: String =
        world.database.connect().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn a_file_that_somebody_else_holds_is_unavailable_until_they_let_go() {
    let world = World::new(places(20)).await;
    let slot = world.load(world.slot(12)).await;
    let command = world.book(slot.id, 1, 2);
    let (batch, _) = world.decide(&slot, std::slice::from_ref(&command)).await;

    let other = world.database.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = world.store.commit(batch).await;
    assert!(matches!(refused, Err(CommitError::Store(Error::Unavailable(_)))), "{refused:?}");
    assert!(matches!(world.store.ping().await, Err(Error::Unavailable(_))));
    assert_eq!(world.load(slot.id).await.version, 0, "reads go on meanwhile");

    other.execute_batch("COMMIT").unwrap();
    world.store.ping().await.unwrap();
    world.run(&[command]).await;
    assert_eq!(world.load(slot.id).await.people(), 2);
}

#[test]
fn processes_that_start_at_once_on_a_new_file_all_open_it() {
    for _ in 0..10 {
        let database = Database::new();
        let start = Barrier::new(4);
        std::thread::scope(|threads| {
            let openings: Vec<_> = (0..4)
                .map(|_| {
                    threads.spawn(|| {
                        start.wait();
                        Store::sqlite(&database.path()).map(|store| store.close())
                    })
                })
                .collect();
            for opening in openings {
                opening.join().unwrap().unwrap();
            }
        });
    }
}

#[tokio::test]
async fn a_file_is_migrated_once() {
    let database = Database::new();
    let file = store::Database::Sqlite(database.path());
    assert!(!Store::migrate(&file).await.unwrap().is_empty());
    assert_eq!(Store::migrate(&file).await.unwrap(), [] as [String; 0]);
}
