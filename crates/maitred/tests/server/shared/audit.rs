//! The auditor: compares what guests were told with what is stored, and derives again what was allowed. It knows ids,
//! states and the form of the log, and none of the rules by which the program decides.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use booking::{Decision, PersonId, ReservationId, SlotId, TicketId, Verdict};

use super::cluster::{Cluster, MEMBERS};
use super::facts::{Facts, Stored};
use super::guests::{Ending, Visit};

/// What a slot offers.
#[derive(Debug, Clone, Copy)]
pub enum Room {
    Places(i64),
    Tables(i64),
}

/// What an audit found.
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
        assert!(
            self.wrong.is_empty(),
            "{} wrong: {:#?}",
            self.wrong.len(),
            &self.wrong[..self.wrong.len().min(20)]
        );
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
    /// Audits a venue of which all slots offer the same, after a load.
    pub async fn audit(&self, visits: &[Visit], room: Room) -> Findings {
        let findings = audit(&self.database.connect().await.facts().await, visits, room);
        let Findings { won, refused, turned, unknown, cut, epochs, inversions, overtaken, .. } = &findings;
        println!(
            "{} visits: {won} won, {refused} refused, {turned} turned away, {unknown} unknown, {cut} calls cut; \
             {epochs} epochs, {inversions} inversions, {overtaken} overtaken",
            visits.len()
        );
        let room = if let Room::Tables(_) = room { 2 } else { 1 };
        self.answers_stay(visits, room).await;
        findings
    }

    /// Whoever asks again, wherever it is, is told the same. Not everybody does: it is a matter of all servers, not of all
    /// guests.
    async fn answers_stay(&self, visits: &[Visit], party: u32) {
        let decided =
            visits.iter().filter(|visit| matches!(visit.ending, Ending::Won(_) | Ending::Refused(_)));
        for (n, visit) in decided.step_by(visits.len() / 90 + 1).enumerate() {
            let member = n % MEMBERS;
            for (answer, now) in visit.ask_again(&self.client(member), party).await {
                let before = (&visit.ending, &visit.log);
                assert_eq!(now.as_ref(), Some(before.0), "{answer:?} at {member} after {:?}", before.1);
            }
        }
    }
}

pub fn audit(facts: &Facts, visits: &[Visit], room: Room) -> Findings {
    let mut findings = Findings::default();
    count(visits, &mut findings);
    nothing_is_held_twice(facts, room, &mut findings.wrong);
    each_is_decided_once(facts, room, &mut findings.wrong);
    answers_hold(facts, visits, &mut findings.wrong);
    money_is_conserved(facts, visits, &mut findings.wrong);
    for log in facts.log.values() {
        order(log, &mut findings);
    }
    findings.misnumbered = misnumbered(visits);
    findings.epochs = bookings(facts).map(|(_, _, ticket)| ticket.epoch()).collect::<HashSet<_>>().len();
    findings
}

/// Everybody who was decided for wanting a place.
fn bookings(facts: &Facts) -> impl Iterator<Item = (SlotId, &Decision, TicketId)> {
    let decisions = facts.log.iter().flat_map(|(slot, log)| log.iter().map(move |(_, batch)| (*slot, batch)));
    decisions
        .flat_map(|(slot, batch)| batch.iter().map(move |decision| (slot, decision)))
        .filter(|(_, decision)| decision.verdict == Verdict::Book)
        .filter_map(|(slot, decision)| Some((slot, decision, decision.ticket?)))
}

/// The name of a refusal, as guests are told it.
fn code(decision: &Decision) -> Option<String> {
    let told = serde_json::to_value(decision.refused?).unwrap();
    told["code"].as_str().map(str::to_owned)
}

fn count(visits: &[Visit], findings: &mut Findings) {
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
}

/// Capacity, one place a person, no table twice.
fn nothing_is_held_twice(facts: &Facts, room: Room, wrong: &mut Vec<String>) {
    let mut slots: BTreeMap<SlotId, Vec<&Stored>> = BTreeMap::new();
    for held in facts.reservations.iter().filter(|stored| stored.holds()) {
        slots.entry(held.slot).or_default().push(held);
    }
    for (slot, held) in slots {
        let taken = match room {
            Room::Places(capacity) => (held.iter().map(|held| held.party).sum::<i64>(), capacity),
            Room::Tables(tables) => (held.len() as i64, tables),
        };
        if taken.0 > taken.1 {
            wrong.push(format!("{slot:?}: {} of {} are taken", taken.0, taken.1));
        }
        let people: HashSet<_> = held.iter().map(|held| held.person).collect();
        if people.len() < held.len() {
            wrong.push(format!("{slot:?}: somebody has two places"));
        }
        let tables: Vec<_> = held.iter().filter_map(|held| held.table).collect();
        if tables.iter().collect::<HashSet<_>>().len() < tables.len() {
            wrong.push(format!("{slot:?}: a table is taken twice"));
        }
    }
}

