//! `maitred token`: access tokens for synthetic guests, made offline with the server's key.

use crate::clock::Clock;
use crate::config::{Config, Flags};
use crate::server::keyring;
use crate::synthetic;

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
        let token = synthetic::tokens(move |claims| signer.sign(claims), self.count, Clock::System.now());
        let tokens = (0..self.count).map(|guest| token(guest) + "\n");
        super::print(&tokens.collect::<String>())
    }
}
