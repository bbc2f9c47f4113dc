//! How much of SQLite's own speed is left above the driver, and above the store.
//!
//! The same batches are written to files of the same schema by the `sqlite3` shell, by rusqlite with prepared
//! statements, and by the store. Every batch is one durable transaction (`synchronous=FULL`, WAL): the slot's version,
//! the reservations, one row of the decision log. What is timed is the writing; making the file, opening it and
//! preparing the input is not, and what the shell needs to start is taken off its time. The store is handed decided
//! batches, so its time includes crossing to the writer's thread, checking the versions, and writing out the log's text,
//! which the other two get ready-made.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bench::raw::{PRAGMAS, by_rusqlite};
use bench::rows::{Written, batches_of, now, range, settings, slot};
use bench::{Result, median};
use booking::Changes;
use rusqlite::Connection;
use store::{Batch, Store};

/// Reservations in a batch, and batches in a run.
const SIZES: [(u64, u64); 4] = [(1, 600), (16, 250), (256, 60), (1_000, 24)];
const ROUNDS: usize = 7;
/// No round is begun that would end after this.
const BUDGET: Duration = Duration::from_secs(50);

#[derive(Clone, Copy)]
enum Driver {
    Shell,
    Rusqlite,
    Store,
}

const DRIVERS: [(Driver, &str); 3] =
    [(Driver::Shell, "sqlite3 shell"), (Driver::Rusqlite, "rusqlite"), (Driver::Store, "store")];

fn main() -> Result<()> {
    let began = Instant::now();
    let shell = Command::new("sqlite3").arg("--version").output();
    let shell = shell.map_err(|_| "there is no sqlite3: install the package sqlite3")?.stdout;
    let shell = String::from_utf8(shell)?;
    let cores = std::thread::available_parallelism()?;
    println!("$ cargo run --release -p bench --bin drivers");
    println!(
        "sqlite3 {}, SQLite {} in rusqlite and store, {cores} cores, up to {ROUNDS} rounds",
        shell.split(' ').next().unwrap_or_default(),
        rusqlite::version(),
    );

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let workloads = SIZES.map(|(size, batches)| batches_of(size, batches));
    let mut speeds: [[Vec<f64>; DRIVERS.len()]; SIZES.len()] = Default::default();
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        let start = Instant::now();
        if began.elapsed() + longest > BUDGET {
            println!("stopped after {round} rounds to stay within {BUDGET:?}");
            break;
        }
        for (workload, speeds) in workloads.iter().zip(&mut speeds) {
            // Each goes first in turn, so that none always follows the same one.
            for turn in 0..DRIVERS.len() {
                let n = (round + turn) % DRIVERS.len();
                let taken = run(DRIVERS[n].0, workload, &runtime)?;
                let rows: usize = workload.iter().map(|batch| batch.reservations.len()).sum();
                speeds[n].push(rows as f64 / taken.as_secs_f64());
            }
        }
        longest = longest.max(start.elapsed());
    }
    report(&mut speeds);
    println!("\n{:.0} s in all", began.elapsed().as_secs_f64());
    Ok(())
}

fn report(speeds: &mut [[Vec<f64>; DRIVERS.len()]; SIZES.len()]) {
    println!("\nDurable reservations a second, median (ratio to the shell)\n");
    print!("| batch |");
    DRIVERS.iter().for_each(|(_, name)| print!(" {name} |"));
    println!("\n| ---: |{}", " ---: |".repeat(DRIVERS.len()));
    for ((size, _), speeds) in SIZES.iter().zip(speeds) {
        let medians = speeds.each_mut().map(|speeds| median(speeds));
        print!("| {size} |");
        medians.iter().for_each(|median| print!(" {median:.0} ({:.2}) |", median / medians[0]));
        println!();
    }
}

/// Writes everything into a new file; how long that took.
fn run(driver: Driver, batches: &[Written], runtime: &tokio::runtime::Runtime) -> Result<Duration> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("maitred.db");
    // Made by the store for all three: the file is the same before the first batch.
    let store = Store::sqlite(&path)?;
    let added = runtime.block_on(store.add_venue(settings()?, vec![], vec![]))?;
    if added.id != slot().venue() {
        return Err("the first venue has another id than the rows are made for".into());
    }
    let taken = match driver {
        Driver::Store => runtime.block_on(by_store(&store, batches))?,
        Driver::Rusqlite => {
            store.close();
            by_rusqlite(&path, batches)?
        }
        Driver::Shell => {
            store.close();
            by_shell(dir.path(), &path, batches)?
        }
    };
    store.close();
    check(&path, batches)?;
    Ok(taken)
}

