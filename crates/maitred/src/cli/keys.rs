//! `maitred keys`: the keys that sign tokens.

use anyhow::bail;
use store::Database;

use crate::config::{Config, Flags};
use crate::server::{make_folder, unopened};
use crate::signing;

#[derive(Debug, clap::Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Sign with a new key from now on; tokens of the key before stay good until they end.
    #[command(
        long_about = "Sign with a new key from now on; tokens of the key before stay good until they end.\n\n\
                      Running servers notice by themselves. Rotating twice ends all tokens from before: it is for \
                      when a key was seen by somebody who should not have.",
        after_help = "Example:\n  maitred keys rotate --data ./data"
    )]
    Rotate(Flags),
}

impl Keys {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let What::Rotate(flags) = self.what;
        let config = Config::load(&flags)?;
        if config.token.signing_key.is_some() {
            bail!(
                "the signing key is set in the configuration; put a new one in front of it there, with a comma between"
            );
        }
        match config.store()? {
            Database::Sqlite(_) => {
                make_folder(&config.data)?;
                signing::rotate_in(&config.data)?;
            }
            Database::Postgres(options) => {
                let rotating = store::postgres::rotate_signing_key(&options, rand::random());
                let rotated = super::runtime()?.block_on(rotating);
                rotated.map_err(|error| unopened(&Database::Postgres(options), error))?;
            }
        }
        super::print("A new key signs from now on; the one before is good for its tokens until they end.\n")
    }
}
