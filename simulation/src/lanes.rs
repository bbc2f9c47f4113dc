//! Redis, as one simulated process sees it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use booking::{SlotId, TicketId, flaws};
use fairlane::lanes::memory::Call;
use fairlane::lanes::{
    Answer, Backend, Drawn, Entering, Entry, Found, LaneKey, Look, Message, Place, Settlement, Terms,
};
use tokio::sync::mpsc;

use crate::hub::{Hub, Shared, To, call, lock, name};

const TIMEOUT: Duration = Duration::from_secs(1);

/// One process's connection to Redis.
pub struct Lanes {
    hub: Shared,
    process: usize,
    client: Box<str>,
    /// The batch that was drawn from each lane.
    drawn: Mutex<BTreeMap<Box<str>, u64>>,
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.client)
    }
}

fn slot_of(key: &LaneKey) -> Option<i64> {
    key.lane.parse().ok()
}

impl Lanes {
    /// The connection of a process in one of its lives.
    pub fn new(hub: &Shared, process: usize, life: u32) -> Self {
        Self { hub: hub.clone(), process, client: name(process, life), drawn: Mutex::default() }
    }

    fn drawn(&self) -> std::sync::MutexGuard<'_, BTreeMap<Box<str>, u64>> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask<T: Send + 'static>(
        &self,
        mut doing: impl FnMut(&mut Hub, Call<'_>) -> T + Send + 'static,
    ) -> Result<T, fairlane::Error> {
        let client = self.client.clone();
        let answer = call(&self.hub, self.process, To::Lanes, TIMEOUT, move |hub| {
            // Redis begins in 2001, so that its time is never near zero.
            let now = 1_000_000_000_000_000 + hub.now;
            Some(doing(hub, Call { client: &client, now }))
        });
        answer.await.ok_or_else(|| {
            let mut hub = lock(&self.hub);
            let now = hub.now;
            hub.auditor.trouble(now);
            hub.note(None, format!("{} hears nothing from Redis", self.client));
            fairlane::Error::Unavailable { source: "no answer".into() }
        })
    }
}

impl Backend for Lanes {
    fn client(&self) -> &str {
        &self.client
    }

    fn generation(&self) -> u64 {
        lock(&self.hub).seats[self.process].generation
    }

    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(self.ask(|_, _| ()))
    }

