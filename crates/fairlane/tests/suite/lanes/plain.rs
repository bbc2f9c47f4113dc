//! The server of lanes in memory behind the same calls as Redis, so that one model judges both.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::lanes::memory::{Call, Server, Times};
use fairlane::lanes::{
    Answer, Backend, Drawn, Entering, Entry, Found, LaneKey, Look, Message, Place, Settlement, SharedLanes,
    Terms,
};
use tokio::sync::mpsc;

use crate::world::LONG;

/// A server and its clock, which ticks with every call.
#[derive(Debug, Clone)]
pub struct Plain {
    server: Arc<Mutex<Server>>,
    clock: Arc<AtomicU64>,
}

impl Plain {
    /// Leases long enough not to play a part, and no grace.
    pub fn start() -> Self {
        let times = Times { lease: LONG, grace: Duration::ZERO };
        let clock = Arc::new(AtomicU64::new(1_000_000_000_000_000));
        Self { server: Arc::new(Mutex::new(Server::new(times))), clock }
    }

    pub fn with<T>(&self, what: impl FnOnce(&mut Server, u64) -> T) -> T {
        let now = self.clock.fetch_add(10, Ordering::Relaxed);
        what(&mut self.server.lock().unwrap(), now)
    }

    /// Lanes as a process of its own has them.
    pub fn process(&self, client: String) -> SharedLanes {
        SharedLanes::over(Arc::new(Process { plain: self.clone(), client, drawn: Mutex::default() }))
    }
}

/// What a client of Redis remembers: the batch that it drew from each lane.
#[derive(Debug)]
struct Process {
    plain: Plain,
    client: String,
    drawn: Mutex<HashMap<Box<str>, u64>>,
}

impl Process {
    fn ask<T: Send + 'static>(&self, what: impl FnOnce(&mut Server, Call<'_>) -> T) -> Answer<'_, T> {
        let answer = self.plain.with(|server, now| what(server, Call { client: &self.client, now }));
        Box::pin(async { Ok(answer) })
    }
}

impl Backend for Process {
    fn client(&self) -> &str {
        &self.client
    }

    fn generation(&self) -> u64 {
        1
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.ask(|_, _| ())
    }

    fn enter<'a>(&'a self, key: &'a LaneKey, terms: &'a Terms, entries: &'a [Entry]) -> Answer<'a, Entering> {
        self.ask(|server, call| server.enter(call, key, terms, entries))
    }

    fn draw<'a>(
        &'a self,
        key: &'a LaneKey,
        limit: usize,
        settle: Option<&'a Settlement>,
    ) -> Answer<'a, Drawn> {
        let mut own = self.drawn.lock().unwrap();
        let settles = settle.and_then(|settle| Some((*own.get(&key.lane)?, settle)));
        let drawn = self.plain.with(|server, now| {
            let (drawn, batch, _) = server.draw(Call { client: &self.client, now }, key, limit, settles);
            match batch {
                Some(batch) => own.insert(key.lane.clone(), batch),
                None => own.remove(&key.lane),
            };
            drawn
        });
        Box::pin(async { Ok(drawn) })
    }

    fn renew<'a>(&'a self, key: &'a LaneKey) -> Answer<'a, bool> {
        self.ask(|server, call| server.renew(call, key))
    }

    fn look<'a>(&'a self, key: &'a LaneKey) -> Answer<'a, Option<Look>> {
        self.ask(|server, call| server.look(call.now, key))
    }

    fn find<'a>(&'a self, key: &'a LaneKey, place: Place) -> Answer<'a, Option<Found>> {
        self.ask(|server, call| server.find(call.now, key, place))
    }

    fn leave<'a>(
        &'a self,
        key: &'a LaneKey,
        place: Place,
        guard: Option<&'a str>,
        claim: Option<&'a str>,
        tell: Option<(&'a str, &'a str)>,
    ) -> Answer<'a, bool> {
        self.ask(|server, call| server.leave(call.now, key, place, (guard, claim), tell).0)
    }

    fn waiting<'a>(&'a self, group: &'a str, lanes: &'a [Box<str>]) -> Answer<'a, Vec<usize>> {
        self.ask(|server, call| server.waiting(call.now, group, lanes))
    }

    fn unattended(&self) -> Answer<'_, Vec<LaneKey>> {
        self.ask(|server, call| server.unattended(call.now))
    }

    fn messages(&self) -> mpsc::Receiver<Message> {
        mpsc::channel(1).1
    }
}
