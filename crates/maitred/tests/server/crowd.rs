//! Many people at the same moment.

use std::sync::Arc;
use std::time::Duration;

use booking::{SlotId, VenueId};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::client::{Answer, Guest};

/// Lets everybody go at the same moment; what each was told, in the same order.
pub async fn at_once<F>(people: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let people: Vec<F> = people.into_iter().collect();
    let gate = Arc::new(Barrier::new(people.len()));
    let tasks: Vec<_> = people
        .into_iter()
        .map(|person| {
            let gate = gate.clone();
            tokio::spawn(async move {
                gate.wait().await;
                person.await
            })
        })
        .collect();
    let mut told = Vec::with_capacity(tasks.len());
    for task in tasks {
        told.push(task.await.unwrap());
    }
    told
}

/// Waits for a condition, and fails if it does not come.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), waiting).await.is_ok(), "never: {what}");
}

/// A wish for this slot, by deposit.
pub fn wish(slot: SlotId, party: u32) -> Value {
    json!({"venueId": slot.venue().to_string(), "date": slot.date().to_string(),
           "time": slot.time().strftime("%H:%M").to_string(), "partySize": party, "payment": "deposit"})
}

/// The n-th slot of a venue that is open from 11 to 20, from this day on.
pub fn slot(venue: VenueId, first_day: &str, n: usize) -> SlotId {
    let (days, hour) = (i64::try_from(n / 10).unwrap(), i8::try_from(n % 10).unwrap() + 11);
    let day = first_day.parse::<jiff::civil::Date>().unwrap() + jiff::Span::new().days(days);
    SlotId::new(venue, day, jiff::civil::Time::constant(hour, 0, 0, 0)).unwrap()
}

/// Asks for a slot and waits in the call as long as one may.
pub async fn book(guest: &Guest, slot: SlotId, party: u32) -> Answer {
    let patient = [("prefer", "wait=10")];
    guest.call(hyper::Method::POST, "/api/reservations", &patient, wish(slot, party).to_string()).await
}

/// The place in line that an answer was decided in.
pub fn place(told: &Value) -> (u64, u64) {
    let number = |name: &str| told["ticket"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {told}"));
    (number("epoch"), number("number"))
}

/// The path of the reservation that an answer is about.
pub fn path(told: &Value) -> String {
    format!("/api/reservations/{}", told["id"].as_str().unwrap_or_else(|| panic!("no id: {told}")))
}
