//! Where the race takes place: starts contenders, and sends them guests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use booking::PersonId;
use jiff::{Timestamp, ToSpan};
use maitred::signing::{Claims, Signer};
use rehearsal::{Arrivals, Outcome, Plan, Popularity, Report, Slot, Tokens, Waiting};
use store::Store;

use super::Contender;
use crate::rows::{scattered, settings_for};
use crate::served::Served;
use crate::spring::{self, Java, Mode, Setup, Spring};
use crate::world::{KEY, World};
use crate::{Result, machine, row_lock};

/// Requests that a JVM has answered before it is measured.
const WARM: u32 = 3_000;
/// The rest has nothing to warm up but connections and pages.
const TEPID: u32 = 500;

/// The servers beneath, and the programs.
pub struct Stage {
    /// PostgreSQL, Redis, and what this program runs on.
    pub world: World,
    java: Java,
    maitred: PathBuf,
    /// How often everything is measured.
    pub rounds: usize,
    /// Whether crowds are small.
    pub quick: bool,
    people: AtomicU64,
    remarks: Mutex<Vec<String>>,
}

impl Stage {
    /// Starts PostgreSQL and Redis, and finds or builds the programs.
    pub fn set(rounds: usize, quick: bool) -> Result<Self> {
        let maitred = std::env::current_exe()?.with_file_name("maitred");
        if !maitred.exists() {
            return Err(format!("{} is missing: cargo build --release -p maitred", maitred.display()).into());
        }
        let (java, world) = (spring::build()?, World::start()?);
        Ok(Self { world, java, maitred, rounds, quick, people: AtomicU64::new(1), remarks: Mutex::default() })
    }

    /// What everything is run with.
    pub fn described(&self) -> Vec<String> {
        vec![
            "PostgreSQL and Redis with their usual settings (synchronous commits; Redis keeps nothing on disk)".into(),
            format!("Spring Boot 3 and Redisson on Java {}, {WARM} requests before anything is measured", self.java.version()),
            format!("row lock: {} connections to PostgreSQL; maitred: its defaults", row_lock::CONNECTIONS),
        ]
    }

    /// Something that readers should know.
    pub fn remark(&self, remark: String) {
        eprintln!("  ({remark})");
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).push(remark);
    }

    /// Everything that was remarked.
    pub fn remarks(&self) -> Vec<String> {
        std::mem::take(&mut self.remarks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number, or a small one.
    pub fn many(&self, many: u32) -> u32 {
        if self.quick { (many / 10).max(50) } else { many }
    }

    /// Starts a contender with so many places in every slot, over a database of its own. It is cold.
    pub fn start(&self, contender: Contender, capacity: u32) -> Result<Running<'_>> {
        let (mut data, began) = (None, Instant::now());
        let processes = match contender {
            Contender::FairLock { .. } | Contender::Admission => {
                let mode = if contender == Contender::Admission { Mode::Admission } else { Mode::FairLock };
                let virtual_threads = contender == Contender::FairLock { virtual_threads: true };
                let setup = Setup::new(mode, &self.world.empty_database()?, &self.world.redis.url());
                let setup = Setup { virtual_threads, capacity, ..setup };
                vec![Process::Java(Spring::start(&self.java, &setup)?)]
            }
            Contender::RowLock(tally) => {
                let (url, store) = self.world.database(capacity)?;
                store.close();
                let (capacity, pool) = (capacity.to_string(), row_lock::CONNECTIONS.to_string());
                let arguments = ["--serve-row-lock", &url, tally.as_str(), &capacity, &pool];
                vec![Process::Native(Served::start(&arguments)?)]
            }
            Contender::Embedded => {
                let folder = tempfile::tempdir()?;
                let store = Store::sqlite(&folder.path().join("maitred.db"))?;
                let settings = settings_for(capacity)?;
                self.world.runtime.block_on(store.add_venue(settings, vec![], vec![]))?;
                store.close();
                drop(store);
                let program = self.maitred(&["--data", &folder.path().display().to_string()])?;
                data = Some(folder);
                vec![program]
            }
            Contender::Shared(processes) => {
                let (url, store) = self.world.database(capacity)?;
                store.close();
                let redis = self.world.redis.url();
                let program = |_| self.maitred(&["--database", &url, "--redis", &redis]);
                (0..processes).map(program).collect::<Result<_>>()?
            }
            Contender::Constant => vec![Process::Native(Served::start(&["--serve-constant"])?)],
        };
        let days = AtomicU32::new(1);
        Ok(Running { stage: self, contender, processes, days, started_in: began.elapsed(), _data: data })
    }

    fn maitred(&self, arguments: &[&str]) -> Result<Process> {
        let mut command = Command::new(&self.maitred);
        command.current_dir(std::env::temp_dir()).args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        command.env("MAITRED_TOKEN_SIGNING_KEY", KEY).env("MAITRED_LOG_FILTER", "warn,refinery_core=error");
        Ok(Process::Native(Served::of(&mut command)?))
    }

    /// Tokens of so many people whom nobody has seen before.
    fn tokens(&self, contender: Contender, guests: u32) -> Result<Tokens> {
        let first = self.people.fetch_add(guests.into(), Ordering::Relaxed);
        if !contender.is_maitred() {
            return Ok(Arc::new(move |guest| format!("guest-{}", first + u64::from(guest))));
        }
        // Made ahead: what is measured is not how fast the generator signs.
        let (signer, exp) = (Signer::from_text(KEY)?, Timestamp::now().as_second() + 3_600);
        let token = |guest| {
            let sub = PersonId(scattered(first + u64::from(guest)));
            signer.sign(&Claims { sub, name: "Kim Guest".into(), exp })
        };
        let tokens: Vec<_> = (0..guests).map(token).collect();
        Ok(Arc::new(move |guest| tokens.get(guest as usize).cloned().unwrap_or_default()))
    }
}