/// All three must have written the same.
fn check(path: &Path, batches: &[Written]) -> Result<()> {
    let connection = Connection::open(path)?;
    let sql = "SELECT (SELECT count(*) FROM reservation WHERE party = 2 AND status = 'TEMPORARY'), \
               (SELECT count(*) FROM decision), (SELECT sum(length(decisions)) FROM decision), \
               (SELECT version FROM slot)";
    let found: [usize; 4] =
        connection.query_row(sql, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    let rows = batches.iter().map(|batch| batch.reservations.len()).sum();
    let expected = [rows, batches.len(), batches.iter().map(|batch| batch.log.len()).sum(), batches.len()];
    if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}").into()) }
}

async fn by_store(store: &Store, batches: &[Written]) -> Result<Duration> {
    let decided: Vec<Batch> = batches
        .iter()
        .zip(0..)
        .map(|(batch, slot_version)| {
            let mut changes = Changes::default();
            changes.new.clone_from(&batch.reservations);
            let (decisions, keys) = (batch.decisions.clone(), vec![]);
            Batch {
                slot: slot(),
                slot_version,
                venue_version: 1,
                decided_at: now(),
                changes,
                decisions,
                keys,
            }
        })
        .collect();
    let start = Instant::now();
    for batch in decided {
        store.commit(batch).await?;
    }
    Ok(start.elapsed())
}

fn by_shell(dir: &Path, path: &Path, batches: &[Written]) -> Result<Duration> {
    let (idle, script) = (dir.join("idle.sql"), dir.join("script.sql"));
    std::fs::write(&idle, format!("{PRAGMAS}SELECT count(*) FROM slot;\n"))?;
    std::fs::write(&script, shell_script(batches)?)?;
    let started = feed_shell(path, &idle)?;
    Ok(feed_shell(path, &script)?.saturating_sub(started))
}

fn feed_shell(path: &Path, script: &Path) -> Result<Duration> {
    let start = Instant::now();
    let status = Command::new("sqlite3")
        .args(["-batch", "-bail"])
        .arg(path)
        .stdin(File::open(script)?)
        .stdout(Stdio::null())
        .status()?;
    let taken = start.elapsed();
    if status.success() { Ok(taken) } else { Err("sqlite3 did not take the script".into()) }
}

fn shell_script(batches: &[Written]) -> Result<String> {
    let mut sql = PRAGMAS.to_owned();
    let (slot, at) = (slot().to_i64(), now().as_millisecond());
    for (batch, version) in batches.iter().zip(1_u64..) {
        writeln!(sql, "BEGIN IMMEDIATE;")?;
        if version == 1 {
            writeln!(sql, "INSERT INTO slot (id, version) VALUES ({slot}, 1);")?;
        } else {
            writeln!(
                sql,
                "UPDATE slot SET version = {version} WHERE id = {slot} AND version = {};",
                version - 1
            )?;
        }
        for r in &batch.reservations {
            writeln!(
                sql,
                "INSERT INTO reservation VALUES (x'{:032x}', {slot}, x'{:032x}', '{}', '{}', {}, NULL, '{}', NULL, \
                 {}, 0, 0, 0, {}, NULL, x'{:032x}', {}, 1, NULL);",
                r.id.0,
                r.person.0,
                r.name,
                r.status(),
                r.party,
                r.payment,
                r.price.0,
                r.expires_at.as_millisecond(),
                r.ticket.to_u128(),
                r.created_at.as_millisecond(),
            )?;
        }
        let (from, to) = range(batch);
        let log = batch.log.replace('\'', "''");
        writeln!(
            sql,
            "INSERT INTO decision VALUES ({slot}, {version}, {at}, {from}, {to}, NULL, NULL, '{log}');"
        )?;
        writeln!(sql, "COMMIT;")?;
    }
    Ok(sql)
}
