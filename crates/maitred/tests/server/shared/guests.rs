//! People and what they remember: each asks for a place, goes on at another server when one is gone, and writes down
//! everything that it is told.

use std::time::{Duration, Instant};

use base64::Engine;
use booking::{PersonId, ReservationId, SlotId, TicketId};
use hyper::Method;
use serde_json::{Value, json};

use super::cluster::Doors;
use super::load::Flow;
use crate::client::{Answer, Client, Guest};
use crate::crowd::wish;
use crate::steps::until;

/// How long a guest waits for an answer before it takes the server for dead.
const SILENCE: Duration = Duration::from_secs(6);
/// How long a guest tries before it gives up without knowing.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a guest takes "not here, not now" for its ticket before it asks again with its key.
const TICKET_TRIES: u32 = 9;

#[derive(Debug, Clone)]
pub struct Person {
    pub id: PersonId,
    pub token: String,
}

impl Person {
    pub fn with_token(token: &str) -> Self {
        let claims = token.split('.').nth(1).unwrap();
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        Self { id: claims["sub"].as_str().unwrap().parse().unwrap(), token: token.to_owned() }
    }

    pub fn at(&self, client: &Client) -> Guest {
        client.guest(&self.token)
    }
}

/// How a visit ended, as far as the guest knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Won(ReservationId),
    /// Decided against, with this code.
    Refused(String),
    Left,
    /// Not let into the line, with this code.
    Turned(String),
    /// Never told.
    Unknown,
}

/// One thing that a guest was told, or the silence where an answer should have been.
#[derive(Debug, Clone)]
pub struct Told {
    pub asked: Instant,
    pub at: Instant,
    pub member: usize,
    pub status: Option<u16>,
    pub code: Option<String>,
    pub ticket: Option<TicketId>,
    pub retry_after: bool,
    pub ending: Option<Ending>,
}

/// One person's wish for one slot, to its end.
#[derive(Debug)]
pub struct Visit {
    pub person: Person,
    pub slot: SlotId,
    pub party: u32,
    pub log: Vec<Told>,
    pub ending: Ending,
    /// The reservation was paid, and the guest was told so.
    pub paid: bool,
    /// What no server should ever say.
    pub scandals: Vec<String>,
}

/// What a guest is up to.
pub struct Plan {
    pub person: Person,
    pub slot: SlotId,
    pub party: u32,
    /// The server it goes to first.
    pub first: usize,
    /// Seconds that it wants to wait in the call.
    pub wait: u32,
    pub pays: bool,
}

impl Plan {
    pub async fn carry_out(self, doors: &Doors, flow: &Flow) -> Visit {
        let visit = Visit {
            person: self.person.clone(),
            slot: self.slot,
            party: self.party,
            log: Vec::new(),
            ending: Ending::Unknown,
            paid: false,
            scandals: Vec::new(),
        };
        let give_up = Instant::now() + PATIENCE;
        let mut guest = Visiting { next: self.first, plan: self, doors, flow, visit, give_up };
        guest.book().await;
        if let (Ending::Won(reservation), true) = (guest.visit.ending.clone(), guest.plan.pays) {
            guest.pay(reservation).await;
        }
        guest.visit
    }
}

/// Those who were told "not now", after a second in the call: each when to come back, and nearly all of them soon.
#[track_caller]
pub fn put_off(visits: &[Visit]) -> Vec<&Told> {
    let all = visits.iter().flat_map(|visit| &visit.log);
    let mut told: Vec<_> = all.filter(|told| told.status == Some(503)).collect();
    assert!(!told.is_empty(), "void: nobody was put off");
    assert!(told.iter().all(|told| told.retry_after), "everybody is told when to come back");
    told.sort_by_key(|told| told.at - told.asked);
    let late = told[(told.len() - 1) * 95 / 100];
    assert!(late.at - late.asked < Duration::from_secs(3), "told after {:?}", late.at - late.asked);
    told
}

struct Visiting<'a> {
    plan: Plan,
    doors: &'a Doors,
    flow: &'a Flow,
    visit: Visit,
    next: usize,
    give_up: Instant,
}

/// Everybody has one wish a slot, and one key for it.
pub fn key(slot: SlotId) -> String {
    format!("wish {}", slot.to_i64())
}

impl Visit {
    /// Asks again when everything is over, with the key and with the ticket; what this server says then.
    pub async fn ask_again(&self, client: &Client) -> Vec<(Answer, Option<Ending>)> {
        let (guest, key) = (self.person.at(client), key(self.slot));
        let headers = [("prefer", "wait=10"), ("idempotency-key", key.as_str())];
        let wish = wish(self.slot, self.party).to_string();
        let patient = async |request: &dyn Fn() -> hyper::Request<axum::body::Body>| {
            // "Not now" is no answer.
            until("an answer", || async {
                Some(client.send(request()).await)
                    .filter(|answer| ![202, 503].contains(&answer.status.as_u16()))
            })
            .await
        };
        let post = || guest.request(Method::POST, "/api/reservations", &headers, wish.clone());
        let mut answers = vec![patient(&post).await];
        if let Some(ticket) = self.log.iter().rev().find_map(|told| told.ending.as_ref().and(told.ticket)) {
            let look = || guest.request(Method::GET, &format!("/api/tickets/{ticket}"), &[], "");
            answers.push(patient(&look).await);
        }
        let read = |answer: Answer| {
            let ending = Told::new(&answer).ending;
            (answer, ending)
        };
        answers.into_iter().map(read).collect()
    }
}

