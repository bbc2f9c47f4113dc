//! What fairlane's locks cost over Redis, beside what Redis itself can do in the same run.
//!
//! `cargo run --release -p bench --bin locks` starts a Redis server of its own on a private port and prints tables. The
//! figures depend on the machine; the ratios at the end hardly do.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::limits::trivial_scripts;
use fairlane::{Client, RedisConfig};
use testkit::RedisServer;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Requests in flight, for us and for `redis-benchmark`.
const IN_FLIGHT: usize = 50;
const PAIRS: u64 = 100_000;
const ROUNDS: usize = 3;
const CLIENTS: usize = 4;

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let server = RedisServer::start();

    println!("uncontended, {IN_FLIGHT} in flight         per second   of trivial   server µs   client µs");
    let mut shares = Vec::new();
    // In turns, because a shared machine is not the same from one moment to the next.
    for _ in 0..ROUNDS {
        let trivial = trivial_scripts(&server, PAIRS)?;
        println!("{:<30} {trivial:>13.0}", "redis-benchmark, EVALSHA");
        for (name, kind) in
            [("fair lock, acquire+release", Kind::Fair), ("lock, acquire+release", Kind::Unfair)]
        {
            let run = uncontended(&server, kind).await?;
            let share = run.per_second / trivial;
            let (server, client) = (run.server_micros, run.client_micros);
            println!("{name:<30} {:>13.0} {share:>12.2} {server:>11.1} {client:>11.1}", run.per_second);
            if matches!(kind, Kind::Fair) {
                shares.push(share);
            }
        }
    }
    shares.sort_unstable_by(f64::total_cmp);

    println!(
        "\nfair lock, contended   hand-overs/s      p50 µs      p99 µs   commands beyond release   server µs"
    );
    let mut runs = Vec::new();
    for (waiters, hand_overs) in [(10, 20_000), (100, 20_000), (1_000, 20_000), (10_000, 20_000)] {
        let run = contended(&server, waiters, hand_overs).await?;
        println!(
            "{waiters:>6} waiters {:>22.0} {:>11.0} {:>11.0} {:>25.2} {:>11.1}",
            run.per_second, run.p50, run.p99, run.commands, run.server_micros
        );
        runs.push(run);
    }

    let growth = runs[3].server_micros / runs[1].server_micros;
    let worst = runs.iter().map(|run| run.commands).fold(0.0, f64::max);
    println!();
    verdict("server CPU per hand-over, 10,000 waiters against 100", growth, 1.3, growth <= 1.3);
    verdict("commands per hand-over beyond the release, at most", worst, 2.0, worst <= 2.0);
    let share = shares[ROUNDS / 2];
    verdict(
        "uncontended fair lock against a trivial EVALSHA (median), at least",
        share,
        1.0 / 3.0,
        share >= 1.0 / 3.0,
    );
    Ok(())
}

fn verdict(what: &str, figure: f64, aim: f64, reached: bool) {
    println!("{what}: {figure:.2} (aim {aim:.2}) {}", if reached { "reached" } else { "MISSED" });
}

#[derive(Clone, Copy)]
enum Kind {
    Fair,
    Unfair,
}

struct Uncontended {
    per_second: f64,
    server_micros: f64,
    client_micros: f64,
}

async fn uncontended(server: &RedisServer, kind: Kind) -> Outcome<Uncontended> {
    let client = Client::redis(RedisConfig::single(server.url())).await?;
    let left = Arc::new(AtomicU64::new(PAIRS));
    let (start, server_cpu, own_cpu) = (Instant::now(), server.cpu_seconds(), own_cpu_seconds()?);
    let mut tasks = JoinSet::new();
    for task in 0..IN_FLIGHT {
        let (client, left) = (client.clone(), Arc::clone(&left));
        tasks.spawn(async move {
            let name = format!("key:{task}");
            let (fair, unfair) = (client.fair_lock(&name), client.lock(&name));
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let held = match kind {
                    Kind::Fair => fair.acquire().await?,
                    Kind::Unfair => unfair.acquire().await?,
                };
                held.release().await?;
            }
            Ok::<_, fairlane::Error>(())
        });
    }
    for outcome in tasks.join_all().await {
        outcome?;
    }
    let elapsed = start.elapsed().as_secs_f64();
    let pairs = PAIRS as f64;
    Ok(Uncontended {
        per_second: pairs / elapsed,
        server_micros: (server.cpu_seconds() - server_cpu) * 1e6 / pairs,
        client_micros: (own_cpu_seconds()? - own_cpu) * 1e6 / pairs,
    })
}

struct Contended {
    per_second: f64,
    p50: f64,
    p99: f64,
    commands: f64,
    server_micros: f64,
}

/// Hands one lock over again and again, with always as many waiting: whoever had it goes to the end of the line.
async fn contended(server: &RedisServer, waiters: usize, hand_overs: usize) -> Outcome<Contended> {
    let name = format!("hot:{waiters}");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(
            Client::redis(RedisConfig::single(server.url()).with_call_timeout(Duration::from_secs(10)))
                .await?,
        );
    }
    let first = clients[0].fair_lock(&name).acquire().await?;
    let over = Arc::new(AtomicBool::new(false));
    let released = Arc::new(Mutex::new(None::<Instant>));
    let samples = Arc::new(Mutex::new(Vec::with_capacity(hand_overs)));
    let mut tasks = JoinSet::new();
    for task in 0..waiters {
        let lock = clients[task % CLIENTS].fair_lock(&name);
        let (over, released, samples) = (Arc::clone(&over), Arc::clone(&released), Arc::clone(&samples));
        tasks.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let held = lock.acquire().await?;
                let now = Instant::now();
                if let Some(before) = released.lock().await.replace(now) {
                    let mut samples = samples.lock().await;
                    samples.push(now - before);
                    if samples.len() >= hand_overs {
                        over.store(true, Ordering::Relaxed);
                    }
                }
                *released.lock().await = Some(Instant::now());
                held.release().await?;
            }
            Ok::<_, fairlane::Error>(())
        });
    }
    while clients[0].fair_lock(&name).waiting().await? < waiters as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (start, cpu, calls) = (Instant::now(), server.cpu_seconds(), server.client_calls());
    first.release().await?;
    while !over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (elapsed, cpu) = (start.elapsed().as_secs_f64(), server.cpu_seconds() - cpu);
    let calls = server.client_calls() - calls;
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    for client in &clients {
        client.flush().await?;
    }
    let mut samples = samples.lock().await.clone();
    samples.sort_unstable();
    let done = samples.len() as f64;
    let micros = |hundredth: usize| samples[(samples.len() - 1) * hundredth / 100].as_secs_f64() * 1e6;
    Ok(Contended {
        per_second: done / elapsed,
        p50: micros(50),
        p99: micros(99),
        // Each hand-over here is a release, whatever it takes to grant the next, and the old holder entering again.
        commands: calls as f64 / done - 2.0,
        server_micros: cpu * 1e6 / done,
    })
}

/// CPU seconds of this process.
fn own_cpu_seconds() -> Outcome<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / TICKS_PER_SECOND)
}
