use fairlane::{Client, Error, locked};

#[locked(client = locks, key = "seat:{seat")]
async fn hold(locks: &Client, seat: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
