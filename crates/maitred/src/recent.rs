//! What was read a moment ago: when many ask for the same at once, one reads it and the others share that.
//!
//! A hot page costs one query each moment, however many look at it, and a server that has just started is not overrun by
//! everybody asking for the same row.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use store::Error;
use tokio::time::Instant;

/// What nobody has asked for in so long is forgotten.
const IDLE: Duration = Duration::from_secs(60);

/// What was read, and since when that was true; or why it could not be.
type Copy<V> = Arc<tokio::sync::Mutex<Option<(Instant, Result<V, Error>)>>>;

/// Copies by key.
pub struct Recent<K, V> {
    copies: Mutex<HashMap<K, (Instant, Copy<V>)>>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { copies: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// What is read now, or was read since this instant. Those who wait while one reads share what the next one reads.
    pub async fn since<F: Future<Output = Result<V, Error>>>(
        &self,
        since: Instant,
        key: K,
        read: impl FnOnce() -> F,
    ) -> Result<V, Error> {
        let copy = {
            let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
            let (used, copy) = copies.entry(key).or_insert_with(|| (since, Copy::default()));
            *used = Instant::now();
            copy.clone()
        };
        let mut copy = copy.lock().await;
        if let Some((at, known)) = &*copy
            && *at >= since
        {
            return known.clone();
        }
        let at = Instant::now();
        let known = read().await;
        *copy = Some((at, known.clone()));
        known
    }

    /// What is read now, or was read so long ago at most.
    pub async fn within<F: Future<Output = Result<V, Error>>>(
        &self,
        age: Duration,
        key: K,
        read: impl FnOnce() -> F,
    ) -> Result<V, Error> {
        let now = Instant::now();
        self.since(now.checked_sub(age).unwrap_or(now), key, read).await
    }

    /// Forgets what nobody asks for.
    pub fn tidy(&self) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|_, (used, _)| used.elapsed() < IDLE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn however_many_ask_at_once_one_reads() {
        let (recent, reads) = (Recent::<u32, usize>::default(), AtomicUsize::new(0));
        let read = || async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok(reads.fetch_add(1, Ordering::Relaxed))
        };
        let asking = (0..100).map(|_| recent.within(Duration::from_millis(200), 1, read));
        let told = futures_util::future::join_all(asking).await;
        assert!(told.iter().all(|told| matches!(told, Ok(0))));
        tokio::time::advance(Duration::from_millis(201)).await;
        assert!(
            matches!(recent.within(Duration::from_millis(200), 1, read).await, Ok(1)),
            "that was too old"
        );
        // What is asked for now is not answered with what was read before.
        assert!(matches!(recent.since(Instant::now(), 1, read).await, Ok(2)));
        tokio::time::advance(IDLE).await;
        recent.tidy();
        assert!(recent.copies.lock().unwrap().is_empty());
    }
}
