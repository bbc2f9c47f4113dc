//! fairlane against Redisson: the same things over the same Redis, in turns.
//!
//! `cargo run --release -p bench --bin redisson [-- ROUNDS]` starts a Redis of its own on a private port and two JVMs, one
//! with Redisson as it comes and one with its pools raised, warms all three up, and prints what each reached. The figures
//! depend on the machine; the ratios hardly do. It writes `bench/results/locks.json`.

use std::path::Path;

use bench::locks::Measurement;
use bench::spring::{self, Reached, RedissonMeasure};
use bench::{Result, machine, median};
use serde_json::{Value, json};
use testkit::RedisServer;

const ROUNDS: usize = 3;

/// What is measured, and for how many seconds.
const MEASURED: [(&str, Measurement, f64); 10] = [
    ("fair lock, one at a time", Measurement::FairLock(1), 3.0),
    ("fair lock, 50 at once, each its own", Measurement::FairLock(50), 3.0),
    ("fair lock, hand-over, 10 in line", Measurement::HandOver(10), 3.0),
    ("fair lock, hand-over, 100 in line", Measurement::HandOver(100), 3.0),
    ("fair lock, hand-over, 1,000 in line", Measurement::HandOver(1_000), 5.0),
    ("fair lock, hand-over, 10,000 in line", Measurement::HandOver(10_000), 10.0),
    ("semaphore, one at a time", Measurement::Semaphore(1, 10), 3.0),
    ("semaphore, 100 for 10 permits", Measurement::Semaphore(100, 10), 3.0),
    ("rate limiter, one at a time", Measurement::RateLimiter(1), 3.0),
    ("rate limiter, 50 at once", Measurement::RateLimiter(50), 3.0),
];

const NAMES: [&str; 3] = ["fairlane", "Redisson as it comes", "Redisson, pools raised"];

/// What one of them reached in all rounds.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    failed: u64,
    /// The shortest line of a hand-over, where there was no room for everybody.
    short: Option<u64>,
}

impl Rounds {
    fn add(&mut self, reached: Reached, measurement: Measurement) {
        self.rates.push(reached.per_second);
        self.failed += reached.failed;
        if let Measurement::HandOver(waiters) = measurement
            && reached.queued < u64::from(waiters)
        {
            self.short = Some(self.short.map_or(reached.queued, |short| short.min(reached.queued)));
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |rounds| rounds.parse())?;
    let java = spring::build()?;
    let server = RedisServer::start();
    let defaults = RedissonMeasure::start(&java, &server.url(), true)?;
    let raised = RedissonMeasure::start(&java, &server.url(), false)?;
    let mut contenders = Contenders { server, redisson: [defaults, raised] };
    contenders.warm_up().await?;

    let mut all: Vec<[Rounds; 3]> = Vec::new();
    for (name, measurement, seconds) in MEASURED {
        let mut reached: [Rounds; 3] = Default::default();
        for round in 0..rounds {
            for turn in 0..3 {
                let who = (round + turn) % 3;
                reached[who].add(contenders.run(who, measurement, seconds).await?, measurement);
            }
        }
        eprintln!("{name}: done");
        all.push(reached);
    }
    report(&all, rounds, java.version())
}

/// The three, over one Redis.
struct Contenders {
    server: RedisServer,
    redisson: [RedissonMeasure; 2],
}

impl Contenders {
    /// A compiler that works while it runs needs a while before its code is as fast as it gets.
    async fn warm_up(&mut self) -> Result<()> {
        for measurement in [
            Measurement::FairLock(1),
            Measurement::FairLock(50),
            Measurement::HandOver(100),
            Measurement::Semaphore(50, 10),
            Measurement::RateLimiter(50),
        ] {
            for who in 0..NAMES.len() {
                self.run(who, measurement, 5.0).await?;
            }
        }
        Ok(())
    }

    async fn run(&mut self, who: usize, measurement: Measurement, seconds: f64) -> Result<Reached> {
        // Nobody inherits what others left behind.
        self.server.command(&["FLUSHALL"]);
        let Some(which) = who.checked_sub(1) else {
            let per_second = measurement.run(&self.server.url(), seconds).await?;
            // It does not begin before everybody stands in line, and ends at the first failure.
            return Ok(Reached { per_second, failed: 0, queued: u64::MAX });
        };
        let redisson = &mut self.redisson[which];
        let command = measurement.command(seconds);
        tokio::task::block_in_place(|| redisson.run(&command))
    }
}

fn report(all: &[[Rounds; 3]], rounds: usize, java: u32) -> Result<()> {
    println!(
        "Medians a second of {rounds} rounds in turns, with the spread; {}, Java {java}.\n",
        machine::described()
    );
    println!("| | {} | {} | {} | against as it comes | against raised |", NAMES[0], NAMES[1], NAMES[2]);
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let mut rows = Vec::new();
    let mut lost = Vec::new();
    for ((name, ..), reached) in MEASURED.iter().zip(all) {
        let medians: Vec<f64> = reached.iter().map(|rounds| median(&mut rounds.rates.clone())).collect();
        let times = |against: usize| medians[0] / medians[against].max(f64::MIN_POSITIVE);
        let cell = |who: usize| shown(&reached[who], medians[who]);
        let (comes, raised) = (ratio(times(1)), ratio(times(2)));
        println!("| {name} | {} | {} | {} | {comes} | {raised} |", cell(0), cell(1), cell(2));
        if times(1).min(times(2)) < 1.0 {
            lost.push(*name);
        }
        rows.push(json!({
            "measurement": name,
            "contenders": std::array::from_fn::<Value, 3, _>(|who| json!({
                "name": NAMES[who],
                "perSecond": medians[who],
                "rounds": reached[who].rates,
                "failed": reached[who].failed,
                "lineNoLongerThan": reached[who].short,
            })),
        }));
    }
    println!();
    let won = |row: usize| median(&mut all[row][0].rates.clone()) / best_redisson(&all[row]);
    verdict("uncontended fair lock against the better Redisson, at least", won(0), 1.0);
    verdict("hand-over with 1,000 in line against the better Redisson, at least", won(4), 10.0);
    println!("Redisson wins: {}", if lost.is_empty() { "nowhere".into() } else { lost.join("; ") });
    write(&json!({ "machine": machine::described(), "java": java, "rounds": rounds, "rows": rows }))
}

fn best_redisson(reached: &[Rounds; 3]) -> f64 {
    reached[1..].iter().map(|rounds| median(&mut rounds.rates.clone())).fold(f64::MIN_POSITIVE, f64::max)
}

fn shown(rounds: &Rounds, median: f64) -> String {
    let (low, high) = rounds.rates.iter().fold((f64::MAX, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    let short = rounds.short.map_or_else(String::new, |short| format!(", only {short} in line"));
    let failed = if rounds.failed > 0 { format!(", {} calls failed", rounds.failed) } else { String::new() };
    format!("{median:.0} ({low:.0}–{high:.0}{short}{failed})")
}

fn ratio(times: f64) -> String {
    if times > 1e6 { "—".into() } else { format!("{times:.1} ×") }
}

fn verdict(what: &str, figure: f64, aim: f64) {
    println!("{what}: {figure:.2} (aim {aim:.2}) {}", if figure >= aim { "reached" } else { "MISSED" });
}

fn write(results: &Value) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("locks.json");
    std::fs::write(&path, serde_json::to_string_pretty(results)? + "\n")?;
    println!("written: bench/results/locks.json");
    Ok(())
}
