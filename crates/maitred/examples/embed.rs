//! maitred inside another program: its own venue, its own port, and an end.
//!
//! ```sh
//! cargo run -p maitred --example embed
//! ```

use std::path::PathBuf;

use booking::Inventory;
use booking::policy::Policy;
use booking::venue::{Kind, Settings, WeekTimes, Zone};
use maitred::clock::Clock;
use maitred::config::{Config, Flags};
use maitred::server::{Server, open_store};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let data: PathBuf = std::env::temp_dir().join(format!("maitred-embed-{}", std::process::id()));
    let flags = Flags { listen: Some("127.0.0.1:0".parse()?), data: Some(data.clone()), ..Flags::default() };
    let config = Config::load(&flags)?;

    let store = open_store(&config.data)?;
    let settings = Settings {
        name: "Six at the counter".into(),
        kind: Kind::Restaurant,
        inventory: Inventory::Places { capacity: 6 },
        time_zone: Zone::named("Asia/Seoul").ok_or_else(|| anyhow::anyhow!("no such zone"))?,
        times: WeekTimes::daily(18, 21),
        book_ahead_days: 30,
        shows: vec![],
        requests_per_second: None,
        policy: Policy::default(),
    };
    let venue = store.add_venue(settings, vec![], vec![]).await?;

    let server = Server::start(&config, store, Clock::System).await?;
    println!("{} is open at http://{}/api/venues/{}", venue.settings.name, server.address(), venue.id);
    server.stop().await;
    std::fs::remove_dir_all(data)?;
    Ok(())
}
