//! The command line.

mod audit;
mod keys;
mod rehearse;
mod serve;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{Config, Flags};
use crate::http;
use crate::server::{make_folder, open, unopened};

/// A reservation server for the second at which everyone presses the button.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server, on an embedded database or on PostgreSQL.
    #[command(after_help = "Example:\n  maitred serve --demo --listen 127.0.0.1:8080 --data ./data\n  \
                            MAITRED_DATABASE=postgres://maitred:PASSWORD@db.example/maitred maitred serve")]
    Serve(serve::Serve),
    /// Print access tokens for synthetic guests, one a line.
    #[command(after_help = "Example:\n  maitred token --count 1000 --data ./data > tokens.txt")]
    Token(token::Token),
    /// Print the effective configuration, without secrets.
    #[command(after_help = "Example:\n  MAITRED_LANE_MAX_BATCH=256 maitred config > maitred.toml")]
    Config(Flags),
    /// Bring the database to this version and say what was done.
    #[command(after_help = "Example:\n  maitred migrate --data ./data")]
    Migrate(Flags),
    /// Say whether any slot was oversold, anyone booked twice or overtaken, any money made or lost.
    #[command(
        long_about = "Say whether any slot was oversold, anyone booked twice or overtaken, any money made or lost.\n\n\
                      Replays the decision log of a live or restored database and compares it with what is stored, by \
                      code that shares nothing with the server's. Reads one snapshot, never writes, and exits with 1 if \
                      anything is wrong.",
        after_help = "Example:\n  maitred audit --data ./data\n  maitred audit --data ./restored --json > report.json"
    )]
    Audit(audit::Audit),
    /// Send synthetic guests at a running server, and say whether everybody was treated right.
    #[command(
        long_about = "Send synthetic guests at a running server, and say whether everybody was treated right.\n\n\
                      Guests come when the plan says, whether or not the server keeps up; each has an account of its own, \
                      presses the button, waits in line as a browser does, and some pay. They book for real: rehearse \
                      against slots that nobody else uses. Exits with 1 if a place was sold twice, anybody overtaken, or \
                      an answer lost.",
        after_help = "Example:\n  maitred rehearse http://127.0.0.1:8080 --venue 1 --slot \"2026-12-24 12:00\" --guests 10000\n  \
                      maitred rehearse http://10.0.0.1:8080 http://10.0.0.2:8080 --venue 1 --slot \"2026-12-24 12:00\" \\\n      \
                      --arrive \"poisson 500/s\" --party 1-6 --abandon 10% --pay 60% --tokens tokens.txt --report out.html"
    )]
    Rehearse(rehearse::Rehearse),
    /// Replace the key that signs tokens.
    #[command(after_help = "Example:\n  maitred keys rotate --data ./data")]
    Keys(keys::Keys),
    /// Print the OpenAPI document.
    #[command(after_help = "Example:\n  maitred openapi > openapi.json")]
    Openapi,
}

/// Runs the program.
pub fn run() -> ExitCode {
    // Wrong usage exits with 2, help and version with 0.
    let cli = Cli::parse();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("maitred: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(serve) => serve.run()?,
        Command::Token(token) => token.run()?,
        Command::Config(flags) => print(&Config::load(&flags)?.shown())?,
        Command::Migrate(flags) => migrate(&Config::load(&flags)?)?,
        Command::Audit(audit) => return audit.run(),
        Command::Rehearse(rehearse) => return rehearse.run(),
        Command::Keys(keys) => keys.run()?,
        Command::Openapi => print(&http::openapi())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn migrate(config: &Config) -> anyhow::Result<()> {
    let database = config.store()?;
    if let store::Database::Sqlite(_) = database {
        make_folder(&config.data)?;
    }
    let steps = runtime()?.block_on(async {
        let steps = store::Store::migrate(&database).await.map_err(|error| unopened(&database, error))?;
        // Opening it shows that it is usable.
        open(config).await?.close();
        anyhow::Ok(steps)
    })?;
    let done = if steps.is_empty() { "nothing to do".to_owned() } else { steps.join(", ") };
    print(&format!("{database}: {done}\n"))
}

/// For commands that only talk to the database.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Prints, and takes it calmly when the reader has had enough.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
