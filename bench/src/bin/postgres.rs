//! How much of PostgreSQL's own speed is left above the store.
//!
//! The same reservations are written to databases of the same schema by one prepared `INSERT … SELECT FROM unnest(…)` a
//! batch, each a durable transaction of its own and nothing else, and by the store, which checks the versions and writes
//! the decision log besides. Both over one connection, one batch after the other, in alternating rounds.
//!
//! The server is not started here: `postgres URL`, as a user that may create databases.

use std::time::{Duration, Instant};

use bench::rows::{Written, batches_of, now, settings, slot};
use bench::{Result, machine, median};
use booking::{Changes, Reservation};
use store::postgres::Options;
use store::{Batch, Store};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

/// Reservations in a batch, and batches in a run.
const SIZES: [(u64, u64); 4] = [(1, 300), (16, 150), (256, 40), (1_024, 16)];
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let url = std::env::args().nth(1).ok_or("usage: postgres postgres://USER@HOST:PORT")?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(&url))
}

async fn run(url: &str) -> Result<()> {
    let admin = connect(&format!("{url}/postgres")).await?;
    let version: String = admin.query_one("SHOW server_version", &[]).await?.get(0);
    println!("{}, PostgreSQL {version}, one connection, {ROUNDS} rounds\n", machine::described());
    println!(
        "Durable reservations a second, median (ratio)\n\n| batch | raw unnest | store |\n| ---: | ---: | ---: |"
    );
    for (size, batches) in SIZES {
        let batches = batches_of(size, batches);
        let rows: usize = batches.iter().map(|batch| batch.reservations.len()).sum();
        let mut speeds = [vec![], vec![]];
        for round in 0..ROUNDS {
            for turn in 0..2 {
                let contender = (round + turn) % 2;
                let taken = on_new_database(&admin, url, &batches, contender == 0).await?;
                speeds[contender].push(rows as f64 / taken.as_secs_f64());
            }
        }
        let [raw, store] = speeds.each_mut().map(|speeds| median(speeds));
        println!("| {size} | {raw:.0} | {store:.0} ({:.2}) |", store / raw);
    }
    Ok(())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Writes everything into a new database; how long that took.
async fn on_new_database(admin: &Client, url: &str, batches: &[Written], raw: bool) -> Result<Duration> {
    admin.batch_execute("DROP DATABASE IF EXISTS maitred_bench WITH (FORCE)").await?;
    admin.batch_execute("CREATE DATABASE maitred_bench").await?;
    let url = format!("{url}/maitred_bench");
    let store = Store::postgres(&Options::new(&url)?.with_connections(1)).await?;
    store.add_venue(settings()?, vec![], vec![]).await?;
    let client = connect(&url).await?;
    let taken = if raw { by_unnest(&client, batches).await? } else { by_store(&store, batches).await? };
    store.close();
    let written: i64 = client.query_one("SELECT count(*) FROM reservation", &[]).await?.get(0);
    let expected: usize = batches.iter().map(|batch| batch.reservations.len()).sum();
    if written != i64::try_from(expected)? {
        return Err(format!("{written} reservations instead of {expected}").into());
    }
    Ok(taken)
}

async fn by_store(store: &Store, batches: &[Written]) -> Result<Duration> {
    let decided: Vec<Batch> = batches
        .iter()
        .zip(0..)
        .map(|(batch, slot_version)| {
            let mut changes = Changes::default();
            changes.new.clone_from(&batch.reservations);
            let (decisions, keys) = (batch.decisions.clone(), vec![]);
            let (slot, decided_at) = (slot(), now());
            Batch { slot, slot_version, venue_version: 1, decided_at, changes, decisions, keys }
        })
        .collect();
    let start = Instant::now();
    for batch in decided {
        store.commit(batch).await?;
    }
    Ok(start.elapsed())
}

/// Ids go as text that the server reads: the driver knows no 128-bit numbers, and this is the measured side's loss to
/// the raw one, so they are made before the clock starts.
async fn by_unnest(client: &Client, batches: &[Written]) -> Result<Duration> {
    client.execute("INSERT INTO slot (id, version) VALUES ($1, 1)", &[&slot().to_i64()]).await?;
    let sql = "INSERT INTO reservation (id, slot_id, person, name, status, party, payment, price, paid, refunded, \
               refund_due, expires_at, ticket, created_at, version) \
               SELECT id::uuid, $1, person::uuid, 'Kim Guest', 'TEMPORARY', 2, 'deposit', 10000, 0, 0, 0, $2, \
               ticket::uuid, $3, 1 FROM unnest($4::text[], $5::text[], $6::text[]) AS r (id, person, ticket)";
    let insert = client.prepare(sql).await?;
    let column = |batch: &Written, id: fn(&Reservation) -> u128| -> Vec<String> {
        batch.reservations.iter().map(|r| format!("{:032x}", id(r))).collect()
    };
    let columns: Vec<_> = batches
        .iter()
        .map(|batch| {
            [column(batch, |r| r.id.0), column(batch, |r| r.person.0), column(batch, |r| r.ticket.to_u128())]
        })
        .collect();
    let (slot, at) = (slot().to_i64(), now().as_millisecond());
    let start = Instant::now();
    for [id, person, ticket] in &columns {
        let values: [&(dyn ToSql + Sync); 6] = [&slot, &at, &at, id, person, ticket];
        client.execute(&insert, &values).await?;
    }
    Ok(start.elapsed())
}
