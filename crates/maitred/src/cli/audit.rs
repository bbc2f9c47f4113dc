//! `maitred audit`: whether anything that is stored tells of something that must never happen.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::anyhow;
use audit::{Options, Report};
use booking::VenueId;
use store::Database;

use crate::config::{Config, Flags};
use crate::server::unopened;

/// Findings that are printed for people; the rest is counted. `--json` has them all.
const SHOWN: usize = 100;

#[derive(Debug, clap::Args)]
pub(super) struct Audit {
    /// Only the slots of this venue; wallets belong to none, and are left out
    #[arg(long, value_name = "ID")]
    venue: Option<VenueId>,
    /// Print the whole report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Audit {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let database = Config::load(&self.flags)?.store()?;
        if let Database::Sqlite(path) = &database
            && !path.exists()
        {
            return Err(anyhow!(
                "there is no database {}; say where it is with --data or --database",
                path.display()
            ));
        }
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
        "{database}: {} slots, {} reservations, {} decisions in {} batches, {} movements of money of {} people\n",
        counts.slots, counts.reservations, counts.decisions, counts.batches, counts.entries, counts.people
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
