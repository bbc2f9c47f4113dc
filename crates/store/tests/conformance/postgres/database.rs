//! A database of a test's own, made from a template.

use std::sync::Arc;

use store::postgres::Options;
use store::{Controls, Store};

use super::server::{Server, shared};

pub type Database = Pooled<8>;

/// A database to which every store opens so many connections at most.
pub struct Pooled<const CONNECTIONS: usize> {
    server: &'static Server,
    name: String,
}

impl<const CONNECTIONS: usize> Pooled<CONNECTIONS> {
    pub fn new() -> Self {
        let (server, name) = shared();
        Self { server, name }
    }

    /// A database of a server of the test's own.
    pub fn at(server: &'static Server, name: &str) -> Self {
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

    /// Takes away what the schema says about one place a person and one party a table.
    pub fn drop_unique_indexes(&self) {
        self.execute("DROP INDEX one_place_a_person; DROP INDEX one_party_a_table;");
    }

    /// A statement past the store.
    pub fn execute(&self, sql: &str) {
        self.server.execute(&self.name, sql).unwrap();
    }
}
