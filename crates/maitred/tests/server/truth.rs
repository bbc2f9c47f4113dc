//! What the database says, read without the server, and what must follow from it. Nothing here trusts the rules of the
//! program: what was allowed is derived again from the log.

use std::collections::HashSet;
use std::path::Path;

use booking::{Decision, Refusal, SlotId, Verdict};
use rusqlite::Connection;

const HOLDING: &str = "status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING')";

/// The database of a server, opened beside it.
pub struct Truth(pub Connection);

/// The batches of a slot's log, with their versions.
pub type Log = Vec<(u64, Vec<Decision>)>;

impl Truth {
    pub fn in_folder(folder: &Path) -> Self {
        let connection = Connection::open(folder.join("maitred.db")).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        Self(connection)
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.0.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// How many people hold places in a slot, and in how many reservations.
    pub fn held(&self, slot: SlotId) -> (u32, u32) {
        let sql = format!(
            "SELECT coalesce(sum(party), 0), count(*) FROM reservation WHERE slot_id = ? AND {HOLDING}"
        );
        self.0.query_row(&sql, [slot.to_i64()], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }

    pub fn log(&self, slot: SlotId) -> Log {
        let sql = "SELECT version, decisions FROM decision WHERE slot_id = ? ORDER BY version";
        let mut select = self.0.prepare(sql).unwrap();
        let rows = select.query_map([slot.to_i64()], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)));
        rows.unwrap()
            .map(|row| row.map(|(version, text)| (version, serde_json::from_str(&text).unwrap())).unwrap())
            .collect()
    }

    /// Nobody holds two places in one slot, and no table is held twice.
    pub fn nothing_is_held_twice(&self) {
        for column in ["person", "table_no"] {
            let twice = self.number(&format!(
                "SELECT count(*) FROM (SELECT 1 FROM reservation WHERE {HOLDING} AND {column} IS NOT NULL \
                 GROUP BY slot_id, {column} HAVING count(*) > 1)"
            ));
            assert_eq!(twice, 0, "{column}");
        }
    }

    /// The most people that hold places in any slot.
    pub fn fullest(&self) -> i64 {
        self.number(&format!(
            "SELECT coalesce(max(people), 0) FROM \
             (SELECT sum(party) AS people FROM reservation WHERE {HOLDING} GROUP BY slot_id)"
        ))
    }

    /// Wallets hold the sum of their entries; reservations have cost what the entries about them say.
    pub fn money_is_conserved(&self) {
        let wrong_wallets = "SELECT count(*) FROM wallet w WHERE balance <> \
                             (SELECT coalesce(sum(amount), 0) FROM wallet_entry e WHERE e.person = w.person)";
        assert_eq!(self.number(wrong_wallets), 0, "wallets that differ from their entries");
        let wrong_reservations = "SELECT count(*) FROM reservation r WHERE paid - refunded <> \
                                  (SELECT coalesce(-sum(amount), 0) FROM wallet_entry e WHERE e.reservation = r.id)";
        assert_eq!(self.number(wrong_reservations), 0, "reservations that differ from their entries");
        let unpaid = "SELECT count(*) FROM reservation WHERE (status IN ('TEMPORARY', 'EXPIRED') AND paid <> 0) \
                      OR (status = 'CONFIRMED' AND paid - refunded <> price) OR (status = 'REFUNDED' AND refunded = 0)";
        assert_eq!(self.number(unpaid), 0, "reservations whose state and money disagree");
    }
}

/// What is wrong with the log of a slot of places in which people only booked, if anything is.
pub fn audit(capacity: u32, log: &Log) -> Result<(), String> {
    let mut held = 0;
    let mut seen = HashSet::new();
    for (at, (version, batch)) in log.iter().enumerate() {
        if *version != at as u64 + 1 {
            return Err(format!("version {version} is the {at}th"));
        }
        for decision in batch {
            let ticket = decision.ticket.ok_or("a decision without a ticket")?;
            if decision.verdict != Verdict::Book || !seen.insert(ticket) {
                return Err(format!("{ticket:?} is decided twice, or is no booking"));
            }
            let left = capacity - held;
            if decision.left != left {
                return Err(format!("{ticket:?} was told that {} are left of {left}", decision.left));
            }
            match decision.refused {
                None if decision.party <= left => held += decision.party,
                None => return Err(format!("{ticket:?} is one too many: {} into {left}", decision.party)),
                Some(Refusal::NotEnoughPlaces { remaining })
                    if remaining == left && decision.party > left => {}
                Some(refusal) => return Err(format!("{ticket:?} was refused {refusal:?} with {left} left")),
            }
        }
    }
    nobody_was_overtaken(capacity, log)
}

/// Whoever would have got a place by ticket order alone got one, and nobody else did.
fn nobody_was_overtaken(capacity: u32, log: &Log) -> Result<(), String> {
    let mut line: Vec<&Decision> = log.iter().flat_map(|(_, batch)| batch).collect();
    line.sort_by_key(|decision| decision.ticket);
    let mut left = capacity;
    for decision in line {
        let fits = decision.party <= left;
        if fits != decision.refused.is_none() {
            return Err(format!("{:?} was overtaken, or overtook", decision.ticket));
        }
        left -= if fits { decision.party } else { 0 };
    }
    Ok(())
}