/// A ticket has one decision, a wish has one, and the log never gives out more than there is.
fn each_is_decided_once(facts: &Facts, room: Room, wrong: &mut Vec<String>) {
    let (mut tickets, mut wishes) = (HashSet::new(), HashSet::new());
    for (slot, decision, ticket) in bookings(facts) {
        if !tickets.insert(ticket) {
            wrong.push(format!("{ticket:?} was decided twice"));
        }
        // Every visit has one key for one wish, whatever tickets it had.
        if !wishes.insert((slot, decision.person)) {
            wrong.push(format!("{:?} was decided twice in {slot:?}", decision.person));
        }
        if ticket.slot != slot {
            wrong.push(format!("{ticket:?} was decided in {slot:?}"));
        }
    }
    for (slot, log) in &facts.log {
        let mut taken = 0;
        for decision in log.iter().flat_map(|(_, batch)| batch) {
            let won = decision.verdict == Verdict::Book && decision.refused.is_none();
            taken += match room {
                _ if !won => 0,
                Room::Places(_) => i64::from(decision.party),
                Room::Tables(_) => 1,
            };
        }
        let (Room::Places(limit) | Room::Tables(limit)) = room;
        if taken > limit {
            wrong.push(format!("{slot:?}: the log gave out {taken} of {limit}"));
        }
        let versions: Vec<_> = log.iter().map(|(version, _)| *version).collect();
        if versions.iter().collect::<BTreeSet<_>>().len() != versions.len() {
            wrong.push(format!("{slot:?}: a version has two batches"));
        }
    }
}

/// What guests were told agrees with itself, with the reservations and with the log.
fn answers_hold(facts: &Facts, visits: &[Visit], wrong: &mut Vec<String>) {
    let stored: HashMap<ReservationId, &Stored> = facts.reservations.iter().map(|r| (r.id, r)).collect();
    let mut owned: HashMap<(PersonId, SlotId), Vec<&Stored>> = HashMap::new();
    for reservation in &facts.reservations {
        owned.entry((reservation.person, reservation.slot)).or_default().push(reservation);
    }
    let decided: HashMap<(PersonId, SlotId), &Decision> =
        bookings(facts).map(|(slot, decision, _)| ((decision.person, slot), decision)).collect();
    for visit in visits {
        let who = (visit.person.id, visit.slot);
        let endings: Vec<_> = visit.log.iter().filter_map(|told| told.ending.as_ref()).collect();
        if endings.iter().any(|ending| **ending != visit.ending) {
            wrong.push(format!("{who:?} was told {endings:?}"));
        }
        let own = owned.remove(&who).unwrap_or_default();
        let decision = decided.get(&who);
        match &visit.ending {
            Ending::Won(id) => {
                if own.len() != 1 || !stored.get(id).is_some_and(|r| (r.person, r.slot) == who && r.holds()) {
                    wrong.push(format!("{who:?} was promised {id:?} and has {own:?}"));
                }
                if decision.is_none_or(|d| d.refused.is_some() || d.reservation != Some(*id)) {
                    wrong.push(format!("{who:?} was promised {id:?}, and the log says {decision:?}"));
                }
            }
            Ending::Refused(told) => {
                if !own.is_empty() || decision.and_then(|d| code(d)).as_deref() != Some(told) {
                    wrong.push(format!(
                        "{who:?} was refused {told}, has {own:?}, and the log says {decision:?}"
                    ));
                }
            }
            Ending::Left | Ending::Turned(_) => {
                if !own.is_empty() || decision.is_some() {
                    wrong.push(format!("{who:?} was not in line, and the log says {decision:?}"));
                }
            }
            Ending::Unknown => {
                if own.len() > 1 {
                    wrong.push(format!("{who:?} was told nothing and has {own:?}"));
                }
            }
        }
    }
    for (who, own) in owned {
        wrong.push(format!("nobody asked for what {who:?} has: {own:?}"));
    }
    let known: HashMap<TicketId, ReservationId> = bookings(facts)
        .filter_map(|(_, decision, ticket)| {
            Some((ticket, decision.reservation.filter(|_| decision.refused.is_none())?))
        })
        .collect();
    for reservation in &facts.reservations {
        if known.get(&reservation.ticket) != Some(&reservation.id) {
            wrong.push(format!("no decision made {reservation:?}"));
        }
    }
}

