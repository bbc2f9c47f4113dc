//! maitred on one machine with SQLite: how much of the raw limit is left above the desk and above HTTP.
//!
//! One run measures, in alternating rounds, durable reservations a second on one hot slot
//!
//! * raw: prepared statements, the same schema, indexes and rows, in batches of 256 and of 1,024;
//! * through the desk, without HTTP, with 2,048 people in line;
//! * through HTTP, over 256 and over 1,024 connections, in a process of its own;
//! * both again with the batch size forced to 1;
//!
//! and beside that the memory of a ticket in line and the latency of a request on an idle lane.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::contest::{self, Contender};
use bench::desk::seat;
use bench::load::{Connection, closed_loop};
use bench::raw::by_rusqlite;
use bench::rows::{batches_of, book, scattered, settings};
use bench::served::{self, Served, requests, slot};
use bench::{Result, machine};
use booking::{PersonId, SlotId};
use fairlane::lane::Bounds;
use maitred::admission::Keys;
use maitred::clock::Clock;
use maitred::config::{Config, Flags};
use maitred::desk::{Answer, Desk, Limits, Wish};
use maitred::server::{Server, open_store};
use maitred::signing::Signer;
use maitred::venues::Venues;
use store::Store;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
/// Reservations in one measurement with batches, and in one without.
const MANY: u64 = 40_960;
const FEW: u64 = 1_500;
const IN_LINE: u64 = 20_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--serve", folder, batch] => runtime()?.block_on(serve(Path::new(folder), batch.parse()?)),
        ["--only", name] => throughput(&runtime()?, name),
        [] => everything(),
        _ => Err("usage: embedded [--only PART-OF-A-NAME]".into()),
    }
}

fn everything() -> Result<()> {
    println!("$ cargo run --release -p bench --bin embedded");
    println!("{}, SQLite {}, synchronous=FULL, {ROUNDS} rounds\n", machine::described(), rusqlite::version());
    let runtime = runtime()?;
    throughput(&runtime, "")?;
    memory(&runtime)?;
    latency(&runtime)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn throughput(runtime: &tokio::runtime::Runtime, only: &str) -> Result<()> {
    let (of_256, of_1024) = (batches_of(256, MANY / 256), batches_of(1_024, MANY / 1_024));
    let raw = |batches: &[bench::rows::Written]| {
        let folder = venue_folder(runtime)?;
        let took = by_rusqlite(&folder.path().join("maitred.db"), batches)?;
        Ok(MANY as f64 / took.as_secs_f64())
    };
    let desk = |batch, people, in_line| runtime.block_on(through_desk(batch, people, in_line));
    let http = |batch, people, connections| through_http(runtime, batch, people, connections);
    // Each with the raw limit at its own batch size, and with itself without batches.
    let contenders: [Contender<'_>; 9] = [
        ("raw, batches of 256", None, Box::new(|| raw(&of_256))),
        ("raw, batches of 1,024", None, Box::new(|| raw(&of_1024))),
        ("desk, 256 in line", Some((0, 6)), Box::new(|| desk(1_024, MANY, 256))),
        ("desk, 2,048 in line", Some((1, 6)), Box::new(|| desk(1_024, MANY, 2_048))),
        ("HTTP, 256 connections", Some((0, 7)), Box::new(|| http(1_024, MANY, 256))),
        ("HTTP, 1,024 connections", Some((1, 8)), Box::new(|| http(1_024, MANY, 1_024))),
        ("desk, 256 in line, batch size 1", None, Box::new(|| desk(1, FEW, 256))),
        ("HTTP, 256 connections, batch size 1", None, Box::new(|| http(1, FEW, 256))),
        ("HTTP, 1,024 connections, batch size 1", None, Box::new(|| http(1, FEW, 1_024))),
    ];
    contest::run(&contenders, ROUNDS, only)
}

/// A folder with a database that has one venue that never sells out.
fn venue_folder(runtime: &tokio::runtime::Runtime) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let store = open_store(folder.path())?;
    runtime.block_on(store.add_venue(settings()?, vec![], vec![]))?;
    store.close();
    Ok(folder)
}

async fn through_desk(batch: usize, people: u64, in_line: u64) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(open_store(folder.path())?);
    store.add_venue(settings()?, vec![], vec![]).await?;
    let slot = slot()?;
    let venues = Arc::new(Venues::new(store.clone()));
    let bounds = Bounds { lane: 200_000, total: 200_000, batch };
    let limits = Limits { bounds, runners: 16 };
    let (desk, runners) =
        Desk::open(store.clone(), venues, Arc::new(Keys::default()), Clock::System, limits, None).await?;
    let start = Instant::now();
    let booking = desk.clone();
    let seated = seat(people, in_line, move |n| {
        let desk = booking.clone();
        async move {
            let ticket = desk.enter(wish(slot, n)).await?;
            ticket.wait(Duration::from_secs(60)).await;
            Ok(matches!(ticket.answer(), Some(Answer::Decided(_))))
        }
    });
    let seated = seated.await?;
    let took = start.elapsed();
    desk.close(Duration::from_secs(5)).await;
    for runner in runners {
        runner.await?;
    }
    check(&store, seated, people, slot).await?;
    tokio::task::spawn_blocking(move || store.close()).await?;
    Ok(people as f64 / took.as_secs_f64())
}

