//! What guests wrote down, given to the auditor together with what is stored; and what it may not find.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use audit::{Database, Finding, Id, Options, Slot, Ticket};
use booking::{Decision, SlotId, TicketId, Verdict};

use super::cluster::{Cluster, MEMBERS};
use super::guests::{Ending, Visit};

/// What an audit found, and what it was about.
#[derive(Debug, Default)]
pub struct Findings {
    /// What must never be, whatever fails.
    pub wrong: Vec<String>,
    /// Guests who were decided after somebody with a higher number of the same life of the line.
    pub inversions: usize,
    /// Guests who were refused although somebody behind them, of whatever life, won.
    pub overtaken: usize,
    /// Guests who got a higher number than somebody who came when they already had it.
    pub misnumbered: usize,
    pub won: usize,
    pub refused: usize,
    pub turned: usize,
    pub unknown: usize,
    /// Calls that were cut off or never answered.
    pub cut: usize,
    /// Lives of the lines in which people were decided.
    pub epochs: usize,
}

impl Findings {
    /// Fails if anything is wrong, or anybody was never told.
    #[track_caller]
    pub fn clean(self) -> Self {
        let shown = &self.wrong[..self.wrong.len().min(20)];
        assert!(self.wrong.is_empty(), "{} wrong: {shown:#?}", self.wrong.len());
        assert_eq!(self.unknown, 0, "nobody is left without an answer");
        self
    }

    /// Fails if anybody was overtaken.
    #[track_caller]
    pub fn in_order(self) -> Self {
        let passed = (self.inversions, self.overtaken, self.misnumbered);
        assert_eq!(passed, (0, 0, 0), "inversions, overtaken, misnumbered");
        self
    }
}

impl Cluster {
    /// Audits everything that is stored against what guests were told.
    pub async fn audit(&self, visits: &[Visit]) -> Findings {
        let findings = audit(&self.database.all().await, visits);
        self.answers_stay(visits).await;
        findings
    }

    /// Whoever asks again, wherever it is, is told the same. Not everybody does: it is a matter of all servers, not of all
    /// guests.
    async fn answers_stay(&self, visits: &[Visit]) {
        let decided =
            visits.iter().filter(|visit| matches!(visit.ending, Ending::Won(_) | Ending::Refused(_)));
        for (n, visit) in decided.step_by(visits.len() / 90 + 1).enumerate() {
            let member = n % MEMBERS;
            for (answer, now) in visit.ask_again(&self.client(member)).await {
                let before = (&visit.ending, &visit.log);
                assert_eq!(now.as_ref(), Some(before.0), "{answer:?} at {member} after {:?}", before.1);
            }
        }
    }
}

/// Audits what is stored against what guests were told.
pub fn audit(stored: &Database, visits: &[Visit]) -> Findings {
    let mut findings = count(visits);
    let report = report(stored, visits);
    for finding in &report.findings {
        match finding {
            Finding::OutOfOrder { .. } => {
                findings.inversions += 1;
                if findings.inversions <= 5 {
                    println!("{finding}");
                }
            }
            Finding::Misnumbered { .. } => findings.misnumbered += 1,
            _ => findings.wrong.push(finding.to_string()),
        }
    }
    findings.add_order(stored);
    let Findings { won, refused, turned, unknown, cut, epochs, inversions, overtaken, .. } = &findings;
    println!(
        "{} visits: {won} won, {refused} refused, {turned} turned away, {unknown} unknown, {cut} calls cut; \
         {epochs} epochs, {inversions} inversions, {overtaken} overtaken; {:?}",
        visits.len(),
        report.counts
    );
    findings
}

/// All that the auditor finds.
pub fn found(stored: &Database, visits: &[Visit]) -> Vec<Finding> {
    report(stored, visits).findings
}

fn report(stored: &Database, visits: &[Visit]) -> audit::Report {
    let start = visits.iter().filter_map(|visit| visit.log.first()).map(|told| told.asked).min();
    let start = start.unwrap_or_else(Instant::now);
    let told: Vec<_> = visits.iter().map(|visit| heard(visit, start)).collect();
    let report = audit::audit(stored, &told, Options::default());
    assert_eq!(report.more, 0, "too much is wrong to tell: {:#?}", &report.findings[..20]);
    report
}

fn slot(slot: SlotId) -> Slot {
    Slot(slot.to_i64())
}

fn ticket(ticket: TicketId) -> Ticket {
    Ticket(ticket.to_u128())
}

/// A visit as the auditor takes it.
fn heard(visit: &Visit, start: Instant) -> audit::Visit {
    let since = |at: Instant| u64::try_from((at - start).as_micros()).unwrap();
    let ending = |ending: &Ending| match ending {
        Ending::Won(id) => Some(audit::Ending::Won(Id(id.0))),
        Ending::Refused(code) => Some(audit::Ending::Refused(code.clone())),
        Ending::Left => Some(audit::Ending::Left),
        Ending::Turned(code) => Some(audit::Ending::TurnedAway(code.clone())),
        Ending::Unknown => None,
    };
    let told = visit.log.iter().map(|told| audit::Told {
        asked: since(told.asked),
        at: since(told.at),
        ticket: told.ticket.map(ticket),
        ending: told.ending.as_ref().and_then(ending),
    });
    audit::Visit {
        person: Id(visit.person.id.0),
        slot: slot(visit.slot),
        key: Some(super::guests::key(visit.slot)),
        told: told.collect(),
        paid: visit.paid,
        keeps: true,
    }
}

fn count(visits: &[Visit]) -> Findings {
    let mut findings = Findings::default();
    for visit in visits {
        match visit.ending {
            Ending::Won(_) => findings.won += 1,
            Ending::Refused(_) | Ending::Left => findings.refused += 1,
            Ending::Turned(_) => findings.turned += 1,
            Ending::Unknown => findings.unknown += 1,
        }
        findings.cut += visit.log.iter().filter(|told| told.status.is_none()).count();
        findings.wrong.extend(visit.scandals.iter().cloned());
    }
    findings
}

impl Findings {
    /// Who was passed by somebody of whatever life: more than the auditor asks for, and true where lines are shared and
    /// all parties are the same.
    fn add_order(&mut self, stored: &Database) {
        let mut lines: BTreeMap<Slot, Vec<(TicketId, Option<String>)>> = BTreeMap::new();
        let mut epochs = HashSet::new();
        for (slot, batch) in &stored.batches {
            let decisions: Vec<Decision> = serde_json::from_str(&batch.decisions).unwrap();
            for decision in decisions.into_iter().filter(|decision| decision.verdict == Verdict::Book) {
                let Some(ticket) = decision.ticket else { continue };
                epochs.insert(ticket.epoch());
                let refused = decision.refused.map(|refused| serde_json::to_value(refused).unwrap());
                let code = refused.map(|refused| refused["code"].as_str().unwrap().to_owned());
                lines.entry(*slot).or_default().push((ticket, code));
            }
        }
        self.epochs = epochs.len();
        for line in lines.values() {
            let last = line.iter().filter(|(_, code)| code.is_none()).map(|(ticket, _)| *ticket).max();
            let sold_out =
                line.iter().filter(|(_, code)| code.as_ref().is_some_and(|code| code != "already-booked"));
            self.overtaken += sold_out.filter(|(ticket, _)| Some(*ticket) < last).count();
        }
    }
}