/// Wallets hold the sum of their entries, and a reservation was paid for once or not at all.
fn money_is_conserved(facts: &Facts, visits: &[Visit], wrong: &mut Vec<String>) {
    let mut sums: HashMap<PersonId, i64> = HashMap::new();
    let mut payments: HashMap<ReservationId, Vec<i64>> = HashMap::new();
    for entry in &facts.entries {
        *sums.entry(entry.person).or_default() += entry.amount;
        if let ("payment", Some(reservation)) = (entry.kind.as_str(), entry.reservation) {
            payments.entry(reservation).or_default().push(-entry.amount);
        }
    }
    for (person, balance) in &facts.wallets {
        if sums.remove(person).unwrap_or_default() != *balance {
            wrong.push(format!("the wallet of {person:?} differs from its entries"));
        }
    }
    if !sums.is_empty() {
        wrong.push(format!("entries without a wallet: {sums:?}"));
    }
    for reservation in &facts.reservations {
        let paid = payments.remove(&reservation.id).unwrap_or_default();
        let confirmed = reservation.status == "CONFIRMED";
        let expected = if confirmed { vec![reservation.price] } else { vec![] };
        if paid != expected || paid.iter().sum::<i64>() != reservation.paid - reservation.refunded {
            wrong.push(format!("{reservation:?} was paid with {paid:?}"));
        }
    }
    if !payments.is_empty() {
        wrong.push(format!("paid for what is not there: {payments:?}"));
    }
    let confirmed: HashSet<_> =
        facts.reservations.iter().filter(|r| r.status == "CONFIRMED").map(|r| r.id).collect();
    for visit in visits.iter().filter(|visit| visit.paid) {
        if !matches!(visit.ending, Ending::Won(id) if confirmed.contains(&id)) {
            wrong.push(format!("{:?} has paid, and {:?} is not confirmed", visit.person.id, visit.ending));
        }
    }
}

/// The order in which a slot's guests were decided, and who won, against their places in line.
fn order(log: &[(i64, Vec<Decision>)], findings: &mut Findings) {
    let booked = log.iter().flat_map(|(_, batch)| batch).filter(|decision| decision.verdict == Verdict::Book);
    let line: Vec<(TicketId, &Decision)> =
        booked.filter_map(|decision| Some((decision.ticket?, decision))).collect();
    let mut last: HashMap<u32, u64> = HashMap::new();
    for (ticket, _) in &line {
        let highest = last.entry(ticket.epoch()).or_default();
        findings.inversions += usize::from(ticket.number() < *highest);
        *highest = ticket.number().max(*highest);
    }
    // All parties of a load are the same, so whoever wins must come before everybody who does not.
    let last_winner = line.iter().filter(|(_, d)| d.refused.is_none()).map(|(ticket, _)| *ticket).max();
    let sold_out =
        line.iter().filter(|(_, d)| d.refused.is_some() && code(d).as_deref() != Some("already-booked"));
    findings.overtaken += sold_out.filter(|(ticket, _)| Some(*ticket) < last_winner).count();
}

