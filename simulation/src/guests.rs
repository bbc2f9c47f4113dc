//! Guests: they book, come back, pay in time and late, cancel, change their minds, and try again elsewhere when they hear
//! nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use booking::policy::CancelledBy;
use booking::{PersonId, Refusal, Reservation, SlotId, TicketId};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::dice::Dice;
use crate::hub::{Hub, Shared, lock};
use crate::process::{Ask, Reply};

/// One guest.
pub struct Guest {
    hub: Shared,
    person: PersonId,
    dice: Dice,
    slots: Arc<[SlotId]>,
    keys: u32,
}

/// How many guests are still about.
pub type About = Arc<Mutex<usize>>;

impl Guest {
    /// A guest who wants any of these slots.
    pub fn new(hub: &Shared, number: usize, dice: Dice, slots: Arc<[SlotId]>) -> Self {
        Self { hub: hub.clone(), person: PersonId(number as u128 + 1), dice, slots, keys: 0 }
    }

    /// Lives, and then is about no more.
    pub async fn live(mut self, comes: Duration, about: About) {
        sleep(comes).await;
        if self.dice.per_mille(850) {
            self.charge().await;
        }
        for _ in 0..self.dice.count(1, 3) {
            self.visit().await;
            self.linger(1_500).await;
        }
        *about.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }

    async fn linger(&mut self, most: u64) {
        let time = self.dice.between(0, most);
        sleep(Duration::from_millis(time)).await;
    }

    fn fresh_key(&mut self) -> String {
        self.keys += 1;
        format!("k{}", self.keys)
    }

    /// Asks any process. `None`: no answer came, and nobody knows what became of it.
    async fn ask(&mut self, ask: Ask) -> Option<Reply> {
        let (sender, reply) = oneshot::channel();
        {
            let mut hub = lock(&self.hub);
            let hub = &mut *hub;
            let to = self.dice.count(0, hub.seats.len() - 1);
            let copies = if hub.goes_wrong(hub.faults.doubled / 4) { 2 } else { 1 };
            let sender = Arc::new(Mutex::new(Some(sender)));
            for _ in 0..copies {
                if hub.goes_wrong(hub.faults.guests_lost) {
                    continue;
                }
                let (person, ask, sender) = (self.person, ask.clone(), sender.clone());
                let delay = hub.dice.between(200, 8_000);
                let shared = self.hub.clone();
                hub.after(delay, move |hub| arrive(hub, &shared, to, person, ask, sender));
            }
        }
        timeout(Duration::from_secs(4), reply).await.ok()?.ok()
    }

    /// Asks until there is an answer, for a while.
    async fn insist(&mut self, ask: Ask) -> Option<Reply> {
        for _ in 0..8 {
            match self.ask(ask.clone()).await {
                None | Some(Reply::NotNow) => self.linger(600).await,
                Some(reply) => return Some(reply),
            }
        }
        None
    }

    async fn charge(&mut self) {
        let amount = i64::from(self.dice.small(1, 30)) * 5_000;
        let key = self.fresh_key();
        self.insist(Ask::Charge(amount, key)).await;
    }

    async fn visit(&mut self) {
        let slots = self.slots.clone();
        let slot = self.dice.one_of(&slots);
        let party = self.dice.small(1, 4);
        let key = self.dice.per_mille(600).then(|| self.fresh_key());
        let Some(reservation) = self.book(slot, party, key).await else { return };
        self.enjoy(reservation).await;
    }

    async fn book(&mut self, slot: SlotId, party: u32, key: Option<String>) -> Option<Arc<Reservation>> {
        for _ in 0..6 {
            let asked = self.ask(Ask::Book { slot, party, key: key.clone() }).await;
            let in_line = match asked {
                Some(Reply::Done(reservation)) => {
                    if key.is_some() && self.dice.per_mille(150) {
                        // The same again, to be told the same.
                        continue;
                    }
                    return Some(reservation);
                }
                Some(Reply::InLine(ticket) | Reply::InProgress(ticket)) => Some(ticket),
                Some(Reply::Refused(_)) if self.dice.per_mille(700) => return None,
                Some(Reply::Over) => return None,
                _ => None,
            };
            match in_line {
                Some(ticket) if self.dice.per_mille(120) => {
                    if let Some(Reply::Done(reservation)) = self.insist(Ask::Leave(ticket)).await {
                        return Some(reservation);
                    }
                }
                Some(ticket) => {
                    if let Some(reservation) = self.poll(ticket).await {
                        return Some(reservation);
                    }
                }
                None => self.linger(800).await,
            }
        }
        None
    }

