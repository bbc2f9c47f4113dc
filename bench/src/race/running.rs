//! A contender that runs, and the guests who come to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use rehearsal::{Arrivals, Outcome, Plan, Popularity, Report, Slot, Waiting};

use super::Contender;
use super::stage::Stage;
use crate::served::Served;
use crate::{Result, machine};

/// Requests that a JVM has answered before it is measured.
pub const WARM: u32 = 3_000;
/// The rest has nothing to warm up but connections and pages.
const TEPID: u32 = 500;

/// A contender on the stage.
pub struct Running<'a> {
    pub(super) stage: &'a Stage,
    /// Who it is.
    pub contender: Contender,
    pub(super) processes: Vec<Served>,
    pub(super) days: AtomicU32,
    /// How long it took until it said that it serves, its database included.
    pub started_in: Duration,
    /// Goes with its processes, after them.
    pub(super) _data: Option<tempfile::TempDir>,
}

/// Who comes, and what for.
#[derive(Debug, Clone)]
pub struct Crowd {
    /// How many.
    pub guests: u32,
    /// When.
    pub arrivals: Arrivals,
    /// For what.
    pub slots: Vec<Slot>,
    /// How they are spread over that.
    pub popularity: Popularity,
    /// How long they wait; where everybody comes at once, when all is over.
    pub patience: Duration,
    /// The share who pay.
    pub pay: f64,
    /// The share who cancel.
    pub cancel: f64,
    /// Connections at the same time.
    pub connections: usize,
    /// Whether it is looked afterwards what everybody has.
    pub look_after: bool,
}

impl Crowd {
    /// Everybody at once for one slot, who book and go home.
    pub fn at_once(guests: u32, slot: Slot, connections: usize) -> Self {
        Self {
            guests,
            arrivals: Arrivals::AllAtOnce,
            slots: vec![slot],
            popularity: Popularity::Even,
            patience: Duration::from_secs(60),
            pay: 0.0,
            cancel: 0.0,
            connections,
            look_after: false,
        }
    }
}

