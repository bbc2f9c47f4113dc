use fairlane::{Client, Error, locked};

#[locked(client = locks, key = "{rows[]}:{seats[]}")]
async fn hold(locks: &Client, rows: &[u32], seats: &[u32]) -> Result<(), Error> {
    Ok(())
}

fn main() {}
