//! The gate in front of a sale: whether it is open, and whether somebody comes with a token that is inside (C3).

use booking::VenueId;
use hyper::HeaderMap;

use super::App;
use super::extract::Guest;
use super::language;
use super::problem::Problem;
use super::queue_tokens::ahead;
use crate::rooms::View;
use crate::signing::QueueClaims;

/// Lets a guest book, if the sale is open and they are inside where there is a waiting room.
pub async fn pass(app: &App, guest: &Guest, venue: VenueId, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(view) = app.rooms.view(venue).await? else { return Ok(()) };
    if view.opening.terms.enabled {
        return show(app, guest, venue, &view, headers).await;
    }
    let (opens_at, now) = (view.opening.opens_at, app.clock.now());
    if view.opening.is_open(now) { Ok(()) } else { Err(language::not_open(opens_at, now)) }
}

/// The same for somebody who has a reservation: whether the sale is open does not matter to them.
pub async fn pass_again(
    app: &App,
    guest: &Guest,
    venue: VenueId,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    match app.rooms.view(venue).await? {
        Some(view) if view.opening.terms.enabled => show(app, guest, venue, &view, headers).await,
        _ => Ok(()),
    }
}

/// Looks at the token: signature, time, owner, venue, opening, and whether its place is inside now.
async fn show(
    app: &App,
    guest: &Guest,
    venue: VenueId,
    view: &View,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let now = app.clock.now();
    let shown = headers.get("queue-token").and_then(|value| value.to_str().ok());
    let claims: Option<QueueClaims> = match shown {
        Some(token) => app.signer.verify(token.trim(), now).await,
        None => None,
    };
    let own = claims.filter(|claims| (claims.sub, claims.venue) == (guest.id, venue));
    // A token that we have signed is of an opening that there is: where it is not the one that is seen here, another process
    // may have begun it.
    let newer = match &own {
        Some(own) if own.opening != view.opening.id.0 => app.rooms.recent(venue).await?,
        _ => None,
    };
    let view = newer.as_deref().unwrap_or(view);
    let own = own.filter(|own| own.opening == view.opening.id.0);
    let place = app.rooms.token(view, guest.id).await?;
    if let (Some(own), Some(place)) = (&own, &place)
        // Made out before the opening it has no number, and stands for the place all the same.
        && (own.number.is_none() || own.number == place.number)
        && app.rooms.may(view, place).await?
    {
        return Ok(());
    }
    let place = place.map(|place| place.at(&view.opening.terms, now));
    let problem = language::queue_token_required(place.as_ref(), view.opening.opens_at, now);
    Err(match place {
        Some(place) => problem.standing(&place, ahead(view, &place)),
        None => problem,
    })
}
