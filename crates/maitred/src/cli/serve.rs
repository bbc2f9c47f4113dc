//! `maitred serve`.

use std::io::IsTerminal;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::clock::Clock;
use crate::config::{Config, Flags, Log, LogFormat};
use crate::demo;
use crate::server::{Server, open};

#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    #[command(flatten)]
    flags: Flags,
    /// Add four venues and people to try them with
    #[arg(long)]
    demo: bool,
}

impl Serve {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = Config::load(&self.flags)?;
        start_log(&config.log);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve(&config))
    }

    async fn serve(self, config: &Config) -> anyhow::Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        let (store, clock) = (open(config).await?, Clock::System);
        if self.demo {
            super::print(&demo::seed(&store, clock.now()).await?)?;
        }
        let server = Server::start(config, store, clock).await?;
        let address = server.address();
        if self.demo {
            server.app().rehearsals.allow(address);
        }
        super::print(&format!("maitred serves on http://{address} (API: http://{address}/docs)\n"))?;
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: deciding who is in line, then stopping"),
            _ = interrupt.recv() => tracing::info!("interrupted: deciding who is in line, then stopping"),
        }
        server.stop().await;
        tracing::info!("stopped");
        Ok(())
    }
}

fn start_log(log: &Log) {
    let filter = EnvFilter::try_new(&log.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}
