//! What everybody sees of a room: read by one of those who look, now and then, for all of them.
//!
//! A view is small however many wait: the opening, the numbers inside, and the numbers that were given up before their turn.
//! From those everybody's place follows from the own number alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use booking::VenueId;
use booking::room::Opening;
use store::{Error, Store};
use tokio::time::Instant;

/// A copy younger than this is good as it is; an older one is read again by one of those who use it.
const FRESH: Duration = Duration::from_millis(500);
/// A copy younger than this is good even for whoever knows of something that it does not show.
const RECENT: Duration = Duration::from_millis(100);
/// A copy older than this is not used while a newer one can be had: another process may have changed the room.
const OLD: Duration = Duration::from_secs(2);
/// How much of the newest measurement goes into the pace.
const PACE_WEIGHT: f64 = 0.3;

/// A room as it was a moment ago.
#[derive(Debug)]
pub struct View {
    /// The opening.
    pub opening: Opening,
    /// The numbers inside, in order.
    inside: Vec<u64>,
    /// The numbers above the highest let in that were given up, in order.
    left: Vec<u64>,
    pace: Option<f64>,
}

impl View {
    /// How many people are ahead of this number.
    pub fn ahead(&self, number: u64) -> u64 {
        let gone = self.left.partition_point(|left| *left < number);
        let between = number.saturating_sub(self.opening.let_in + 1);
        between.saturating_sub(u64::try_from(gone).unwrap_or(0))
    }

    /// How many people wait with a number.
    pub fn waiting(&self) -> u64 {
        self.ahead(self.opening.numbers + 1)
    }

    /// Whether this number is inside.
    pub fn is_inside(&self, number: u64) -> bool {
        self.inside.binary_search(&number).is_ok()
    }

    /// Whether this number waits to be let in.
    pub fn is_waiting(&self, number: u64) -> bool {
        number > self.opening.let_in
            && number <= self.opening.numbers
            && self.left.binary_search(&number).is_err()
    }

    /// How long somebody with so many people ahead waits at the measured pace, in seconds, if there is one.
    pub fn expected_wait(&self, ahead: u64) -> Option<u64> {
        let pace = self.pace.filter(|pace| *pace > 0.0)?;
        #[expect(clippy::cast_precision_loss, reason = "a line is shorter than 2^52")]
        let wait = Duration::try_from_secs_f64((ahead + 1) as f64 / pace).ok()?;
        Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
    }
}

/// The views of all venues that anybody looked at.
pub(super) struct Views {
    store: Arc<Store>,
    known: RwLock<HashMap<VenueId, Arc<Known>>>,
}

struct Known {
    latest: Mutex<Option<(Option<Arc<View>>, Instant)>>,
    pace: Mutex<Option<Pace>>,
    /// One reads for all.
    reading: tokio::sync::Mutex<()>,
    set_out: AtomicBool,
}

/// How fast people are let in.
struct Pace {
    opening: Opening,
    since: Instant,
    rate: Option<f64>,
}

impl Pace {
    /// Measured from one change to the next.
    fn observe(pace: &mut Option<Self>, opening: &Opening) -> Option<f64> {
        let now = Instant::now();
        let same = pace.as_ref().is_some_and(|pace| pace.opening.id == opening.id);
        let Some(before) = pace.as_mut().filter(|_| same) else {
            *pace = Some(Self { opening: opening.clone(), since: now, rate: None });
            return None;
        };
        let took = now.duration_since(before.since).as_secs_f64();
        let let_in = opening.let_in.saturating_sub(before.opening.let_in);
        if let_in > 0 && took > 0.0 {
            #[expect(clippy::cast_precision_loss, reason = "a line is shorter than 2^52")]
            let newest = let_in as f64 / took;
            let mixed = before.rate.map(|rate| rate + PACE_WEIGHT * (newest - rate));
            *before = Self { opening: opening.clone(), since: now, rate: Some(mixed.unwrap_or(newest)) };
        }
        before.rate
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Views {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, known: RwLock::default() }
    }

    fn known(&self, venue: VenueId) -> Arc<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&venue).cloned();
        known.unwrap_or_else(|| {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            let fresh = || Known {
                latest: Mutex::default(),
                pace: Mutex::default(),
                reading: tokio::sync::Mutex::default(),
                set_out: AtomicBool::new(false),
            };
            known.entry(venue).or_insert_with(|| Arc::new(fresh())).clone()
        })
    }

    /// The room as of a moment ago. While the store is away, as it was last seen.
    pub(super) async fn get(self: &Arc<Self>, venue: VenueId) -> Result<Option<Arc<View>>, Error> {
        let known = self.known(venue);
        let latest = lock(&known.latest).clone();
        match latest {
            Some((view, at)) if at.elapsed() < FRESH => Ok(view),
            Some((view, at)) if at.elapsed() < OLD => {
                if !known.set_out.swap(true, Ordering::AcqRel) {
                    let views = self.clone();
                    tokio::spawn(async move {
                        // Whoever looks next finds out what the store says.
                        let _ = views.refresh(venue).await;
                        known.set_out.store(false, Ordering::Release);
                    });
                }
                Ok(view)
            }
            Some((view, _)) => Ok(self.read(venue, &known, FRESH).await.unwrap_or(view)),
            None => self.read(venue, &known, FRESH).await,
        }
    }

    /// The room as of the last instants.
    pub(super) async fn recent(&self, venue: VenueId) -> Result<Option<Arc<View>>, Error> {
        self.read(venue, &self.known(venue), RECENT).await
    }

    /// The room as the store has it now.
    pub(super) async fn refresh(&self, venue: VenueId) -> Result<Option<Arc<View>>, Error> {
        self.read(venue, &self.known(venue), Duration::ZERO).await
    }

    /// Whether the venue was last seen with a room.
    pub(super) fn has_room(&self, venue: VenueId) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&venue).cloned();
        let latest = known.and_then(|known| lock(&known.latest).clone());
        latest.and_then(|(view, _)| view).is_some_and(|view| view.opening.terms.enabled)
    }

    /// What was seen of it is not good any more.
    pub(super) fn has_changed(&self, venue: VenueId) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&venue).cloned();
        if let Some(known) = known
            && let Some((_, at)) = &mut *lock(&known.latest)
        {
            *at = at.checked_sub(FRESH).unwrap_or(*at);
        }
    }

    async fn read(&self, venue: VenueId, known: &Known, good: Duration) -> Result<Option<Arc<View>>, Error> {
        let _one = known.reading.lock().await;
        if let Some((view, at)) = &*lock(&known.latest)
            && at.elapsed() < good
        {
            return Ok(view.clone());
        }
        let at = Instant::now();
        let Some(room) = self.store.room(venue, vec![]).await? else {
            *lock(&known.latest) = Some((None, at));
            return Ok(None);
        };
        let left = self.store.left_waiting(room.opening.id).await?;
        let inside = room.inside.iter().filter_map(|token| token.number).collect();
        let pace = Pace::observe(&mut lock(&known.pace), &room.opening);
        let view = Arc::new(View { opening: room.opening, inside, left, pace });
        #[expect(clippy::cast_precision_loss, reason = "a line is shorter than 2^52")]
        {
            let venue = venue.to_string();
            metrics::gauge!("maitred_room_inside", "venue" => venue.clone()).set(view.inside.len() as f64);
            metrics::gauge!("maitred_room_waiting", "venue" => venue).set(view.waiting() as f64);
        }
        *lock(&known.latest) = Some((Some(view.clone()), at));
        Ok(Some(view))
    }
}
