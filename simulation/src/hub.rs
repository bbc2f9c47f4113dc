//! What all processes of a world share: the time, the network, the two servers, and the auditor.
//!
//! A call is a request event and a reply event, each with a delay of its own; either may be lost, and the whole may happen
//! twice. Events happen one at a time, in order of time, outside of any process.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlane::lanes::Message;
use fairlane::lanes::memory::{Said, Server};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::auditor::Auditor;
use crate::bank::Bank;
use crate::dice::Dice;
use crate::process::App;
use crate::rows::Rows;
use crate::swarm::{Faults, Swarm};
use crate::trace::Trace;

/// The wall clock at the beginning of every world, in ms since 1970: 2026-03-02, noon in Seoul.
pub const BEGINNING: i64 = 1_772_420_400_000;

/// Something that will happen.
type Event = Box<dyn FnOnce(&mut Hub) + Send>;

/// One server process, as the world sees it.
pub struct Seat {
    /// What its handlers work with, once it is up.
    pub app: Option<Arc<App>>,
    /// Where its tasks run.
    pub handle: Option<tokio::runtime::Handle>,
    /// Which life.
    pub life: u32,
    /// Changes with every connection to Redis.
    pub generation: u64,
    /// Where it hears what is published.
    pub ears: Option<mpsc::Sender<Message>>,
    /// Its clock, in ms since 1970.
    pub clock: Arc<AtomicI64>,
    /// By how much its clock is wrong, in ms.
    pub skew: i64,
}

/// What all share.
pub struct Hub {
    /// µs since the beginning.
    pub now: u64,
    /// Chance of network and servers.
    pub dice: Dice,
    queue: BTreeMap<(u64, u64), Event>,
    next: u64,
    /// Whether anything goes wrong at present.
    pub faulty: bool,
    /// What goes wrong.
    pub faults: Faults,
    /// The database.
    pub rows: Rows,
    /// Away until then.
    pub rows_away: u64,
    /// Redis.
    pub lanes: Server,
    /// Away until then.
    pub lanes_away: u64,
    /// Copies of Redis that could take over.
    pub copies: Vec<Server>,
    /// The payment provider.
    pub bank: Bank,
    /// How often a server has started.
    pub starts: u64,
    /// The processes.
    pub seats: Vec<Seat>,
    /// Who watches.
    pub auditor: Auditor,
    /// What happened.
    pub trace: Trace,
}

/// The hub, as everybody holds it.
pub type Shared = Arc<Mutex<Hub>>;

/// All of a world happens on one thread: nobody waits here, and a panic ends the world.
pub fn lock(hub: &Shared) -> MutexGuard<'_, Hub> {
    hub.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which server a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The database.
    Rows,
    /// Redis.
    Lanes,
    /// The payment provider.
    Bank,
}

impl Hub {
    /// A world before anything has happened.
    pub fn new(swarm: &Swarm, dice: Dice, kept: bool) -> Self {
        let seat = |_| Seat {
            app: None,
            handle: None,
            life: 0,
            generation: 1,
            ears: None,
            clock: Arc::new(AtomicI64::new(BEGINNING)),
            skew: 0,
        };
        Self {
            now: 0,
            dice,
            queue: BTreeMap::new(),
            next: 0,
            faulty: true,
            faults: swarm.faults.clone(),
            rows: Rows::default(),
            rows_away: 0,
            lanes: Server::default(),
            lanes_away: 0,
            copies: Vec::new(),
            bank: Bank::default(),
            starts: 0,
            seats: (0..swarm.processes).map(seat).collect(),
            auditor: Auditor::new(swarm.redis),
            trace: Trace::new(kept),
        }
    }

    /// The true wall clock, in ms.
    pub fn wall(&self) -> i64 {
        BEGINNING + i64::try_from(self.now / 1000).unwrap_or(0)
    }

    /// Something happens after so many µs.
    pub fn after(&mut self, delay: u64, event: impl FnOnce(&mut Hub) + Send + 'static) {
        self.next += 1;
        self.queue.insert((self.now + delay, self.next), Box::new(event));
    }

