//! Guests: they stand in waiting rooms, book, wait for what is sold out, come back, pay in time and late, here and at the
//! provider, cancel, change their minds, and try again elsewhere when they hear nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use booking::policy::CancelledBy;
use booking::{PaymentId, PersonId, Refusal, Reservation, Seat, SlotId, TicketId, VenueId};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::bank::{Doing, at_the_bank};
use crate::dice::Dice;
use crate::hub::{Hub, Shared, lock};
use crate::process::{Ask, Reply};

/// One guest.
pub struct Guest {
    hub: Shared,
    person: PersonId,
    dice: Dice,
    town: Arc<Town>,
    keys: u32,
}

/// What guests know of the venues.
#[derive(Debug, Default)]
pub struct Town {
    /// What there is to book.
    pub slots: Vec<SlotId>,
    /// Who has a waiting room.
    pub rooms: BTreeSet<VenueId>,
    /// The seats of halls, row by row.
    pub halls: BTreeMap<VenueId, Vec<Seat>>,
}

/// What came of asking for a place.
enum Booked {
    Yes(Arc<Reservation>),
    /// There was no room.
    Full,
    No,
}

/// How many guests are still about.
pub type About = Arc<Mutex<usize>>;

impl Guest {
    /// A guest who wants any of these slots.
    pub fn new(hub: &Shared, number: usize, dice: Dice, town: Arc<Town>) -> Self {
        Self { hub: hub.clone(), person: PersonId(number as u128 + 1), dice, town, keys: 0 }
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
        let town = self.town.clone();
        let slot = self.dice.one_of(&town.slots);
        let party = self.dice.small(1, 4);
        let patient = !town.rooms.contains(&slot.venue()) || self.dice.per_mille(50);
        if !patient && !self.queue(slot.venue()).await {
            return;
        }
        let seats = self.choose(slot.venue(), party);
        let key = self.dice.per_mille(600).then(|| self.fresh_key());
        match self.book(slot, party, seats, key).await {
            Booked::Yes(reservation) => self.enjoy(reservation).await,
            Booked::Full if self.dice.per_mille(600) => self.hope(slot, party).await,
            Booked::Full | Booked::No => {}
        }
    }

    /// Stands in the waiting room; whether that came to anything.
    async fn queue(&mut self, venue: VenueId) -> bool {
        let mut asks = Ask::Enter(venue);
        for _ in 0..14 {
            match self.insist(asks.clone()).await {
                Some(Reply::Inside) => {
                    if self.dice.per_mille(150) {
                        // Does nothing, perhaps for too long.
                        self.linger(5_000).await;
                    }
                    return true;
                }
                Some(Reply::Waiting) if self.dice.per_mille(40) => {
                    self.insist(Ask::Exit(venue)).await;
                    return false;
                }
                Some(Reply::Waiting) => asks = Ask::Standing(venue),
                Some(Reply::Over) => asks = Ask::Enter(venue),
                _ => {}
            }
            self.linger(1_500).await;
        }
        self.dice.per_mille(200)
    }

    /// Seats by name, sometimes: those that everybody wants.
    fn choose(&mut self, venue: VenueId, party: u32) -> Arc<[Seat]> {
        let town = self.town.clone();
        let Some(hall) = town.halls.get(&venue).filter(|_| self.dice.per_mille(500)) else {
            return Arc::default();
        };
        let from = self.dice.count(0, hall.len().min(4) - 1);
        let seats = hall.iter().skip(from).take(usize::try_from(party).unwrap_or(1));
        let seats: Arc<[Seat]> = seats.cloned().collect();
        if u32::try_from(seats.len()) == Ok(party) { seats } else { Arc::default() }
    }