/// Whoever knew their number before somebody else of the same life came has the lower one.
fn misnumbered(visits: &[Visit]) -> usize {
    let mut lines: HashMap<(SlotId, u32), Vec<_>> = HashMap::new();
    for visit in visits {
        let Some(came) = visit.log.first().map(|told| told.asked) else { continue };
        let mut seen = HashSet::new();
        for told in &visit.log {
            let Some(ticket) = told.ticket.filter(|ticket| seen.insert(*ticket)) else { continue };
            let line = lines.entry((ticket.slot, ticket.epoch())).or_default();
            line.push((came, told.at, ticket.number()));
        }
    }
    let wrong = |mut line: Vec<(_, _, u64)>| {
        let mut known: Vec<_> = line.iter().map(|(_, told, number)| (*told, *number)).collect();
        known.sort_unstable();
        line.sort_unstable();
        let (mut known, mut highest) = (known.into_iter().peekable(), 0);
        let passed = line.into_iter().filter(|(came, _, number)| {
            while let Some((_, earlier)) = known.next_if(|(told, _)| told < came) {
                highest = highest.max(earlier);
            }
            *number < highest
        });
        passed.count()
    };
    lines.into_values().map(wrong).sum()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use booking::{Refusal, VenueId};

    use super::super::guests::{Person, Told};
    use super::*;

    /// Two places and three guests, in order; the first has paid.
    fn three_guests() -> (Facts, Vec<Visit>) {
        let slot = super::super::cluster::slot(VenueId(1), 0);
        let ticket = |n: u32| TicketId::new(slot, 1, n.into());
        let decision = |n: u32| Decision {
            ticket: Some(ticket(n)),
            person: PersonId(n.into()),
            verdict: Verdict::Book,
            party: 1,
            left: 3 - n,
            reservation: (n < 3).then_some(ReservationId(n.into())),
            refused: (n == 3).then_some(Refusal::NotEnoughPlaces { remaining: 0 }),
        };
        let stored = |n: u32| Stored {
            id: ReservationId(n.into()),
            slot,
            person: PersonId(n.into()),
            status: if n == 1 { "CONFIRMED" } else { "TEMPORARY" }.into(),
            party: 1,
            table: None,
            ticket: ticket(n),
            price: 5,
            paid: if n == 1 { 5 } else { 0 },
            refunded: 0,
        };
        let start = Instant::now();
        let visit = |n: u32| {
            let ending = match n {
                3 => Ending::Refused("not-enough-places".into()),
                _ => Ending::Won(ReservationId(n.into())),
            };
            let asked = start + Duration::from_secs(n.into());
            let told = Told {
                asked,
                at: asked + Duration::from_millis(1),
                member: 0,
                status: Some(201),
                code: None,
                ticket: Some(ticket(n)),
                retry_after: false,
                ending: Some(ending.clone()),
            };
            let person = Person { id: PersonId(n.into()), token: String::new() };
            Visit { person, slot, log: vec![told], ending, paid: n == 1, scandals: vec![] }
        };
        let entry = |amount, kind: &str, reservation| super::super::facts::Entry {
            person: PersonId(1),
            amount,
            kind: kind.into(),
            reservation,
        };
        let facts = Facts {
            reservations: vec![stored(1), stored(2)],
            log: [(slot, vec![(1, vec![decision(1)]), (2, vec![decision(2), decision(3)])])].into(),
            wallets: [(PersonId(1), 95)].into(),
            entries: vec![entry(100, "charge", None), entry(-5, "payment", Some(ReservationId(1)))],
        };
        (facts, vec![visit(1), visit(2), visit(3)])
    }

    fn batches(facts: &mut Facts) -> &mut Vec<(i64, Vec<Decision>)> {
        facts.log.values_mut().next().unwrap()
    }

    #[test]
    fn an_honest_record_passes() {
        let (facts, visits) = three_guests();
        let findings = audit(&facts, &visits, Room::Places(2)).clean().in_order();
        assert_eq!((findings.won, findings.refused, findings.epochs), (2, 1, 1));
    }

    #[test]
    fn every_lie_is_found() {
        type Lie = fn(&mut Facts, &mut Vec<Visit>);
        let lies: [(&str, Lie); 11] = [
            ("a promise is lost", |facts, _| drop(facts.reservations.pop())),
            ("a place nobody asked for", |_, visits| drop(visits.remove(1))),
            ("a place after a refusal", |_, visits| {
                visits[1].ending = Ending::Refused("already-booked".into())
            }),
            ("two answers", |_, visits| visits[2].log[0].ending = Some(Ending::Left)),
            ("decided twice", |facts, _| {
                let again = batches(facts)[0].1[0].clone();
                batches(facts)[1].1.push(again);
            }),
            ("two places", |facts, _| facts.reservations[1].person = PersonId(1)),
            ("a table twice", |facts, _| facts.reservations.iter_mut().for_each(|r| r.table = Some(1))),
            ("the log says otherwise", |facts, _| {
                batches(facts)[0].1[0].refused = Some(Refusal::AlreadyBooked)
            }),
            ("charged twice", |facts, _| facts.entries.push(facts.entries[1].clone())),
            ("a wallet that forgets", |facts, _| *facts.wallets.get_mut(&PersonId(1)).unwrap() = 100),
            ("paid, not confirmed", |facts, _| facts.reservations[0].status = "TEMPORARY".into()),
        ];
        for (name, lie) in lies {
            let (mut facts, mut visits) = three_guests();
            lie(&mut facts, &mut visits);
            assert!(!audit(&facts, &visits, Room::Places(2)).wrong.is_empty(), "not found: {name}");
        }
        let (facts, visits) = three_guests();
        assert!(!audit(&facts, &visits, Room::Places(1)).wrong.is_empty(), "not found: one too many");
    }

    #[test]
    fn whoever_is_overtaken_is_found() {
        let (mut facts, visits) = three_guests();
        batches(&mut facts).swap(0, 1);
        assert_eq!(audit(&facts, &visits, Room::Places(2)).inversions, 1);

        let (mut facts, visits) = three_guests();
        let (first, last) = (batches(&mut facts)[0].1[0].ticket, batches(&mut facts)[1].1[1].ticket);
        (batches(&mut facts)[0].1[0].ticket, batches(&mut facts)[1].1[1].ticket) = (last, first);
        assert_eq!(audit(&facts, &visits, Room::Places(2)).overtaken, 1);

        let (facts, mut visits) = three_guests();
        let (first, last) = (visits[0].log[0].ticket, visits[2].log[0].ticket);
        (visits[0].log[0].ticket, visits[2].log[0].ticket) = (last, first);
        assert_eq!(audit(&facts, &visits, Room::Places(2)).misnumbered, 2);
    }
}
