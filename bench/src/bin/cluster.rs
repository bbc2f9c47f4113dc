//! maitred on PostgreSQL and Redis: how much of PostgreSQL's own speed is left above shared lines and above HTTP.
//!
//! One run measures, in alternating rounds, durable reservations a second on one hot slot
//!
//! * raw: `pgbench`, one client, one prepared statement a batch that moves the slot's version on and inserts the rows, into
//!   the same schema with the same indexes, in batches of 256 and of 1,024;
//! * through the desk, without HTTP, with 256 and with 2,048 people in line;
//! * through HTTP, with one process and with three;
//! * the same with the batch size forced to 1;
//!
//! and beside that the calls to Redis for each reservation, and the processor time for each (server, Redis and PostgreSQL
//! together) with 100 and with 20,000 people in line. PostgreSQL and Redis are started on private ports.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bench::contest::{self, Contender};
use bench::load::closed_loop;
use bench::rows::{book, scattered, settings};
use bench::served::{self, Served, requests, slot};
use bench::{Result, machine, median};
use booking::PersonId;
use fairlane::lane::Bounds;
use fairlane::{Client, RedisConfig};
use jiff::Timestamp;
use maitred::admission::Keys;
use maitred::clock::Clock;
use maitred::config::{Config, Flags};
use maitred::desk::{Answer, Desk, Limits, Wish};
use maitred::server::{Server, open};
use maitred::signing::Signer;
use maitred::venues::Venues;
use store::Store;
use store::postgres::Options;
use testkit::{Postgres, RedisServer};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
/// Reservations in one measurement with batches, and in one without.
const MANY: u64 = 20_480;
const FEW: u64 = 600;
/// Connections to PostgreSQL of each process.
const CONNECTIONS: usize = 4;
/// For everybody's tokens: what is measured is not who may come in.
const KEY: &str = "bWVhc3VyZS10aGVuLWNsYWltLW1lYXN1cmUtdGhlbi1jbGFpbQ";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--serve", database, redis, batch] => runtime()?.block_on(serve(database, redis, batch.parse()?)),
        ["--only", name] => throughput(&World::start()?, name),
        [] => everything(),
        _ => Err("usage: cluster [--only PART-OF-A-NAME]".into()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// The two servers, and a new database for every measurement.
struct World {
    postgres: Postgres,
    redis: RedisServer,
    runtime: tokio::runtime::Runtime,
    databases: AtomicU32,
}

fn everything() -> Result<()> {
    let world = World::start()?;
    println!("$ cargo run --release -p bench --bin cluster");
    println!("{}, PostgreSQL and Redis on the same machine, {ROUNDS} rounds\n", machine::described());
    throughput(&world, "")?;
    in_line(&world)
}

fn throughput(world: &World, only: &str) -> Result<()> {
    let desk = |batch, people, in_line| Ok(world.through_desk(batch, people, in_line)?.0);
    let http =
        |processes, batch, people, connections| world.through_http(processes, batch, people, connections);
    let contenders: [Contender<'_>; 10] = [
        ("pgbench, batches of 256", None, Box::new(|| world.raw(256))),
        ("pgbench, batches of 1,024", None, Box::new(|| world.raw(1_024))),
        ("desk, 256 in line", Some((0, 7)), Box::new(|| desk(1_024, MANY, 256))),
        ("desk, 2,048 in line", Some((1, 7)), Box::new(|| desk(1_024, MANY, 2_048))),
        ("HTTP, one process, 256 clients", Some((0, 8)), Box::new(|| http(1, 1_024, MANY, 256))),
        ("HTTP, three processes, 256 clients", Some((0, 9)), Box::new(|| http(3, 1_024, MANY, 256))),
        ("HTTP, three processes, 1,024 clients", Some((1, 9)), Box::new(|| http(3, 1_024, MANY, 1_024))),
        ("desk, 256 in line, batch size 1", None, Box::new(|| desk(1, FEW, 256))),
        ("HTTP, one process, 256 clients, batch size 1", None, Box::new(|| http(1, 1, FEW, 256))),
        ("HTTP, three processes, 256 clients, batch size 1", None, Box::new(|| http(3, 1, FEW, 256))),
    ];
    contest::run(&contenders, ROUNDS, only)
}

/// Whether a long line costs more than a short one.
fn in_line(world: &World) -> Result<()> {
    let mut costs = [vec![], vec![]];
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let n = (round + turn) % 2;
            let (_, cost) = world.through_desk(1_024, 2 * MANY, [100, 20_000][n])?;
            costs[n].push(cost.as_secs_f64() * 1e6);
        }
    }
    let [short, long] = costs.each_mut().map(|costs| median(costs));
    println!(
        "\nProcessor time for each reservation, of server, Redis and PostgreSQL together: {short:.0} µs with 100 people in \
         line, {long:.0} µs with 20,000 ({:.2} ×)",
        long / short
    );
    Ok(())
}

