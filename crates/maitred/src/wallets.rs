//! Charging wallets: parallel charges gather at a counter and share a transaction (C4).
//!
//! Lines are not one a wallet but a few for all of them: the charges of one wallet always meet in the same line, and those of
//! a thousand wallets still share their commits. Every charge has a key, its own or the client's, so a batch whose commit
//! was not heard of is simply brought again.

use std::sync::Arc;
use std::time::Duration;

use booking::{PersonId, Won};
use fairlane::lane::{Bounds, Side};
use store::{Charge, ChargeError, Entry, Error, Store};
use tokio::task::JoinHandle;

use crate::chance;
use crate::clock::Clock;
use crate::counter::{Clerk, Counter, Unserved};

/// Lines for all wallets.
const LINES: u128 = 4;
/// How often a batch is brought to the store before anybody sees an error (C4), and the pause in between.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// The counter at which wallets are charged.
pub struct Wallets {
    counter: Arc<Counter<Cashier>>,
    clock: Clock,
}

/// Why nothing was charged.
#[derive(Debug, thiserror::Error)]
pub enum Uncharged {
    /// The wallet does not take it, or the store did not answer.
    #[error(transparent)]
    Refused(#[from] ChargeError),
    /// There was nobody to ask.
    #[error(transparent)]
    Unserved(#[from] Unserved),
}

struct Cashier {
    store: Arc<Store>,
}

impl Clerk for Cashier {
    type Key = u128;
    type Wish = Charge;
    type Answer = Result<Entry, ChargeError>;

    async fn serve(&self, _: &u128, charges: &[Charge]) -> Vec<Self::Answer> {
        let mut tries = 1;
        loop {
            match self.store.charge_all(charges.to_vec()).await {
                Ok(told) => {
                    #[expect(clippy::cast_precision_loss, reason = "a batch is shorter than 2^52")]
                    metrics::histogram!("maitred_charges_size").record(charges.len() as f64);
                    return told;
                }
                Err(Error::Unavailable(_)) if tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(PAUSE.mul_f64(chance::within(0.5..1.0))).await;
                }
                Err(error) => return charges.iter().map(|_| Err(error.clone().into())).collect(),
            }
        }
    }
}

impl Wallets {
    /// The counter with its runners.
    pub fn open(store: Arc<Store>, clock: Clock, bounds: Bounds) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let runners = usize::try_from(LINES).unwrap_or(1);
        let (counter, runners) = Counter::open(Cashier { store }, bounds, runners);
        (Arc::new(Self { counter, clock }), runners)
    }

    /// Puts points into a wallet; with a key, once.
    pub async fn charge(
        &self,
        person: PersonId,
        amount: Won,
        key: Option<String>,
    ) -> Result<Entry, Uncharged> {
        // What stands for itself must be told from whatever a client may send.
        let key = key.unwrap_or_else(|| format!("\u{1}{:032x}", chance::bits()));
        let charge = Charge { person, amount, key: Some(key), at: self.clock.now() };
        Ok(self.counter.ask(person.0 % LINES, Side::Guest, charge).await??)
    }

    /// Serves whoever is in line, and ends the runners.
    pub async fn close(&self, patience: Duration) {
        self.counter.close(patience).await;
    }
}
