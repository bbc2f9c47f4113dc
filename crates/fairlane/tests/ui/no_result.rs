use fairlane::{Client, Error, locked};

#[locked(client = locks, key = "a")]
async fn hold(locks: &Client) {
    let _: Option<Error> = None;
}

fn main() {}
