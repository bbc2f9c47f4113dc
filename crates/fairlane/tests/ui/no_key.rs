use fairlane::{Client, Error, locked};

#[locked(client = locks)]
async fn hold(locks: &Client) -> Result<(), Error> {
    Ok(())
}

fn main() {}
