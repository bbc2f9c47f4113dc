//! `maitred token`: access tokens for synthetic guests, made offline with the server's key.

use jiff::SignedDuration;

use crate::clock::Clock;
use crate::config::{Config, Flags};
use crate::fresh;
use crate::server::keyring;
use crate::signing::Claims;

#[derive(Debug, clap::Args)]
pub(super) struct Token {
    /// How many, each for a guest of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    #[command(flatten)]
    flags: Flags,
}

impl Token {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = Config::load(&self.flags)?;
        let signer = super::runtime()?.block_on(keyring(&config))?;
        let now = Clock::System.now();
        // A rehearsal may last longer than a session.
        let expires = now.saturating_add(SignedDuration::from_hours(24)).unwrap_or(now);
        let tokens = (1..=self.count).map(|n| {
            let name = format!("Guest {n}");
            signer.sign(&Claims { sub: fresh::person_id(now), name, exp: expires.as_second() }) + "\n"
        });
        super::print(&tokens.collect::<String>())
    }
}
