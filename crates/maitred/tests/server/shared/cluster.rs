//! PostgreSQL, Redis and three servers, all started for one test and gone with it, by their process ids.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use booking::{SlotId, VenueId};
use serde_json::{Value, json};
use testkit::{Postgres, Proxy, RedisCluster, RedisServer};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::block_in_place;

use super::facts::{self, Database};
use super::guests::Person;
use crate::client::Client;
use crate::crowd::eventually;
use crate::process::{Program, maitred, run, stdout};
use crate::shim::WallClock;

pub const MEMBERS: usize = 3;

/// What keeps the lines of the servers together.
pub enum Redis {
    /// Nothing: each server has lines of its own. What a test says of shared lines must fail over these.
    None,
    One(RedisServer),
    Cluster(RedisCluster),
    /// A primary and a replica, with a proxy between the two.
    Replicas {
        primary: RedisServer,
        replica: RedisServer,
        replication: Proxy,
    },
}

/// The ways into the servers. A server that starts again listens elsewhere, so everybody asks here first.
#[derive(Clone)]
pub struct Doors(Arc<RwLock<Vec<Option<Client>>>>);

impl Doors {
    /// The way into one server.
    pub fn to(client: Client) -> Self {
        Self(Arc::new(RwLock::new(vec![Some(client)])))
    }

    /// The server with this number, or the next one that is open.
    pub fn open(&self, wanted: usize) -> Option<(usize, Client)> {
        let doors = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let order = (0..doors.len()).map(|n| (wanted + n) % doors.len());
        order.into_iter().find_map(|n| Some((n, doors[n].clone()?)))
    }

    pub fn set(&self, member: usize, client: Option<Client>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner)[member] = client;
    }
}

struct Member {
    program: Option<Program>,
    folder: tempfile::TempDir,
    /// Where it finds the database: through a proxy of its own.
    proxy: Proxy,
    /// Where it finds Redis, if not directly.
    redis: Option<Proxy>,
    /// What tells it the time of day.
    clock: WallClock,
    /// The name under which it runs lines.
    name: String,
}

pub struct Cluster {
    members: Vec<Member>,
    doors: Doors,
    pub redis: Redis,
    pub database: Database,
    /// Unless others use it.
    postgres: Option<Postgres>,
    /// Loading the machine twice at once would measure the machine.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::const_new(());

/// Waits until nobody else loads the machine, and keeps others from it.
pub async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}

impl Cluster {
    /// Three servers with shared lines.
    pub async fn start() -> Self {
        let alone = ALONE.lock().await;
        Self::with(alone, Redis::One(block_in_place(RedisServer::start)), false).await
    }

    /// Three servers, each with lines of its own.
    pub async fn apart() -> Self {
        Self::with(ALONE.lock().await, Redis::None, false).await
    }

    /// Three servers with shared lines, and a PostgreSQL that no other test uses.
    pub async fn with_own_postgres() -> Self {
        let alone = ALONE.lock().await;
        Self::with(alone, Redis::One(block_in_place(RedisServer::start)), true).await
    }

    /// Three servers with shared lines and these settings.
    pub async fn configured(settings: &str) -> Self {
        let alone = ALONE.lock().await;
        let redis = Redis::One(block_in_place(RedisServer::start));
        let (server, name) = block_in_place(|| Postgres::shared(|_| {}));
        Self::at(alone, redis, vec![], None, &server.url(&name), settings).await
    }

    /// Three servers with lines in a Redis Cluster.
    pub async fn over_redis_cluster() -> Self {
        let alone = ALONE.lock().await;
        Self::with(alone, Redis::Cluster(block_in_place(RedisCluster::start)), false).await
    }

    /// Three servers with shared lines, each with a way of its own to Redis, and a PostgreSQL that no other test uses.
    pub async fn through_proxies() -> Self {
        let alone = ALONE.lock().await;
        let redis = block_in_place(RedisServer::start);
        let ways = (0..MEMBERS).map(|_| Proxy::to(redis.port())).collect();
        Self::over(alone, Redis::One(redis), ways, block_in_place(Postgres::start)).await
    }

    /// Three servers with lines in a Redis that has a replica.
    pub async fn over_replicas() -> Self {
        let alone = ALONE.lock().await;
        let redis = block_in_place(|| {
            let primary = RedisServer::start();
            let replication = Proxy::to(primary.port());
            let port = replication.port().to_string();
            let replica = RedisServer::with_options(&["--replicaof", "127.0.0.1", &port]);
            replica.until_replicating();
            Redis::Replicas { primary, replica, replication }
        });
        Self::with(alone, redis, false).await
    }

    /// Three servers with shared lines over this PostgreSQL.
    pub async fn over_postgres(postgres: impl FnOnce() -> Postgres) -> Self {
        let alone = ALONE.lock().await;
        let redis = Redis::One(block_in_place(RedisServer::start));
        Self::over(alone, redis, vec![], block_in_place(postgres)).await
    }

