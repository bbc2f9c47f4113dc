//! The contract as the server tells it: the OpenAPI document, the documentation, health and figures.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::{Value, json};

use crate::app::{TestApp, noon, places};

/// The codes that clients were promised.
const CODES: [&str; 20] = [
    "invalid-request",
    "unauthenticated",
    "forbidden",
    "not-found",
    "request-in-progress",
    "already-booked",
    "not-enough-places",
    "table-unavailable",
    "seat-taken",
    "illegal-transition",
    "insufficient-points",
    "payment-in-progress",
    "token-already-issued",
    "queue-token-required",
    "idempotency-mismatch",
    "rate-limited",
    "line-full",
    "payload-too-large",
    "unavailable",
    "internal",
];

/// What we say beyond that: HTTP has a status for it, and no code of the contract fits.
const ADDED: [&str; 2] = ["method-not-allowed", "not-open"];

#[tokio::test]
async fn the_document_that_is_served_is_the_one_that_is_checked_in() {
    let app = TestApp::start().await;
    let served = app.client.anybody().get("/api/openapi.json").await.expect(200).json();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let refresh = "docs/openapi.json is not what the server says; refresh it with:\n  \
                   cargo run -p maitred -- openapi > docs/openapi.json";
    assert!(kept == maitred::http::openapi(), "{refresh}");
    assert!(serde_json::from_str::<Value>(&kept).unwrap() == served, "{refresh}");
    app.stop().await;
}

#[test]
fn every_code_is_in_the_contract() {
    let document: Value = serde_json::from_str(&maitred::http::openapi()).unwrap();
    let codes =
        document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].as_array().unwrap();
    let told: BTreeSet<_> = codes.iter().map(|code| code.as_str().unwrap()).collect();
    assert_eq!(told.len(), codes.len());
    let promised = BTreeSet::from_iter(CODES.into_iter().chain(ADDED));
    let unknown: Vec<_> = told.difference(&promised).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not in the contract");
    // Seats are not there yet.
    let missing: Vec<_> = promised.difference(&told).copied().collect();
    assert_eq!(missing, ["seat-taken"]);
}

#[tokio::test]
async fn the_documentation_loads_nothing_from_outside() {
    let app = TestApp::start().await;
    let anybody = app.client.anybody();
    let front = anybody.get("/").await.expect(200).text;
    assert!(front.contains("href=\"/docs\""), "{front}");
    assert_eq!(anybody.get("/docs").await.expect(303).header("location"), "/docs/");
    let page = anybody.get("/docs/").await.expect(200).text;
    let parts = page.split('"').collect::<Vec<_>>();
    let named = parts.windows(2).filter(|pair| pair[0].ends_with("href=") || pair[0].ends_with("src="));
    let assets: Vec<_> = named.map(|pair| pair[1].trim_start_matches("./")).collect();
    assert!(assets.len() >= 5, "{page}");
    for asset in assets {
        assert!(!asset.contains("//"), "{asset}");
        let request = anybody.request(Method::GET, &format!("/docs/{asset}"), &[], "");
        let body = app.client.load(request).await;
        assert!(!body.is_empty(), "{asset}");
        if asset.ends_with(".css") {
            let text = String::from_utf8(body).unwrap();
            let loaded = text
                .split("url(")
                .skip(1)
                .filter(|url| !url.trim_start_matches(['"', '\'']).starts_with("data:"));
            assert_eq!(loaded.count(), 0, "{asset}");
            assert!(!text.contains("@import"), "{asset}");
        }
    }
    for text in [&front, &page] {
        assert!(!text.contains("://"), "{text}");
    }
    let start = anybody.get("/docs/swagger-initializer.js").await.expect(200).text;
    assert!(start.contains("\"url\": \"/api/openapi.json\""), "{start}");
    assert!(start.contains("\"validatorUrl\": \"none\"") && !start.contains("://"), "{start}");
    app.stop().await;
}

#[tokio::test]
async fn a_server_tells_how_it_is() {
    let app = TestApp::start().await;
    let anybody = app.client.anybody();
    assert_eq!(anybody.get("/health/live").await.expect(200).json(), json!({"status": "live"}));
    assert_eq!(anybody.get("/health/ready").await.expect(200).json(), json!({"status": "ready"}));

    let (venue, _) = app.open(places(2)).await;
    app.guest().seated(noon(venue, 2)).await;
    app.guest().book(noon(venue, 1)).await.refused(409, "not-enough-places");
    let figures = anybody.get("/metrics").await.expect(200);
    assert!(figures.header("content-type").starts_with("text/plain"), "{figures:?}");
    let line = |family: &str, labels: &[&str]| {
        let mut lines = figures.text.lines().filter(|line| line.starts_with(family));
        let found = lines.find(|line| labels.iter().all(|label| line.contains(label)));
        found.unwrap_or_else(|| panic!("{family} {labels:?} in {}", figures.text)).to_owned()
    };
    for status in ["status=\"201\"", "status=\"409\""] {
        line("maitred_http_requests_total{", &["route=\"/api/reservations\"", "method=\"POST\"", status]);
    }
    line("maitred_waiting ", &[]);
    line("maitred_longest_line ", &[]);
    line("maitred_batch_size_count", &[]);
    line("maitred_commit_seconds_count", &[]);
    line("maitred_outcomes_total{", &["action=\"book\"", "outcome=\"done\""]);
    line("maitred_outcomes_total{", &["action=\"book\"", "outcome=\"refused\""]);
    line("maitred_wait_seconds_count{", &["action=\"book\""]);
    line("maitred_http_seconds_count{", &["route=\"/api/reservations\""]);
    app.stop().await;
}

#[tokio::test]
async fn a_request_keeps_the_id_it_came_with() {
    let app = TestApp::start().await;
    let anybody = app.client.anybody();
    let ask = |path: &'static str, id: &'static str| {
        let anybody = anybody.clone();
        async move { anybody.call(Method::GET, path, &[("x-request-id", id)], "").await }
    };
    assert_eq!(ask("/health/live", "abc-123_4.5").await.header("x-request-id"), "abc-123_4.5");
    assert_eq!(ask("/nothing", "abc").await.header("x-request-id"), "abc");
    let made = ask("/health/live", "not fit {to} be logged").await;
    let made = made.header("x-request-id");
    assert!(made.len() == 16 && made.bytes().all(|b| b.is_ascii_hexdigit()), "{made}");
    assert_ne!(anybody.get("/health/live").await.header("x-request-id"), made);
    app.stop().await;
}