    async fn poll(&mut self, ticket: TicketId) -> Option<Arc<Reservation>> {
        for _ in 0..6 {
            match self.ask(Ask::Poll(ticket)).await {
                Some(Reply::Done(reservation)) => return Some(reservation),
                Some(Reply::Refused(_) | Reply::Over) => return None,
                _ => self.linger(500).await,
            }
        }
        None
    }

    /// With a place.
    async fn enjoy(&mut self, mut reservation: Arc<Reservation>) {
        if reservation.person != self.person {
            return;
        }
        for _ in 0..self.dice.count(1, 4) {
            let id = reservation.id;
            let left = reservation.expires_at.as_millisecond() - lock(&self.hub).wall();
            let left = u64::try_from(left).unwrap_or(0);
            match self.dice.between(0, 9) {
                // Right at the deadline, on either side of it.
                0..3 => {
                    sleep(Duration::from_millis((left + self.dice.between(0, 60)).saturating_sub(40))).await
                }
                3 => sleep(Duration::from_millis(left + self.dice.between(0, 3_000))).await,
                _ => self.linger(900).await,
            }
            let ask = match self.dice.between(0, 99) {
                0..50 => Ask::Pay(id),
                50..65 => Ask::Cancel(id, CancelledBy::Guest),
                65..69 => Ask::Cancel(id, CancelledBy::Venue),
                69..80 => Ask::Change(id, self.dice.small(1, 5), None),
                80..92 => {
                    let there: Vec<_> = self
                        .slots
                        .iter()
                        .copied()
                        .filter(|s| s.venue() == reservation.slot.venue())
                        .collect();
                    Ask::Change(id, reservation.party, Some(self.dice.one_of(&there)))
                }
                92..94 => Ask::Close(id, self.dice.per_mille(500)),
                _ => Ask::Refund(id),
            };
            match self.insist(ask.clone()).await {
                Some(Reply::Done(now)) => reservation = now,
                Some(Reply::InLine(ticket)) => {
                    if let Some(now) = self.poll(ticket).await {
                        reservation = now;
                    }
                }
                Some(Reply::Refused(Refusal::InsufficientPoints)) => self.charge().await,
                _ => {}
            }
        }
    }
}

type Sender = Arc<Mutex<Option<oneshot::Sender<Reply>>>>;

/// A request comes to a process, if that is up.
fn arrive(hub: &mut Hub, shared: &Shared, to: usize, person: PersonId, ask: Ask, sender: Sender) {
    let seat = &hub.seats[to];
    let (Some(app), Some(handle)) = (seat.app.clone(), seat.handle.clone()) else {
        if let Some(sender) = sender.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = sender.send(Reply::NotNow);
        }
        return;
    };
    let slot = match &ask {
        Ask::Book { slot, .. } => Some(slot.to_i64()),
        Ask::Poll(ticket) | Ask::Leave(ticket) => Some(ticket.slot.to_i64()),
        _ => None,
    };
    hub.note(slot, format!("g{} asks p{to}: {ask:?}", person.0));
    let shared = shared.clone();
    handle.spawn(async move {
        let reply = app.answer(person, ask).await;
        let mut hub = lock(&shared);
        let hub = &mut *hub;
        hub.note(slot, format!("g{} is answered by p{to}: {}", person.0, shown(&reply)));
        if hub.goes_wrong(hub.faults.guests_lost) {
            return;
        }
        let delay = hub.dice.between(200, 8_000);
        hub.after(delay, move |_| {
            if let Some(sender) = sender.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let _ = sender.send(reply);
            }
        });
    });
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Done(r) => format!("r{:x} is {} until {}", r.id.0 & 0xFFFF_FFFF, r.status(), r.expires_at),
        other => format!("{other:?}"),
    }
}
