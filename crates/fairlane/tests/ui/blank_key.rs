use fairlane::{Client, Error, locked};

#[locked(client = locks, key = " ")]
async fn hold(locks: &Client) -> Result<(), Error> {
    Ok(())
}

fn main() {}
