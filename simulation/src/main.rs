//! `cargo run --release -p simulation -- --seeds 1000`

mod auditor;
mod bank;
mod dice;
mod guests;
mod hub;
mod lanes;
mod process;
mod rooms;
mod rows;
mod swarm;
mod trace;
mod world;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Parser;

use world::Outcome;

/// What code can be made to have, to show that it is found.
pub const FLAWS: &[&str] = &[
    "no-version-check",
    "guard-missing",
    "index-missing",
    "expired-hold-counted",
    "rerun-not-idempotent",
    "settle-before-commit",
    "lease-not-checked",
    "order-by-arrival",
    "refund-twice",
    "late-payment-accepted",
    "lost-wake-up",
    "sweep-without-state-check",
    "source-not-bumped",
    "wallet-unchecked",
    "key-not-unique",
    "seat-taken-twice",
    "sold-around-the-list",
    "passed-without-end",
    "offer-never-lapses",
    "one-too-many-inside",
    "idle-stay-inside",
    "room-read-then-write",
    "token-not-finished",
    "payment-events-repeat",
    "late-money-kept",
];

/// Runs the real code of several processes over simulated time, network and storage.
#[derive(Parser)]
struct Options {
    /// How many worlds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Shows everything that happens with this seed.
    #[arg(long)]
    trace: bool,
    /// With this flaw in the code.
    #[arg(long)]
    bug: Option<String>,
    /// Shows that each flaw is found within so many seeds.
    #[arg(long)]
    bugs: bool,
    /// Goes on after a violation, and lists the first of each seed.
    #[arg(long)]
    all: bool,
    /// Threads; as many as there are processors unless told.
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    world::hear_panics();
    let flaw = match &options.bug {
        Some(name) => match FLAWS.iter().find(|flaw| *flaw == name) {
            Some(flaw) => Some(*flaw),
            None => {
                eprintln!("there is no such flaw; there are {}", FLAWS.join(", "));
                return ExitCode::FAILURE;
            }
        },
        None => None,
    };
    let fine = match options.seed {
        Some(seed) => one(seed, flaw, options.trace),
        None if options.bugs => bugs(&options),
        None => many(&options, flaw),
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, flaw: Option<&'static str>, trace: bool) -> bool {
    let outcome = world::run(seed, flaw, true);
    if trace || !outcome.violations.is_empty() {
        show(&outcome, trace);
    }
    println!(
        "seed {seed}: {} guests, {} decisions, {} reservations, trace {:016x}",
        outcome.guests, outcome.decided, outcome.won, outcome.hash
    );
    outcome.violations.is_empty()
}

/// What happened: everything, or what concerns the slot in which something went wrong.
fn show(outcome: &Outcome, all: bool) {
    let slot = outcome.violations.iter().find_map(|(slot, _)| *slot);
    for (at, of, what) in &outcome.lines {
        if all || of.is_none() || slot.is_none() || *of == slot {
            println!("{:>11.3} ms  {what}", *at as f64 / 1000.0);
        }
    }
    for (_, what) in &outcome.violations {
        println!("VIOLATED: {what}");
    }
}

fn many(options: &Options, flaw: Option<&'static str>) -> bool {
    let began = Instant::now();
    let totals = Mutex::new((0_usize, 0_usize, 0_usize));
    let failed = search(options, flaw, true, |outcome| {
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        *totals = (totals.0 + outcome.guests, totals.1 + outcome.decided, totals.2 + outcome.won);
    });
    eprintln!();
    let (guests, decided, won) = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    let took = began.elapsed().as_secs_f64();
    println!("{guests} guests, {decided} decisions, {won} reservations in {took:.1} s");
    let Some(outcome) = failed else {
        println!("{} seeds: nothing was violated", options.seeds);
        return true;
    };
    if options.all {
        // Each has been listed.
        return false;
    }
    let again = world::run(outcome.seed, flaw, true);
    show(&again, false);
    let bug = flaw.map(|name| format!(" --bug {name}")).unwrap_or_default();
    println!("\nto see all of it: cargo run --release -p simulation -- --seed {} --trace{bug}", outcome.seed);
    false
}

/// The first seed with which something is violated, if any.
fn search(
    options: &Options,
    flaw: Option<&'static str>,
    bar: bool,
    ended: impl Fn(&Outcome) + Sync,
) -> Option<Outcome> {
    let threads =
        options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (next, done, worst) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicU64::new(u64::MAX));
    let failures: Mutex<BTreeMap<u64, Outcome>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let seed = options.from + nth;
                    if nth >= options.seeds || seed > worst.load(Ordering::Relaxed) && !options.all {
                        return;
                    }
                    let outcome = world::run(seed, flaw, false);
                    ended(&outcome);
                    if let Some((_, what)) = outcome.violations.first() {
                        if options.all {
                            println!("seed {seed}: {what}");
                        }
                        worst.fetch_min(seed, Ordering::Relaxed);
                        failures.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, outcome);
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if bar {
                        progress(done, options.seeds);
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner).pop_first().map(|(_, outcome)| outcome)
}

fn progress(done: usize, all: u64) {
    // A log is not a place for a bar that moves.
    if !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        return;
    }
    let all = usize::try_from(all).unwrap_or(usize::MAX).max(1);
    let filled = done * 40 / all;
    let bar = format!("\r[{}{}] {done}/{all}", "#".repeat(filled), "-".repeat(40 - filled.min(40)));
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(bar.as_bytes());
}

fn bugs(options: &Options) -> bool {
    let mut fine = true;
    for flaw in FLAWS {
        let began = Instant::now();
        match search(options, Some(flaw), false, |_| {}) {
            // What is violated without the flaw too says nothing about it.
            Some(outcome) if !world::run(outcome.seed, None, false).violations.is_empty() => {
                println!("{flaw:<28} NOT SHOWN: seed {} is violated without it", outcome.seed);
                fine = false;
            }
            Some(outcome) => {
                let what = outcome.violations.first().map(|(_, what)| what.as_str()).unwrap_or_default();
                println!(
                    "{flaw:<28} seed {:>4}, {:>5.1} s: {what}",
                    outcome.seed,
                    began.elapsed().as_secs_f64()
                );
            }
            None => {
                println!("{flaw:<28} NOT FOUND within {} seeds", options.seeds);
                fine = false;
            }
        }
    }
    fine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_world() {
        for seed in 1..=12 {
            let (first, second) = (world::run(seed, None, false), world::run(seed, None, false));
            assert_eq!(first.hash, second.hash, "seed {seed}");
            assert!(first.violations.is_empty(), "seed {seed}: {:?}", first.violations);
        }
    }

    /// Seeds that found something in the product once.
    #[test]
    fn what_was_found_once_stays_away() {
        for seed in [24, 37, 70, 73, 106, 130] {
            let outcome = world::run(seed, None, false);
            assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
        }
    }

    #[test]
    fn a_flaw_is_found_and_told_with_its_slot() {
        let outcome = world::run(1, Some("settle-before-commit"), true);
        assert!(outcome.violations.iter().any(|(slot, _)| slot.is_some()));
        assert!(!outcome.lines.is_empty());
    }
}
