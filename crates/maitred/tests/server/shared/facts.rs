//! What the database says, read past the servers.

use std::collections::HashMap;

use booking::{Decision, PersonId, ReservationId, SlotId, TicketId};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, Row};

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

    pub async fn facts(&self) -> Facts {
        let client = &self.client;
        let reservations = "SELECT id::text, slot_id, person::text, status, party, table_no, ticket::text, price, paid, \
                            refunded FROM reservation";
        let decisions = "SELECT slot_id, version, decisions FROM decision ORDER BY slot_id, version";
        let entries = "SELECT person::text, amount, kind, reservation::text FROM wallet_entry";
        let mut log: HashMap<SlotId, Vec<(i64, Vec<Decision>)>> = HashMap::new();
        for row in client.query(decisions, &[]).await.unwrap() {
            let decisions = serde_json::from_str(row.get(2)).unwrap();
            log.entry(SlotId::from_i64(row.get(0))).or_default().push((row.get(1), decisions));
        }
        let wallets = client.query("SELECT person::text, balance FROM wallet", &[]).await.unwrap();
        Facts {
            reservations: client.query(reservations, &[]).await.unwrap().iter().map(Stored::read).collect(),
            log,
            wallets: wallets.iter().map(|row| (PersonId(wide(row.get(0))), row.get(1))).collect(),
            entries: client.query(entries, &[]).await.unwrap().iter().map(Entry::read).collect(),
        }
    }
}

fn wide(uuid: &str) -> u128 {
    u128::from_str_radix(&uuid.replace('-', ""), 16).unwrap()
}

#[derive(Debug, Clone)]
pub struct Stored {
    pub id: ReservationId,
    pub slot: SlotId,
    pub person: PersonId,
    pub status: String,
    pub party: i64,
    pub table: Option<i64>,
    pub ticket: TicketId,
    pub price: i64,
    pub paid: i64,
    pub refunded: i64,
}

impl Stored {
    fn read(row: &Row) -> Self {
        Self {
            id: ReservationId(wide(row.get(0))),
            slot: SlotId::from_i64(row.get(1)),
            person: PersonId(wide(row.get(2))),
            status: row.get(3),
            party: row.get(4),
            table: row.get(5),
            ticket: TicketId::from_u128(wide(row.get(6))),
            price: row.get(7),
            paid: row.get(8),
            refunded: row.get(9),
        }
    }

    pub fn holds(&self) -> bool {
        ["TEMPORARY", "CONFIRMED", "PREPAY_CONFIRM", "REFUND_PENDING"].contains(&self.status.as_str())
    }
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub person: PersonId,
    pub amount: i64,
    pub kind: String,
    pub reservation: Option<ReservationId>,
}

impl Entry {
    fn read(row: &Row) -> Self {
        let reservation = row.get::<_, Option<&str>>(3).map(|id| ReservationId(wide(id)));
        Self { person: PersonId(wide(row.get(0))), amount: row.get(1), kind: row.get(2), reservation }
    }
}

/// All that is stored about bookings.
#[derive(Debug, Clone)]
pub struct Facts {
    pub reservations: Vec<Stored>,
    /// The batches of each slot with their versions, in order.
    pub log: HashMap<SlotId, Vec<(i64, Vec<Decision>)>>,
    pub wallets: HashMap<PersonId, i64>,
    pub entries: Vec<Entry>,
}
