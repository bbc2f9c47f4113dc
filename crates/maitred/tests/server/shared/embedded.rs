//! One server on a file, with lines of its own, under the same guests and the same audit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use audit::Finding;
use booking::{SlotId, VenueId};
use maitred::server::open_store;

use super::audit::{Findings, audit};
use super::cluster::{Doors, slot};
use super::guests::{Ending, Person, Visit};
use super::load::{Crowd, Load};
use crate::app::places;
use crate::process::{Program, run, stdout};

/// A server on a file that is ended and started again.
pub struct Embedded {
    folder: PathBuf,
    venue: VenueId,
    doors: Option<Doors>,
    /// All that guests were ever told.
    visits: Vec<Visit>,
}

impl Embedded {
    /// A venue with so many places in a database that no server serves yet.
    pub async fn new(folder: &Path, capacity: u32) -> Self {
        let store = open_store(&folder.join("data")).unwrap();
        let venue = store.add_venue(places(capacity), vec![], vec![]).await.unwrap().id;
        tokio::task::spawn_blocking(move || store.close()).await.unwrap();
        Self { folder: folder.to_owned(), venue, doors: None, visits: Vec::new() }
    }

    pub fn slots(&self) -> Vec<SlotId> {
        (0..3).map(|n| slot(self.venue, n)).collect()
    }

    /// So many new guests at a server; every so-manieth pays, or nobody with 0.
    pub fn load(&mut self, program: &Program, people: usize, payers: usize) -> Load {
        let tokens = run(&self.folder, &["token", "--count", &people.to_string()]);
        let people: Vec<Person> = stdout(&tokens).lines().map(Person::with_token).collect();
        let doors = Doors::to(program.client.clone());
        self.doors = Some(doors.clone());
        Load::at(doors, Crowd { people, slots: self.slots(), rate: 200, payers })
    }

    /// Nobody finds the server any more.
    pub fn close(&self) {
        self.doors.as_ref().unwrap().set(0, None);
    }

    /// They find it here now.
    pub fn open(&self, program: &Program) {
        self.doors.as_ref().unwrap().set(0, Some(program.client.clone()));
    }

    fn database(&self) -> store::Database {
        store::Database::Sqlite(self.folder.join("data/maitred.db"))
    }

    /// Audits what is stored against all that guests were ever told.
    pub async fn audit(&mut self, visits: Vec<Visit>) -> Findings {
        self.visits.extend(visits);
        audit(&store::snapshot(&self.database()).await.unwrap(), &self.visits)
    }

    /// How many answered reservations and payments are lost; nothing else may be wrong.
    pub async fn lost(&mut self, visits: Vec<Visit>) -> usize {
        self.visits.extend(visits);
        assert!(self.visits.iter().all(|visit| visit.scandals.is_empty()), "{:?}", self.visits);
        let unknown = self.visits.iter().filter(|visit| visit.ending == Ending::Unknown).count();
        let stored = store::snapshot(&self.database()).await.unwrap();
        let findings = super::audit::found(&stored, &self.visits);
        let mut kinds = BTreeMap::<String, usize>::new();
        for finding in &findings {
            *kinds.entry(finding.kind()).or_default() += 1;
        }
        println!("{} visits, {unknown} unknown: {kinds:?}", self.visits.len());
        let is_loss = |finding: &&Finding| {
            matches!(
                finding,
                Finding::PromiseLost { .. } | Finding::PaymentLost { .. } | Finding::RefusalUnknown { .. }
            )
        };
        let lost = findings.iter().filter(is_loss).count();
        // Where nothing is lost, nothing is wrong at all.
        assert!(lost > 0 || findings.is_empty(), "{findings:#?}");
        lost
    }
}
