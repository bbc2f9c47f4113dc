use fairlane::{Client, Error, locked};

#[locked(client = locks, key = "a")]
async fn hold(locks: &Client) -> Result<(), std::num::ParseIntError> {
    let _: Option<Error> = None;
    Ok(())
}

fn main() {}