/// Somewhat different for everybody, so that guests do not move in step.
async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(rand::random_range(milliseconds / 2..=milliseconds))).await;
}

impl Visiting<'_> {
    /// One call, at the next server that is open; without an answer if it was cut off or kept waiting for too long.
    async fn call(&mut self, method: Method, path: &str, key: &str, body: &str) -> (Told, Option<Answer>) {
        let (member, client) = loop {
            match self.doors.open(self.next) {
                Some(open) => break open,
                None => pause(20).await,
            }
        };
        let wait = format!("wait={}", self.plan.wait);
        let mut headers = vec![("prefer", wait.as_str())];
        if !key.is_empty() {
            headers.push(("idempotency-key", key));
        }
        let request = self.plan.person.at(&client).request(method, path, &headers, body.to_owned());
        let asked = Instant::now();
        self.flow.asked();
        let answer = tokio::time::timeout(SILENCE, client.try_send(request)).await;
        let answer = answer.ok().and_then(Result::ok);
        if answer.is_some() {
            self.flow.answered()
        } else {
            self.flow.cut()
        }
        let mut told = Told { asked, member, ..Told::nothing() };
        if let Some(answer) = &answer {
            told = Told { asked, member, ..Told::new(answer) };
            if told.status.is_some_and(|status| status >= 500 && status != 503) {
                self.visit.scandals.push(format!("{answer:?}"));
            }
        }
        (told, answer)
    }

    async fn book(&mut self) {
        let key = key(self.plan.slot);
        let wish = wish(self.plan.slot, self.plan.party).to_string();
        let (mut ticket, mut in_vain) = (None::<TicketId>, 0);
        while Instant::now() < self.give_up {
            let (told, _) = match ticket {
                None => self.call(Method::POST, "/api/reservations", &key, &wish).await,
                Some(ticket) => self.call(Method::GET, &format!("/api/tickets/{ticket}"), "", "").await,
            };
            self.visit.log.push(told.clone());
            if let Some(ending) = told.ending {
                self.visit.ending = ending;
                return;
            }
            // Whichever server comes next must know as much.
            self.next += 1;
            match told.status {
                Some(404) => ticket = None,
                Some(200 | 202) => {
                    (ticket, in_vain) = (told.ticket.or(ticket), 0);
                    pause(200).await;
                }
                _ => {
                    in_vain += 1;
                    ticket = told.ticket.or(ticket).filter(|_| in_vain % TICKET_TRIES != 0);
                    pause(if told.status.is_some() { 300 } else { 40 }).await;
                }
            }
        }
    }

    /// Charges the wallet and pays, once, however often the calls are cut off.
    async fn pay(&mut self, reservation: ReservationId) {
        let path = format!("/api/reservations/{reservation}");
        let (charge, payment) =
            (json!({"amount": 100_000}).to_string(), json!({"method": "points"}).to_string());
        let mut charged = false;
        while Instant::now() < self.give_up {
            if !charged {
                let (told, _) = self.call(Method::POST, "/api/wallet/charges", "charge", &charge).await;
                charged = told.status == Some(201);
            } else {
                self.call(Method::POST, &format!("{path}/payment"), "", &payment).await;
                let (_, seen) = self.call(Method::GET, &path, "", "").await;
                self.visit.paid = seen.is_some_and(|seen| {
                    seen.status == 200 && seen.json()["status"].as_str() == Some("CONFIRMED")
                });
            }
            if self.visit.paid {
                return;
            }
            self.next += 1;
            pause(100).await;
        }
    }
}

impl Told {
    fn nothing() -> Self {
        let now = Instant::now();
        let (status, code, ticket, ending) = (None, None, None, None);
        Self { asked: now, at: now, member: 0, status, code, ticket, retry_after: false, ending }
    }

    /// What an answer about a wish or about a ticket means.
    fn new(answer: &Answer) -> Self {
        let retry_after = !answer.header("retry-after").is_empty();
        let mut told = Self { status: Some(answer.status.as_u16()), retry_after, ..Self::nothing() };
        let Ok(said) = serde_json::from_str::<Value>(&answer.text) else { return told };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let ticket = |value: &Value| value.as_str().and_then(|id| id.parse().ok());
        told.code = text(&said["code"]);
        told.ticket = ticket(&said["ticket"]["id"]);
        let won = |id: &Value| Ending::Won(id.as_str().unwrap().parse().unwrap());
        told.ending = match (answer.status.as_u16(), said["state"].as_str()) {
            (201, None) if said["ticket"].is_object() => Some(won(&said["id"])),
            (409, None) if told.code.as_deref() != Some("request-in-progress") => {
                told.code.clone().map(Ending::Refused)
            }
            (422 | 429, None) => told.code.clone().map(Ending::Turned),
            (200 | 202, Some(state)) => {
                told.ticket = ticket(&said["id"]);
                match state {
                    "seated" => Some(won(&said["outcome"]["reservation"]["id"])),
                    "refused" => text(&said["outcome"]["problem"]["code"]).map(Ending::Refused),
                    "left" => Some(Ending::Left),
                    _ => None,
                }
            }
            _ => None,
        };
        told
    }
}
