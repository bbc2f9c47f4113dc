//! What the database says, read past the servers.

use booking::SlotId;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

/// A database, by its own address.
pub struct Database {
    url: String,
}

/// The port of a URL.
pub fn port(url: &str) -> u16 {
    let (address, _) = url.rsplit_once('/').unwrap();
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

impl Database {
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned() }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// All that is stored.
    pub async fn all(&self) -> audit::Database {
        let options = store::postgres::Options::new(&self.url).unwrap();
        store::snapshot(&store::Database::Postgres(options)).await.unwrap()
    }

    /// The same database behind another port.
    pub fn through(&self, other: u16) -> String {
        self.url.replace(&format!(":{}/", port(&self.url)), &format!(":{other}/"))
    }

    pub async fn connect(&self) -> Connection {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let task = tokio::spawn(async move {
            // It ends badly where the test kills the server.
            let _ = connection.await;
        });
        Connection { client, task }
    }

    /// Keeps the row of a slot locked, so that nothing about it can be stored, until what is returned is dropped.
    pub async fn jam(&self, slot: SlotId) -> Connection {
        let connection = self.connect().await;
        connection.client.batch_execute("BEGIN").await.unwrap();
        let sql = "SELECT FROM slot WHERE id = $1 FOR UPDATE";
        assert_eq!(connection.client.query(sql, &[&slot.to_i64()]).await.unwrap().len(), 1, "no such slot");
        connection
    }
}

/// A connection that closes when it is dropped.
pub struct Connection {
    pub client: Client,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    pub async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// How often the slot has been decided about.
    pub async fn version(&self, slot: SlotId) -> i64 {
        self.number(&format!("SELECT coalesce(max(version), 0) FROM slot WHERE id = {}", slot.to_i64())).await
    }

    /// Whether a batch waits for a lock that somebody keeps.
    pub async fn somebody_is_jammed(&self) -> bool {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND application_name = 'maitred' AND wait_event_type = 'Lock'";
        self.number(sql).await > 0
    }

    /// How many batches the server has refused because the slot had moved on.
    pub async fn refused_batches(&self) -> usize {
        let row = self.client.query_one("SELECT pg_read_file('log')", &[]).await.unwrap();
        row.get::<_, String>(0).matches("ERROR:  refused").count()
    }
}
