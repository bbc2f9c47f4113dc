//! Answers from the log: for tickets that were decided before, by this process or by another.

use std::collections::HashMap;
use std::sync::Arc;

use booking::{Outcome, Refusal, Reservation, TicketId};
use store::{Error, Logged};

use super::{Answer, Desk, Settled, Ticket};

/// A decision from the log, with the reservation that it is about.
fn settled(logged: Logged, reservation: Option<Arc<Reservation>>) -> Settled {
    let Logged { decision, decided_at, batch } = logged;
    let outcome = match (decision.refused, reservation) {
        (Some(refusal), _) => Outcome::Refused(refusal),
        (None, Some(reservation)) => Outcome::Done(reservation),
        (None, None) if decision.verdict.is_about_waitlist() => Outcome::Noted,
        (None, None) => Outcome::Refused(Refusal::NotFound),
    };
    Settled { outcome, decision, decided_at, batch }
}

impl Desk {
    /// A decision from the log, with the reservation as it is now.
    pub async fn recall(&self, logged: Logged) -> Result<Settled, Error> {
        let reservation = match logged.decision.reservation {
            Some(id) => self.store.reservation(id).await?.map(Arc::new),
            None => None,
        };
        Ok(settled(logged, reservation))
    }

    /// Answers everybody whose decision is in the log already, and leaves them out of the batch.
    pub(super) async fn answer_decided(&self, people: &mut Vec<Arc<Ticket>>) -> Result<(), Error> {
        let tickets = people.iter().map(|ticket| ticket.id()).collect();
        let logged = self.store.decided_among(tickets).await?;
        if logged.is_empty() {
            return Ok(());
        }
        let won = logged.iter().filter_map(|logged| logged.decision.reservation).collect();
        let won = self.store.reservations(won).await?;
        let won: HashMap<_, _> = won.into_iter().map(|won| (won.id, Arc::new(won))).collect();
        let decided = logged.into_iter().filter_map(|logged| Some((logged.decision.ticket?, logged)));
        let mut decided: HashMap<_, _> = decided.collect();
        people.retain(|ticket| {
            let Some(logged) = decided.remove(&ticket.id()) else { return true };
            if logged.decision.person != ticket.command.person {
                // Redis has given one number to two people, because it forgot the first: nothing of this one is known.
                tracing::error!(ticket = %ticket.id(), "a number was given out twice");
                self.settle(ticket, Answer::Failed);
                return false;
            }
            let reservation = logged.decision.reservation.and_then(|id| won.get(&id).cloned());
            self.settle(ticket, Answer::Decided(Box::new(settled(logged, reservation))));
            false
        });
        Ok(())
    }

    /// Answers one ticket, whose key another process was faster to use, with what that one decided: the same request
    /// has one answer.
    pub(super) async fn answer_from_key(
        &self,
        people: &mut Vec<Arc<Ticket>>,
        behind: &mut Vec<Arc<Ticket>>,
        id: TicketId,
    ) -> Result<(), Error> {
        let Some(at) = people.iter().position(|ticket| ticket.id() == id) else { return Ok(()) };
        let Some(key) = &people[at].key else { return Ok(()) };
        match self.store.request_key(people[at].command.person, key.text.to_string()).await? {
            Some(request) if request.body == key.body => {
                self.answer_from_log(people, id, request.ticket).await
            }
            Some(_) => {
                self.settle(&people.remove(at), Answer::KeyMismatch);
                Ok(())
            }
            None => {
                // Nobody has stored it, so two of the same batch have it: the later one asks again once the first has.
                let later = people.remove(at);
                behind.push(later);
                Ok(())
            }
        }
    }

    /// Answers one ticket with what the log says of this one or of another that stands for it, and leaves it out of the
    /// batch.
    pub(super) async fn answer_from_log(
        &self,
        people: &mut Vec<Arc<Ticket>>,
        id: TicketId,
        decided: TicketId,
    ) -> Result<(), Error> {
        let Some(at) = people.iter().position(|ticket| ticket.id() == id) else { return Ok(()) };
        let person = people[at].command.person;
        let answer = match self.store.decided(decided).await? {
            // Of anybody else nothing may be told: a number was given out twice.
            Some(logged) if logged.decision.person != person => Answer::Failed,
            Some(logged) => Answer::Decided(Box::new(self.recall(logged).await?)),
            None => Answer::Failed,
        };
        self.settle(&people.remove(at), answer);
        Ok(())
    }
}