impl Running<'_> {
    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.processes.iter().map(|process| process.address).collect()
    }

    /// Where it is.
    pub fn stage(&self) -> &Stage {
        self.stage
    }

    /// Bookings of so many new people, as they travel.
    pub fn requests(&self, slot: &Slot, guests: u32) -> Result<Vec<String>> {
        let (Slot { date, time }, tokens) = (slot, self.stage.tokens(self.contender, guests)?);
        let body =
            format!(r#"{{"venueId":"1","date":"{date}","time":"{time}","partySize":2,"payment":"deposit"}}"#);
        let request = |guest| {
            format!(
                "POST /api/reservations HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nprefer: wait=10\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                tokens(guest),
                body.len()
            )
        };
        Ok((0..guests).map(request).collect())
    }

    /// The most memory that any of its processes had, in GiB.
    pub fn peak_memory(&self) -> Result<f64> {
        let peaks = self.processes.iter().map(|process| machine::peak_resident(process.id()));
        let most = peaks.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0);
        Ok(most as f64 / f64::from(1 << 30))
    }

    /// Noon of a day for which nobody has asked yet.
    pub fn fresh_slot(&self) -> Result<Slot> {
        Ok(self.fresh_day()?.swap_remove(12))
    }

    /// All hours of such a day.
    pub fn fresh_day(&self) -> Result<Vec<Slot>> {
        let day = i64::from(self.days.fetch_add(1, Ordering::Relaxed));
        let seoul = jiff::tz::TimeZone::get("Asia/Seoul")?;
        let today = Timestamp::now().to_zoned(seoul).date();
        let date = today.checked_add(day.days())?.to_string();
        Ok((0..24).map(|hour| Slot { date: date.clone(), time: format!("{hour:02}:00") }).collect())
    }

    /// Lets it answer some requests that do not count, spread over a day's slots.
    pub fn warm_up(&self) -> Result<()> {
        let guests = self.stage.many(if self.contender.is_java() { WARM } else { TEPID });
        let slots = self.fresh_day()?;
        let slot = slots.first().cloned().ok_or("a day without hours")?;
        self.face(Crowd { slots, ..Crowd::at_once(guests, slot, 64) })?;
        Ok(())
    }

    /// Sends it a crowd, and says how that went. What should not happen is remarked.
    pub fn face(&self, crowd: Crowd) -> Result<Report> {
        let guests = crowd.guests;
        let (plan, tokens) = (self.plan(crowd), self.stage.tokens(self.contender, guests)?);
        let (before, calls) = (self.used()?, self.stage.world.calls());
        let report = self.stage.world.runtime.block_on(rehearsal::run(plan, tokens, Arc::default()))?;
        let (after, calls) = (self.used()?, self.stage.world.calls() - calls);
        if guests >= 1_000 {
            let each = |n: usize| after[n].saturating_sub(before[n]).as_secs_f64() * 1e6 / f64::from(guests);
            let [servers, redis, postgres, generator] = [0, 1, 2, 3].map(each);
            let calls = calls as f64 / f64::from(guests);
            eprintln!(
                "    (µs of processor time a guest: servers {servers:.0}, Redis {redis:.0}, PostgreSQL {postgres:.0}, \
                 generator {generator:.0}; {calls:.2} calls to Redis)"
            );
        }
        self.judge(&report);
        Ok(report)
    }

    fn plan(&self, crowd: Crowd) -> Plan {
        let seed = self.stage.people.load(Ordering::Relaxed);
        Plan {
            servers: self.addresses().into_iter().map(Into::into).collect(),
            venue: "1".into(),
            slots: crowd.slots,
            popularity: crowd.popularity,
            arrivals: crowd.arrivals,
            guests: crowd.guests,
            party: 2..=2,
            patience: crowd.patience,
            abandon: 0.0,
            pay: crowd.pay,
            cancel: crowd.cancel,
            waiting: Waiting::Poll,
            wait_in_call: 10,
            keys: false,
            look_after: crowd.look_after,
            connections: crowd.connections,
            seed,
        }
    }

    /// Waits until it has done with those who have left; whether it has, in the end.
    pub fn quiet(&self) -> Result<bool> {
        if !self.contender.is_java() {
            // It ends before anybody else is measured.
            return Ok(true);
        }
        for _ in 0..10 {
            let crowd =
                Crowd { patience: Duration::from_secs(2), ..Crowd::at_once(20, self.fresh_slot()?, 20) };
            // Whoever does not even take connections is busy.
            let probe = self.face(crowd);
            if probe.is_ok_and(|probe| probe.count(Outcome::Seated) == 20 && probe.seconds < 0.5) {
                return Ok(true);
            }
        }
        self.stage.remark(format!("{} was still busy long after too many guests", self.contender.name()));
        Ok(false)
    }

    /// Processor time so far: of its processes, Redis, PostgreSQL, and the generator.
    fn used(&self) -> Result<[Duration; 4]> {
        let world = &self.stage.world;
        let sum = |ids: Vec<u32>| ids.into_iter().map(machine::processor_time).sum::<Result<Duration>>();
        let servers = sum(self.processes.iter().map(Served::id).collect())?;
        let postgres = machine::with_children(world.postgres.id())?.into_iter();
        // Some of them end meanwhile.
        let postgres = postgres.flat_map(machine::processor_time).sum();
        let (redis, own) =
            (machine::processor_time(world.redis.id())?, machine::processor_time(std::process::id())?);
        Ok([servers, redis, postgres, own])
    }

    fn judge(&self, report: &Report) {
        let exact = report.exactness;
        let wrong = exact.oversold + exact.double_bookings + exact.inversions + exact.vanished;
        if self.contender == Contender::Constant {
            return;
        }
        let unknown = if self.contender.is_maitred() { exact.lost_answers } else { 0 };
        if wrong + unknown + exact.unexplained > 0 {
            let outcomes = &report.outcomes;
            let strange = report.strange.first().map(|said| format!(", such as {said}")).unwrap_or_default();
            let name = self.contender.name();
            self.stage.remark(format!("{name}, {} guests: {outcomes:?}, {exact:?}{strange}", report.guests));
        }
    }
}

/// Bookings a second of a crowd that came at once, up to the last one: whoever leaves without takes no part.
pub fn pace(report: &Report) -> f64 {
    let last = report.latency.get("seated").map_or(0.0, |seated| seated.max / 1e3);
    report.count(Outcome::Seated) as f64 / last.max(1e-9)
}
