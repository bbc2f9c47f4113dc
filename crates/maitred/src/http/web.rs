//! The web app, out of the program itself: compressed when it was built, kept for good by browsers where its name says
//! what is in it, and not allowed to load or run anything that is not ours.

use axum::extract::Request;
use axum::response::{Html, IntoResponse, Response};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    IF_NONE_MATCH, VARY,
};
use hyper::{HeaderMap, Method, StatusCode};

use super::problem::Problem;

/// A file of the built web app.
struct Asset {
    path: &'static str,
    tag: &'static str,
    plain: &'static [u8],
    brotli: Option<&'static [u8]>,
    gzip: Option<&'static [u8]>,
}

/// What was built; empty where it was not.
static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/web.rs"));

/// No script, style, image or connection from anywhere else, nothing inline, and nobody's frame.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";
/// Addresses that are never pages of the app.
const OTHERS: [&str; 4] = ["/api", "/docs", "/health", "/metrics"];

/// A file of the web app; its front page for every address that the app itself knows what to do with.
pub async fn page(request: Request) -> Response {
    let (path, headers) = (request.uri().path(), request.headers());
    let missing = || Problem::not_found("page").into_response();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return missing();
    }
    match ASSETS.iter().find(|asset| asset.path == path) {
        Some(asset) => asset.answer(headers),
        None if is_page(path, headers) => front(headers),
        None => missing(),
    }
}

/// The front page.
fn front(headers: &HeaderMap) -> Response {
    match ASSETS.iter().find(|asset| asset.path == "/index.html") {
        Some(index) => index.answer(headers),
        None => Html(include_str!("welcome.html")).into_response(),
    }
}

/// Whether somebody opens an address in a browser, rather than a program asking for a file.
fn is_page(path: &str, headers: &HeaderMap) -> bool {
    let of_app = !OTHERS
        .iter()
        .any(|other| path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    let wants_page =
        headers.get(ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|a| a.contains("text/html"));
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    path == "/" || (!ASSETS.is_empty() && of_app && wants_page && !is_file)
}

impl Asset {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let cache = match self.path.starts_with("/assets/") {
            true => "public, max-age=31536000, immutable",
            false => "no-cache",
        };
        let (bytes, encoding) = match (self.brotli, self.gzip) {
            (Some(brotli), _) if accepts(headers, "br") => (brotli, Some("br")),
            (_, Some(gzip)) if accepts(headers, "gzip") => (gzip, Some("gzip")),
            _ => (self.plain, None),
        };
        let same = headers.get(IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == self.tag.as_bytes());
        let mut response = if same {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(CONTENT_TYPE, self.media())], bytes).into_response()
        };
        let set: [(HeaderName, &'static str); 7] = [
            (CACHE_CONTROL, cache),
            (ETAG, self.tag),
            (VARY, "accept-encoding"),
            (HeaderName::from_static("content-security-policy"), POLICY),
            (HeaderName::from_static("x-content-type-options"), "nosniff"),
            (HeaderName::from_static("referrer-policy"), "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ];
        for (name, value) in set {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if let Some(encoding) = encoding.filter(|_| !same) {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response
    }

    fn media(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("webmanifest") => "application/manifest+json",
            Some("png") => "image/png",
            _ => "application/octet-stream",
        }
    }
}

/// Whether `Accept-Encoding` names this encoding and does not rule it out.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("");
    accepted.split(',').any(|range| {
        let (name, weight) = range.split_once(';').unwrap_or((range, "q=1"));
        let weight = weight.trim().trim_start_matches("q=").parse().unwrap_or(1.0);
        name.trim().eq_ignore_ascii_case(encoding) && weight > 0.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_used_where_it_is_accepted() {
        let headers = |value: &str| HeaderMap::from_iter([(ACCEPT_ENCODING, value.parse().unwrap())]);
        assert!(accepts(&headers("gzip, deflate, br, zstd"), "br"));
        assert!(accepts(&headers("gzip;q=0.5, BR;q=1"), "br"));
        assert!(!accepts(&headers("gzip, br;q=0"), "br"));
        assert!(!accepts(&headers("broken"), "br") && !accepts(&HeaderMap::new(), "gzip"));
    }

    #[test]
    fn the_addresses_of_the_api_are_never_pages() {
        let browser = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html,*/*"))]);
        for path in ["/api/nothing", "/api", "/docs/nothing", "/health/x", "/metrics", "/assets/gone.js"] {
            assert!(!is_page(path, &browser), "{path}");
        }
        assert!(is_page("/", &HeaderMap::new()));
        assert_eq!(is_page("/venues/1", &browser), !ASSETS.is_empty());
        assert!(!is_page("/venues/1", &HeaderMap::new()));
    }
}
