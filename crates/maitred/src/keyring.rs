//! The server's keys as they are kept, read again when they may have changed.
//!
//! `maitred keys rotate` puts a new key in front of the others while servers run. A server that meets a token of a key it
//! does not know looks whether there is a new one, once a second at most, and looks now and then in any case.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use store::postgres::Options;
use tokio::time::Instant;

use crate::signing::{Claim, Signer};

/// How often tokens of unknown keys may make the server look.
const SOON: Duration = Duration::from_secs(1);
/// How often it looks in any case.
const OFTEN: Duration = Duration::from_secs(30);

/// Where keys are kept.
#[derive(Debug, Clone)]
pub enum Kept {
    /// In the configuration: they do not change while the server runs.
    Configured,
    /// In a folder, beside the database.
    Folder(PathBuf),
    /// In the database.
    Database(Options),
}

/// The keys, and where they are kept.
pub struct Keyring {
    signer: RwLock<Arc<Signer>>,
    kept: Kept,
    looked: Mutex<Instant>,
    looking: tokio::sync::Mutex<()>,
}

impl Keyring {
    /// These keys, which are kept there.
    pub fn new(signer: Signer, kept: Kept) -> Self {
        let signer = RwLock::new(Arc::new(signer));
        Self { signer, kept, looked: Mutex::new(Instant::now()), looking: tokio::sync::Mutex::default() }
    }

    fn signer(&self) -> Arc<Signer> {
        self.signer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A token for these claims.
    pub fn sign<C: Claim>(&self, claims: &C) -> String {
        self.signer().sign(claims)
    }

    /// The claims of a token that the server signed, that is for this, and that is good now.
    pub async fn verify<C: Claim>(&self, token: &str, now: Timestamp) -> Option<C> {
        let since = self.looked.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        let known = self.signer().knows(token);
        if since >= OFTEN || !known && since >= SOON {
            self.look(since).await;
        }
        self.signer().verify(token, now)
    }

    /// Reads the keys again, once for all who came for it.
    async fn look(&self, since: Duration) {
        let Ok(_one) = self.looking.try_lock() else { return };
        let looked = || self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked().elapsed() < since {
            return;
        }
        match tokio::time::timeout(SOON, self.kept.read()).await {
            Ok(Ok(Some(signer))) => {
                *self.signer.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(signer);
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the keys could not be read again"),
            Err(_) => tracing::warn!("the keys could not be read again in time"),
        }
        *looked() = Instant::now();
    }
}

impl Kept {
    /// The keys as they are kept now; nothing where they do not change.
    async fn read(&self) -> anyhow::Result<Option<Signer>> {
        match self {
            Self::Configured => Ok(None),
            Self::Folder(folder) => {
                let folder = folder.clone();
                tokio::task::spawn_blocking(move || Signer::kept_in(&folder)).await?.map(Some)
            }
            Self::Database(options) => {
                let keys = store::postgres::signing_keys(options, rand::random()).await?;
                Signer::with_keys(keys).map(Some)
            }
        }
    }
}
