//! Passwords, hashed with argon2id. It is slow and takes memory on purpose, so only a few are hashed at the same time,
//! and a crowd at the sign-in page is told to come back instead of pushing everybody else aside.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Hashes at the same time: each takes 19 MiB and a core.
const AT_ONCE: usize = 2;
/// Requests that may wait for one of those.
const WAITING: usize = 64;

/// Hashes and verifies, a few at a time.
#[derive(Clone)]
pub struct Passwords {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// Too many wait already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowded;

impl Default for Passwords {
    fn default() -> Self {
        Self { working: Arc::new(Semaphore::new(AT_ONCE)), waiting: Arc::new(Semaphore::new(WAITING)) }
    }
}

impl Passwords {
    /// The hash of a password, in PHC format.
    pub async fn hash(&self, password: String) -> Result<String, Crowded> {
        let hash = move || Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string());
        // Hashing fails only for parameters out of range, and these are the defaults.
        self.work(hash).await?.map_err(|_| Crowded)
    }

    /// Whether the password has this hash. Without a hash it takes as long and says no, so that nobody learns from the
    /// time whether an account exists.
    pub async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, Crowded> {
        self.work(move || {
            let Some(hash) = hash else {
                let _ = Argon2::default().hash_password(password.as_bytes());
                return false;
            };
            PasswordHash::new(&hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
        })
        .await
    }

    async fn work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Crowded> {
        let _waiting: SemaphorePermit<'_> = self.waiting.try_acquire().map_err(|_| Crowded)?;
        let _working = self.working.acquire().await.map_err(|_| Crowded)?;
        tokio::task::spawn_blocking(work).await.map_err(|_| Crowded)
    }
}
