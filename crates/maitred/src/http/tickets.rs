//! Tickets: where somebody stands, by asking or by listening, and leaving the line.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use booking::{Outcome, PersonId, TicketId};
use fairlane::lane::Position;
use futures_util::Stream;
use hyper::HeaderMap;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::extract::Id;
use super::language::{self, Language};
use super::moves::Holder;
use super::problem::{Problem, ProblemBody};
use super::reservations::turned;
use super::views::ReservationView;
use crate::desk::{Answer, Found, Settled, Ticket, Turned};

/// Shown while the pace of a line is not known yet (A11).
const UNKNOWN_WAIT: u64 = 5;
/// How often listeners hear where they stand.
const NEWS: Duration = Duration::from_secs(1);

/// A place in line, briefly: within a slot, tickets are ordered by epoch, then number.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct TicketRef {
    #[schema(value_type = String)]
    id: TicketId,
    epoch: u32,
    number: u64,
}

impl From<TicketId> for TicketRef {
    fn from(id: TicketId) -> Self {
        Self { id, epoch: id.epoch(), number: id.number() }
    }
}

/// A place in line, and what has become of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Ticket)]
pub struct TicketView {
    #[schema(value_type = String)]
    id: TicketId,
    /// `waiting`, `seated`, `refused` or `left`.
    state: &'static str,
    epoch: u32,
    number: u64,
    /// How many people are ahead.
    ahead: usize,
    /// How many people wait in this line.
    waiting_count: usize,
    /// At the measured pace of this line; 5 while that is unknown.
    pub(super) estimated_wait_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<Receipt>,
}

/// What the answer to the request is.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomeView {
    /// The status with which the request is answered.
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<ReservationView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemBody>,
}

/// Why it was decided so.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    epoch: u32,
    number: u64,
    #[schema(value_type = String, format = DateTime)]
    decided_at: Timestamp,
    /// The batch that decided it: the version of the slot that it made.
    batch: u64,
    party_size: u32,
    /// What was left when the turn came.
    left: u32,
    /// `seated`, the code of the refusal, or for somebody who had a place already what was done: `pay`, `cancel`, …
    code: &'static str,
}

impl TicketView {
    /// A ticket that waits.
    pub fn waiting(id: TicketId, position: Position) -> Self {
        let rounded_up = |wait: Duration| wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let wait = position.expected_wait().map_or(UNKNOWN_WAIT, rounded_up);
        Self { estimated_wait_seconds: wait, ..Self::over(id, "waiting", position) }
    }

    fn over(id: TicketId, state: &'static str, position: Position) -> Self {
        Self {
            id,
            state,
            epoch: id.epoch(),
            number: id.number(),
            ahead: position.ahead,
            waiting_count: position.waiting,
            estimated_wait_seconds: 0,
            outcome: None,
            receipt: None,
        }
    }

    fn settled(id: TicketId, settled: &Settled, waiting: usize, language: Language) -> Self {
        let position = Position { ahead: 0, waiting, pace: None };
        let decision = &settled.decision;
        let (state, code, outcome) = match &settled.outcome {
            Outcome::Done(reservation) => {
                let status = if decision.verdict.is_owners() { 200 } else { 201 };
                let code = if decision.verdict.is_owners() { decision.verdict.as_str() } else { "seated" };
                let reservation = Some(ReservationView::from(reservation.as_ref()));
                ("seated", code, OutcomeView { status, reservation, problem: None })
            }
            Outcome::Noted => {
                let status = if decision.verdict.is_owners() { 200 } else { 201 };
                let noted = OutcomeView { status, reservation: None, problem: None };
                ("seated", decision.verdict.as_str(), noted)
            }
            Outcome::Refused(refusal) => {
                let problem = language::refusal(*refusal).about(id);
                let status = problem.code.status().as_u16();
                let body = Some(problem.body(language));
                ("refused", problem.code.as_str(), OutcomeView { status, reservation: None, problem: body })
            }
        };
        let receipt = Receipt {
            epoch: id.epoch(),
            number: id.number(),
            decided_at: settled.decided_at,
            batch: settled.batch,
            party_size: decision.party,
            left: decision.left,
            code,
        };
        Self { outcome: Some(outcome), receipt: Some(receipt), ..Self::over(id, state, position) }
    }

    /// A ticket that came to nothing without having been decided.
    fn refused(problem: Problem, id: TicketId, waiting: usize, language: Language) -> Self {
        let body = problem.about(id).body(language);
        let outcome = OutcomeView { status: body.status(), reservation: None, problem: Some(body) };
        Self {
            outcome: Some(outcome),
            ..Self::over(id, "refused", Position { ahead: 0, waiting, pace: None })
        }
    }

    /// A ticket that this process has in memory, as it is now.
    pub async fn of(app: &App, ticket: &Ticket, language: Language) -> Self {
        let id = ticket.id();
        let waiting = app.desk.waiting(id.slot).await;
        let nowhere = Position { ahead: 0, waiting, pace: None };
        match ticket.answer() {
            None => Self::waiting(id, app.desk.position(ticket).await),
            Some(Answer::Decided(settled)) => Self::settled(id, settled, waiting, language),
            Some(Answer::Left) => Self::over(id, "left", nowhere),
            Some(Answer::KeyMismatch) => Self::refused(turned(Turned::KeyMismatch), id, waiting, language),
            Some(Answer::Failed) => Self::refused(Problem::internal(), id, waiting, language),
        }
    }
}

