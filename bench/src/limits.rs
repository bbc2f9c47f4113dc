//! What the servers can do when nobody asks anything sensible of them: the limits that figures are set beside.

use std::path::PathBuf;
use std::process::Command;

use jiff::Timestamp;
use testkit::RedisServer;

use crate::Result;
use crate::served::slot;
use crate::world::{ENDLESS, World};

/// Requests in flight at `redis-benchmark`.
const IN_FLIGHT: usize = 50;

/// Rows a second that `pgbench` inserts with one client and one prepared statement a batch, which moves the slot's version
/// on and inserts the rows, into the same schema with the same indexes. Ids and tickets ascend as the server's do; people
/// do not.
pub fn batched_inserts(world: &World, size: u64, rows: u64) -> Result<f64> {
    let (url, store) = world.database(ENDLESS)?;
    store.close();
    let (folder, at, slot) = (tempfile::tempdir()?, Timestamp::now().as_millisecond(), slot()?.to_i64());
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
    let output = Command::new(pgbench()?)
        .args(["-n", "-c", "1", "-M", "prepared", "-t", &(rows / size).to_string(), "-f"])
        .arg(&script)
        .arg(&url)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    let tps: f64 = tps.ok_or_else(|| format!("pgbench: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(tps * size as f64)
}

/// Debian keeps it beside the server.
fn pgbench() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")?.flatten();
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin/pgbench")).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().ok_or_else(|| "pgbench is missing; it comes with Debian's postgresql".into())
}

/// Calls a second that `redis-benchmark` makes of a script that does nothing.
pub fn trivial_scripts(redis: &RedisServer, calls: u64) -> Result<f64> {
    let hash = redis.command(&["SCRIPT", "LOAD", "return 1"]).to_string();
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &redis.port().to_string(), "-c", &IN_FLIGHT.to_string()])
        .args(["-n", &calls.to_string(), "--csv", "EVALSHA", &hash, "0"])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let figures = text.lines().last().ok_or("redis-benchmark printed nothing")?;
    let rate = figures.rsplit("\",\"").nth(6).ok_or("redis-benchmark printed something else")?;
    Ok(rate.trim_matches('"').parse()?)
}
