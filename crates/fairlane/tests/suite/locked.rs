//! `#[locked]`: what it locks, how it fails, and what it refuses to compile.

use std::collections::BTreeSet;
use std::time::Duration;

use fairlane::{Client, Error, locked};

use crate::world::World;

#[derive(Debug)]
enum Failure {
    Locks(Error),
    Own,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Locks(error)
    }
}

struct Order {
    venue: Venue,
    lines: Vec<(u32, String)>,
}

struct Venue {
    id: String,
}

struct Desk {
    locks: Client,
}

impl Desk {
    /// Which of the keys are taken while the function runs.
    async fn taken(&self, keys: &[&str]) -> Vec<bool> {
        let mut taken = Vec::new();
        for key in keys {
            taken.push(self.locks.fair_lock(key).try_acquire(Duration::ZERO).await.is_err());
        }
        taken
    }

    #[locked(client = self.locks, key = "seat:{seat_id}", wait = "0", lease = "3s")]
    async fn one(&self, seat_id: u64, probe: &[&str]) -> Result<Vec<bool>, Failure> {
        if seat_id == 13 {
            return Err(Failure::Own);
        }
        Ok(self.taken(probe).await)
    }

    #[locked(client = self.locks, key = "venue:{order.venue.id}", key = "line:{order.lines[].1}")]
    async fn fields(&self, order: &Order, probe: &[&str]) -> Result<Vec<bool>, Error> {
        assert!(order.lines.iter().all(|(count, _)| *count > 0));
        Ok(self.taken(probe).await)
    }

    #[locked(client = self.locks, key = "{{{prefix}}}:{seats[]}", wait = "50ms", sort = false)]
    async fn each(&self, prefix: &str, seats: BTreeSet<String>, probe: &[&str]) -> Result<Vec<bool>, Error> {
        drop(seats);
        Ok(self.taken(probe).await)
    }

    #[locked(client = &self.locks, key = "short", lease = "20ms")]
    async fn too_slow(&self, nap: Duration) -> Result<(), Error> {
        tokio::time::sleep(nap).await;
        Ok(())
    }
}

crate::behaviours!(keys_come_from_arguments, every_failure_is_its_own);

async fn keys_come_from_arguments(world: World) {
    let desk = Desk { locks: world.client().await };
    assert_eq!(desk.one(7, &["seat:7", "seat:8"]).await.unwrap(), [true, false]);
    let lines = vec![(1, " a ".to_owned()), (2, "a".to_owned()), (1, "b".to_owned())];
    let order = Order { venue: Venue { id: "x".to_owned() }, lines };
    let taken = desk.fields(&order, &["venue:x", "line:a", "line:b", "line: a "]).await.unwrap();
    assert_eq!(taken, [true, true, true, false]);
    let seats = ["1", "2"].map(str::to_owned).into();
    assert_eq!(desk.each("s", seats, &["{s}:1", "{s}:2", "{s}:3"]).await.unwrap(), [true, true, false]);
    assert_eq!(desk.taken(&["seat:7", "venue:x", "line:a", "{s}:1"]).await, [false; 4], "all are released");
}

/// C9: busy, timed out, an empty key, no key and a failed unlock are told apart.
async fn every_failure_is_its_own(world: World) {
    let desk = Desk { locks: world.client().await };
    assert!(matches!(desk.one(13, &[]).await, Err(Failure::Own)));
    assert_eq!(desk.taken(&["seat:13"]).await, [false]);

    let held = desk.locks.multi_lock(["seat:7", "{s}:1"]).acquire().await.unwrap();
    assert!(matches!(desk.one(7, &[]).await, Err(Failure::Locks(Error::Busy { key })) if key == "seat:7"));
    let one = BTreeSet::from(["1".to_owned()]);
    assert!(
        matches!(desk.each("s", one.clone(), &[]).await, Err(Error::TimedOut { key, .. }) if key == "{s}:1")
    );
    held.release().await.unwrap();

    assert!(matches!(desk.each("  ", one, &[]).await, Err(Error::EmptyKey)));
    assert!(matches!(desk.each("s", BTreeSet::from([String::new()]), &[]).await, Err(Error::EmptyKey)));
    assert!(matches!(desk.each("s", BTreeSet::new(), &[]).await, Err(Error::NoKeys)));
    desk.too_slow(Duration::ZERO).await.unwrap();
    assert!(matches!(desk.too_slow(Duration::from_millis(100)).await, Err(Error::Lost { .. })));
}

/// What cannot work does not compile, and the message points at what is wrong.
#[test]
fn mistakes_are_compile_errors() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