/// Whose ticket it is, if it is anybody's.
pub(super) async fn owner(app: &App, id: TicketId) -> Result<Option<PersonId>, Problem> {
    whose(app.desk.find(id).await?.as_ref())
}

fn whose(found: Option<&Found>) -> Result<Option<PersonId>, Problem> {
    match found {
        Some(Found::InMemory(ticket)) => Ok(Some(ticket.command.person)),
        Some(Found::InLog(logged)) => Ok(Some(logged.decision.person)),
        Some(Found::Unknown) => Err(Problem::unavailable()),
        None => Ok(None),
    }
}

/// A ticket of this person; of anybody else there is none.
pub(super) async fn own(app: &App, holder: &Holder, id: TicketId) -> Result<Found, Problem> {
    let found = app.desk.find(id).await?;
    let owner = whose(found.as_ref())?;
    found
        .filter(|_| owner == Some(holder.guest.id) && holder.may(id))
        .ok_or_else(|| Problem::not_found("ticket"))
}

async fn view(app: &App, found: Found, language: Language) -> Result<TicketView, Problem> {
    match found {
        Found::InMemory(ticket) => {
            let mut view = TicketView::of(app, &ticket, language).await;
            // What it won may have been paid or cancelled since.
            if let Some(Answer::Decided(settled)) = ticket.answer()
                && let Outcome::Done(won) = &settled.outcome
                && let Some(reservation) = app.store.reservation(won.id).await?
                && let Some(outcome) = &mut view.outcome
            {
                outcome.reservation = Some(ReservationView::seen_at(&reservation, app.clock.now()));
            }
            Ok(view)
        }
        Found::InLog(logged) => {
            let id = logged.decision.ticket.ok_or_else(|| Problem::not_found("ticket"))?;
            let waiting = app.desk.waiting(id.slot).await;
            Ok(TicketView::settled(id, &app.desk.recall(logged).await?, waiting, language))
        }
        Found::Unknown => Err(Problem::unavailable()),
    }
}

/// Where a place in line stands, or how it ended.
#[utoipa::path(get, path = "/api/tickets/{id}", tag = "tickets", params(("id" = String, Path)),
    responses((status = 200, body = TicketView), (status = 404, body = ProblemBody)))]
pub async fn look(
    State(app): State<Arc<App>>,
    holder: Holder,
    Id(id): Id<TicketId>,
    headers: HeaderMap,
) -> Result<axum::Json<TicketView>, Problem> {
    let found = own(&app, &holder, id).await?;
    Ok(axum::Json(view(&app, found, Language::of(&headers)).await?))
}

/// Leave the line. A ticket that is already being decided returns its outcome; nothing is undone.
#[utoipa::path(delete, path = "/api/tickets/{id}", tag = "tickets", params(("id" = String, Path)),
    responses((status = 200, body = TicketView), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn leave(
    State(app): State<Arc<App>>,
    holder: Holder,
    Id(id): Id<TicketId>,
    headers: HeaderMap,
) -> Result<axum::Json<TicketView>, Problem> {
    let found = own(&app, &holder, id).await?;
    if let Found::InMemory(ticket) = &found
        && !app.desk.can_leave(ticket)
    {
        return Err(Problem::unavailable().about(id));
    }
    if let Found::InMemory(ticket) = &found
        && !app.desk.leave(ticket).await
    {
        // Its turn has come: the answer is a commit away.
        ticket.wait(super::managing::PATIENCE).await;
    }
    Ok(axum::Json(view(&app, found, Language::of(&headers)).await?))
}

/// Listen to a place in line: `position` while it waits, then one `outcome`.
#[utoipa::path(get, path = "/api/tickets/{id}/events", tag = "tickets", params(("id" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = TicketView), (status = 404, body = ProblemBody)))]
pub async fn events(
    State(app): State<Arc<App>>,
    holder: Holder,
    Id(id): Id<TicketId>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let language = Language::of(&headers);
    let start = match own(&app, &holder, id).await? {
        Found::InMemory(ticket) => Listening::To(ticket, None),
        past => Listening::Last(Box::new(view(&app, past, language).await?)),
    };
    let stream = futures_util::stream::unfold(start, move |listening| {
        let app = app.clone();
        async move { listening.next(&app, language).await }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

/// A listener: what it waits for, and what it heard last.
enum Listening {
    To(Arc<Ticket>, Option<(usize, u64)>),
    Last(Box<TicketView>),
    Done,
}

impl Listening {
    async fn next(self, app: &App, language: Language) -> Option<(Result<Event, Infallible>, Self)> {
        let (ticket, mut heard) = match self {
            Self::To(ticket, heard) => (ticket, heard),
            Self::Last(view) => return Some((event("outcome", &view), Self::Done)),
            Self::Done => return None,
        };
        loop {
            let view = TicketView::of(app, &ticket, language).await;
            if view.state != "waiting" {
                return Some((event("outcome", &view), Self::Done));
            }
            let news = (view.ahead, view.estimated_wait_seconds);
            if heard.replace(news) != Some(news) {
                return Some((event("position", &view), Self::To(ticket, heard)));
            }
            tokio::select! {
                () = app.stopping.cancelled() => return None,
                () = ticket.changed_within(NEWS) => {}
            }
        }
    }
}

fn event(name: &str, view: &TicketView) -> Result<Event, Infallible> {
    // A view is plain data: writing it cannot fail.
    Ok(Event::default().event(name).data(serde_json::to_string(view).unwrap_or_default()))
}