    async fn over(
        alone: MutexGuard<'static, ()>,
        redis: Redis,
        ways: Vec<Proxy>,
        postgres: Postgres,
    ) -> Self {
        let url = postgres.url("postgres");
        Self::at(alone, redis, ways, Some(postgres), &url, "").await
    }

    async fn with(alone: MutexGuard<'static, ()>, redis: Redis, own: bool) -> Self {
        let (postgres, url) = block_in_place(|| match own {
            true => {
                let server = Postgres::start();
                let url = server.url("postgres");
                (Some(server), url)
            }
            false => {
                let (server, name) = Postgres::shared(|_| {});
                (None, server.url(&name))
            }
        });
        let kind = if let Redis::Replicas { .. } = redis { "redis_kind = \"replicas\"" } else { "" };
        Self::at(alone, redis, vec![], postgres, &url, kind).await
    }

    async fn at(
        alone: MutexGuard<'static, ()>,
        redis: Redis,
        ways: Vec<Proxy>,
        postgres: Option<Postgres>,
        url: &str,
        settings: &str,
    ) -> Self {
        let database = Database::new(url);
        let mut ways = ways.into_iter();
        let members = (0..MEMBERS).map(|_| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("maitred.toml"), settings).unwrap();
            Member {
                program: None,
                clock: WallClock::new(folder.path()),
                folder,
                proxy: Proxy::to(facts::port(url)),
                redis: ways.next(),
                name: String::new(),
            }
        });
        let doors = Doors(Arc::new(RwLock::new(vec![None; MEMBERS])));
        let mut cluster =
            Self { members: members.collect(), doors, redis, database, postgres, _alone: alone };
        for member in 0..MEMBERS {
            cluster.launch(member).await;
        }
        cluster
    }

    /// Starts a server that does not run, and waits until it serves.
    pub async fn launch(&mut self, member: usize) {
        let database = self.database.through(self.members[member].proxy.port());
        let mut arguments = vec!["--database".to_owned(), database];
        match &self.redis {
            Redis::None => {}
            Redis::One(server) => {
                let way = self.members[member].redis.as_ref();
                arguments.extend(["--redis".into(), way.map_or_else(|| server.url(), Proxy::url)]);
            }
            Redis::Replicas { primary, replica, .. } => {
                arguments.extend(["--redis".into(), [primary.url(), replica.url()].join(",")]);
            }
            Redis::Cluster(cluster) => arguments.extend(["--redis".into(), cluster.urls().join(",")]),
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let folder = self.members[member].folder.path();
        // Connecting has a deadline that a busy machine may miss. Whoever watches over processes starts them again.
        let mut tries = (0..5).map(|_| {
            let mut command = maitred(folder);
            self.members[member].clock.worn_by(&mut command);
            block_in_place(|| Program::try_serve_by(command, folder, &arguments))
        });
        let program = tries.find_map(|tried| tried.inspect_err(|said| eprintln!("{said}")).ok());
        let program = program.expect("it starts");
        self.doors.set(member, Some(program.client.clone()));
        self.members[member].program = Some(program);
        if !matches!(self.redis, Redis::None) {
            let info = self.metric_line(member, "maitred_process_info").await.unwrap();
            let name = info.split_once("client=\"").and_then(|(_, rest)| rest.split('"').next());
            self.members[member].name = name.unwrap_or_else(|| panic!("no client in {info}")).to_owned();
        }
    }

    fn program(&self, member: usize) -> &Program {
        self.members[member].program.as_ref().expect("it runs")
    }

    pub fn doors(&self) -> Doors {
        self.doors.clone()
    }

    pub fn client(&self, member: usize) -> Client {
        self.program(member).client.clone()
    }

    /// Between this server and the database.
    pub fn proxy(&self, member: usize) -> &Proxy {
        &self.members[member].proxy
    }

    /// Between this server and Redis.
    pub fn way_to_redis(&self, member: usize) -> &Proxy {
        self.members[member].redis.as_ref().expect("it goes there directly")
    }

    /// What tells this server the time of day.
    pub fn clock(&self, member: usize) -> &WallClock {
        &self.members[member].clock
    }

    /// kill -9.
    pub fn kill(&mut self, member: usize) {
        self.doors.set(member, None);
        let program = self.members[member].program.take().expect("it runs");
        block_in_place(|| program.kill());
    }

    /// SIGTERM; waits until it has ended.
    pub async fn terminate(&mut self, member: usize) {
        self.doors.set(member, None);
        let program = self.members[member].program.take().expect("it runs");
        program.terminate();
        assert!(program.ended_within(Duration::from_secs(15)).await.success());
    }

    pub fn freeze(&self, member: usize) {
        testkit::signal(self.program(member).id(), "STOP");
    }

    pub fn thaw(&self, member: usize) {
        testkit::signal(self.program(member).id(), "CONT");
    }

    /// kill -9 of a PostgreSQL of one's own.
    pub fn kill_postgres(&self) {
        let server = self.postgres.as_ref().expect("others use it");
        block_in_place(|| server.kill());
    }

    pub fn restart_postgres(&self) {
        let server = self.postgres.as_ref().expect("others use it");
        block_in_place(|| server.restart());
    }

    /// Starts a PostgreSQL of one's own again if it has ended by itself.
    pub fn revive_postgres(&self) {
        let server = self.postgres.as_ref().expect("others use it");
        block_in_place(|| server.revive());
    }

    /// The one Redis server.
    pub fn one_redis(&mut self) -> &mut RedisServer {
        match &mut self.redis {
            Redis::One(server) => server,
            _ => panic!("there is not one Redis server"),
        }
    }

    /// Which server runs the line of a slot, if one does.
    pub async fn runner(&mut self, slot: SlotId) -> Option<usize> {
        let key = format!("maitred:lane:{{{}}}:runner:{}", slot.venue(), slot.to_i64());
        let reply = block_in_place(|| match &mut self.redis {
            Redis::One(server) => server.try_command(&["GET", &key]),
            Redis::Cluster(cluster) => {
                let home = super::redis_cluster::home(cluster, &key)?;
                cluster.nodes()[home].try_command(&["GET", &key])
            }
            Redis::Replicas { primary, replica, .. } => {
                primary.try_command(&["GET", &key]).or_else(|_| replica.try_command(&["GET", &key]))
            }
            Redis::None => panic!("every server runs lines of its own"),
        });
        let name = reply.ok()?.to_string();
        self.members.iter().position(|member| member.program.is_some() && member.name == name)
    }

    /// The server that runs the line of a slot, as soon as one does.
    pub async fn until_run(&mut self, slot: SlotId) -> usize {
        let mut runner = None;
        eventually("somebody runs the line", async || {
            runner = self.runner(slot).await;
            runner.is_some()
        })
        .await;
        runner.unwrap()
    }

    /// What a server says of itself: its status, and the word for it.
    pub async fn ready(&self, member: usize) -> (u16, String) {
        let told = self.client(member).anybody().get("/health/ready").await;
        let word = told.json()["status"].as_str().unwrap_or_default().to_owned();
        (told.status.as_u16(), word)
    }

    /// Waits until all servers that run are this.
    pub async fn all_are(&self, status: u16, word: &str) {
        eventually(&format!("all are {status} {word}"), async || {
            for member in self.running() {
                if self.ready(member).await != (status, word.to_owned()) {
                    return false;
                }
            }
            true
        })
        .await;
    }

    pub fn running(&self) -> Vec<usize> {
        (0..MEMBERS).filter(|&member| self.members[member].program.is_some()).collect()
    }

    async fn metric_line(&self, member: usize, name: &str) -> Option<String> {
        let text = self.client(member).anybody().get("/metrics").await.expect(200).text;
        text.lines().find(|line| line.starts_with(name)).map(str::to_owned)
    }

    /// A figure of a server; 0 if it has none of this name yet.
    pub async fn metric(&self, member: usize, name: &str) -> f64 {
        let line = self.metric_line(member, name).await;
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }

    /// Resident memory in KiB and threads of a server.
    pub fn size(&self, member: usize) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.program(member).id())).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        (field("VmRSS:"), field("Threads:"))
    }

    /// What a server has logged.
    pub fn log(&self, member: usize) -> String {
        self.program(member).log()
    }

    /// So many people, none of whom has been here before.
    pub async fn people(&self, count: usize) -> Vec<Person> {
        let (folder, database) = (self.members[0].folder.path(), self.database.url());
        let tokens =
            block_in_place(|| run(folder, &["token", "--count", &count.to_string(), "--database", database]));
        let people: Vec<Person> = stdout(&tokens).lines().map(Person::with_token).collect();
        assert_eq!(people.len(), count, "{tokens:?}");
        people
    }

    /// Opens a venue with these settings.
    pub async fn venue(&self, settings: Value) -> VenueId {
        let staff = self.people(1).await.remove(0);
        let opened = staff.at(&self.client(0)).post("/api/venues", with_times(settings)).await.expect(201);
        opened.json()["id"].as_str().unwrap().parse().unwrap()
    }
}

fn with_times(mut settings: Value) -> Value {
    let hours: Vec<String> = (11..=20).map(|hour| format!("{hour}:00")).collect();
    let days = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    settings["name"] = json!("Here");
    settings["times"] = days.iter().map(|day| ((*day).to_owned(), json!(hours))).collect();
    settings
}

/// Places for so many people.
pub fn places(capacity: u32) -> Value {
    json!({"inventory": "places", "capacity": capacity})
}

/// So many tables for four.
pub fn tables(count: u32) -> Value {
    let tables: Vec<Value> = (1..=count).map(|number| json!({"number": number, "seats": 4})).collect();
    json!({"inventory": "tables", "tables": tables})
}

/// The n-th slot of a venue that can be booked, whenever this runs.
pub fn slot(venue: VenueId, n: usize) -> SlotId {
    let today = jiff::Timestamp::now().in_tz("Asia/Seoul").unwrap().date();
    crate::crowd::slot(venue, &(today + jiff::Span::new().days(2)).to_string(), n)
}
