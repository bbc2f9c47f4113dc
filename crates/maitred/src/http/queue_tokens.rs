//! Places in a waiting room: asking for one, where it stands, by asking or by listening, and giving it up.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use booking::VenueId;
use booking::room::{Answer, Order, State as Standing, Token, entry};
use futures_util::Stream;
use hyper::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Id, Nothing};
use super::language;
use super::openings::DrawView;
use super::problem::{Problem, ProblemBody};
use super::reservations::venue;
use crate::rooms::View;
use crate::signing::QueueClaims;

/// Shown while the pace of a room is not known yet (A11).
const UNKNOWN_WAIT: u64 = 5;
/// How often listeners hear where they stand.
const NEWS: Duration = Duration::from_secs(1);

/// A place in a waiting room.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueToken)]
pub struct QueueTokenView {
    /// Send it as `Queue-Token`; absent once the place is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The place in line; null until the sale opens.
    number: Option<u64>,
    /// `waiting`, `inside`, `done`, `left` or `lapsed`.
    state: &'static str,
    /// How many people are ahead; null while that is up to a draw.
    ahead: Option<u64>,
    /// At the measured pace of this room; 5 while that is unknown.
    estimated_wait_seconds: u64,
    /// When the sale opens, or opened.
    #[schema(value_type = String, format = DateTime)]
    opens_at: Timestamp,
    /// What stands for this place in the list of the draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draw: Option<DrawView>,
}

/// What a state is called.
pub fn standing(state: Standing) -> &'static str {
    match state {
        Standing::Waiting => "waiting",
        Standing::Inside => "inside",
        Standing::Done => "done",
        Standing::Left => "left",
        Standing::Lapsed => "lapsed",
    }
}

/// How many people are ahead of a place, as far as that is known.
pub fn ahead(view: &View, token: &Token) -> Option<u64> {
    match (token.state, token.number) {
        (Standing::Waiting, Some(number)) => Some(view.ahead(number)),
        (Standing::Waiting, None) if view.opening.order == Order::Draw => None,
        (Standing::Waiting, None) => Some(token.arrival.saturating_sub(1)),
        _ => Some(0),
    }
}

impl QueueTokenView {
    fn of(app: &App, venue: VenueId, view: &View, token: &Token) -> Self {
        let (opening, now) = (&view.opening, app.clock.now());
        let token = &token.at(&opening.terms, now);
        let ahead = ahead(view, token);
        let opens_in = opening.opens_at.duration_since(now).as_secs().max(0).unsigned_abs();
        let wait = match (token.state, token.number) {
            (Standing::Waiting, Some(_)) => view.expected_wait(ahead.unwrap_or(0)).unwrap_or(UNKNOWN_WAIT),
            (Standing::Waiting, None) => opens_in.max(UNKNOWN_WAIT),
            _ => 0,
        };
        let drawn = opening.order == Order::Draw;
        Self {
            token: token.state.is_live().then(|| signed(app, venue, view, token)),
            number: token.number,
            state: standing(token.state),
            ahead,
            estimated_wait_seconds: wait,
            opens_at: opening.opens_at,
            entry: drawn.then(|| hex(&entry(opening.id, token.person))),
            draw: drawn.then(|| DrawView::of(opening)),
        }
    }
}

/// Bytes as everybody can compare them.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn signed(app: &App, venue: VenueId, view: &View, token: &Token) -> String {
    let now = app.clock.now();
    let lifetime = SignedDuration::try_from(app.token_lifetime).unwrap_or(SignedDuration::from_hours(1));
    // Whoever stands there before the opening has a token that outlives it.
    let exp = now.max(view.opening.opens_at).saturating_add(lifetime).unwrap_or(Timestamp::MAX);
    let (iat, exp) = (now.as_second(), exp.as_second());
    let (opening, number) = (token.opening.0, token.number);
    app.signer.sign(&QueueClaims { sub: token.person, venue, opening, number, iat, nbf: iat, exp })
}

/// The room of a venue that has one.
async fn room(app: &App, id: VenueId) -> Result<Arc<View>, Problem> {
    venue(app, id).await?;
    let view = app.rooms.view(id).await?;
    view.filter(|view| view.opening.terms.enabled).ok_or_else(|| Problem::not_found("waiting room"))
}

/// What a guest sees of a place just changed, in a room that another process may have opened a moment ago.
async fn seen(app: &App, id: VenueId, token: &Token) -> Result<Arc<View>, Problem> {
    match room(app, id).await {
        Ok(view) if view.opening.id == token.opening => Ok(view),
        _ => app.rooms.recent(id).await?.ok_or_else(|| Problem::not_found("waiting room")),
    }
}

/// A guest's place, with the room that it is in.
async fn place(app: &App, guest: &Guest, id: VenueId) -> Result<(Arc<View>, Token), Problem> {
    let view = room(app, id).await?;
    if let Some(token) = app.rooms.token(&view, guest.id).await? {
        return Ok((view, token));
    }
    let missing = || Problem::not_found("token; ask for one with POST");
    let view = app.rooms.recent(id).await?.ok_or_else(missing)?;
    let token = app.rooms.token(&view, guest.id).await?.ok_or_else(missing)?;
    Ok((view, token))
}

