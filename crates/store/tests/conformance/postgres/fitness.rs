//! Starting: the schema is made once, whoever comes, and a server that would lose reservations is refused.

use store::{Database, Error, Store};
use tokio::task::JoinSet;

use testkit::Postgres;

use super::database::shared;

fn at(server: &Postgres, name: &str) -> Database {
    Database::Postgres(store::postgres::Options::new(&server.url(name)).unwrap())
}

#[tokio::test]
async fn processes_that_start_at_once_on_an_empty_database_all_open_it() {
    let (server, name) = shared();
    for n in 0..3 {
        let empty = format!("{name}_empty_{n}");
        server.execute("postgres", &format!("CREATE DATABASE {empty}")).unwrap();
        let mut starting = JoinSet::new();
        for _ in 0..6 {
            let database = at(server, &empty);
            starting.spawn(async move { !Store::migrate(&database).await.unwrap().is_empty() });
        }
        let migrated = starting.join_all().await.into_iter().filter(|migrated| *migrated).count();
        assert_eq!(migrated, 1, "one of them migrates, the others find it done");
        Store::open(&at(server, &empty)).await.unwrap().ping().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_forgets_in_a_crash_is_refused() {
    let (server, name) = shared();
    server.execute("postgres", &format!("ALTER DATABASE {name} SET synchronous_commit = off")).unwrap();
    let refused = Store::open(&at(server, &name)).await.err();
    assert!(
        matches!(&refused, Some(Error::Unfit(why)) if why.contains("synchronous_commit=on")),
        "{refused:?}"
    );

    let careless = Postgres::with_settings(&["fsync=off"]);
    let refused = Store::open(&at(&careless, "postgres")).await.err();
    assert!(matches!(&refused, Some(Error::Unfit(why)) if why.contains("fsync=on")), "{refused:?}");
}

#[tokio::test]
async fn all_processes_sign_with_the_key_that_was_kept_first() {
    let (server, name) = shared();
    let Database::Postgres(options) = at(server, &name) else { unreachable!("it was just made") };
    let mut asking = JoinSet::new();
    for n in 0..5 {
        let options = options.clone();
        asking.spawn(async move { store::postgres::signing_keys(&options, [n; 32]).await.unwrap() });
    }
    let keys = asking.join_all().await;
    assert!(keys.iter().all(|kept| *kept == keys[0] && kept.len() == 1 && kept[0].len() == 32), "{keys:?}");
    assert_eq!(store::postgres::signing_keys(&options, [9; 32]).await.unwrap(), keys[0]);
    // A new one goes in front, and the one before it is kept as long as it is the one before.
    for (n, before) in [(7, keys[0][0].clone()), (8, vec![7; 32])] {
        store::postgres::rotate_signing_key(&options, [n; 32]).await.unwrap();
        let kept = store::postgres::signing_keys(&options, [9; 32]).await.unwrap();
        assert_eq!(kept, [vec![n; 32], before]);
    }
}
