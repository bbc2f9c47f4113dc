//! HTTP: parse once, call the desk, answer. Only this module knows status codes.

mod accounts;
mod availability;
mod board;
mod docs;
mod extract;
mod gate;
mod health;
mod language;
mod managing;
mod moves;
mod observe;
mod openings;
mod payments;
mod problem;
mod queue_tokens;
mod rehearsals;
mod reservations;
mod server;
mod staff;
mod terms;
mod tickets;
mod venues;
mod views;
mod waitlist;
mod wallet;
mod web;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use store::Store;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admission::Admission;
use crate::clock::Clock;
use crate::desk::Desk;
use crate::keyring::Keyring;
use crate::passwords::Passwords;
use crate::payments::{Payments, Till};
use crate::rehearsals::Rehearsals;
use crate::rooms::WaitingRooms;
use crate::seating::Seating;
use crate::venues::Venues;
use crate::wallets::Wallets;
use docs::Bearer;
use problem::{Code, Problem};

pub use board::Boards;
pub use server::{Limits, serve};

/// What handlers work with.
pub struct App {
    /// The truth.
    pub store: Arc<Store>,
    /// Who may stand in line.
    pub admission: Admission,
    /// Who stands there.
    pub desk: Arc<Desk>,
    /// The venues as last seen.
    pub venues: Arc<Venues>,
    /// Who sits where, as last seen.
    pub seating: Seating,
    /// Where wallets are charged.
    pub wallets: Arc<Wallets>,
    /// Who waits in front of a sale.
    pub rooms: Arc<WaitingRooms>,
    /// The time.
    pub clock: Clock,
    /// Signs and verifies tokens.
    pub signer: Keyring,
    /// Hashes passwords.
    pub passwords: Passwords,
    /// The ways to pay.
    pub payments: Payments,
    /// How long an access token is good.
    pub token_lifetime: Duration,
    /// Coordination with other processes, where there are any.
    pub coordination: fairlane::Client,
    /// Boards as they were a moment ago.
    pub boards: board::Boards,
    /// Crowds at the press of a button, on a demo server.
    pub rehearsals: Rehearsals,
    /// What has been measured.
    pub metrics: PrometheusHandle,
    /// Ends streams that would otherwise never end.
    pub stopping: CancellationToken,
}

impl App {
    /// What the sweeps go through.
    pub fn swept(&self) -> crate::sweeps::Swept<'_> {
        let Self { store, admission, desk, venues, rooms, clock, stopping, .. } = self;
        crate::sweeps::Swept { store, admission, desk, venues, rooms, clock, stopping }
    }

    /// What payments with providers pass through.
    pub fn till(&self) -> Till<'_> {
        let Self { store, admission, desk, clock, payments, .. } = self;
        Till { store, admission, desk, clock, payments }
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "maitred",
        description = "Reservations for the second at which everyone presses the button: restaurant slots by head \
                       count and by table, numbered concert seats, served strictly in order of arrival.\n\nErrors are RFC 9457 problems with a \
                       stable `code`. Being in line is 202, not an error: the ticket keeps the place.",
        license(name = "MIT OR Apache-2.0")
    ),
    modifiers(&Bearer)
)]
struct Api;

fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(accounts::sign_up))
        .routes(routes!(accounts::sign_in))
        .routes(routes!(accounts::own))
        .routes(routes!(venues::list, staff::add_venue))
        .routes(routes!(venues::one, staff::change_venue))
        .routes(routes!(venues::menu, staff::set_menu))
        .routes(routes!(staff::set_tables))
        .routes(routes!(staff::set_seats))
        .routes(routes!(waitlist::join, waitlist::look, waitlist::leave))
        .routes(routes!(waitlist::own))
        .routes(routes!(waitlist::accept))
        .routes(routes!(waitlist::decline))
        .routes(routes!(staff::reservations))
        .routes(routes!(openings::set_opening))
        .routes(routes!(openings::set_waiting_room))
        .routes(routes!(openings::draw))
        .routes(routes!(queue_tokens::ask))
        .routes(routes!(queue_tokens::current, queue_tokens::leave))
        .routes(routes!(queue_tokens::events))
        .routes(routes!(availability::day))
        .routes(routes!(availability::dates))
        .routes(routes!(reservations::book, reservations::own))
        .routes(routes!(reservations::one, managing::change))
        .routes(routes!(terms::terms))
        .routes(routes!(managing::pay))
        .routes(routes!(payments::webhook))
        .routes(routes!(managing::cancel))
        .routes(routes!(managing::complete))
        .routes(routes!(managing::no_show))
        .routes(routes!(managing::refund))
        .routes(routes!(tickets::look, tickets::leave))
        .routes(routes!(tickets::events))
        .routes(routes!(moves::offer))
        .routes(routes!(moves::redeem))
        .routes(routes!(rehearsals::look, rehearsals::start))
        .routes(routes!(board::one))
        .routes(routes!(board::events))
        .routes(routes!(board::all))
        .routes(routes!(board::all_events))
        .routes(routes!(wallet::balance))
        .routes(routes!(wallet::charge))
        .routes(routes!(wallet::entries))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

/// The OpenAPI document, as it is served.
pub fn openapi() -> String {
    let document = routes().into_openapi();
    // The document is made of plain data: writing it cannot fail.
    document.to_pretty_json().unwrap_or_default() + "\n"
}

/// Everything that is answered.
pub fn router(app: Arc<App>) -> Router {
    let (router, _) = routes().split_for_parts();
    // The front page is an address like any other: what it does not take is 405, not 404.
    let front = Router::new().route("/", axum::routing::get(web::page));
    around(router.merge(docs::routes()).merge(front)).with_state(app)
}

/// What is the same for every address: problems for what is not there, for a panic, and in the reader's language.
fn around<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .fallback(web::page)
        .method_not_allowed_fallback(|| async {
            let (en, ko) =
                ("This address does not take that method; see Allow.", "지원하지 않는 메서드입니다.");
            Problem::new(Code::MethodNotAllowed, en, ko)
        })
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(axum::middleware::from_fn(observe::observe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::extract::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    #[tokio::test]
    async fn a_handler_that_panics_answers_with_a_problem() {
        let panics = axum::routing::get(|| async { panic!("on purpose") as &'static str });
        let router = around(Router::new().route("/panics", panics));
        let response = router.oneshot(Request::get("/panics").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert!(response.headers().contains_key("x-request-id"));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&"internal".into(), &500.into()));
        assert!(!problem["detail"].as_str().unwrap().contains("on purpose"));
    }
}
