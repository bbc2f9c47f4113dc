//! What a successful acquire returns.

use std::fmt;
use std::sync::Arc;

use crate::backend::{Left, Target};
use crate::error::{Error, Result};
use crate::lease::Grip;
use crate::{Client, Lease};

/// Something held: a [`Lock`](crate::Lock), a [`FairLock`](crate::FairLock) or permits of a
/// [`Semaphore`](crate::Semaphore).
///
/// Dropping it gives it back: at once in-process, over Redis in the background by the client. Prefer
/// [`release`](Self::release) where the outcome matters, and before the program ends.
#[must_use = "what is held is given back as soon as this is dropped"]
pub struct Held {
    client: Client,
    grip: Arc<Grip>,
    given_back: bool,
}

impl Held {
    pub(crate) fn new(client: Client, grip: Grip) -> Self {
        let grip = Arc::new(grip);
        client.backend().keep(&grip);
        Self { client, grip, given_back: false }
    }

    /// A number that is higher than that of every earlier grant of the same key. Send it with every write and let the
    /// resource refuse lower ones than it has seen: that, and nothing else, stops a holder that was paused past its
    /// lease.
    pub fn fencing_token(&self) -> u64 {
        self.grip.token
    }

    /// The key this was acquired on.
    pub fn key(&self) -> &str {
        self.grip.target.name()
    }

    /// Permits held; 1 for locks.
    pub fn permits(&self) -> u32 {
        self.grip.permits
    }

    /// The lease it was acquired with.
    pub fn lease(&self) -> Lease {
        self.grip.lease
    }

    /// Whether the lease is known to be gone. `false` is no promise: a paused process cannot know.
    pub fn is_lost(&self) -> bool {
        self.grip.is_lost()
    }

    /// Resolves when the lease is lost: it ran out, could not be renewed in time, or Redis forgot it. Race it against
    /// the work, and stop when it wins.
    pub async fn lost(&self) {
        self.grip.lost().await;
    }

    /// Gives it back and says whether it was still held.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lease had ended before; [`Error::Unavailable`] if Redis did not answer, in which case
    /// the client goes on trying in the background.
    pub async fn release(mut self) -> Result<()> {
        let late = self.grip.is_lost();
        self.client.backend().let_go(&self.grip);
        self.grip.mark_released();
        // On an error or a cancelled call `given_back` stays false, and dropping `self` tries again.
        let left = match &self.grip.target {
            Target::Queue(key) => self.client.backend().leave(key, &self.grip).await?,
            Target::Lock(key) => self.client.backend().unlock(key, &self.grip).await?,
        };
        self.given_back = true;
        if late || left == Left::Lost {
            return Err(Error::Lost { key: self.key().to_owned() });
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.given_back {
            self.client.backend().let_go(&self.grip);
            self.grip.mark_released();
            match &self.grip.target {
                Target::Queue(key) => self.client.backend().abandon(key, &self.grip.ticket),
                Target::Lock(key) => self.client.backend().abandon_lock(key, &self.grip.ticket),
            }
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("key", &self.key())
            .field("fencing_token", &self.fencing_token())
            .field("permits", &self.permits())
            .finish_non_exhaustive()
    }
}
