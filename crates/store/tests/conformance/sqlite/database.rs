//! A database of a test's own, thrown away with it.

use std::path::PathBuf;
use std::sync::Arc;

use store::Store;
use tempfile::TempDir;

pub struct Database {
    dir: TempDir,
}

impl Database {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Opens it. Opened twice, it is what two processes have.
    pub async fn open(&self) -> Arc<Store> {
        Arc::new(self.opened())
    }

    /// Opens it with the conditions on versions switched off.
    pub async fn open_careless(&self) -> Arc<Store> {
        let careless = store::Controls { version_check: false };
        Arc::new(self.opened().with_controls(careless))
    }

    /// Takes away what the schema says about one place a person, one party a table and one token a person and number.
    pub fn drop_unique_indexes(&self) {
        let drop = "DROP INDEX one_place_a_person; DROP INDEX one_party_a_table; \
                    DROP INDEX one_token_a_person; DROP INDEX one_token_a_number;";
        self.connect().execute_batch(drop).unwrap();
    }

    /// A connection past the store.
    pub fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("maitred.db")
    }

    fn opened(&self) -> Store {
        Store::sqlite(&self.path()).unwrap()
    }
}
