//! `maitred rehearse`: a crowd of synthetic guests against a running server, the day before the real one comes.

use std::io::{IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use rehearsal::{Address, Arrivals, Plan, Popularity, Report, Slot, Tally, Tokens, View, Waiting};

use crate::clock::Clock;
use crate::config::{Config, Flags};
use crate::server::keyring;
use crate::synthetic;

/// How often a terminal is drawn again, and how often a line is written where there is none.
const FRAME: Duration = Duration::from_millis(200);
const LINE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(super) struct Rehearse {
    /// Where the servers are; guests are spread over them
    #[arg(value_name = "URL", required = true)]
    servers: Vec<Address>,
    /// The venue
    #[arg(long, value_name = "ID")]
    venue: booking::VenueId,
    /// What is asked for, in the venue's time zone: "2026-12-24 12:00"; may be given several times
    #[arg(long = "slot", value_name = "SLOT", required_unless_present = "replay")]
    slots: Vec<Slot>,
    /// How many guests come
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    guests: u32,
    /// When they come: "all at once", "over 30s", "poisson 500/s" or "steady 500/s"
    #[arg(long, value_name = "HOW", default_value = "all at once")]
    arrive: Arrivals,
    /// Let guests come as a file says, a line each: SECONDS[,PARTY[,DATE TIME]]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["arrive", "guests"])]
    replay: Option<PathBuf>,
    /// How many people each comes with, itself included: 2, or 1-6
    #[arg(long, value_name = "SIZES", default_value = "2", value_parser = sizes)]
    party: RangeInclusive<u32>,
    /// Whoever still waits after this time leaves the line
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = time)]
    patience: Duration,
    /// How many close the page while they wait
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    abandon: f64,
    /// How many of the seated pay
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    pay: f64,
    /// How they wait: listen, as the web app does, or poll
    #[arg(long, value_name = "HOW", default_value = "listen", value_parser = waiting)]
    wait: Waiting,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(2..=60_000))]
    connections: u32,
    /// Access tokens of the guests, one a line, as `maitred token` prints them; otherwise they are made with the server's
    /// key, which is beside its database
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Write the report as a page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// The same seed makes the same crowd
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    flags: Flags,
}

impl Rehearse {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let plan = self.plan()?;
        let tokens = runtime.block_on(self.tokens(&plan))?;
        if let Some(path) = &self.report {
            // Before the guests come: afterwards would be too late to say so. What is there stays until there is better.
            let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
            opened.with_context(|| format!("cannot write {}", path.display()))?;
        }
        let report = runtime.block_on(watched(plan, tokens))?;
        if let Some(path) = &self.report {
            let written = std::fs::write(path, rehearsal::page(&report));
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        let text = if self.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.to_string() };
        super::print(&text)?;
        Ok(if report.exactness.is_exact() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        ensure!(
            self.connections as usize >= 2 * self.servers.len(),
            "--connections must be at least {}: two for each server",
            2 * self.servers.len()
        );
        let arrivals = match &self.replay {
            None => self.arrive.clone(),
            Some(path) => {
                let text = read(path)?;
                Arrivals::replay(&text)
                    .map_err(|why| anyhow!("{} cannot be replayed: {why}", path.display()))?
            }
        };
        let guests = match &arrivals {
            Arrivals::Replay(arrivals) => {
                let unsaid = arrivals.iter().any(|arrival| arrival.slot.is_none());
                ensure!(
                    !unsaid || !self.slots.is_empty(),
                    "not every line names a slot; say which with --slot"
                );
                u32::try_from(arrivals.len()).unwrap_or(u32::MAX)
            }
            _ => self.guests,
        };
        Ok(Plan {
            servers: self.servers.clone(),
            venue: self.venue.to_string(),
            slots: self.slots.clone(),
            popularity: Popularity::Even,
            arrivals,
            guests,
            party: self.party.clone(),
            patience: self.patience,
            abandon: self.abandon,
            pay: self.pay,
            cancel: 0.0,
            waiting: self.wait,
            wait_in_call: 2,
            keys: true,
            look_after: true,
            connections: self.connections as usize,
            seed: self.seed.unwrap_or_else(|| u64::from(rand::random::<u32>())),
        })
    }

