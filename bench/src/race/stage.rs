//! Where the race takes place: the servers beneath, the programs, and who is on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use booking::PersonId;
use jiff::Timestamp;
use maitred::signing::{Claims, Signer};
use rehearsal::Tokens;
use store::Store;

use super::Contender;
use super::running::{Running, WARM};
use crate::rows::{scattered, settings_for};
use crate::served::Served;
use crate::spring::{self, Java, Mode, Setup};
use crate::world::{KEY, World};
use crate::{Result, row_lock};

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
    out: Option<PathBuf>,
    pub(super) people: AtomicU64,
    remarks: Mutex<Vec<String>>,
}

impl Stage {
    /// Starts PostgreSQL and Redis, and finds or builds the programs.
    pub fn set(rounds: usize, quick: bool, out: Option<PathBuf>) -> Result<Self> {
        let maitred = std::env::current_exe()?.with_file_name("maitred");
        if !maitred.exists() {
            return Err(format!("{} is missing: cargo build --release -p maitred", maitred.display()).into());
        }
        let (java, world) = (spring::build()?, World::start()?);
        Ok(Self {
            world,
            java,
            maitred,
            rounds,
            quick,
            out,
            people: AtomicU64::new(1),
            remarks: Mutex::default(),
        })
    }

    /// What everything is run with.
    pub fn described(&self) -> Vec<String> {
        vec![
            "PostgreSQL and Redis with their usual settings (synchronous commits; Redis keeps nothing on disk)".into(),
            format!("Spring Boot 3 and Redisson on Java {}, {WARM} requests before anything is measured", self.java.version()),
            format!("row lock: {} connections to PostgreSQL; maitred: its defaults", row_lock::CONNECTIONS),
        ]
    }

    /// Writes something that was found, where anything is written.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let Some(folder) = &self.out else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join(name), text)?;
        Ok(())
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
                vec![spring::start(&self.java, &setup)?]
            }
            Contender::RowLock(tally) => {
                let (url, store) = self.world.database(capacity)?;
                store.close();
                let (capacity, pool) = (capacity.to_string(), row_lock::CONNECTIONS.to_string());
                let arguments = ["--serve-row-lock", &url, tally.as_str(), &capacity, &pool];
                vec![Served::start(&arguments)?]
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
            Contender::Constant => vec![Served::start(&["--serve-constant"])?],
        };
        let days = AtomicU32::new(1);
        Ok(Running { stage: self, contender, processes, days, started_in: began.elapsed(), _data: data })
    }

    fn maitred(&self, arguments: &[&str]) -> Result<Served> {
        let mut command = Command::new(&self.maitred);
        command.current_dir(std::env::temp_dir()).args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        command.env("MAITRED_TOKEN_SIGNING_KEY", KEY).env("MAITRED_LOG_FILTER", "warn,refinery_core=error");
        Served::of(&mut command)
    }

    /// Tokens of so many people whom nobody has seen before.
    pub(super) fn tokens(&self, contender: Contender, guests: u32) -> Result<Tokens> {
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

    /// Ends one that was kept: the next time it starts anew.
    pub fn end(&mut self, contender: Contender) {
        self.kept.remove(&contender);
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
