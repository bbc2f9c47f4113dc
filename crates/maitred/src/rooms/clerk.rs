//! Serving a room: read, open what is due, decide, store, answer.
//!
//! Another process may serve the same room at the same moment: of two batches that were decided from one version one is
//! stored, and the other is decided again. Nothing is answered before it is stored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use booking::room::{self, Answer, Room, Wish};
use booking::{PersonId, VenueId};
use store::{CommitError, Error, RoomBatch, Store};

use super::Unheard;
use super::view::Views;
use crate::chance;
use crate::clock::Clock;
use crate::counter::Clerk;

/// How often a batch is brought to a store that does not answer, and the pause in between.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);
/// How often others may be faster. Each time, somebody was served.
const STALE: usize = 500;
/// Who gets a number in one transaction at an opening: few enough to be quick about it.
const OPENED_AT_ONCE: u32 = 5_000;

pub(super) struct Usher {
    pub store: Arc<Store>,
    pub clock: Clock,
    pub views: Arc<Views>,
}

impl Clerk for Usher {
    type Key = VenueId;
    type Wish = Wish;
    type Answer = Result<Answer, Unheard>;

    async fn serve(&self, venue: &VenueId, wishes: &[Wish]) -> Vec<Self::Answer> {
        match self.serve_all(*venue, wishes).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => wishes.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// The arrivals that were given to people by commits of which nobody knows whether they happened.
type Unknown = HashMap<PersonId, HashSet<u64>>;

impl Usher {
    async fn serve_all(&self, venue: VenueId, wishes: &[Wish]) -> Result<Vec<Answer>, Unheard> {
        let (mut tries, mut stale, mut unknown) = (1, 0, Unknown::new());
        loop {
            match self.attempt(venue, wishes, &mut unknown).await {
                Err(CommitError::Stale) if stale < STALE => {
                    stale += 1;
                    if stale > 3 {
                        // Processes that compete for a room should take turns.
                        tokio::time::sleep(Duration::from_millis(10).mul_f64(chance::within(0.05..1.0)))
                            .await;
                    }
                }
                Err(CommitError::Store(Error::Unavailable(_))) if tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(PAUSE.mul_f64(chance::within(0.5..1.0))).await;
                }
                Err(CommitError::Store(error)) => return Err(error.into()),
                Err(error) => return Err(Error::Unavailable(Arc::new(error)).into()),
                Ok(answers) => return answers.ok_or(Unheard::NoRoom),
            }
        }
    }

    async fn attempt(
        &self,
        venue: VenueId,
        wishes: &[Wish],
        unknown: &mut Unknown,
    ) -> Result<Option<Vec<Answer>>, CommitError> {
        let people: HashSet<_> = wishes.iter().filter_map(who).collect();
        let room = self.store.room(venue, people.into_iter().collect()).await?;
        let Some(mut room) = room.filter(|room| room.opening.terms.enabled) else { return Ok(None) };
        let now = self.clock.now();
        if room.opening.is_due(now) {
            self.open_all(venue, room).await?;
            // Everybody has a number now, and whoever comes is behind them.
            return Err(CommitError::Stale);
        }
        let (mut answers, changes) = room::decide(&mut room, wishes, now);
        recognise(&mut answers, unknown);
        if changes.is_empty() {
            return Ok(Some(answers));
        }
        let asked: Vec<_> = changes.new.iter().map(|(token, _)| (token.person, token.arrival)).collect();
        let let_in =
            changes.let_in.len() + changes.new.iter().filter(|(new, _)| new.let_in_at.is_some()).count();
        let batch = RoomBatch { opening: room.opening.clone(), changes, at: now };
        if let Err(error) = self.store.commit_room(batch).await {
            if matches!(error, CommitError::Store(Error::Unavailable(_))) {
                asked.into_iter().for_each(|(person, arrival)| {
                    unknown.entry(person).or_default().insert(arrival);
                });
            }
            return Err(error);
        }
        metrics::counter!("maitred_room_let_in_total").increment(u64::try_from(let_in).unwrap_or(0));
        self.views.has_changed(venue);
        Ok(Some(answers))
    }

    /// Gives a number to everybody who came before the opening, so many at a time.
    async fn open_all(&self, venue: VenueId, mut room: Room) -> Result<(), CommitError> {
        loop {
            let opening = &room.opening;
            let at = self.clock.now();
            if self.store.open_room(opening.id, opening.version, at, OPENED_AT_ONCE).await? {
                tracing::info!(%venue, "a sale has opened");
                return Ok(());
            }
            room.opening.version += 1;
        }
    }
}

fn who(wish: &Wish) -> Option<PersonId> {
    match wish {
        Wish::Ask(person) | Wish::Leave(person) => Some(*person),
        Wish::Tick => None,
    }
}

/// A place that an earlier attempt has made after all is not somebody's second one.
fn recognise(answers: &mut [Answer], unknown: &mut Unknown) {
    for answer in answers {
        if let Answer::AlreadyIssued(token) = *answer
            && unknown.get_mut(&token.person).is_some_and(|arrivals| arrivals.remove(&token.arrival))
        {
            *answer = Answer::Issued(token);
        }
    }
}
