//! The waiting room and the wallet on PostgreSQL: numbers a second, and charges a second on one wallet and on a thousand.
//!
//! Each stands beside the same done the usual way: one transaction a request that locks the row, does its work and commits,
//! over as many connections to the same server, in alternating rounds of the same run. Without HTTP on either side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use bench::rows::{scattered, settings};
use bench::{Result, machine, median};
use booking::room::{Order, Seed, Terms};
use booking::{PersonId, VenueId, Won};
use fairlane::lane::Bounds;
use maitred::clock::Clock;
use maitred::rooms::WaitingRooms;
use maitred::wallets::Wallets;
use store::postgres::Options;
use store::{NewOpening, Store};
use testkit::Postgres;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
/// Requests under way at the same time, and connections to PostgreSQL on either side.
const AT_ONCE: usize = 256;
const CONNECTIONS: usize = 8;
/// Requests in one measurement: with a counter, and with a transaction each.
const MANY: u64 = 20_000;
const FEW: u64 = 1_500;
const BOUNDS: Bounds = Bounds { lane: 1 << 20, total: 1 << 20, batch: 1_024 };

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let world = World { postgres: Postgres::start(), databases: AtomicU32::new(0) };
    println!("$ cargo run --release -p bench --bin concerts");
    println!(
        "{}, PostgreSQL on the same machine, {AT_ONCE} requests at once, {CONNECTIONS} connections, {ROUNDS} rounds\n",
        machine::described()
    );
    println!("| durable, a second (median) | maitred | one transaction a request | times |");
    println!("| --- | ---: | ---: | ---: |");
    let contests: [(&str, Option<u64>); 3] = [
        ("numbers of one waiting room", None),
        ("charges of one wallet", Some(1)),
        ("charges of 1,000 wallets", Some(1_000)),
    ];
    for (name, wallets) in contests {
        let mut speeds = [vec![], vec![]];
        for round in 0..ROUNDS {
            for turn in 0..2 {
                let contender = (round + turn) % 2;
                speeds[contender].push(runtime.block_on(world.measure(wallets, contender == 0))?);
            }
        }
        let [ours, usual] = speeds.each_mut().map(|speeds| median(speeds));
        println!("| {name} | {ours:.0} | {usual:.0} | {:.1} |", ours / usual);
    }
    Ok(())
}

struct World {
    postgres: Postgres,
    databases: AtomicU32,
}

/// Does `what` so many times, some at once; how many a second.
async fn rate<F>(count: u64, what: impl Fn(u64) -> F) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let start = Instant::now();
    let mut doing = JoinSet::new();
    for n in 0..count {
        if doing.len() == AT_ONCE
            && let Some(done) = doing.join_next().await
        {
            done??;
        }
        doing.spawn(what(n));
    }
    while let Some(done) = doing.join_next().await {
        done??;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

impl World {
    /// One measurement on a database of its own: charges of so many wallets, or numbers of a room.
    async fn measure(&self, wallets: Option<u64>, ours: bool) -> Result<f64> {
        let name = format!("concerts{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.postgres.execute("postgres", &format!("CREATE DATABASE {name}"))?;
        let url = self.postgres.url(&name);
        let store = Arc::new(Store::postgres(&Options::new(&url)?.with_connections(CONNECTIONS)).await?);
        let venue = store.add_venue(settings()?, vec![], vec![]).await?.id;
        let opening = NewOpening {
            opens_at: Clock::System.now(),
            order: Order::Arrival,
            seed: Seed([7; 32]),
            terms: Terms::default(),
        };
        store.set_room(venue, Terms { enabled: true, ..Terms::default() }, opening).await?;
        let rate = match (ours, wallets) {
            (true, Some(wallets)) => charges(&store, wallets).await?,
            (true, None) => numbers(&store, venue).await?,
            (false, wallets) => one_by_one(&url, wallets).await?,
        };
        store.close();
        Ok(rate)
    }
}

async fn charges(store: &Arc<Store>, wallets: u64) -> Result<f64> {
    let (counter, runners) = Wallets::open(store.clone(), Clock::System, BOUNDS);
    let rate = rate(MANY, |n| {
        let counter = counter.clone();
        async move {
            counter.charge(PersonId(scattered(n % wallets)), Won(1), None).await?;
            Ok(())
        }
    });
    let rate = rate.await?;
    runners.iter().for_each(|runner| runner.abort());
    Ok(rate)
}

async fn numbers(store: &Arc<Store>, venue: VenueId) -> Result<f64> {
    let (rooms, runners) = WaitingRooms::open(store.clone(), Clock::System, BOUNDS);
    let rate = rate(MANY, |n| {
        let rooms = rooms.clone();
        async move {
            rooms.enter(venue, PersonId(scattered(n))).await?;
            Ok(())
        }
    });
    let rate = rate.await?;
    runners.iter().for_each(|runner| runner.abort());
    Ok(rate)
}

/// The usual way: lock the row, do the work, commit; everybody for themselves.
async fn one_by_one(url: &str, wallets: Option<u64>) -> Result<f64> {
    let (give, take) = tokio::sync::mpsc::unbounded_channel::<Teller>();
    let take = Arc::new(tokio::sync::Mutex::new(take));
    for _ in 0..CONNECTIONS {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        give.send(Teller::new(client, wallets.is_some()).await?).map_err(|_| "nobody asks")?;
    }
    rate(FEW, |n| {
        let (give, take) = (give.clone(), take.clone());
        async move {
            let teller = take.lock().await.recv().await.ok_or("no connection")?;
            let person = format!("{:032x}", scattered(wallets.map_or(n, |wallets| n % wallets)));
            teller.serve(&person).await?;
            give.send(teller).map_err(|_| "nobody asks")?;
            Ok(())
        }
    })
    .await
}

/// A connection that serves one request after the other.
struct Teller {
    client: Client,
    first: Statement,
    second: Statement,
}

const ADD: &str = "INSERT INTO wallet (person, balance, version) VALUES ($1::text::uuid, 1, 1) ON CONFLICT (person) \
     DO UPDATE SET balance = wallet.balance + 1, version = wallet.version + 1 RETURNING balance";
const ENTER: &str = "INSERT INTO wallet_entry (person, amount, balance, kind, at) VALUES ($2::text::uuid, 1, $1, 'charge', 0)";
const DRAW: &str = "UPDATE opening SET numbers = numbers + 1, arrivals = arrivals + 1 \
     WHERE id = 1 AND $1::text IS NOT NULL RETURNING numbers";
const STAND: &str = "INSERT INTO queue_token (opening_id, arrival, person, number, state, asked_at) \
     VALUES (1, $1::bigint, $2::text::uuid, $1, 'WAITING', 0)";

impl Teller {
    async fn new(client: Client, charges: bool) -> Result<Self> {
        let (first, second) = if charges { (ADD, ENTER) } else { (DRAW, STAND) };
        let (first, second) = (client.prepare(first).await?, client.prepare(second).await?);
        Ok(Self { client, first, second })
    }

    async fn serve(&self, person: &str) -> Result<()> {
        self.client.batch_execute("BEGIN").await?;
        let held: i64 = self.client.query_one(&self.first, &[&person]).await?.get(0);
        self.client.execute(&self.second, &[&held, &person]).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(())
    }
}