fn wish(slot: SlotId, n: u64) -> Wish {
    Wish { slot, person: PersonId(scattered(n)), action: book(n), key: None, rate: None }
}

/// What was answered must be there, or the figure means nothing.
async fn check(store: &Store, answered: u64, people: u64, slot: SlotId) -> Result<()> {
    let stored = store.slot(slot).await?.holders().count();
    if answered == people && stored as u64 == people {
        return Ok(());
    }
    Err(format!("{people} asked, {answered} were answered, {stored} are stored").into())
}

/// A server in a process of its own, over a folder of its own.
struct Embedded {
    server: Served,
    folder: tempfile::TempDir,
}

async fn serve(folder: &Path, batch: usize) -> Result<()> {
    let flags = Flags { listen: Some("127.0.0.1:0".parse()?), data: Some(folder.into()), ..Flags::default() };
    let mut config = Config::load(&flags)?;
    config.lane.max_batch = batch;
    let server = Server::start(&config, open_store(folder)?, Clock::System).await?;
    served::serve(server).await
}

impl Embedded {
    fn start(runtime: &tokio::runtime::Runtime, batch: usize) -> Result<Self> {
        let folder = venue_folder(runtime)?;
        let path = folder.path().to_str().ok_or("the folder has no name in UTF-8")?;
        let server = Served::start(&["--serve", path, &batch.to_string()])?;
        Ok(Self { server, folder })
    }

    fn requests(&self, people: u64, prefer: &str) -> Result<Arc<[Vec<u8>]>> {
        requests(&Signer::kept_in(self.folder.path())?, people, prefer)
    }
}

fn through_http(
    runtime: &tokio::runtime::Runtime,
    batch: usize,
    people: u64,
    connections: usize,
) -> Result<f64> {
    let server = Embedded::start(runtime, batch)?;
    let requests = server.requests(people, "wait=10")?;
    let before = machine::processor_time(server.server.id())?;
    let outcome = runtime.block_on(closed_loop(&[server.server.address], connections, requests, 201))?;
    if outcome.others > 0 {
        return Err(format!("{} answers were not 201", outcome.others).into());
    }
    let used = machine::processor_time(server.server.id())? - before;
    let each = used.as_secs_f64() * 1e6 / outcome.expected as f64;
    eprintln!(
        "  (HTTP, {connections} connections, batches of {batch}: {each:.1} µs of processor time each in the server)"
    );
    Ok(outcome.rate())
}

/// What a ticket in line takes: the file is held by somebody else, so nobody is decided.
fn memory(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let server = Embedded::start(runtime, 1_024)?;
    // The first ones pay for what every server needs once.
    let warm_up = server.requests(512, "wait=10")?;
    runtime.block_on(closed_loop(&[server.server.address], 64, warm_up, 201))?;
    let blocker = rusqlite::Connection::open(server.folder.path().join("maitred.db"))?;
    blocker.execute_batch("BEGIN IMMEDIATE")?;
    let requests = server.requests(IN_LINE + 512, "wait=0")?;
    let before = machine::resident(server.server.id())?;
    let outcome =
        runtime.block_on(closed_loop(&[server.server.address], 64, requests[512..].to_vec().into(), 202))?;
    let after = machine::resident(server.server.id())?;
    if outcome.others > 0 {
        return Err(format!("{} answers were not 202", outcome.others).into());
    }
    let each = (after - before) / IN_LINE;
    println!("\n{IN_LINE} people in line take {each} bytes each in the server");
    Ok(())
}

/// One request at a time on an idle lane, beside a request that does nothing and a sync of the same disk.
fn latency(runtime: &tokio::runtime::Runtime) -> Result<()> {
    const TIMES: u64 = 2_000;
    let server = Embedded::start(runtime, 1_024)?;
    let book = server.requests(TIMES, "wait=10")?;
    let live = format!("GET /health/live HTTP/1.1\r\nhost: {}\r\n\r\n", server.server.address).into_bytes();
    let file = server.folder.path().join("sync");
    let (mut booked, mut lived, mut synced) = (Vec::new(), Vec::new(), Vec::new());
    runtime.block_on(async {
        let mut connection = Connection::open(server.server.address).await?;
        let mut file = std::fs::File::create(file)?;
        for request in book.iter() {
            let start = Instant::now();
            connection.send(request).await?;
            booked.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            connection.send(&live).await?;
            lived.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            std::io::Write::write_all(&mut file, &[7; 4_096])?;
            file.sync_data()?;
            synced.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Result::Ok(())
    })?;
    let p = |times: &mut Vec<f64>, percent: usize| {
        times.sort_by(f64::total_cmp);
        times[(times.len() - 1) * percent / 100]
    };
    println!("\n| one at a time, ms | p50 | p99 |\n| --- | ---: | ---: |");
    let mut p99 = Vec::new();
    for (name, times) in [
        ("booking on an idle lane", &mut booked),
        ("GET /health/live", &mut lived),
        ("write and fdatasync 4 KiB", &mut synced),
    ] {
        println!("| {name} | {:.2} | {:.2} |", p(times, 50), p(times, 99));
        p99.push(p(times, 99));
    }
    println!("\nbooking p99 against live p99 + one sync p99: {:.2} ×", p99[0] / (p99[1] + p99[2]));
    Ok(())
}
