//! Guests who come at a set rate, whether or not those before them have been answered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use booking::SlotId;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, Doors};
use super::facts::Connection;
use super::guests::{Person, Plan, Visit};
use crate::crowd::eventually;

/// Requests a second below which a run proves nothing.
const LEAST: usize = 100;

/// How often a fault strikes in each round of a test: so often in all, or as often as `MAITRED_FAULT_CYCLES` says, and so often in
/// a round at most. A round has servers, a database and guests of its own, so that any number of them can follow each other.
pub fn rounds(usual: usize, a_round: usize) -> Vec<usize> {
    let asked = std::env::var("MAITRED_FAULT_CYCLES").ok().map(|cycles| cycles.parse().expect("a number"));
    let cycles: usize = asked.unwrap_or(usual);
    let mut rounds = vec![a_round; cycles / a_round];
    rounds.extend(Some(cycles % a_round).filter(|rest| *rest > 0));
    rounds
}

/// When requests went out, and when answers came back.
#[derive(Clone, Default)]
pub struct Flow(Arc<Mutex<[Vec<Instant>; 2]>>, Arc<AtomicUsize>);

impl Flow {
    fn note(&self, which: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[which].push(Instant::now());
    }

    pub fn asked(&self) {
        self.note(0);
    }

    pub fn answered(&self) {
        self.note(1);
    }

    pub fn cut(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests went out, and how many of them are over.
    fn ever(&self) -> (usize, usize) {
        let flow = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (flow[0].len(), flow[1].len() + self.1.load(Ordering::Relaxed))
    }

    /// How many requests went out and how many answers came back in this time.
    pub fn between(&self, from: Instant, to: Instant) -> (usize, usize) {
        let flow = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |times: &[Instant]| times.iter().filter(|at| (from..to).contains(*at)).count();
        (count(&flow[0]), count(&flow[1]))
    }
}

/// What a load is made of. Every person comes once.
pub struct Crowd {
    pub people: Vec<Person>,
    /// Wished for in turn.
    pub slots: Vec<SlotId>,
    /// People a second.
    pub rate: u32,
    /// Every so-manieth who wins pays too; 0: nobody.
    pub payers: usize,
}

pub struct Load {
    coming: JoinHandle<Vec<Visit>>,
    stop: CancellationToken,
    flow: Flow,
}

impl Load {
    pub fn start(cluster: &Cluster, crowd: Crowd) -> Self {
        Self::at(cluster.doors(), crowd)
    }

    pub fn at(doors: Doors, crowd: Crowd) -> Self {
        let (flow, stop) = (Flow::default(), CancellationToken::new());
        let coming = tokio::spawn(come(crowd, doors, flow.clone(), stop.clone()));
        Self { coming, stop, flow }
    }

    /// Waits until answers come back as they should.
    pub async fn flows(&self) {
        eventually("load flows", async || {
            let now = Instant::now();
            self.flow.between(now - Duration::from_secs(1), now).1 >= LEAST
        })
        .await;
    }

    /// Fails unless load flowed when the fault struck and went on coming for as long as it lasted, a second at least.
    pub async fn flowed(&self, struck: Instant, over: Instant) {
        let before = self.flow.between(struck - Duration::from_secs(1), struck);
        assert!(before.0 >= LEAST, "void: {} requests in the second before the fault", before.0);
        assert!(before.1 >= LEAST / 2, "void: {} answers in the second before the fault", before.1);
        let end = over.max(struck + Duration::from_secs(1));
        tokio::time::sleep_until(end.into()).await;
        let during = self.flow.between(struck, end).0 as f64 / (end - struck).as_secs_f64();
        assert!(during >= LEAST as f64, "void: {during:.0} requests a second during the fault");
    }

    /// Fails unless load flowed when the fault struck, which ended it at once.
    pub fn flowed_until(&self, struck: Instant) {
        let before = self.flow.between(struck - Duration::from_secs(1), struck);
        assert!(
            before.0 >= LEAST && before.1 >= LEAST / 2,
            "void: {before:?} in the second before the fault"
        );
    }

    /// Lets people stand in line for a slot, by keeping it from being stored until what is returned is dropped.
    pub async fn piles_up(&self, cluster: &Cluster, slot: SlotId) -> Connection {
        self.flows().await;
        let jam = cluster.database.jam(slot).await;
        eventually("people wait", async || {
            let (asked, over) = self.flow.ever();
            asked >= over + 20
        })
        .await;
        jam
    }

    /// How many answers came back in this time.
    pub fn answers(&self, from: Instant, to: Instant) -> usize {
        self.flow.between(from, to).1
    }

    /// Nobody comes any more; what became of those who did.
    pub async fn ended(self) -> Vec<Visit> {
        self.stop.cancel();
        self.coming.await.unwrap()
    }
}

async fn come(crowd: Crowd, doors: Doors, flow: Flow, stop: CancellationToken) -> Vec<Visit> {
    let mut visits = JoinSet::new();
    let mut beat = tokio::time::interval(Duration::from_secs(1) / crowd.rate);
    for (n, person) in crowd.people.into_iter().enumerate() {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = beat.tick() => {}
        }
        let slot = crowd.slots[n % crowd.slots.len()];
        let pays = crowd.payers > 0 && n % crowd.payers == 0;
        let plan = Plan { person, slot, party: 1, first: n, wait: 2, pays };
        let (doors, flow) = (doors.clone(), flow.clone());
        visits.spawn(async move { plan.carry_out(&doors, &flow).await });
    }
    visits.join_all().await
}
