//! Rehearsals that this server sends at itself, where it is a demo: synthetic guests come over HTTP like anybody else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use booking::venue::StartTime;
use booking::{SlotId, VenueId};
use rehearsal::{Arrivals, Plan, Popularity, Report, Slot, Tally, Tokens, Waiting};
use tokio::task::JoinHandle;

/// The most guests that may be sent at once.
pub const MOST: u32 = 1_000;
/// Over how long so many come: long enough to see the line grow and go.
const COMING: Duration = Duration::from_secs(4);

/// The rehearsal of this server, if it may have any.
#[derive(Default)]
pub struct Rehearsals {
    /// Where guests find the server; unset where there are no rehearsals.
    server: OnceLock<SocketAddr>,
    latest: Mutex<Option<Latest>>,
}

/// The rehearsal that was started last.
#[derive(Clone)]
pub struct Latest {
    /// Where.
    pub venue: VenueId,
    /// What everybody wants.
    pub slot: SlotId,
    /// How many come.
    pub guests: u32,
    /// How it goes.
    pub tally: Arc<Tally>,
    ended: Arc<OnceLock<Result<Report, String>>>,
    running: Arc<JoinHandle<()>>,
}

/// How a rehearsal stands.
pub enum Standing<'a> {
    /// It goes on.
    Running,
    /// It is over.
    Over(&'a Report),
    /// It did not come to its end, for this reason where one is known.
    Failed(Option<&'a str>),
}

/// A rehearsal is under way.
#[derive(Debug)]
pub struct UnderWay;

impl Latest {
    /// How it stands.
    pub fn standing(&self) -> Standing<'_> {
        // In this order: its end is told before it ends.
        let finished = self.running.is_finished();
        match self.ended.get() {
            Some(Ok(report)) => Standing::Over(report),
            Some(Err(why)) => Standing::Failed(Some(why)),
            None if finished => Standing::Failed(None),
            None => Standing::Running,
        }
    }
}

impl Rehearsals {
    /// From now on staff may rehearse, with guests who come to this address.
    pub fn allow(&self, listening: SocketAddr) {
        let mut server = listening;
        // Listening everywhere is listening here too.
        match server.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => server.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => server.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        // Allowed twice is allowed.
        let _ = self.server.set(server);
    }

    /// Whether there may be any.
    pub fn are_allowed(&self) -> bool {
        self.server.get().is_some()
    }

    /// The one that was started last.
    pub fn latest(&self) -> Option<Latest> {
        self.lock().clone()
    }

    /// Lets guests come, one crowd at a time.
    pub fn start(
        &self,
        venue: VenueId,
        slot: SlotId,
        guests: u32,
        tokens: Tokens,
    ) -> Result<Latest, UnderWay> {
        let mut latest = self.lock();
        if latest.as_ref().is_some_and(|latest| !latest.running.is_finished()) {
            return Err(UnderWay);
        }
        let (tally, ended) = (Arc::new(Tally::default()), Arc::new(OnceLock::new()));
        let rehearsing = rehearsal::run(self.plan(venue, slot, guests), tokens, tally.clone());
        let end = ended.clone();
        let running = Arc::new(tokio::spawn(async move {
            // Nobody else sets it.
            let _ = end.set(rehearsing.await.map_err(|error| error.to_string()));
        }));
        Ok(latest.insert(Latest { venue, slot, guests, tally, ended, running }).clone())
    }

    fn plan(&self, venue: VenueId, slot: SlotId, guests: u32) -> Plan {
        Plan {
            servers: self.server.get().map(|server| (*server).into()).into_iter().collect(),
            venue: venue.to_string(),
            slots: vec![Slot { date: slot.date().to_string(), time: StartTime(slot.time()).to_string() }],
            popularity: Popularity::Even,
            arrivals: Arrivals::Over(COMING.mul_f64(f64::from(guests) / f64::from(MOST))),
            guests,
            party: 1..=4,
            patience: Duration::from_secs(30),
            abandon: 0.05,
            pay: 0.6,
            cancel: 0.0,
            waiting: Waiting::Listen,
            wait_in_call: 2,
            keys: true,
            look_after: true,
            connections: 200,
            seed: rand::random(),
        }
    }

    /// Sends everybody home who is still there.
    pub async fn close(&self) {
        let latest = self.lock().take();
        if let Some(Latest { running, .. }) = latest {
            running.abort();
            // Who looks at it meanwhile holds it too; then it ends by itself.
            if let Ok(running) = Arc::try_unwrap(running) {
                let _ = running.await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
