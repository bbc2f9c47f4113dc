//! `Idempotency-Key`s of requests that this process has in memory. What is older is in the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use booking::PersonId;
use tokio::sync::OnceCell;

use super::Admitted;
use crate::desk::{Key, Ticket, Turned};

/// The key was used for another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken;

/// Admitted once, by whoever comes first; everybody else with the same key gets the same.
pub type Claim = Arc<OnceCell<Result<Admitted, Turned>>>;

/// Each key with the hash of the body it came with.
type Claims = HashMap<(PersonId, Box<str>), ([u8; 32], Claim)>;

/// Keys by person.
#[derive(Default)]
pub struct Keys {
    claims: Mutex<Claims>,
}

impl Keys {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The claim of this person's key, if it stands for the same request.
    pub fn claim(&self, person: PersonId, key: &Key) -> Result<Claim, Taken> {
        let mut claims = self.claims();
        let (body, claim) =
            claims.entry((person, key.text.clone())).or_insert_with(|| (key.body, Claim::default()));
        if *body == key.body { Ok(claim.clone()) } else { Err(Taken) }
    }

    /// The place that the same request has by this key.
    pub fn admitted(&self, person: PersonId, key: &Key) -> Option<Admitted> {
        let claims = self.claims();
        let (body, claim) = claims.get(&(person, key.text.clone()))?;
        claim.get().filter(|_| *body == key.body)?.as_ref().ok().cloned()
    }

    /// Forgets a claim that led to no place in line. Whoever claims the key after that claims it anew, and those who
    /// shared the old claim must not take the new one away.
    pub fn forget(&self, person: PersonId, key: &Key, claim: &Claim) {
        let mut claims = self.claims();
        let name = (person, key.text.clone());
        if claims.get(&name).is_some_and(|(_, now)| Arc::ptr_eq(now, claim)) {
            claims.remove(&name);
        }
    }

    /// Forgets the key of a ticket that is over, unless it has been claimed for another one since.
    pub fn release(&self, ticket: &Ticket) {
        let Some(key) = &ticket.key else { return };
        let mut claims = self.claims();
        let name = (ticket.command.person, key.text.clone());
        let claimed = claims.get(&name).and_then(|(_, claim)| claim.get());
        if matches!(claimed, Some(Ok(Admitted::InLine(first))) if first.id() == ticket.id()) {
            claims.remove(&name);
        }
    }

    /// Forgets keys whose callers went away before anything came of them.
    pub fn tidy(&self) {
        self.claims().retain(|_, (_, claim)| claim.initialized() || Arc::strong_count(claim) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_who_went_away_does_not_keep_the_key() {
        let (keys, person) = (Keys::default(), PersonId(7));
        let key = |body| Key { text: "lunch".into(), body: [body; 32] };
        let claim = keys.claim(person, &key(1)).unwrap();
        keys.tidy();
        assert_eq!(keys.claim(person, &key(2)).err(), Some(Taken), "somebody is still at it");
        drop(claim);
        keys.tidy();
        assert!(keys.claim(person, &key(2)).is_ok());
    }

    #[test]
    fn an_old_claim_does_not_take_a_new_one_away() {
        let (keys, person) = (Keys::default(), PersonId(7));
        let key = Key { text: "lunch".into(), body: [1; 32] };
        let claim = || keys.claim(person, &key).unwrap();
        // Two callers share a claim that comes to nothing; a third comes between their goings.
        let (first, second) = (claim(), claim());
        keys.forget(person, &key, &first);
        let third = claim();
        keys.forget(person, &key, &second);
        assert!(Arc::ptr_eq(&third, &claim()));
        keys.forget(person, &key, &third);
        assert!(!Arc::ptr_eq(&third, &claim()));
    }
}
