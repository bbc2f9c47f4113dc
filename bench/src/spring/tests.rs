//! A contender that sold a place twice, or hung, would be no contender. Needs Maven and a JDK; `make test` leaves it out:
//! `cargo test --release -p bench --lib`.

use std::sync::Arc;

use testkit::{Postgres, RedisServer};

use super::{Java, Mode, Setup, build, start};
use crate::load::closed_loop;

/// Requests of so many guests for two places each.
fn requests(guests: u32) -> Arc<[Vec<u8>]> {
    let body = r#"{"venueId":"1","date":"2030-11-20","time":"12:00","partySize":2,"payment":"deposit"}"#;
    let request = |guest| {
        format!(
            "POST /api/reservations HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer guest-{guest}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    (0..guests).map(request).collect()
}

async fn sells_each_place_once(java: &Java, postgres: &Postgres, mode: Mode, virtual_threads: bool) {
    let redis = RedisServer::start();
    let database = format!("peer_{mode:?}_{virtual_threads}").to_lowercase();
    postgres.execute("postgres", &format!("CREATE DATABASE {database}")).expect("it is new");
    let setup = Setup { virtual_threads, ..Setup::new(mode, &postgres.url(&database), &redis.url()) };
    let peer = start(java, &setup).expect("it starts");
    let rush = closed_loop(&[peer.address], 100, requests(100), 201).await.expect("everybody has an answer");
    assert_eq!((rush.expected, rush.others), (10, 90), "{mode:?}: twenty places, two for each");
    let again = closed_loop(&[peer.address], 10, requests(100), 409).await.expect("everybody has an answer");
    assert_eq!((again.expected, again.others), (100, 0), "{mode:?}: booked already, or sold out");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_peers_sell_each_place_once() {
    let java = build().expect("there is Maven and a JDK");
    let postgres = Postgres::start();
    for mode in [Mode::FairLock, Mode::Admission] {
        sells_each_place_once(&java, &postgres, mode, false).await;
        if java.has_virtual_threads() {
            sells_each_place_once(&java, &postgres, mode, true).await;
        }
    }
}
