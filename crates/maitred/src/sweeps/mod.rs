//! Sweeps tidy up: each is bounded, idempotent and takes no input. Nothing depends on them for being right: an expired
//! hold is free the moment it expires, a sweep only writes that down.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use store::Error;

use crate::http::App;

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

/// Sweeps until the server stops.
pub async fn run(app: Arc<App>) {
    for round in 0u32.. {
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        if let Err(error) = sweep(&app, round).await {
            tracing::warn!(%error, "a sweep was cut short; the next one goes on");
        }
    }
}

async fn sweep(app: &App, round: u32) -> Result<(), Error> {
    if round.is_multiple_of(OFTEN) {
        app.clock.follow(&app.store).await?;
    }
    expire_holds(app).await?;
    if round.is_multiple_of(SELDOM) {
        forget_keys(app).await?;
        app.admission.tidy();
        let before_yesterday =
            app.clock.now().saturating_sub(SignedDuration::from_hours(48)).unwrap_or_default();
        let before_yesterday = jiff::tz::TimeZone::UTC.to_datetime(before_yesterday).date();
        app.desk.tidy(|slot| slot.date() < before_yesterday);
        app.metrics.run_upkeep();
    }
    Ok(())
}

/// Writes down which holds have expired, in their slots' lanes like everything else.
async fn expire_holds(app: &App) -> Result<(), Error> {
    if app.desk.is_in_trouble() {
        return Ok(());
    }
    let overdue = app.store.overdue(app.clock.now(), BOUND).await?;
    // All are in line before any is waited for, so that one batch takes them together; the next sweep begins when they
    // are done, so that none is entered twice.
    let entering = overdue.into_iter().map(|hold| app.admission.expire(hold));
    let tickets = futures_util::future::join_all(entering).await;
    // What another process tidies up already is left to it.
    let tickets: Vec<_> = tickets.into_iter().flatten().collect();
    for ticket in tickets {
        tokio::select! {
            () = app.stopping.cancelled() => return Ok(()),
            _ = ticket.wait(LONG) => {}
        }
    }
    Ok(())
}

/// Forgets old keys, a bounded number at a time, until none are left.
async fn forget_keys(app: &App) -> Result<(), Error> {
    let before = app.clock.now().saturating_sub(KEY_AGE).unwrap_or_default();
    while app.store.forget_keys(before, BOUND).await? == BOUND as usize && !app.stopping.is_cancelled() {}
    Ok(())
}