/// A server in a process of its own, which ends when this is dropped.
enum Process {
    Native(Served),
    Java(Spring),
}

/// A contender on the stage.
pub struct Running<'a> {
    stage: &'a Stage,
    /// Who it is.
    pub contender: Contender,
    processes: Vec<Process>,
    days: AtomicU32,
    /// How long it took until it said that it serves, its database included.
    pub started_in: Duration,
    /// Goes with its processes, after them.
    _data: Option<tempfile::TempDir>,
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
        let address = |process: &Process| match process {
            Process::Native(served) => served.address,
            Process::Java(spring) => spring.address,
        };
        self.processes.iter().map(address).collect()
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
        let id = |process: &Process| match process {
            Process::Native(served) => served.id(),
            Process::Java(spring) => spring.id(),
        };
        let peaks = self.processes.iter().map(|process| machine::peak_resident(id(process)));
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
        let seed = self.stage.people.load(Ordering::Relaxed);
        let plan = Plan {
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
        };
        let tokens = self.stage.tokens(self.contender, crowd.guests)?;
        let report = self.stage.world.runtime.block_on(rehearsal::run(plan, tokens, Arc::default()))?;
        self.judge(&report);
        Ok(report)
    }

    fn judge(&self, report: &Report) {
        let exact = report.exactness;
        let wrong = exact.oversold + exact.double_bookings + exact.inversions + exact.vanished;
        let unknown = if self.contender.is_maitred() { exact.lost_answers } else { 0 };
        if wrong + unknown + exact.unexplained > 0 {
            let outcomes: BTreeMap<_, _> = report.outcomes.clone();
            let strange = report.strange.first().map(|said| format!(", such as {said}")).unwrap_or_default();
            let name = self.contender.name();
            self.stage.remark(format!("{name}, {} guests: {outcomes:?}, {exact:?}{strange}", report.guests));
        }
    }
}

/// Bookings a second.
pub fn pace(report: &Report) -> f64 {
    report.count(Outcome::Seated) as f64 / report.seconds.max(1e-9)
}

/// Whoever takes long to start stays between rounds; everybody else starts anew each time.
pub struct Cast<'a> {
    stage: &'a Stage,
    capacity: u32,
    kept: BTreeMap<Contender, Running<'a>>,
}

impl<'a> Cast<'a> {
    /// Nobody yet; with so many places in every slot.
    pub fn new(stage: &'a Stage, capacity: u32) -> Self {
        Self { stage, capacity, kept: BTreeMap::new() }
    }

    /// Measures a contender that has been warmed up.
    pub fn with<T>(
        &mut self,
        contender: Contender,
        measure: impl FnOnce(&Running<'_>) -> Result<T>,
    ) -> Result<T> {
        if let Some(running) = self.kept.get(&contender) {
            return measure(running);
        }
        let running = self.stage.start(contender, self.capacity)?;
        running.warm_up()?;
        let measured = measure(&running)?;
        if contender.is_java() {
            self.kept.insert(contender, running);
        }
        Ok(measured)
    }
}
