//! The waiting room, the wallet and the seats of one show on PostgreSQL: numbers a second, charges a second on one wallet and
//! on a thousand, and seats a second, each seat asked for by its label.
//!
//! Each stands beside the same done the usual way: one transaction a request that locks the row, does its work and commits,
//! over as many connections to the same server, in alternating rounds of the same run. Without HTTP on either side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bench::rows::{book, scattered, settings, slot};
use bench::{Result, machine, median};
use booking::hall::{Row, Section};
use booking::room::{Order, Seed, Terms};
use booking::venue::Settings;
use booking::{Action, Hall, Inventory, Outcome, PersonId, Seat, VenueId, Won};
use fairlane::lane::Bounds;
use maitred::admission::Keys;
use maitred::clock::Clock;
use maitred::desk::{Answer, Desk, Limits, Waited, Wish};
use maitred::rooms::WaitingRooms;
use maitred::venues::Venues;
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
    let contests = [
        ("numbers of one waiting room", Work::Numbers),
        ("charges of one wallet", Work::Charges(1)),
        ("charges of 1,000 wallets", Work::Charges(1_000)),
        ("seats of one show", Work::Seats),
    ];
    for (name, work) in contests {
        let mut speeds = [vec![], vec![]];
        for round in 0..ROUNDS {
            for turn in 0..2 {
                let contender = (round + turn) % 2;
                speeds[contender].push(runtime.block_on(world.measure(work, contender == 0))?);
            }
        }
        let [ours, usual] = speeds.each_mut().map(|speeds| median(speeds));
        println!("| {name} | {ours:.0} | {usual:.0} | {:.1} |", ours / usual);
    }
    Ok(())
}

