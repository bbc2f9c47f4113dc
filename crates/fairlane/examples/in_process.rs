//! Fair coordination inside one process: `cargo run -p fairlane --example in_process`.

use std::time::Duration;

use fairlane::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::in_process();

    // One at a time, first come, first served.
    let lock = client.fair_lock("till");
    let held = lock.acquire().await?;
    println!("the till is ours, token {}", held.fencing_token());

    // Somebody waits, gives up for now, and keeps the place.
    let ticket = match lock.try_acquire(Duration::from_millis(50)).await {
        Err(Error::TimedOut { ticket: Some(ticket), .. }) => ticket,
        other => panic!("the till is taken, so this must time out: {other:?}"),
    };
    let ahead = lock.position(&ticket).await?.map_or(0, |position| position.ahead);
    println!("in line with ticket {ticket}, {ahead} ahead");
    held.release().await?;
    lock.resume(&ticket, Duration::from_secs(1)).await?.release().await?;

    // So many at a time; so many a second.
    let permits = client.semaphore("ovens", 3).acquire(2).await?;
    println!("{} of 3 ovens are ours", permits.permits());
    permits.release().await?;
    let limiter = client.rate_limiter("orders", 2, Duration::from_secs(1));
    for order in 1..=3 {
        println!("order {order}: {:?}", limiter.check().await?);
    }
    Ok(())
}
