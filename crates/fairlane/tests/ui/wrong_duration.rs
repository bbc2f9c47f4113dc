use fairlane::{Client, Error, locked};

#[locked(client = locks, key = "a", wait = "2 hours")]
async fn hold(locks: &Client) -> Result<(), Error> {
    Ok(())
}

fn main() {}
