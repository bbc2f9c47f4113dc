//! A house that people come to: one process on a file with lines of its own, or two on PostgreSQL and Redis. Stories about
//! concerts are written once and told to both.

use std::path::PathBuf;

use hyper::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::{Postgres, RedisServer};
use tokio::sync::MutexGuard;
use tokio::task::block_in_place;

use crate::client::{Answer, Client, Guest};
use crate::process::{Program, run, stdout};
use crate::shared::alone;
use crate::steps::until;

pub struct House {
    programs: Vec<Option<Program>>,
    pub folder: tempfile::TempDir,
    /// What tells every command where everything is.
    pub flags: Vec<String>,
    url: Option<String>,
    pub redis: Option<RedisServer>,
    /// Crowds are big: one at a time.
    _alone: MutexGuard<'static, ()>,
}

/// Tells each story to both kinds of house.
macro_rules! told_to_both {
    ($($story:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story($crate::house::House::embedded().await).await;
            })*
        }

        mod shared {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story($crate::house::House::shared().await).await;
            })*
        }
    };
}
pub(crate) use told_to_both;

impl House {
    pub async fn embedded() -> Self {
        let alone = alone().await;
        Self::with(alone, 1, vec!["--data".into(), "data".into()], None, None)
    }

    pub async fn shared() -> Self {
        let alone = alone().await;
        let (redis, url) = block_in_place(|| {
            let (server, name) = Postgres::shared(|_| {});
            (RedisServer::start(), server.url(&name))
        });
        Self::with(alone, 2, vec!["--database".into(), url.clone()], Some(url), Some(redis))
    }

    fn with(
        alone: MutexGuard<'static, ()>,
        processes: usize,
        flags: Vec<String>,
        url: Option<String>,
        redis: Option<RedisServer>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Thousands of connections on a busy machine: nobody is hung up on for being slow.
        std::fs::write(folder.path().join("maitred.toml"), "[http]\nhead_seconds = 120\n").unwrap();
        let mut house = Self { programs: vec![], folder, flags, url, redis, _alone: alone };
        house.programs = (0..processes).map(|_| Some(house.launch())).collect();
        house
    }

    fn launch(&self) -> Program {
        let mut arguments = self.flags.clone();
        if let Some(redis) = &self.redis {
            arguments.extend(["--redis".into(), redis.url()]);
        }
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        block_in_place(|| Program::serve(self.folder.path(), &arguments))
    }

    /// kill -9 of one process.
    pub fn kill(&mut self, process: usize) {
        let program = self.programs[process].take().unwrap();
        block_in_place(|| program.kill());
    }

    /// The way into one of the processes that run.
    pub fn client(&self, n: usize) -> Client {
        let running: Vec<_> = self.programs.iter().flatten().collect();
        running[n % running.len()].client.clone()
    }

    pub fn processes(&self) -> usize {
        self.programs.iter().flatten().count()
    }

    /// Runs a command of the program about this house.
    pub fn command(&self, arguments: &[&str]) -> std::process::Output {
        let flags = self.flags.iter().map(String::as_str);
        let arguments: Vec<_> = arguments.iter().copied().chain(flags).collect();
        block_in_place(|| run(self.folder.path(), &arguments))
    }

    /// So many people, who come to the processes in turn.
    pub fn guests(&self, count: usize) -> Vec<Guest> {
        let tokens = stdout(&self.command(&["token", "--count", &count.to_string()]));
        let guests = tokens.lines().enumerate().map(|(n, token)| self.client(n).guest(token));
        guests.collect()
    }

    pub fn guest(&self) -> Guest {
        self.guests(1).remove(0)
    }

    /// A venue where nothing costs anything, and its staff.
    pub async fn venue(&self) -> (String, Guest) {
        let staff = self.guest();
        let free = json!({"depositPerPerson": 0, "largePartyDepositPerPerson": 0});
        let venue = json!({"name": "Hall", "capacity": 1_000_000, "policy": free});
        let made = staff.post("/api/venues", venue).await.expect(201).json();
        (made["id"].as_str().unwrap().to_owned(), staff)
    }

    /// A venue with a waiting room like this, known to all processes.
    pub async fn with_room(&self, settings: Value) -> (String, Guest) {
        let (venue, staff) = self.venue().await;
        staff.put(&format!("/api/venues/{venue}/waiting-room"), settings).await.expect(200);
        self.until_known(&venue, |opening| opening["waitingRoom"]["enabled"] == true).await;
        (venue, staff)
    }

    /// Waits until all processes see the opening like this.
    pub async fn until_known(&self, venue: &str, like: impl Fn(&Value) -> bool) {
        for process in 0..self.processes() {
            let anybody = self.client(process).anybody();
            until("everybody knows", || async {
                let seen = anybody.get(&format!("/api/venues/{venue}")).await.expect(200).json();
                like(&seen["opening"]).then_some(())
            })
            .await;
        }
    }

    /// A number that the database tells.
    pub async fn number(&self, sql: &str) -> i64 {
        self.rows(sql).await[0][0]
    }

    /// Numbers that the database tells.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<i64>> {
        if let Some(url) = &self.url {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            let rows = client.query(sql, &[]).await.unwrap();
            connection.abort();
            let row = |row: tokio_postgres::Row| (0..row.len()).map(|n| row.get(n)).collect();
            return rows.into_iter().map(row).collect();
        }
        let connection = self.file();
        let mut select = connection.prepare(sql).unwrap();
        let columns = select.column_count();
        let rows = select.query_map([], |row| (0..columns).map(|n| row.get(n)).collect()).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Does something to the database behind the program's back.
    pub async fn execute(&self, sql: &str) {
        match &self.url {
            Some(url) => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                client.batch_execute(sql).await.unwrap();
                connection.abort();
            }
            None => self.file().execute_batch(sql).unwrap(),
        }
    }

    fn file(&self) -> Connection {
        let path: PathBuf = self.folder.path().join("data/maitred.db");
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
        connection
    }

    /// Has all that is stored audited.
    pub fn audit(&self) {
        let report = self.command(&["audit"]);
        assert!(report.status.success(), "{}{:?}", stdout(&report), report.stderr);
    }
}

impl Guest {
    pub async fn ask_for_token(&self, venue: &str) -> Answer {
        self.post(&format!("/api/venues/{venue}/queue-tokens"), json!({})).await
    }

    pub async fn place(&self, venue: &str) -> Answer {
        self.get(&format!("/api/venues/{venue}/queue-tokens/current")).await
    }

    /// Books for one person with this token, patiently.
    pub async fn book_inside(&self, wish: &Value, token: &str) -> Answer {
        let headers = [("queue-token", token), ("prefer", "wait=10")];
        self.call(Method::POST, "/api/reservations", &headers, wish.to_string()).await
    }

    pub async fn pay_inside(&self, reservation: &Value, token: &str) -> Answer {
        let path = format!("/api/reservations/{}/payment", reservation["id"].as_str().unwrap());
        let body = json!({"method": "points"}).to_string();
        self.call(Method::POST, &path, &[("queue-token", token)], body).await
    }
}
