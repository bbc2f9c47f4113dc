//! Whether the server lives, whether it is of use, and its figures.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use hyper::header::CONTENT_TYPE;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::problem::{Problem, ProblemBody};

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    status: &'static str,
}

/// The process answers.
#[utoipa::path(get, path = "/health/live", tag = "operations", responses((status = 200, body = Health)))]
pub async fn live() -> axum::Json<Health> {
    axum::Json(Health { status: "live" })
}

/// The database can be written to, and nobody waits for a batch that could not be stored. `degraded` while lines that
/// should be shared over Redis are kept in this process: booking goes on, in order of arrival at each process.
#[utoipa::path(get, path = "/health/ready", tag = "operations",
    responses((status = 200, body = Health), (status = 503, body = ProblemBody)))]
pub async fn ready(State(app): State<Arc<App>>) -> Result<axum::Json<Health>, Problem> {
    match tokio::time::timeout(Duration::from_secs(1), app.store.ping()).await {
        Ok(Ok(())) if !app.stopping.is_cancelled() && !app.desk.is_in_trouble() => {
            let status = if app.desk.is_degraded() { "degraded" } else { "ready" };
            Ok(axum::Json(Health { status }))
        }
        _ => Err(Problem::unavailable()),
    }
}

/// Figures for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations", responses((status = 200, content_type = "text/plain")))]
pub async fn metrics(
    State(app): State<Arc<App>>,
) -> ([(hyper::header::HeaderName, &'static str); 1], String) {
    let (waiting, longest) = app.desk.lines();
    #[expect(clippy::cast_precision_loss, reason = "lines are shorter than 2^52")]
    {
        metrics::gauge!("maitred_waiting").set(waiting as f64);
        metrics::gauge!("maitred_longest_line").set(longest as f64);
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render())
}
