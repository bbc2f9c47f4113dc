//! Sweeps tidy up: each is bounded, idempotent and takes no input. Nothing depends on them for being right: an expired
//! hold is free the moment it expires, a sweep only writes that down.

use std::time::Duration;

use jiff::SignedDuration;
use store::{Error, Store};
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::clock::Clock;
use crate::desk::Desk;
use crate::rooms::WaitingRooms;

const PERIOD: Duration = Duration::from_secs(1);
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
            () = tokio::time::sleep(PERIOD) => {}
        }
        if let Err(error) = sweep(swept, round, &also).await {
            tracing::warn!(%error, "a sweep was cut short; the next one goes on");
        }
    }
}

async fn sweep(swept: Swept<'_>, round: u32, also: &impl Fn()) -> Result<(), Error> {
    if round.is_multiple_of(OFTEN) {
        swept.clock.follow(swept.store).await?;
    }
    expire_holds(swept).await?;
    swept.rooms.sweep(BOUND).await?;
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

/// Forgets old keys, a bounded number at a time, until none are left.
async fn forget_keys(swept: Swept<'_>) -> Result<(), Error> {
    let before = swept.clock.now().saturating_sub(KEY_AGE).unwrap_or_default();
    while swept.store.forget_keys(before, BOUND).await? == BOUND as usize && !swept.stopping.is_cancelled() {}
    Ok(())
}