    /// Waits for a place in what is sold out.
    async fn hope(&mut self, slot: SlotId, party: u32) {
        match self.insist(Ask::Join(slot, party)).await {
            Some(Reply::Noted | Reply::InLine(_)) => {}
            _ => return,
        }
        for _ in 0..self.dice.count(1, 10) {
            self.linger(1_600).await;
            if self.dice.per_mille(60) {
                self.insist(Ask::Unlist(slot)).await;
                return;
            }
            match self.insist(Ask::Offer(slot)).await {
                Some(Reply::Done(offer)) => return self.consider(offer).await,
                Some(Reply::Over) => return,
                _ => {}
            }
        }
    }

    /// With an offer.
    async fn consider(&mut self, offer: Arc<Reservation>) {
        match self.dice.between(0, 9) {
            0..4 => drop(self.insist(Ask::Pay(offer.id)).await),
            4..6 => drop(self.insist(Ask::Cancel(offer.id, CancelledBy::Guest)).await),
            6..8 => {}
            _ => self.enjoy(offer).await,
        }
    }

    async fn book(&mut self, slot: SlotId, party: u32, seats: Arc<[Seat]>, key: Option<String>) -> Booked {
        for _ in 0..6 {
            let asked = self.ask(Ask::Book { slot, party, seats: seats.clone(), key: key.clone() }).await;
            let in_line = match asked {
                Some(Reply::Done(reservation)) => {
                    if key.is_some() && self.dice.per_mille(150) {
                        // The same again, to be told the same.
                        continue;
                    }
                    return Booked::Yes(reservation);
                }
                Some(Reply::InLine(ticket) | Reply::InProgress(ticket)) => Some(ticket),
                Some(Reply::Refused(refusal)) if self.dice.per_mille(700) => return no(refusal),
                Some(Reply::Over | Reply::Outside) => return Booked::No,
                _ => None,
            };
            match in_line {
                Some(ticket) if self.dice.per_mille(120) => {
                    if let Some(Reply::Done(reservation)) = self.insist(Ask::Leave(ticket)).await {
                        return Booked::Yes(reservation);
                    }
                }
                Some(ticket) => {
                    if let Some(reservation) = self.poll(ticket).await {
                        return Booked::Yes(reservation);
                    }
                }
                None => self.linger(800).await,
            }
        }
        Booked::No
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
                0..28 => Ask::Pay(id),
                28..52 => Ask::Start(id),
                52..65 => Ask::Cancel(id, CancelledBy::Guest),
                65..69 => Ask::Cancel(id, CancelledBy::Venue),
                69..80 => Ask::Change(id, self.dice.small(1, 5), None),
                80..92 => {
                    let there: Vec<_> = self
                        .town
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
                Some(Reply::AtProvider(payment)) => self.pay_there(payment),
                _ => {}
            }
        }
    }

    /// What is done at the provider happens some time, whatever is done here meanwhile.
    fn pay_there(&mut self, payment: PaymentId) {
        let doing = match self.dice.between(0, 9) {
            0..6 => vec![Doing::Pay],
            6 => vec![Doing::Fail],
            7 => vec![Doing::GiveUp],
            8 => vec![Doing::Fail, Doing::Pay],
            _ => vec![],
        };
        let mut delay = 0;
        for doing in doing {
            let longest = if self.dice.per_mille(300) { 12_000_000 } else { 1_500_000 };
            delay += self.dice.between(10_000, longest);
            let shared = self.hub.clone();
            lock(&self.hub).after(delay, move |hub| at_the_bank(hub, &shared, payment, doing));
        }
    }
}

/// Refused: whether it is worth waiting.
fn no(refusal: Refusal) -> Booked {
    match refusal {
        Refusal::NotEnoughPlaces { .. } | Refusal::TableUnavailable { .. } | Refusal::SeatTaken { .. } => {
            Booked::Full
        }
        _ => Booked::No,
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
        Ask::Book { slot, .. } | Ask::Join(slot, _) | Ask::Unlist(slot) | Ask::Offer(slot) => {
            Some(slot.to_i64())
        }
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