impl World {
    fn start() -> Result<Self> {
        Ok(Self {
            postgres: Postgres::start(),
            redis: RedisServer::start(),
            runtime: runtime()?,
            databases: AtomicU32::new(0),
        })
    }

    /// A new database with a venue that never sells out, and an empty Redis.
    fn database(&self) -> Result<(String, Store)> {
        let name = format!("bench_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.postgres.execute("postgres", &format!("CREATE DATABASE {name}"))?;
        self.redis.command(&["FLUSHALL"]);
        let url = self.postgres.url(&name);
        let store = self.runtime.block_on(async {
            let store = Store::postgres(&Options::new(&url)?.with_connections(CONNECTIONS)).await?;
            store.add_venue(settings()?, vec![], vec![]).await?;
            Result::Ok(store)
        })?;
        self.postgres.execute("postgres", "CHECKPOINT")?;
        Ok((url, store))
    }

    /// What `pgbench` reaches with the same rows. Ids and tickets ascend as the server's do; people do not.
    fn raw(&self, size: u64) -> Result<f64> {
        let (url, store) = self.database()?;
        let slot = slot()?.to_i64();
        store.close();
        let (folder, at) = (tempfile::tempdir()?, Timestamp::now().as_millisecond());
        let script = folder.path().join("batch.sql");
        let wide = |shift: u32| format!("lpad(to_hex((version * {size} + n) << {shift}), 32, '0')::uuid");
        std::fs::write(
            &script,
            format!(
                "WITH moved AS (INSERT INTO slot (id, version) VALUES ({slot}, 1) \
                 ON CONFLICT (id) DO UPDATE SET version = slot.version + 1 RETURNING version) \
                 INSERT INTO reservation (id, slot_id, person, name, status, party, payment, price, paid, refunded, \
                 refund_due, expires_at, ticket, created_at, version) SELECT {}, {slot}, gen_random_uuid(), 'Kim Guest', \
                 'TEMPORARY', 2, 'deposit', 10000, 0, 0, 0, {at}, {}, {at}, 1 \
                 FROM moved, generate_series(1, {size}) AS n;",
                wide(20),
                wide(0)
            ),
        )?;
        let batches = (MANY / size).to_string();
        let output = Command::new(pgbench()?)
            .args(["-n", "-c", "1", "-M", "prepared", "-t", &batches, "-f"])
            .arg(&script)
            .arg(&url)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        let tps: f64 = tps.ok_or_else(|| format!("pgbench: {}", String::from_utf8_lossy(&output.stderr)))?;
        Ok(tps * size as f64)
    }

    /// Reservations a second through a desk in this process, and the processor time that each took everywhere.
    fn through_desk(&self, batch: usize, people: u64, in_line: u64) -> Result<(f64, Duration)> {
        let (_, store) = self.database()?;
        let store = Arc::new(store);
        let slot = slot()?;
        self.runtime.block_on(async {
            let venues = Arc::new(Venues::new(store.clone()));
            let bounds = Bounds { lane: 200_000, total: 200_000, batch };
            let redis = Client::redis(RedisConfig::single(self.redis.url()).with_prefix("maitred")).await?;
            let (desk, runners) = Desk::open(
                store.clone(),
                venues,
                Arc::new(Keys::default()),
                Clock::System,
                Limits { bounds, runners: 4 },
                Some(redis.lanes("lane")),
            )
            .await?;
            let (used, start) = (self.processor_time()?, Instant::now());
            let guests: Vec<_> = (0..in_line)
                .map(|guest| {
                    let desk = desk.clone();
                    tokio::spawn(async move {
                        let mut seated = 0_u64;
                        for n in (guest..people).step_by(usize::try_from(in_line).unwrap_or(1)) {
                            let (person, action) = (PersonId(scattered(n)), book(n));
                            let ticket =
                                desk.enter(Wish { slot, person, action, key: None, rate: None }).await?;
                            ticket.wait(Duration::from_secs(60)).await;
                            seated += u64::from(matches!(ticket.answer(), Some(Answer::Decided(_))));
                        }
                        Result::Ok(seated)
                    })
                })
                .collect();
            let mut seated = 0;
            for guest in guests {
                seated += guest.await??;
            }
            let (took, used) = (start.elapsed(), self.processor_time()? - used);
            desk.close(Duration::from_secs(5)).await;
            for runner in runners {
                runner.await?;
            }
            let stored = store.slot(slot).await?.holders().count();
            if seated != people || stored as u64 != people {
                return Err(format!("{people} asked, {seated} were answered, {stored} are stored").into());
            }
            store.close();
            Result::Ok((people as f64 / took.as_secs_f64(), used / u32::try_from(people)?))
        })
    }

    /// How often clients have called Redis: everything that matters is a script.
    fn calls(&self) -> u64 {
        self.redis.calls("evalsha") + self.redis.calls("eval")
    }

    /// Of this process, Redis, and PostgreSQL with everything that it has started.
    fn processor_time(&self) -> Result<Duration> {
        let postgres = machine::with_children(self.postgres.id())?;
        let all = [std::process::id(), self.redis.id()].into_iter().chain(postgres);
        all.map(machine::processor_time).sum()
    }

    fn through_http(&self, processes: usize, batch: usize, people: u64, connections: usize) -> Result<f64> {
        let (url, store) = self.database()?;
        let servers: Vec<_> = (0..processes)
            .map(|_| Served::start(&["--serve", &url, &self.redis.url(), &batch.to_string()]))
            .collect::<Result<_>>()?;
        let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
        let calls = self.calls();
        let load =
            closed_loop(&addresses, connections, requests(&Signer::from_text(KEY)?, people, "wait=10")?, 201);
        let outcome = self.runtime.block_on(load)?;
        let calls = (self.calls() - calls) as f64 / people as f64;
        let stored = self.runtime.block_on(store.slot(slot()?))?.holders().count();
        if outcome.others > 0 || stored as u64 != people {
            return Err(format!("{} answers were not 201, {stored} are stored", outcome.others).into());
        }
        store.close();
        eprintln!(
            "  (HTTP, {processes} processes, {connections} clients, batches of {batch}: {calls:.2} calls to Redis each)"
        );
        Ok(outcome.rate())
    }
}

/// Debian keeps it beside the server.
fn pgbench() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")?.flatten();
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin/pgbench")).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().ok_or_else(|| "pgbench is missing; it comes with Debian's postgresql".into())
}

async fn serve(database: &str, redis: &str, batch: usize) -> Result<()> {
    let flags = Flags {
        listen: Some("127.0.0.1:0".parse()?),
        database: Some(database.to_owned().into()),
        redis: Some(redis.to_owned().into()),
        ..Flags::default()
    };
    let mut config = Config::load(&flags)?;
    config.lane.max_batch = batch;
    config.database_connections = CONNECTIONS;
    config.token.signing_key = Some(KEY.to_owned());
    let server = Server::start(&config, open(&config).await?, Clock::System).await?;
    served::serve(server).await
}