    async fn tokens(&self, plan: &Plan) -> anyhow::Result<Tokens> {
        let Some(path) = &self.tokens else {
            let config = Config::load(&self.flags)?;
            let kept = config.token.signing_key.is_some() || config.database.is_some();
            ensure!(
                kept || config.data.join("maitred.db").exists(),
                "there is no server's key in {}; say where its database is with --data or --database, or pass --tokens FILE",
                config.data.display()
            );
            let keys = keyring(&config).await?;
            return Ok(synthetic::tokens(move |claims| keys.sign(claims), plan.guests, Clock::System.now()));
        };
        let text = read(path)?;
        let tokens: Vec<_> =
            text.lines().map(str::trim).filter(|token| !token.is_empty()).map(str::to_owned).collect();
        ensure!(
            tokens.len() >= plan.guests as usize,
            "{} has {} tokens for {} guests; make them with: maitred token --count {}",
            path.display(),
            tokens.len(),
            plan.guests,
            plan.guests
        );
        Ok(Arc::new(move |guest| tokens.get(guest as usize).cloned().unwrap_or_default()))
    }
}

fn read(path: &PathBuf) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Rehearses, and shows how it goes on the way.
async fn watched(plan: Plan, tokens: Tokens) -> anyhow::Result<Report> {
    let (tally, guests) = (Arc::new(Tally::default()), plan.guests);
    let mut running = std::pin::pin!(rehearsal::run(plan, tokens, tally.clone()));
    let terminal = std::io::stderr().is_terminal();
    let mut beat = tokio::time::interval(if terminal { FRAME } else { LINE });
    let mut drawn = false;
    beat.tick().await;
    loop {
        tokio::select! {
            report = &mut running => {
                if drawn {
                    draw(&tally.view(), guests, drawn);
                    eprintln!();
                }
                return Ok(report?);
            }
            _ = beat.tick() => {
                let view = tally.view();
                if terminal {
                    draw(&view, guests, drawn);
                    drawn = true;
                } else {
                    eprintln!("{} of {guests} came, {}", view.arrived, figures(&view));
                }
            }
        }
    }
}

fn figures(view: &View) -> String {
    format!(
        "{} wait · {} seated · {} refused · {} gave up · {} errors · {:.0}/s · p50 {:.0} ms · p99 {:.0} ms",
        view.waiting, view.seated, view.refused, view.gave_up, view.errors, view.pace, view.p50, view.p99
    )
}

/// Three lines that are drawn over the ones before.
fn draw(view: &View, guests: u32, again: bool) {
    let known = view.arrived - view.waiting;
    let bar = |part: u32| {
        let filled = (u64::from(part) * 30 / u64::from(guests.max(1))).min(30);
        (0..30).map(|n| if n < filled { '█' } else { '░' }).collect::<String>()
    };
    let up = if again { "\x1b[3A" } else { "" };
    let text = format!(
        "{up}\x1b[2Karrived  {} {:>9}\n\x1b[2Kanswered {} {known:>9}   {:.0}/s\n\x1b[2K\
         {} wait · {} seated · {} refused · {} gave up · {} errors · p50 {:.0} ms · p99 {:.0} ms\n",
        bar(view.arrived),
        view.arrived,
        bar(known),
        view.pace,
        view.waiting,
        view.seated,
        view.refused,
        view.gave_up,
        view.errors,
        view.p50,
        view.p99
    );
    // Nobody is there to see it where that fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn sizes(text: &str) -> Result<RangeInclusive<u32>, &'static str> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let range = low.trim().parse::<u32>().ok().zip(high.trim().parse::<u32>().ok());
    let range = range.filter(|(low, high)| 1 <= *low && low <= high && *high <= 100);
    range.map(|(low, high)| low..=high).ok_or("write a size, or the smallest and the largest as 1-6")
}

fn time(text: &str) -> Result<Duration, &'static str> {
    rehearsal::time(text)
        .filter(|time| *time <= Duration::from_secs(3_600))
        .ok_or("write a time of an hour at most, such as 20s, 500ms or 2m")
}

fn share(text: &str) -> Result<f64, &'static str> {
    let percent = text.trim().strip_suffix('%').and_then(|figure| figure.trim().parse::<f64>().ok());
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or("write a share such as 10%")
}

fn waiting(text: &str) -> Result<Waiting, &'static str> {
    match text {
        "listen" => Ok(Waiting::Listen),
        "poll" => Ok(Waiting::Poll),
        _ => Err("write listen or poll"),
    }
}
