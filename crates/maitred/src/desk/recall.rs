//! Answers from the log: for tickets that were decided before, by this process or by another.

use std::sync::Arc;

use booking::{Outcome, Refusal, TicketId};
use store::{Error, Logged};

use super::{Answer, Desk, Settled, Ticket};

impl Desk {
    /// A decision from the log, with the reservation as it is now.
    pub async fn recall(&self, logged: Logged) -> Result<Settled, Error> {
        let Logged { decision, decided_at, batch } = logged;
        let outcome = match (decision.refused, decision.reservation) {
            (Some(refusal), _) => Outcome::Refused(refusal),
            (None, Some(id)) => match self.store.reservation(id).await? {
                Some(reservation) => Outcome::Done(Arc::new(reservation)),
                None => Outcome::Refused(Refusal::NotFound),
            },
            (None, None) => Outcome::Refused(Refusal::NotFound),
        };
        Ok(Settled { outcome, decision, decided_at, batch })
    }

    /// Answers everybody whose decision is in the log already, and leaves them out of the batch.
    pub(super) async fn answer_decided(&self, people: &mut Vec<Arc<Ticket>>) -> Result<(), Error> {
        // A batch is stored whole or not at all, so its first ticket tells for all of them.
        let Some(first) = people.first().map(|ticket| ticket.id()) else { return Ok(()) };
        if self.store.decided(first).await?.is_none() {
            return Ok(());
        }
        let tickets: Vec<_> = people.iter().map(|ticket| ticket.id()).collect();
        for ticket in tickets {
            self.answer_from_log(people, ticket, ticket).await?;
        }
        Ok(())
    }

    /// Answers one ticket, whose key another process was faster to use, with what that one decided: the same request
    /// has one answer.
    pub(super) async fn answer_from_key(
        &self,
        people: &mut Vec<Arc<Ticket>>,
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
            None => Ok(()),
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
        let answer = match self.store.decided(decided).await? {
            Some(logged) => Answer::Decided(Box::new(self.recall(logged).await?)),
            None => Answer::Failed,
        };
        self.settle(&people.remove(at), answer);
        Ok(())
    }
}