    /// When the next thing happens.
    pub fn next_event(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets everything happen that is due.
    pub fn happen(&mut self, until: u64) {
        while let Some((&(at, _), _)) = self.queue.first_key_value()
            && at <= until
        {
            let Some((_, event)) = self.queue.pop_first() else { return };
            self.now = self.now.max(at);
            event(self);
        }
        self.now = until;
    }

    /// Notes what happened.
    pub fn note(&mut self, slot: Option<i64>, what: String) {
        let at = self.now;
        self.trace.note(at, slot, what);
    }

    /// True so often out of a thousand times, while things go wrong.
    pub fn goes_wrong(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.faulty && self.dice.per_mille(per_mille)
    }

    fn is_away(&self, to: To) -> bool {
        match to {
            To::Rows => self.now < self.rows_away,
            To::Lanes => self.now < self.lanes_away,
            To::Bank => false,
        }
    }

    /// How long one way takes.
    fn delay(&mut self, to: To) -> u64 {
        let slow = match to {
            To::Rows => self.faults.store_slow,
            To::Lanes => self.faults.lanes_slow,
            To::Bank => self.faults.bank_late,
        };
        let most = match (self.goes_wrong(slow), to) {
            (true, To::Rows | To::Bank) => 2_500_000,
            (true, To::Lanes) => 900_000,
            (false, _) => 4_000,
        };
        self.dice.between(100, most)
    }

    /// Publishes.
    pub fn publish(&mut self, said: Vec<Said>) {
        for (to, text) in said {
            if self.goes_wrong(self.faults.said_lost) {
                continue;
            }
            let copies = if self.goes_wrong(self.faults.doubled) { 2 } else { 1 };
            for _ in 0..copies {
                let (to, text, delay) = (to.clone(), text.clone(), self.delay(To::Lanes));
                self.after(delay, move |hub| {
                    let heard = hub.seats.iter().enumerate().find(|(at, seat)| name(*at, seat.life) == to);
                    if let Some(ears) = heard.and_then(|(_, seat)| seat.ears.as_ref()) {
                        let _ = ears.try_send(Message::Said(text));
                    }
                });
            }
        }
    }

    /// Looks at the waiting rooms, of which something has changed.
    pub fn audit_rooms(&mut self) {
        let options = self.auditor.options();
        let findings = self.rows.audit_rooms(options);
        findings.iter().for_each(|finding| self.auditor.found(None, finding));
    }

    /// Nothing more will happen.
    pub fn end(&mut self) {
        self.queue.clear();
        for seat in &mut self.seats {
            (seat.app, seat.handle, seat.ears) = (None, None, None);
        }
    }

    /// All connections to Redis are new ones.
    pub fn reconnect(&mut self) {
        for seat in &mut self.seats {
            seat.generation += 1;
            if let Some(ears) = &seat.ears {
                let _ = ears.try_send(Message::Connected);
            }
        }
    }
}

/// The name of a process in one of its lives.
pub fn name(process: usize, life: u32) -> Box<str> {
    format!("p{process}.{life}").into()
}

/// Calls a server and waits for the answer; `None` if none came in time.
pub async fn call<T: Send + 'static>(
    hub: &Shared,
    process: usize,
    to: To,
    timeout: Duration,
    mut doing: impl FnMut(&mut Hub) -> Option<T> + Send + 'static,
) -> Option<T> {
    let deadline = Instant::now() + timeout;
    let (sender, reply) = oneshot::channel();
    {
        let mut hub = lock(hub);
        let hub = &mut *hub;
        let (lost, silent) = match to {
            To::Rows => (hub.faults.store_lost, hub.faults.store_silent),
            To::Lanes => (hub.faults.lanes_lost, hub.faults.lanes_lost),
            To::Bank => (hub.faults.bank_lost, hub.faults.bank_lost),
        };
        let (lost, silent) = (hub.goes_wrong(lost), hub.goes_wrong(silent));
        let doubled = hub.goes_wrong(hub.faults.doubled);
        let (there, back) = (hub.delay(to), hub.delay(to));
        let generation = hub.seats[process].generation;
        if hub.is_away(to) && hub.dice.per_mille(500) {
            // Nobody listens there: that is known at once.
            return None;
        }
        if !lost {
            hub.after(there, move |hub| {
                let cut = to == To::Lanes && hub.seats[process].generation != generation;
                if hub.is_away(to) || cut {
                    return;
                }
                let answer = doing(hub);
                if doubled {
                    let later = hub.delay(to);
                    hub.after(later, move |hub| {
                        if !hub.is_away(to) {
                            doing(hub);
                        }
                    });
                }
                if let (Some(answer), false) = (answer, silent) {
                    hub.after(back, move |_| drop(sender.send(answer)));
                }
            });
        }
    }
    match tokio::time::timeout_at(deadline, reply).await {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(_)) => {
            // Lost on its way: nobody hears of that.
            tokio::time::sleep_until(deadline).await;
            None
        }
        Err(_) => None,
    }
}
