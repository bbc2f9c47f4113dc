//! Lanes that this process should run: each once, in the order in which they became ready.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use booking::SlotId;
use tokio::sync::Semaphore;

#[derive(Default)]
struct Lists {
    queue: VecDeque<SlotId>,
    /// Those in the queue or being run; whether something has come up meanwhile.
    busy: HashMap<SlotId, bool>,
}

pub(super) struct Ready {
    lists: Mutex<Lists>,
    /// One permit for each in the queue.
    turns: Semaphore,
}

impl Ready {
    pub(super) fn new() -> Self {
        Self { lists: Mutex::default(), turns: Semaphore::new(0) }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane has something to do. One that is being run just now is looked at once more afterwards.
    pub(super) fn push(&self, slot: SlotId) {
        let mut lists = self.lists();
        if let Some(again) = lists.busy.get_mut(&slot) {
            *again = true;
            return;
        }
        lists.busy.insert(slot, false);
        lists.queue.push_back(slot);
        self.turns.add_permits(1);
    }

    /// Waits for a lane to run; `None` after [`Ready::close`].
    pub(super) async fn next(&self) -> Option<SlotId> {
        self.turns.acquire().await.ok()?.forget();
        let mut lists = self.lists();
        let slot = lists.queue.pop_front()?;
        lists.busy.insert(slot, false);
        Some(slot)
    }

    /// Whether other lanes wait for somebody to run them.
    pub(super) fn others_wait(&self) -> bool {
        !self.lists().queue.is_empty()
    }

    /// The lane was run; `more` if there is more to do.
    pub(super) fn done(&self, slot: SlotId, more: bool) {
        let mut lists = self.lists();
        if lists.busy.remove(&slot) == Some(true) || more {
            lists.busy.insert(slot, false);
            lists.queue.push_back(slot);
            self.turns.add_permits(1);
        }
    }

    pub(super) fn close(&self) {
        self.turns.close();
    }
}
