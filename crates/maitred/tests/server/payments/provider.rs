//! A stand-in for a payment provider: it takes checkouts and refunds over HTTP, once for each key, and signs what it says.
//! It can be slow, silent, or fail; what it says is sent by the test, as often, as late and in whatever order the test likes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use hyper::Method;
use maitred::config::{PaymentProvider, Secrets};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::client::{Answer, Client};

const KEY: &str = "the-shop-s-own-key";

/// A key with which it signs.
pub fn secret(n: u8) -> String {
    format!("whsec_{}", STANDARD.encode([n; 32]))
}

/// How it behaves.
#[derive(Default)]
pub struct Mood {
    /// So many refunds fail before any is made.
    pub fail_refunds: u32,
    /// Refunds are made later, and told by an event.
    pub refunds_take_time: bool,
    /// So long it takes to answer for a checkout, and for a refund that it has made.
    pub slow: Duration,
    /// It cuts off whoever asks for a checkout, after taking it on.
    pub loses_replies: bool,
    /// It takes no payment on.
    pub refuses: bool,
}

#[derive(Debug, Clone)]
pub struct Checkout {
    pub amount: i64,
    pub status: &'static str,
    pub asked: u32,
}

#[derive(Debug, Clone)]
pub struct Refund {
    pub payment: String,
    pub amount: i64,
    pub asked: u32,
    pub made: bool,
}

#[derive(Default)]
pub struct Books {
    pub mood: Mood,
    pub checkouts: BTreeMap<String, Checkout>,
    pub refunds: BTreeMap<String, Refund>,
    pub failed_refunds: u32,
}

