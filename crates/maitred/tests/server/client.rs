//! A small HTTP client that speaks JSON and keeps connections alive.

use std::error::Error;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// Everybody's connections to one server.
#[derive(Clone)]
pub struct Client {
    pool: Pool<HttpConnector, Body>,
    pub base: String,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The code of a problem, after checking that it has the form of one.
    pub fn code(&self) -> String {
        let problem = self.json();
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        assert_eq!(problem["status"], self.status.as_u16(), "{self:?}");
        for member in ["type", "title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {self:?}");
        }
        problem["code"].as_str().unwrap().to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Panics with the whole answer unless it has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self
    }

    /// Panics with the whole answer unless it is this problem.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status.as_u16(), self.code().as_str()), (status, code), "{self:?}");
        self
    }
}

impl Client {
    pub fn new(base: impl Into<String>) -> Self {
        Self { pool: Pool::builder(TokioExecutor::new()).build_http(), base: base.into() }
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        self.try_send(request).await.unwrap()
    }

    /// An answer, or none because the connection could not be made or was cut.
    pub async fn try_send(&self, request: Request<Body>) -> Result<Answer, Box<dyn Error + Send + Sync>> {
        let response = self.pool.request(request).await?;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let text = String::from_utf8(bytes.to_vec())?;
        Ok(Answer { status: head.status, headers: head.headers, text })
    }

    /// The bytes of something that is there.
    pub async fn load(&self, request: Request<Body>) -> Vec<u8> {
        let response = self.pool.request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().collect().await.unwrap().to_bytes().to_vec()
    }

    /// Sends a request and listens to the events that come back.
    pub async fn listen(&self, request: Request<Body>) -> Events {
        let response = self.pool.request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body(), heard: String::new() }
    }

    pub fn request(&self, method: Method, path: &str) -> hyper::http::request::Builder {
        Request::builder().method(method).uri(format!("{}{path}", self.base))
    }

    /// Somebody without a token.
    pub fn anybody(&self) -> Guest {
        Guest { client: self.clone(), token: None }
    }

    /// Somebody with this token.
    pub fn guest(&self, token: impl Into<String>) -> Guest {
        Guest { client: self.clone(), token: Some(token.into()) }
    }
}

/// Server-sent events, as they come.
pub struct Events {
    body: Incoming,
    heard: String,
}

impl Events {
    /// The next event and its data; `None` once the server has said everything.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.heard.split_once("\n\n") {
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let told = field("event:")
                    .map(|name| (name.to_owned(), serde_json::from_str(field("data:").unwrap()).unwrap()));
                self.heard = rest.to_owned();
                match told {
                    Some(told) => return Some(told),
                    // A comment, to keep the connection alive.
                    None => continue,
                }
            }
            let frame = self.body.frame().await?.unwrap();
            self.heard.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }
}

/// One person with a browser.
#[derive(Clone)]
pub struct Guest {
    pub client: Client,
    pub token: Option<String>,
}

impl Guest {
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        self.client.send(self.request(method, path, headers, body)).await
    }

    /// A call as this person makes it.
    pub fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Request<Body> {
        let mut request = self.client.request(method, path);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body.into()).unwrap()
    }

    /// Listens to what the server tells under this path.
    pub async fn listen(&self, path: &str) -> Events {
        self.client.listen(self.request(Method::GET, path, &[], "")).await
    }

    /// The same person with another browser.
    pub fn elsewhere(&self) -> Self {
        Self { client: Client::new(self.client.base.clone()), token: self.token.clone() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, &[], body.to_string()).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PATCH, path, &[], body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, path, &[], body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, &[], "").await
    }
}