/// What is asked for.
#[derive(Clone, Copy)]
enum Work {
    Numbers,
    /// Of so many wallets.
    Charges(u64),
    Seats,
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
    /// One measurement on a database of its own.
    async fn measure(&self, work: Work, ours: bool) -> Result<f64> {
        let name = format!("concerts{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.postgres.execute("postgres", &format!("CREATE DATABASE {name}"))?;
        let url = self.postgres.url(&name);
        let store = Arc::new(Store::postgres(&Options::new(&url)?.with_connections(CONNECTIONS)).await?);
        let venue = store.add_venue(hall()?, vec![], vec![]).await?.id;
        let opening = NewOpening {
            opens_at: Clock::System.now(),
            order: Order::Arrival,
            seed: Seed([7; 32]),
            terms: Terms::default(),
        };
        store.set_room(venue, Terms { enabled: true, ..Terms::default() }, opening).await?;
        let rate = match (ours, work) {
            (true, Work::Charges(wallets)) => charges(&store, wallets).await?,
            (true, Work::Numbers) => numbers(&store, venue).await?,
            (true, Work::Seats) => seats(&store).await?,
            (false, work) => one_by_one(&url, work).await?,
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

/// A show with a seat for everybody: two hundred rows of a hundred.
fn hall() -> Result<Settings> {
    let row = |n: u32| Row { name: n.to_string(), seats: 100 };
    let section = Section { name: "A".into(), price: Won(50_000), rows: (1..=200).map(row).collect() };
    let sections = Hall::from(vec![section]);
    Ok(Settings { inventory: Inventory::Seats { sections }, ..settings()? })
}

fn label(n: u64) -> String {
    format!("A-{}-{}", n / 100 + 1, n % 100 + 1)
}

/// Everybody asks for a seat of their own, in the line of one show.
async fn seats(store: &Arc<Store>) -> Result<f64> {
    let (venues, keys) = (Arc::new(Venues::new(store.clone())), Arc::new(Keys::default()));
    let limits = Limits { bounds: BOUNDS, runners: CONNECTIONS };
    let (desk, runners) = Desk::open(store.clone(), venues, keys, Clock::System, limits, None).await?;
    let rate = rate(MANY, |n| {
        let desk = desk.clone();
        async move {
            let Action::Book(mut booking) = book(n) else { return Err("not a booking".into()) };
            (booking.party, booking.seats) = (1, [Seat::labelled(&label(n))].into());
            let (person, action) = (PersonId(scattered(n)), Action::Book(booking));
            let ticket = desk.enter(Wish { slot: slot(), person, action, key: None, rate: None }).await?;
            let Waited::Answered(Answer::Decided(settled)) = ticket.wait(Duration::from_secs(60)).await
            else {
                return Err("no answer".into());
            };
            match &settled.outcome {
                Outcome::Done(_) => Ok(()),
                refused => Err(format!("a seat that was free: {refused:?}").into()),
            }
        }
    });
    let rate = rate.await?;
    runners.iter().for_each(|runner| runner.abort());
    Ok(rate)
}

/// The usual way: lock the row, do the work, commit; everybody for themselves.
async fn one_by_one(url: &str, work: Work) -> Result<f64> {
    let (give, take) = tokio::sync::mpsc::unbounded_channel::<Teller>();
    let take = Arc::new(tokio::sync::Mutex::new(take));
    for _ in 0..CONNECTIONS {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        give.send(Teller::new(client, work).await?).map_err(|_| "nobody asks")?;
    }
    rate(FEW, |n| {
        let (give, take) = (give.clone(), take.clone());
        async move {
            let teller = take.lock().await.recv().await.ok_or("no connection")?;
            let who = if let Work::Charges(wallets) = work { n % wallets } else { n };
            teller.serve(&format!("{:032x}", scattered(who)), &label(n)).await?;
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
    seats: bool,
}

const ADD: &str = "INSERT INTO wallet (person, balance, version) VALUES ($1::text::uuid, 1, 1) ON CONFLICT (person) \
     DO UPDATE SET balance = wallet.balance + 1, version = wallet.version + 1 RETURNING balance";
const ENTER: &str = "INSERT INTO wallet_entry (person, amount, balance, kind, at) VALUES ($2::text::uuid, 1, $1, 'charge', 0)";
const DRAW: &str = "UPDATE opening SET numbers = numbers + 1, arrivals = arrivals + 1 \
     WHERE id = 1 AND $1::text IS NOT NULL RETURNING numbers";
const STAND: &str = "INSERT INTO queue_token (opening_id, arrival, person, number, state, asked_at) \
     VALUES (1, $1::bigint, $2::text::uuid, $1, 'WAITING', 0)";

/// No lock but the seat's own: whoever is second violates its key.
const HOLD: &str = "INSERT INTO reservation (id, slot_id, person, name, status, party, payment, price, paid, refunded, \
     refund_due, expires_at, ticket, created_at, version, seats) VALUES (gen_random_uuid(), 4294968016, $1::text::uuid, \
     'Kim Guest', 'TEMPORARY', 1, 'prepay', 50000, 0, 0, 0, 0, gen_random_uuid(), 0, 1, $2::text) RETURNING id::text";
const SEAT: &str =
    "INSERT INTO held_seat (slot_id, seat, reservation) VALUES (4294968016, $2::text, $1::text::uuid)";

impl Teller {
    async fn new(client: Client, work: Work) -> Result<Self> {
        let (first, second) = match work {
            Work::Charges(_) => (ADD, ENTER),
            Work::Numbers => (DRAW, STAND),
            Work::Seats => (HOLD, SEAT),
        };
        if let Work::Seats = work {
            client.batch_execute("INSERT INTO slot VALUES (4294968016, 1) ON CONFLICT DO NOTHING").await?;
        }
        let (first, second) = (client.prepare(first).await?, client.prepare(second).await?);
        Ok(Self { client, first, second, seats: matches!(work, Work::Seats) })
    }

    async fn serve(&self, person: &str, seat: &str) -> Result<()> {
        self.client.batch_execute("BEGIN").await?;
        if self.seats {
            let id: String = self.client.query_one(&self.first, &[&person, &seat]).await?.get(0);
            self.client.execute(&self.second, &[&id, &seat]).await?;
        } else {
            let held: i64 = self.client.query_one(&self.first, &[&person]).await?.get(0);
            self.client.execute(&self.second, &[&held, &person]).await?;
        }
        self.client.batch_execute("COMMIT").await?;
        Ok(())
    }
}
