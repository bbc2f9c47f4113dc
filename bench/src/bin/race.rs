//! The race: maitred beside what people use today. `bench::race` says what is measured; `make bench` runs it.

use bench::race::{self, Options, PARTS};
use bench::{Result, constant, row_lock};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // As which contenders this program is started by itself.
        ["--serve-row-lock", database, tally, capacity, connections] => runtime()?.block_on(row_lock::serve(
            database,
            tally.parse()?,
            capacity.parse()?,
            connections.parse()?,
        )),
        ["--serve-constant"] => runtime()?.block_on(constant::serve()),
        _ => race::run(options(&arguments)?),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn options(arguments: &[String]) -> Result<Options> {
    let usage = || format!("usage: race [--rounds N] [--quick] [--only {}]… [--out DIR]", PARTS.join("|"));
    let mut options = Options { rounds: ROUNDS, quick: false, only: vec![], out: None };
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--quick" => (options.quick, options.rounds) = (true, 1),
            "--rounds" => {
                let rounds = arguments.next().ok_or_else(usage)?;
                options.rounds = rounds.parse::<usize>()?.max(1);
            }
            "--only" => {
                let part = arguments.next().filter(|part| PARTS.contains(part)).ok_or_else(usage)?;
                options.only.push(part.into());
            }
            "--out" => options.out = Some(arguments.next().ok_or_else(usage)?.into()),
            _ => return Err(usage().into()),
        }
    }
    Ok(options)
}
