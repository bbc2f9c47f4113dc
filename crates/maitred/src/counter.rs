//! A counter: people who want the same thing done gather in a lane, and whoever runs it does all of them in one go.
//!
//! It is the desk's idea without tickets: nobody here is told to come back, because what a clerk does is one short
//! transaction. An idle counter serves one person at once, a crowded one hundreds together, and there is no timer. Lines are
//! of this process only: where several processes serve the same key, the database's conditions put their batches in order, so
//! nothing depends on Redis.

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use fairlane::lane::{Bounds, Lanes, Refused, Side};
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long an idle line is remembered.
const IDLE: Duration = Duration::from_secs(60);

/// Who does what people want.
pub trait Clerk: Send + Sync + 'static {
    /// What tells lines apart.
    type Key: Hash + Eq + Clone + Debug + Send + Sync + 'static;
    /// What somebody wants.
    type Wish: Send + Sync + 'static;
    /// What they are told.
    type Answer: Send + 'static;

    /// Does all that these people want, and tells what came of each, in the same order.
    fn serve(&self, key: &Self::Key, wishes: &[Self::Wish])
    -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// Why somebody was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// The line is full, or closed.
    #[error(transparent)]
    Line(#[from] Refused),
    /// The clerk failed, through a fault of ours.
    #[error("the batch died")]
    Died,
}

type Waiting<C> = (<C as Clerk>::Wish, oneshot::Sender<<C as Clerk>::Answer>);

/// A counter with its lines.
pub struct Counter<C: Clerk> {
    lanes: Arc<Lanes<C::Key, Waiting<C>, ()>>,
    clerk: C,
}

impl<C: Clerk> Counter<C> {
    /// A counter with its runners. They end after [`Counter::close`].
    pub fn open(clerk: C, bounds: Bounds, runners: usize) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let counter = Arc::new(Self { lanes: Lanes::new(bounds), clerk });
        let runners = (0..runners).map(|_| tokio::spawn(run(counter.clone()))).collect();
        (counter, runners)
    }

    /// Who does it.
    pub fn clerk(&self) -> &C {
        &self.clerk
    }

    /// Stands in line and waits for the answer. What has been asked for is done even if nobody waits any more.
    pub async fn ask(&self, key: C::Key, side: Side, wish: C::Wish) -> Result<C::Answer, Unserved> {
        let answer = self.enter(key, side, wish)?;
        answer.await.map_err(|_| Unserved::Died)
    }

    /// Asks for something whose answer nobody waits for.
    pub fn nudge(&self, key: C::Key, wish: C::Wish) {
        // A counter that closes has no use for it.
        let _ = self.enter(key, Side::Owner, wish);
    }

    fn enter(&self, key: C::Key, side: Side, wish: C::Wish) -> Result<oneshot::Receiver<C::Answer>, Refused> {
        let (reply, answer) = oneshot::channel();
        self.lanes.enter(key, side, |_| (wish, reply))?;
        Ok(answer)
    }

    /// Forgets idle lines.
    pub fn tidy(&self) {
        self.lanes.retire(IDLE, |_| true);
    }

    /// Takes nobody in, serves whoever is in line, for so long at most, then ends the runners.
    pub async fn close(&self, patience: Duration) {
        self.lanes.shut();
        if tokio::time::timeout(patience, self.lanes.until_idle()).await.is_err() {
            tracing::warn!(waiting = self.lanes.waiting(), "a counter closes with people in line");
        }
        self.lanes.close();
    }
}

async fn run<C: Clerk>(counter: Arc<Counter<C>>) {
    while let Some(mut turn) = counter.lanes.next().await {
        let (people, _) = turn.draw();
        let (wishes, replies): (Vec<_>, Vec<_>) = people.into_iter().unzip();
        let serving = counter.clerk.serve(turn.key(), &wishes);
        match AssertUnwindSafe(serving).catch_unwind().await {
            Ok(answers) => {
                debug_assert_eq!(answers.len(), replies.len(), "everybody is told");
                for (reply, answer) in replies.into_iter().zip(answers) {
                    // Whoever asked may have gone.
                    let _ = reply.send(answer);
                }
            }
            // Whoever waits learns it from the reply that is dropped.
            Err(_) => tracing::error!(key = ?turn.key(), people = wishes.len(), "a batch died"),
        }
        turn.finish(None);
    }
}
