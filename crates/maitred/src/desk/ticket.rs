//! A ticket: a place in line, its request, later its answer. It is the place: whoever holds it can come back for the
//! answer, from any connection.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use booking::{Command, Decision, Outcome, TicketId};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::admission::Hold;

/// A place in line.
pub struct Ticket {
    /// What is wanted, by whom, in which place.
    pub command: Command,
    /// The `Idempotency-Key` it was asked with. Boxed: most tickets have none, and a line of them should stay small.
    pub key: Option<Box<Key>>,
    /// When it entered, by the monotonic clock: for measuring, not for deciding.
    pub since: Instant,
    /// What stops the same person from asking twice, until there is an answer.
    hold: OnceLock<Hold>,
    answer: OnceLock<Answer>,
    stalled: AtomicBool,
    changed: Notify,
}

/// A key that a request came with.
#[derive(Debug, Clone)]
pub struct Key {
    /// The key as it was sent.
    pub text: Box<str>,
    /// A hash of the body it was sent with.
    pub body: [u8; 32],
}

/// How a ticket ended.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It was decided.
    Decided(Box<Settled>),
    /// The person left the line.
    Left,
    /// Its key was used for another request, at another process at the same moment; nothing was stored.
    KeyMismatch,
    /// The batch died of an error of ours; nothing was stored.
    Failed,
}

/// A decision, with what is needed to explain it.
#[derive(Debug, Clone)]
pub struct Settled {
    /// How it ended.
    pub outcome: Outcome,
    /// The line in the log.
    pub decision: Decision,
    /// When.
    pub decided_at: Timestamp,
    /// The batch that decided it.
    pub batch: u64,
}

/// What came of waiting.
pub enum Waited<'a> {
    /// There is an answer.
    Answered(&'a Answer),
    /// The store is in trouble: the ticket keeps its place, the caller need not wait in the call.
    Stalled,
    /// The time is up.
    StillWaiting,
}

impl Ticket {
    pub(super) fn new(command: Command, key: Option<Key>, hold: Option<Hold>) -> Self {
        Self {
            command,
            key: key.map(Box::new),
            since: Instant::now(),
            hold: hold.map_or_else(OnceLock::new, OnceLock::from),
            answer: OnceLock::new(),
            stalled: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Which ticket.
    pub fn id(&self) -> TicketId {
        self.command.ticket
    }

    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.get()
    }

    /// Waits for the answer, for so long at most.
    pub async fn wait(&self, patience: Duration) -> Waited<'_> {
        let deadline = Instant::now() + patience;
        loop {
            let changed = self.changed.notified();
            if let Some(answer) = self.answer.get() {
                return Waited::Answered(answer);
            }
            if self.stalled.load(Ordering::Acquire) {
                return Waited::Stalled;
            }
            if patience.is_zero() || tokio::time::timeout_at(deadline, changed).await.is_err() {
                return self.answer.get().map_or(Waited::StillWaiting, Waited::Answered);
            }
        }
    }

    /// Waits until there is an answer or anything else to look at, for so long at most.
    pub async fn changed_within(&self, patience: Duration) {
        let changed = self.changed.notified();
        if self.answer.get().is_none() {
            let _ = tokio::time::timeout(patience, changed).await;
        }
    }

    /// Answers, once; and lets the same person ask again, at once after a refusal and a while after a success.
    pub(super) fn settle(&self, answer: Answer) {
        let won = matches!(&answer, Answer::Decided(settled) if matches!(settled.outcome, Outcome::Done(_)));
        if self.answer.set(answer).is_ok() {
            if let Some(hold) = self.hold.get() {
                hold.end(won);
            }
            self.changed.notify_waiters();
        }
    }

    /// Lets go of those who wait in the call, because it may take long.
    pub(super) fn stall(&self) {
        self.stalled.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}
