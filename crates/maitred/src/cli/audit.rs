//! `maitred audit`: whether anything that is stored tells of something that must never happen.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::anyhow;
use audit::{Options, Report};
use booking::VenueId;
use store::{Database, Drawn};

use crate::config::{Config, Flags};
use crate::server::unopened;

/// Findings that are printed for people; the rest is counted. `--json` has them all.
const SHOWN: usize = 100;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Audit {
    /// Only the slots of this venue; wallets belong to none, and are left out
    #[arg(long, value_name = "ID")]
    venue: Option<VenueId>,
    /// Print the whole report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What to look at in particular.
#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Recompute everybody's rank in the draws of a venue, and the hash of each seed.
    #[command(after_help = "Example:\n  maitred audit draw --venue 7 --data ./data")]
    Draw(Draw),
}

#[derive(Debug, clap::Args)]
struct Draw {
    /// Whose draws
    #[arg(long, value_name = "ID")]
    venue: VenueId,
    #[command(flatten)]
    flags: Flags,
}

/// The database of these flags, if there is one.
fn database(flags: &Flags) -> anyhow::Result<Database> {
    let database = Config::load(flags)?.store()?;
    match &database {
        Database::Sqlite(path) if !path.exists() => {
            Err(anyhow!("there is no database {}; say where it is with --data or --database", path.display()))
        }
        _ => Ok(database),
    }
}

impl Draw {
    fn run(self) -> anyhow::Result<ExitCode> {
        let database = database(&self.flags)?;
        let draws = super::runtime()?
            .block_on(store::audit_draws(&database, self.venue))
            .map_err(|error| unopened(&database, error))?;
        if draws.is_empty() {
            return Err(anyhow!("venue {} has had no draw; its seeds stay secret until it has", self.venue));
        }
        let mut text = String::new();
        for Drawn { opening, tokens, report } in &draws {
            let drawn = tokens.iter().filter(|t| t.number.is_some() && Some(t.arrival) <= opening.entrants);
            let hash: String = opening.seed_hash.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(text, "Opening {}: {} drawn, seed hash {hash}", opening.id, drawn.count());
            for finding in report.findings.iter().take(SHOWN) {
                let _ = writeln!(text, "WRONG: {finding}.");
            }
        }
        let clean = draws.iter().all(|draw| draw.report.is_clean());
        if clean {
            text.push_str("Every rank is the one that the announced seed gives.\n");
        }
        super::print(&text)?;
        Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Audit {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(Part::Draw(draw)) = self.part {
            return draw.run();
        }
        let database = database(&self.flags)?;
        // Nobody wrote down when Redis was away.
        let options = |now| Options { now: Some(now), strict_order: false, ..Options::default() };
        let report = super::runtime()?
            .block_on(store::audit(&database, self.venue, options))
            .map_err(|error| unopened(&database, error))?;
        let text =
            if self.json { serde_json::to_string_pretty(&report)? + "\n" } else { told(&report, &database) };
        super::print(&text)?;
        Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The report for people: one sentence a line.
fn told(report: &Report, database: &Database) -> String {
    let counts = report.counts;
    let mut text = format!(
        "{database}: {} slots, {} reservations, {} decisions in {} batches, {} movements of money of {} people, \
         {} places in waiting rooms\n",
        counts.slots,
        counts.reservations,
        counts.decisions,
        counts.batches,
        counts.entries,
        counts.people,
        counts.tokens
    );
    for finding in report.findings.iter().take(SHOWN) {
        let _ = writeln!(text, "WRONG: {finding}.");
    }
    let rest = report.findings.len().saturating_sub(SHOWN) as u64 + report.more;
    if rest > 0 {
        let _ = writeln!(text, "WRONG: and {rest} more; --json lists them.");
    }
    for note in report.notes.iter().take(SHOWN) {
        let _ = writeln!(text, "Note: {note}.");
    }
    if report.is_clean() {
        text.push_str(
            "Nothing is wrong: no slot was oversold, nobody was booked twice or overtaken, no money was made or lost.\n",
        );
    }
    text
}
