use fairlane::{Client, Error, locked};

#[locked(key = "a")]
async fn hold(locks: &Client) -> Result<(), Error> {
    Ok(())
}

fn main() {}
