use fairlane::{Client, Error, locked};

struct Seat {
    id: u64,
}

#[locked(client = locks, key = "seat:{seat.number}")]
async fn hold(locks: &Client, seat: Seat) -> Result<u64, Error> {
    Ok(seat.id)
}

fn main() {}
