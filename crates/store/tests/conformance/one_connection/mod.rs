//! PostgreSQL over a single connection: whatever held one while it waited for another would hang.

mod database {
    pub type Database = crate::postgres::database::Pooled<1>;
}
#[path = "../suite.rs"]
mod suite;
