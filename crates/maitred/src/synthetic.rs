//! Synthetic guests: access tokens made with the server's key, each for a person who does not exist.
//!
//! Passwords are slow on purpose, and a rehearsal needs thousands of people. Such a guest gets its rows on first use.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::fresh;
use crate::signing::Claims;

/// How long their tokens are good: a rehearsal may last longer than a session.
const GOOD: SignedDuration = SignedDuration::from_hours(24);

/// Tokens for so many guests, each made when it is asked for, so that a crowd takes little memory.
pub fn tokens(
    sign: impl Fn(&Claims) -> String + Send + Sync + 'static,
    count: u32,
    now: Timestamp,
) -> Arc<dyn Fn(u32) -> String + Send + Sync> {
    let exp = now.saturating_add(GOOD).unwrap_or(now).as_second();
    let people: Vec<_> = (0..count).map(|_| fresh::person_id(now)).collect();
    Arc::new(move |guest| {
        // Whoever is beyond the last is the last: there is nobody else.
        let sub = people.get(guest as usize).or(people.last());
        let name = format!("Guest {}", u64::from(guest) + 1);
        sub.map(|sub| sign(&Claims { sub: *sub, name, exp })).unwrap_or_default()
    })
}
