use fairlane::{Client, Error, locked};

#[locked(client = locks, key = "a", timeout = "2s")]
async fn hold(locks: &Client) -> Result<(), Error> {
    Ok(())
}

fn main() {}
