//! A database of a test's own, made from a template.

use std::sync::Arc;

use store::postgres::Options;
use store::{Controls, Store};

use testkit::Postgres;

pub type Database = Pooled<8>;

/// The server that all tests share, and the name of a new database on it with this version's schema.
pub fn shared() -> (&'static Postgres, String) {
    Postgres::shared(|url| {
        let database = store::Database::Postgres(Options::new(url).unwrap());
        // On a thread and a runtime of its own, so that tests may call it from inside theirs.
        let migrate = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(Store::migrate(&database)).unwrap();
        };
        std::thread::scope(|threads| threads.spawn(migrate).join().unwrap());
    })
}

/// A database to which every store opens so many connections at most.
pub struct Pooled<const CONNECTIONS: usize> {
    server: &'static Postgres,
    name: String,
}

impl<const CONNECTIONS: usize> Pooled<CONNECTIONS> {
    pub fn new() -> Self {
        let (server, name) = shared();
        Self { server, name }
    }

    /// A database of a server of the test's own.
    pub fn at(server: &'static Postgres, name: &str) -> Self {
        Self { server, name: name.into() }
    }

    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    pub fn options(&self) -> Options {
        Options::new(&self.url()).unwrap().with_connections(CONNECTIONS)
    }

    /// Opens it. Opened twice, it is what two processes have.
    pub async fn open(&self) -> Arc<Store> {
        Arc::new(Store::postgres(&self.options()).await.unwrap())
    }

    /// Opens it with the conditions on versions switched off.
    pub async fn open_careless(&self) -> Arc<Store> {
        let store = Store::postgres(&self.options()).await.unwrap();
        Arc::new(store.with_controls(Controls { version_check: false }))
    }

    /// Takes away what the schema says about one place a person, one party a table and one token a person and number.
    pub fn drop_unique_indexes(&self) {
        self.execute(
            "DROP INDEX one_place_a_person; DROP INDEX one_party_a_table; \
                    DROP INDEX one_token_a_person; DROP INDEX one_token_a_number;",
        );
    }

    /// A statement past the store.
    pub fn execute(&self, sql: &str) {
        self.server.execute(&self.name, sql).unwrap();
    }
}