pub struct StandIn {
    books: Arc<Mutex<Books>>,
    pub url: String,
    time: Arc<AtomicI64>,
    next: AtomicU64,
    client: Client,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Something that it says, signed.
#[derive(Debug, Clone)]
pub struct Event {
    pub id: String,
    pub at: i64,
    pub signature: String,
    pub body: String,
}

pub fn sign(secret: &str, id: &str, at: i64, body: &str) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap().chain_update(format!("{id}.{at}.{body}"));
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

impl StandIn {
    /// Listens on a port of its own; what it signs is dated by this clock.
    pub async fn open(time: Arc<AtomicI64>) -> Self {
        let books = Arc::new(Mutex::new(Books::default()));
        let routes = Router::new()
            .route("/checkouts", post(check_out))
            .route("/checkouts/{payment}", get(look))
            .route("/refunds", post(refund))
            .with_state(books.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let client = Client::new(String::new());
        Self { books, url, time, next: AtomicU64::new(0), client, serving }
    }

    /// How a server has to be configured for it, with these keys.
    pub fn settings(&self, keys: &[u8]) -> PaymentProvider {
        let secrets = keys.iter().map(|n| secret(*n).into()).collect();
        PaymentProvider { url: self.url.clone(), secret: Secrets(secrets), key: Some(KEY.to_owned().into()) }
    }

    /// The same in a file.
    pub fn toml(&self, name: &str) -> String {
        format!("[payments.{name}]\nurl = {:?}\nsecret = {:?}\nkey = {KEY:?}\n", self.url, secret(1))
    }

    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    pub fn now(&self) -> i64 {
        self.time.load(Ordering::SeqCst).div_euclid(1_000)
    }

    /// Says something, signed with the first key.
    pub fn says(&self, kind: &str, data: Value) -> Event {
        let id = format!("evt_{}", self.next.fetch_add(1, Ordering::Relaxed));
        let body = json!({"type": kind, "timestamp": "2026-12-01T00:00:00Z", "data": data}).to_string();
        let at = self.now();
        Event { signature: sign(&secret(1), &id, at, &body), id, at, body }
    }

    /// The guest pays; what it says about that.
    pub fn takes(&self, payment: &str) -> Event {
        let amount = {
            let mut books = self.books();
            let checkout = books.checkouts.get_mut(payment).unwrap();
            checkout.status = "paid";
            checkout.amount
        };
        self.says("payment.paid", json!({"payment": payment, "amount": amount}))
    }

    /// What it has taken, less what it has returned.
    pub fn keeps(&self) -> i64 {
        let books = self.books();
        let taken: i64 = books.checkouts.values().filter(|c| c.status == "paid").map(|c| c.amount).sum();
        let returned: i64 = books.refunds.values().filter(|r| r.made).map(|r| r.amount).sum();
        taken - returned
    }

    /// Sends an event to a server.
    pub async fn send(&self, to: &Client, event: &Event) -> Answer {
        self.send_as(to, "card", event).await
    }

    pub async fn send_as(&self, to: &Client, name: &str, event: &Event) -> Answer {
        let request = to
            .request(Method::POST, &format!("/api/payments/webhook/{name}"))
            .header("webhook-id", &event.id)
            .header("webhook-timestamp", event.at)
            .header("webhook-signature", &event.signature)
            .header("content-type", "application/json")
            .body(event.body.clone().into())
            .unwrap();
        self.client.send(request).await
    }

    /// Sends an event until it is heard, as providers do.
    pub async fn deliver(&self, to: &Client, event: &Event) {
        for _ in 0..50 {
            let answer = self.send(to, event).await;
            if answer.status == 204 {
                return;
            }
            assert_eq!(answer.status, 503, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nobody hears {event:?}");
    }
}

type Shared = State<Arc<Mutex<Books>>>;

fn shows_key(headers: &HeaderMap) -> Result<(), StatusCode> {
    let shown = headers.get("authorization").is_some_and(|shown| shown == &format!("Bearer {KEY}")[..]);
    if shown { Ok(()) } else { Err(StatusCode::UNAUTHORIZED) }
}

async fn check_out(
    State(books): Shared,
    headers: HeaderMap,
    Json(asked): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    shows_key(&headers)?;
    let payment = asked["payment"].as_str().unwrap().to_owned();
    assert_eq!(headers["idempotency-key"], payment[..]);
    let (slow, loses) = {
        let mut books = books.lock().unwrap();
        if books.mood.refuses {
            return Err(StatusCode::UNPROCESSABLE_ENTITY);
        }
        let amount = asked["amount"].as_i64().unwrap();
        let new = Checkout { amount, status: "open", asked: 0 };
        let checkout = books.checkouts.entry(payment.clone()).or_insert(new);
        checkout.asked += 1;
        assert_eq!(checkout.amount, amount, "the same key for another amount");
        (books.mood.slow, books.mood.loses_replies)
    };
    tokio::time::sleep(slow).await;
    if loses {
        return Err(StatusCode::BAD_GATEWAY);
    }
    Ok(Json(json!({"id": format!("co_{payment}"), "url": format!("https://pay.example/{payment}")})))
}

async fn look(
    State(books): Shared,
    headers: HeaderMap,
    Path(payment): Path<String>,
) -> Result<Json<Value>, StatusCode> {
    shows_key(&headers)?;
    let books = books.lock().unwrap();
    let checkout = books.checkouts.get(&payment).ok_or(StatusCode::NOT_FOUND)?;
    Ok(Json(json!({"status": checkout.status, "amount": checkout.amount})))
}

async fn refund(
    State(books): Shared,
    headers: HeaderMap,
    Json(asked): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    shows_key(&headers)?;
    let id = asked["refund"].as_str().unwrap().to_owned();
    assert_eq!(headers["idempotency-key"], id[..]);
    let (made, slow) = {
        let mut books = books.lock().unwrap();
        if books.mood.fail_refunds > 0 {
            books.mood.fail_refunds -= 1;
            books.failed_refunds += 1;
            return Err(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let (payment, amount) =
            (asked["payment"].as_str().unwrap().to_owned(), asked["amount"].as_i64().unwrap());
        let takes_time = books.mood.refunds_take_time;
        let slow = books.mood.slow;
        let new = Refund { payment, amount, asked: 0, made: !takes_time };
        let refund = books.refunds.entry(id).or_insert(new);
        refund.asked += 1;
        assert_eq!(refund.amount, amount, "the same key for another amount");
        (refund.made, slow)
    };
    tokio::time::sleep(slow).await;
    Ok(Json(json!({"status": if made { "succeeded" } else { "pending" }})))
}
