//! One request at a time.

use std::time::Duration;

use fairlane::{Claim, Error};
use tokio::time::sleep;

use crate::world::{LONG, World};

crate::behaviours!(the_second_click_is_refused, only_the_owner_clears, a_claim_ends);

/// A5: kept until the outcome, 5 s longer after a success, cleared by a refusal.
async fn the_second_click_is_refused(world: World) {
    let guard = world.client().await.guard("guest:7/slot:12");
    assert_eq!(guard.claim("ticket-1", LONG).await.unwrap(), Claim::Claimed);
    assert_eq!(guard.claim("ticket-1", LONG).await.unwrap(), Claim::Claimed, "repeating it changes nothing");
    match guard.claim("ticket-2", LONG).await.unwrap() {
        Claim::Held { owner, remaining } => {
            assert!(owner == "ticket-1" && remaining <= LONG && !remaining.is_zero())
        }
        Claim::Claimed => panic!("claimed twice"),
    }
    assert!(guard.keep("ticket-1", Duration::from_secs(5)).await.unwrap());
    match guard.claim("ticket-2", LONG).await.unwrap() {
        Claim::Held { remaining, .. } => assert!(remaining <= Duration::from_secs(5)),
        Claim::Claimed => panic!("claimed twice"),
    }
    assert!(matches!(world.client().await.guard("").claim("x", LONG).await, Err(Error::EmptyKey)));
}

async fn only_the_owner_clears(world: World) {
    let guard = world.client().await.guard("a");
    guard.claim("one", LONG).await.unwrap();
    assert!(!guard.clear("other").await.unwrap() && !guard.keep("other", LONG).await.unwrap());
    assert!(guard.clear("one").await.unwrap());
    assert!(!guard.clear("one").await.unwrap());
    assert_eq!(guard.claim("other", LONG).await.unwrap(), Claim::Claimed);
}

async fn a_claim_ends(world: World) {
    let guard = world.client().await.guard("a");
    guard.claim("one", Duration::from_millis(50)).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(guard.claim("other", LONG).await.unwrap(), Claim::Claimed);
}
