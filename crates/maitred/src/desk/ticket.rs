//! A ticket: a place in line, its request, later its answer. It is the place: whoever holds it can come back for the
//! answer, from any connection.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use booking::{Command, Decision, Outcome, TicketId};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::guards::Name;

/// A place in line.
pub struct Ticket {
    /// What is wanted, by whom, in which place.
    pub command: Command,
    /// The `Idempotency-Key` it was asked with. Boxed: most tickets have none, and a line of them should stay small.
    pub key: Option<Box<Key>>,
    /// When it entered, by the monotonic clock: for measuring, not for deciding.
    pub since: Instant,
    /// The process that took the request, unless it was this one.
    pub(super) origin: Option<Box<str>>,
    /// Names the request, however often it is sent.
    pub(super) request: u64,
    /// Its number in a lane of this process; 0 while it stands in a shared one.
    pub(super) here: AtomicU64,
    /// The life of the shared lane in which it stands.
    pub(super) life: AtomicU32,
    /// It is being decided by this process.
    pub(super) in_hand: AtomicBool,
    /// It has stood in another line before: its number tells nothing about the one in which it stands.
    pub(super) again: AtomicBool,
    answer: OnceLock<Answer>,
    /// Those who wait in the call are let go.
    let_go: AtomicBool,
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

impl Answer {
    pub(super) fn is_won(&self) -> bool {
        matches!(self, Self::Decided(settled) if matches!(settled.outcome, Outcome::Done(_)))
    }
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
    pub(super) fn new(command: Command, key: Option<Key>, request: u64) -> Self {
        Self {
            command,
            key: key.map(Box::new),
            since: Instant::now(),
            origin: None,
            request,
            here: AtomicU64::new(0),
            life: AtomicU32::new(0),
            in_hand: AtomicBool::new(false),
            again: AtomicBool::new(false),
            answer: OnceLock::new(),
            let_go: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Which ticket.
    pub fn id(&self) -> TicketId {
        self.command.ticket
    }

    /// What nobody else can ask for meanwhile.
    pub(super) fn name(&self) -> Name {
        Name::of(self.command.ticket.slot, self.command.person, &self.command.action)
    }

    /// Whether it stands in a shared lane and this process is not deciding it.
    pub(super) fn stands_elsewhere(&self) -> bool {
        self.here.load(Ordering::Acquire) == 0 && !self.in_hand.load(Ordering::Acquire)
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
            let over = patience.is_zero() || self.let_go.load(Ordering::Acquire);
            if over || tokio::time::timeout_at(deadline, changed).await.is_err() {
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

    /// Answers, unless it has been answered; `ended` hears whether it won before anybody who waits does.
    pub(super) fn settle(&self, answer: Answer, ended: impl FnOnce(bool)) -> bool {
        let won = answer.is_won();
        let first = self.answer.set(answer).is_ok();
        if first {
            ended(won);
            self.changed.notify_waiters();
        }
        first
    }

    /// Ends the waiting in the call: others will decide it, and the ticket keeps the place.
    pub(super) fn let_go(&self) {
        self.let_go.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Lets go of those who wait in the call, because it may take long.
    pub(super) fn stall(&self) {
        self.stalled.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}