    fn enter<'a>(&'a self, key: &'a LaneKey, terms: &'a Terms, entries: &'a [Entry]) -> Answer<'a, Entering> {
        Box::pin(async move {
            if terms.generation.is_some_and(|named| named != self.generation()) {
                return Err(fairlane::Error::Unavailable { source: "another connection".into() });
            }
            let (key, terms, entries) = (key.clone(), *terms, entries.to_vec());
            let doing = move |hub: &mut Hub, call: Call<'_>| {
                let entering = hub.lanes.enter(call, &key, &terms, &entries);
                let told = match &entering {
                    Entering::NeedsEpoch => "an epoch is needed".to_owned(),
                    Entering::Done { entered, run, .. } => {
                        if *run {
                            hub.auditor.runs(&key.lane, call.client, hub.now);
                        }
                        format!("{entered:?}{}", if *run { ", to be run" } else { "" })
                    }
                };
                let client = call.client.to_owned();
                hub.note(slot_of(&key), format!("{client} enters {}: {told}", entries.len()));
                entering
            };
            self.ask(doing).await
        })
    }

    fn draw<'a>(
        &'a self,
        key: &'a LaneKey,
        limit: usize,
        settle: Option<&'a Settlement>,
    ) -> Answer<'a, Drawn> {
        Box::pin(async move {
            let lane = key.clone();
            let settles = settle.cloned().and_then(|settle| Some((*self.drawn().get(&lane.lane)?, settle)));
            let doing = move |hub: &mut Hub, call: Call<'_>| {
                if flaws::has("lease-not-checked") {
                    hub.lanes.end_lease(&lane);
                }
                let settles = settles.as_ref().map(|(batch, settle)| (*batch, settle));
                let (drawn, batch, said) = hub.lanes.draw(call, &lane, limit, settles);
                let client = call.client.to_owned();
                match &drawn {
                    Drawn::Batch { people, .. } => {
                        hub.auditor.runs(&lane.lane, call.client, hub.now);
                        let numbers: Vec<_> = people.iter().map(|one| one.place.to_string()).collect();
                        hub.note(slot_of(&lane), format!("{client} draws {}", numbers.join(" ")));
                    }
                    Drawn::Grace(_) => hub.auditor.runs(&lane.lane, call.client, hub.now),
                    Drawn::Nobody => {
                        hub.auditor.rests(&lane.lane, call.client);
                        hub.note(slot_of(&lane), format!("{client} gives the lane back"));
                    }
                    Drawn::Taken => {}
                }
                hub.publish(said);
                (drawn, batch)
            };
            let (drawn, batch) = self.ask(doing).await?;
            match (&drawn, batch) {
                (Drawn::Batch { .. }, Some(batch)) => drop(self.drawn().insert(key.lane.clone(), batch)),
                (Drawn::Grace(_), _) => {}
                _ => drop(self.drawn().remove(&key.lane)),
            }
            Ok(drawn)
        })
    }

    fn renew<'a>(&'a self, key: &'a LaneKey) -> Answer<'a, bool> {
        let key = key.clone();
        Box::pin(self.ask(move |hub, call| {
            let renewed = hub.lanes.renew(call, &key);
            if renewed {
                hub.auditor.still_runs(&key.lane, call.client, hub.now);
            }
            renewed
        }))
    }

    fn look<'a>(&'a self, key: &'a LaneKey) -> Answer<'a, Option<Look>> {
        let key = key.clone();
        Box::pin(self.ask(move |hub, call| hub.lanes.look(call.now, &key)))
    }

    fn find<'a>(&'a self, key: &'a LaneKey, place: Place) -> Answer<'a, Option<Found>> {
        let key = key.clone();
        Box::pin(async move {
            let doing = move |hub: &mut Hub, call: Call<'_>| {
                hub.lanes.find(call.now, &key, place).map(|found| (found.payload, found.position, found.left))
            };
            let found = self.ask(doing).await?;
            Ok(found.map(|(payload, position, left)| Found { payload, position, left }))
        })
    }

    fn leave<'a>(
        &'a self,
        key: &'a LaneKey,
        place: Place,
        guard: Option<&'a str>,
        claim: Option<&'a str>,
        tell: Option<(&'a str, &'a str)>,
    ) -> Answer<'a, bool> {
        let key = key.clone();
        let (guard, claim) = (guard.map(str::to_owned), claim.map(str::to_owned));
        let tell = tell.map(|(to, text)| (to.to_owned(), text.to_owned()));
        Box::pin(self.ask(move |hub, call| {
            let tell = tell.as_ref().map(|(to, text)| (to.as_str(), text.as_str()));
            let names = (guard.as_deref(), claim.as_deref());
            let (left, said) = hub.lanes.leave(call.now, &key, place, names, tell);
            hub.note(slot_of(&key), format!("{place} leaves: {left}"));
            if let (Some(slot), true) = (slot_of(&key), left) {
                let ticket = TicketId::new(SlotId::from_i64(slot), place.epoch, place.number);
                hub.auditor.left.insert(ticket.to_u128());
            }
            hub.publish(said);
            left
        }))
    }

    fn waiting<'a>(&'a self, group: &'a str, lanes: &'a [Box<str>]) -> Answer<'a, Vec<usize>> {
        let (group, lanes) = (group.to_owned(), lanes.to_vec());
        Box::pin(self.ask(move |hub, call| hub.lanes.waiting(call.now, &group, &lanes)))
    }

    fn unattended(&self) -> Answer<'_, Vec<LaneKey>> {
        Box::pin(self.ask(|hub, call| hub.lanes.unattended(call.now)))
    }

    fn messages(&self) -> mpsc::Receiver<Message> {
        let (sender, receiver) = mpsc::channel(4096);
        let _ = sender.try_send(Message::Connected);
        lock(&self.hub).seats[self.process].ears = Some(sender);
        receiver
    }
}