/// Ask for a place in the waiting room of a venue.
#[utoipa::path(post, path = "/api/venues/{id}/queue-tokens", operation_id = "ask_queue_token", tag = "waiting room", params(("id" = String, Path)),
    responses((status = 201, body = QueueTokenView), (status = 401, body = ProblemBody), (status = 404, body = ProblemBody),
              (status = 409, body = ProblemBody), (status = 429, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn ask(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Nothing: Nothing,
) -> Result<(StatusCode, axum::Json<QueueTokenView>), Problem> {
    venue(&app, id).await?;
    match app.rooms.enter(id, guest.id).await? {
        Answer::Issued(token) => {
            let view = seen(&app, id, &token).await?;
            Ok((StatusCode::CREATED, axum::Json(QueueTokenView::of(&app, id, &view, &token))))
        }
        Answer::AlreadyIssued(token) => {
            let view = seen(&app, id, &token).await?;
            Err(language::already_issued(&token).standing(&token, ahead(&view, &token)))
        }
        _ => Err(Problem::internal()),
    }
}

/// Where one's place in the waiting room stands, with a fresh token.
#[utoipa::path(get, path = "/api/venues/{id}/queue-tokens/current", operation_id = "queue_token", tag = "waiting room", params(("id" = String, Path)),
    responses((status = 200, body = QueueTokenView), (status = 401, body = ProblemBody), (status = 404, body = ProblemBody)))]
pub async fn current(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
) -> Result<axum::Json<QueueTokenView>, Problem> {
    let (view, token) = place(&app, &guest, id).await?;
    Ok(axum::Json(QueueTokenView::of(&app, id, &view, &token)))
}

/// Give one's place in the waiting room up.
#[utoipa::path(delete, path = "/api/venues/{id}/queue-tokens/current", operation_id = "leave_queue", tag = "waiting room", params(("id" = String, Path)),
    responses((status = 200, body = QueueTokenView), (status = 401, body = ProblemBody), (status = 404, body = ProblemBody)))]
pub async fn leave(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
) -> Result<axum::Json<QueueTokenView>, Problem> {
    venue(&app, id).await?;
    match app.rooms.leave(id, guest.id).await? {
        Answer::Left(token) => {
            let view = seen(&app, id, &token).await?;
            Ok(axum::Json(QueueTokenView::of(&app, id, &view, &token)))
        }
        _ => Err(Problem::not_found("live token")),
    }
}

/// Listen to one's place: `position` while it waits, `inside` when it is let in, `over` when it ends.
#[utoipa::path(get, path = "/api/venues/{id}/queue-tokens/current/events", operation_id = "queue_token_events", tag = "waiting room", params(("id" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = QueueTokenView), (status = 404, body = ProblemBody)))]
pub async fn events(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let (_, token) = place(&app, &guest, id).await?;
    let start = Some(Listening { venue: id, token, heard: None });
    let stream = futures_util::stream::unfold(start, move |listening| {
        let app = app.clone();
        async move { listening?.next(&app).await }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

/// A listener: the place as it was last known, and what was last told of it.
struct Listening {
    venue: VenueId,
    token: Token,
    heard: Option<(Standing, Option<u64>, u64)>,
}

impl Listening {
    async fn next(mut self, app: &App) -> Option<(Result<Event, Infallible>, Option<Self>)> {
        loop {
            // While the store is away there is no news; whoever lost their place in another opening hears no more.
            let view = app.rooms.view(self.venue).await.ok().flatten();
            if let Some(view) = view
                && self.follow(app, &view).await?
            {
                let told = QueueTokenView::of(app, self.venue, &view, &self.token);
                let news = (self.token.state, told.ahead, told.estimated_wait_seconds);
                if self.heard.replace(news) != Some(news) {
                    let name = match self.token.state {
                        Standing::Waiting => "position",
                        Standing::Inside => "inside",
                        _ => "over",
                    };
                    // A view is plain data: writing it cannot fail.
                    let data = serde_json::to_string(&told).unwrap_or_default();
                    let event = Ok(Event::default().event(name).data(data));
                    return Some((event, self.token.state.is_live().then_some(self)));
                }
            }
            tokio::select! {
                () = app.stopping.cancelled() => return None,
                () = tokio::time::sleep(NEWS) => {}
            }
        }
    }

    /// Brings the place up to date; whether it is. The view tells most of it, so that thousands who listen do not all ask the
    /// store. Nothing if it is not there any more.
    async fn follow(&mut self, app: &App, view: &View) -> Option<bool> {
        if view.opening.id != self.token.opening {
            return None;
        }
        let as_seen = match self.token.number {
            None => !view.opening.opened,
            Some(number) if view.is_inside(number) => self.token.state == Standing::Inside,
            Some(number) => self.token.state == Standing::Waiting && view.is_waiting(number),
        };
        if as_seen {
            return Some(true);
        }
        match app.rooms.token(view, self.token.person).await {
            Ok(Some(token)) => {
                self.token = token;
                Some(true)
            }
            Ok(None) => None,
            Err(_) => Some(false),
        }
    }
}
