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
//! together) with 100 to 100,000 people in line. PostgreSQL and Redis are started on private ports.

use bench::contest::{self, Contender};
use bench::in_line::{self, LENGTHS};
use bench::limits::batched_inserts;
use bench::load::closed_loop;
use bench::served::{self, Served, requests, slot};
use bench::world::{CONNECTIONS, ENDLESS, KEY, World};
use bench::{Result, desk, machine, median};
use maitred::clock::Clock;
use maitred::config::{Config, Flags};
use maitred::server::{Server, open};
use maitred::signing::Signer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
/// Reservations in one measurement with batches, and in one without.
const MANY: u64 = 20_480;
const FEW: u64 = 600;
/// A long line takes long.
const IN_LINE_ROUNDS: usize = 3;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--serve", database, redis, batch] => runtime()?.block_on(serve(database, redis, batch.parse()?)),
        ["--only", "in line"] => in_line(&World::start()?),
        ["--only", name] => throughput(&World::start()?, name),
        [] => everything(),
        _ => Err("usage: cluster [--only PART-OF-A-NAME | --only 'in line']".into()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn everything() -> Result<()> {
    let world = World::start()?;
    println!("$ cargo run --release -p bench --bin cluster");
    println!("{}, PostgreSQL and Redis on the same machine, {ROUNDS} rounds\n", machine::described());
    throughput(&world, "")?;
    in_line(&world)
}

fn throughput(world: &World, only: &str) -> Result<()> {
    let desk = |batch, people, in_line| desk::throughput(world, batch, people, in_line);
    let http =
        |processes, batch, people, connections| through_http(world, processes, batch, people, connections);
    let contenders: [Contender<'_>; 10] = [
        ("pgbench, batches of 256", None, Box::new(|| batched_inserts(world, 256, MANY))),
        ("pgbench, batches of 1,024", None, Box::new(|| batched_inserts(world, 1_024, MANY))),
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
    let mut costs = LENGTHS.map(|_| vec![]);
    for round in 0..IN_LINE_ROUNDS {
        for turn in 0..LENGTHS.len() {
            let n = (round + turn) % LENGTHS.len();
            costs[n].push(in_line::cost(world, LENGTHS[n])?.total);
        }
    }
    let medians = costs.each_mut().map(|costs| median(costs));
    println!(
        "\n| people in line | processor time for each reservation, µs | against 100 |\n| ---: | ---: | ---: |"
    );
    for (length, cost) in LENGTHS.iter().zip(medians) {
        println!("| {length} | {cost:.1} | {:.2} × |", cost / medians[0]);
    }
    Ok(())
}

fn through_http(
    world: &World,
    processes: usize,
    batch: usize,
    people: u64,
    connections: usize,
) -> Result<f64> {
    let (url, store) = world.database(ENDLESS)?;
    let servers: Vec<_> = (0..processes)
        .map(|_| Served::start(&["--serve", &url, &world.redis.url(), &batch.to_string()]))
        .collect::<Result<_>>()?;
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let calls = world.calls();
    let load =
        closed_loop(&addresses, connections, requests(&Signer::from_text(KEY)?, people, "wait=10")?, 201);
    let outcome = world.runtime.block_on(load)?;
    let calls = (world.calls() - calls) as f64 / people as f64;
    let stored = world.runtime.block_on(store.slot(slot()?))?.holders().count();
    if outcome.others > 0 || stored as u64 != people {
        return Err(format!("{} answers were not 201, {stored} are stored", outcome.others).into());
    }
    store.close();
    eprintln!(
        "  (HTTP, {processes} processes, {connections} clients, batches of {batch}: {calls:.2} calls to Redis each)"
    );
    Ok(outcome.rate())
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
