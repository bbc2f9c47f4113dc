//! The same over Redis, between processes: start it twice.
//!
//! `REDIS_URL=redis://127.0.0.1:6379/ cargo run -p fairlane --features redis --example redis`

use std::time::Duration;

use fairlane::{Client, Error, Lease, RedisConfig};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379/".to_owned());
    let client = Client::redis(RedisConfig::single(url)).await?;
    let lock = client.fair_lock("printer").with_lease(Lease::Renewing(Duration::from_secs(10)));

    println!("{} in line; waiting", lock.waiting().await?);
    let held = lock.acquire().await?;
    println!("ours, token {}; printing", held.fencing_token());

    // Work, but stop when the lease is lost: somebody else may be printing by then.
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(5)) => println!("printed"),
        () = held.lost() => println!("lost the printer"),
    }
    match held.release().await {
        Err(Error::Lost { .. }) => println!("somebody else has it already"),
        other => other?,
    }
    Ok(())
}
