//! Locks declared on functions: `cargo run -p fairlane --features macros --example locked`.

use fairlane::{Client, Error, locked};

struct BoxOffice {
    locks: Client,
}

#[derive(Debug)]
enum Refused {
    SeatTaken,
    Locks(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Busy { .. } => Self::SeatTaken,
            other => Self::Locks(other),
        }
    }
}

impl BoxOffice {
    /// One lock for each seat, all or none, without waiting: two people on one seat, one wins.
    #[locked(client = self.locks, key = "concert:{concert}:seat:{seats[]}", wait = "0", lease = "3s")]
    async fn hold(&self, concert: &str, seats: &[u32]) -> Result<String, Refused> {
        tokio::task::yield_now().await;
        Ok(format!("seats {seats:?} of {concert} are held"))
    }
}

#[tokio::main]
async fn main() {
    let office = BoxOffice { locks: Client::in_process() };
    let (one, other) =
        tokio::join!(office.hold("opening night", &[11, 12]), office.hold("opening night", &[12, 13]));
    for outcome in [one, other] {
        match outcome {
            Ok(held) => println!("{held}"),
            Err(Refused::SeatTaken) => println!("somebody was faster"),
            Err(Refused::Locks(error)) => println!("no answer: {error}"),
        }
    }
}
