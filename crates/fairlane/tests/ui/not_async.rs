use fairlane::{Client, Error, locked};

#[locked(client = locks, key = "a")]
fn hold(locks: &Client) -> Result<(), Error> {
    Ok(())
}

fn main() {}
