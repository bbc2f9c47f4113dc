//! Around every request: an id, a line in the log, the figures, and problems written out in the reader's language.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use tracing::Instrument;

use super::language::Language;
use super::problem::Problem;

/// The methods that figures are kept of by name.
const KNOWN: [Method; 7] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Wraps a request.
pub async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let language = Language::of(request.headers());
    let id = request_id(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", |path| path.as_str());
    // Wanted while something is looked into; made for every request it would cost as much as reading one.
    let span = tracing::debug_span!("request", ?id, %method, route);

    let mut response = next.run(request).instrument(span.clone()).await;
    let problem = response.extensions_mut().remove::<Problem>();
    // The documentation's own routes say nothing about a page that they do not have.
    let missing = || (response.status() == StatusCode::NOT_FOUND).then(|| Problem::not_found("page"));
    if let Some(problem) = problem.or_else(missing) {
        write_out(&mut response, &problem, language);
    }

    let (status, took) = (response.status(), started.elapsed());
    if status.is_server_error() {
        tracing::warn!(parent: &span, ?id, %method, route, status = status.as_u16(), ?took, "answered");
    } else {
        tracing::debug!(parent: &span, status = status.as_u16(), ?took, "answered");
    }
    response.headers_mut().insert(REQUEST_ID, id);
    count(route, &method, status, took);
    response
}

/// The figures of one route, kept at hand: finding them by their names costs more than counting.
struct Figures {
    requests: Vec<(Method, StatusCode, metrics::Counter)>,
    seconds: metrics::Histogram,
}

thread_local! {
    static FIGURES: RefCell<HashMap<Box<str>, Figures>> = RefCell::default();
}

fn count(route: &str, method: &Method, status: StatusCode, took: Duration) {
    FIGURES.with_borrow_mut(|figures| {
        if !figures.contains_key(route) {
            let seconds = metrics::histogram!("maitred_http_seconds", "route" => route.to_owned());
            figures.insert(route.into(), Figures { requests: Vec::new(), seconds });
        }
        let Some(figures) = figures.get_mut(route) else { return };
        figures.seconds.record(took);
        let known = figures.requests.iter().find(|(m, s, _)| m == method && *s == status);
        if let Some((.., requests)) = known {
            return requests.increment(1);
        }
        // Anybody can invent a method.
        let named = if KNOWN.contains(method) { method.as_str() } else { "other" };
        let labels = [
            ("route", route.to_owned()),
            ("method", named.to_owned()),
            ("status", status.as_u16().to_string()),
        ];
        let requests = metrics::counter!("maitred_http_requests_total", &labels);
        requests.increment(1);
        if KNOWN.contains(method) {
            figures.requests.push((method.clone(), status, requests));
        }
    });
}

fn write_out(response: &mut Response, problem: &Problem, language: Language) {
    let body = serde_json::to_vec(&problem.body(language)).unwrap_or_default();
    *response.body_mut() = Body::from(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    if problem.code == super::problem::Code::Unauthenticated {
        headers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
    }
}

/// The caller's own id for the request, if it is fit to be logged, or a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|id| {
        (1..=64).contains(&id.len())
            && id.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    });
    given.cloned().unwrap_or_else(|| {
        let id = format!("{:016x}", rand::random::<u64>());
        HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("none"))
    })
}

/// A handler that panicked answers like any other failure of ours.
pub fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a handler panicked");
    Problem::internal().into_response()
}
