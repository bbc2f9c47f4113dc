//! Sweeps tidy up: each is bounded, idempotent and takes no input. Nothing depends on them for being right: an expired
//! hold is free the moment it expires, a sweep only writes that down.

pub mod payments;

use std::sync::Arc;
use std::time::Duration;

use booking::slot::Wanted;
use booking::{Action, SlotId, Waiting};
use jiff::SignedDuration;
use store::{Error, Store};
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::clock::Clock;
use crate::desk::Desk;
use crate::rooms::WaitingRooms;
use crate::venues::Venues;

const PERIOD: Duration = Duration::from_secs(1);
/// Not sooner than this after the sweep before, however much is due.
const BREATH: Duration = Duration::from_millis(20);
/// Every so many periods, the clock is set right.
const OFTEN: u32 = 10;
/// Every so many periods, what is merely large is made smaller.
const SELDOM: u32 = 30;
/// Rows that one sweep takes on.
const BOUND: u32 = 500;
/// Longer than any line.
const LONG: Duration = Duration::from_secs(3_600);
/// How long a key is remembered.
const KEY_AGE: SignedDuration = SignedDuration::from_hours(24);

/// What is swept.
#[derive(Clone, Copy)]
pub struct Swept<'a> {
    /// Holds and keys.
    pub store: &'a Store,
    /// Through which holds are ended.
    pub admission: &'a Admission,
    /// Lanes and answers.
    pub desk: &'a Desk,
    /// What there is to book.
    pub venues: &'a Arc<Venues>,
    /// Who waits to be let in, and who is idle inside.
    pub rooms: &'a WaitingRooms,
    /// The time.
    pub clock: &'a Clock,
    /// Ends the sweeping.
    pub stopping: &'a CancellationToken,
}

/// Sweeps until the server stops; `also` is done once in a while.
pub async fn run(swept: Swept<'_>, also: impl Fn()) {
    for round in 0u32.. {
        tokio::select! {
            biased;
            () = swept.stopping.cancelled() => return,
            () = tokio::time::sleep(pause(swept).await) => {}
        }
        if let Err(error) = sweep(swept, round, &also).await {
            tracing::warn!(%error, "a sweep was cut short; the next one goes on");
        }
    }
}

/// How long until there is something to do: the next hold that runs out, if that is soon.
async fn pause(swept: Swept<'_>) -> Duration {
    if swept.desk.is_in_trouble() {
        return PERIOD;
    }
    let Ok(Some(deadline)) = swept.store.next_deadline().await else { return PERIOD };
    let left = Duration::try_from(deadline.duration_since(swept.clock.now())).unwrap_or(Duration::ZERO);
    left.clamp(BREATH, PERIOD)
}

async fn sweep(swept: Swept<'_>, round: u32, also: &impl Fn()) -> Result<(), Error> {
    if round.is_multiple_of(OFTEN) {
        swept.clock.follow(swept.store).await?;
    }
    expire_holds(swept).await?;
    swept.rooms.sweep(BOUND).await?;
    if round.is_multiple_of(OFTEN) {
        tend_waitlists(swept).await?;
    }
    if round.is_multiple_of(SELDOM) {
        forget_keys(swept).await?;
        swept.admission.tidy();
        swept.rooms.tidy();
        let before_yesterday =
            swept.clock.now().saturating_sub(SignedDuration::from_hours(48)).unwrap_or_default();
        let before_yesterday = jiff::tz::TimeZone::UTC.to_datetime(before_yesterday).date();
        swept.desk.tidy(|slot| slot.date() < before_yesterday);
        also();
    }
    Ok(())
}

/// Writes down which holds have expired, in their slots' lanes like everything else.
async fn expire_holds(swept: Swept<'_>) -> Result<(), Error> {
    if swept.desk.is_in_trouble() {
        return Ok(());
    }
    let overdue = swept.store.overdue(swept.clock.now(), BOUND).await?;
    // All are in line before any is waited for, so that one batch takes them together; the next sweep begins when they
    // are done, so that none is entered twice.
    let entering = overdue.into_iter().map(|hold| swept.admission.expire(hold));
    let tickets = futures_util::future::join_all(entering).await;
    // What another process tidies up already is left to it.
    let tickets: Vec<_> = tickets.into_iter().flatten().collect();
    for ticket in tickets {
        tokio::select! {
            biased;
            () = swept.stopping.cancelled() => return Ok(()),
            _ = ticket.wait(LONG) => {}
        }
    }
    Ok(())
}

/// Offers what is free to those who wait, where nothing that happened in the slot has: its venue may have grown. Ends the lists of
/// what has begun.
async fn tend_waitlists(swept: Swept<'_>) -> Result<(), Error> {
    let now = swept.clock.now();
    let mut from = SlotId::from_i64(i64::MIN);
    loop {
        let slots = swept.store.waited_for(from, BOUND).await?;
        for &id in &slots {
            let Some(venue) = swept.venues.get(id.venue()).await? else { continue };
            let slot = swept.store.slot(id).await?;
            let begun = venue.start(id) <= now;
            let fits = |party: &Waiting| {
                begun || slot.room_for(&venue.settings.inventory, party.party, Wanted::Any, None).is_ok()
            };
            if let Some(first) = slot.waitlist().first_that_fits(fits) {
                // What another process tends already is left to it.
                let _ = swept.admission.manage(id, first.person, Action::Tend {}).await;
            }
        }
        match slots.last() {
            Some(last) if slots.len() == BOUND as usize && !swept.stopping.is_cancelled() => {
                from = SlotId::from_i64(last.to_i64().saturating_add(1));
            }
            _ => return Ok(()),
        }
    }
}

/// Forgets old keys, a bounded number at a time, until none are left.
async fn forget_keys(swept: Swept<'_>) -> Result<(), Error> {
    let before = swept.clock.now().saturating_sub(KEY_AGE).unwrap_or_default();
    while swept.store.forget_keys(before, BOUND).await? == BOUND as usize && !swept.stopping.is_cancelled() {}
    Ok(())
}
