//! The race.

use bench::load::closed_loop;
use bench::row_lock::{self, Tally};
use bench::served::{Served, requests, slot};
use bench::world::{ENDLESS, KEY, World};
use bench::{Result, constant, in_line, limits, machine};
use maitred::signing::Signer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--serve-row-lock", database, tally, capacity, connections] => runtime()?.block_on(row_lock::serve(
            database,
            tally.parse()?,
            capacity.parse()?,
            connections.parse()?,
        )),
        ["--serve-constant"] => runtime()?.block_on(constant::serve()),
        ["--only", "in-line"] => {
            let world = World::start()?;
            for length in in_line::LENGTHS {
                println!("{length}: {:.1?}", in_line::cost(&world, length)?);
            }
            Ok(())
        }
        ["--only", "limits"] => limits(&World::start()?),
        ["--only", "row-lock"] => row_lock(&World::start()?),
        _ => Err("usage: race [--only PART]".into()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn limits(world: &World) -> Result<()> {
    println!("redis {:.0}", limits::trivial_scripts(&world.redis, 100_000)?);
    println!("pgbench 256 {:.0}", limits::batched_inserts(world, 256, 51_200)?);
    let server = Served::start(&["--serve-constant"])?;
    for _ in 0..2 {
        let requests = requests(&Signer::from_text(KEY)?, 100_000, "wait=10")?;
        let outcome = world.runtime.block_on(closed_loop(&[server.address], 256, requests, 201))?;
        println!("constant {:.0}", outcome.rate());
    }
    Ok(())
}

fn row_lock(world: &World) -> Result<()> {
    for tally in [Tally::Sum, Tally::Kept] {
        for connections in [1_usize, 2, 4, 8, 16, 32, 64] {
            let (url, store) = world.database(ENDLESS)?;
            let (capacity, pool) = (ENDLESS.to_string(), connections.to_string());
            let server = Served::start(&["--serve-row-lock", &url, tally.as_str(), &capacity, &pool])?;
            let people = 4_000;
            let requests = requests(&Signer::from_text(KEY)?, people, "wait=10")?;
            let used = machine::processor_time(server.id())?;
            let outcome = world.runtime.block_on(closed_loop(&[server.address], 256, requests, 201))?;
            let used = (machine::processor_time(server.id())? - used).as_secs_f64() * 1e6 / 4e3;
            let stored = world.runtime.block_on(store.slot(slot()?))?.holders().count();
            println!(
                "{} {connections}: {:.0} others {} stored {stored} {used:.0} µs",
                tally.as_str(),
                outcome.rate(),
                outcome.others
            );
        }
    }
    Ok(())
}
