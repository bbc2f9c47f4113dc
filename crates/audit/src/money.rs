//! One person's money: the wallet, its movements, and the reservations that they were for.

use std::collections::{HashMap, HashSet};

use crate::finding::{Finding, Report};
use crate::ids::Id;
use crate::rows::{Entry, PersonRows};

/// Audits all that is stored about a person's money.
pub(crate) fn audit(person: Id, rows: &PersonRows, report: &mut Report) {
    report.counts.people += 1;
    report.counts.entries += rows.entries.len() as u64;
    wallet(person, rows, report);
    keys(person, rows, report);
    let own: HashSet<Id> = rows.reservations.iter().map(|row| row.id).collect();
    let mut moved: HashMap<Id, Vec<&Entry>> = HashMap::new();
    for entry in &rows.entries {
        let Some(reservation) = entry.reservation else { continue };
        if own.contains(&reservation) {
            moved.entry(reservation).or_default().push(entry);
        } else {
            report.find(Finding::EntryAstray { person, entry: entry.id, reservation });
        }
    }
    for row in &rows.reservations {
        let entries = moved.remove(&row.id).unwrap_or_default();
        let of = |kind: &'static str| {
            entries.iter().filter(move |entry| entry.kind == kind).map(|entry| entry.amount)
        };
        let (charged, returned) = (-of("payment").sum::<i64>(), of("refund").sum::<i64>());
        let (reservation, times) = (row.id, of("payment").count());
        if charged > row.paid && times > 1 {
            report.find(Finding::ChargedTwice { person, reservation, times, charged, paid: row.paid });
        } else if charged != row.paid {
            report.find(Finding::PaidDiffers { reservation, paid: row.paid, charged });
        }
        if returned != row.refunded {
            report.find(Finding::RefundedDiffers { reservation, refunded: row.refunded, returned });
        }
    }
}

/// A wallet holds the sum of its entries, each of which says what it held then, and never less than nothing.
fn wallet(person: Id, rows: &PersonRows, report: &mut Report) {
    let mut balance = 0;
    let mut charges = HashSet::new();
    for entry in &rows.entries {
        balance += entry.amount;
        if entry.balance != balance {
            let told = entry.balance;
            report.find(Finding::WrongBalance { person, entry: entry.id, told, balance });
        }
        if balance < 0 {
            report.find(Finding::Overdrawn { person, entry: entry.id });
        }
        let fits = match entry.kind.as_str() {
            "charge" => entry.amount > 0 && entry.reservation.is_none(),
            "payment" => entry.amount < 0 && entry.reservation.is_some(),
            "refund" => entry.amount > 0 && entry.reservation.is_some(),
            _ => false,
        };
        if !fits {
            let (what, amount) = (entry.kind.clone(), entry.amount);
            report.find(Finding::WrongEntry { person, entry: entry.id, what, amount });
        }
        if let Some(key) = entry.key.as_ref().filter(|key| !charges.insert(key.as_str())) {
            report.find(Finding::KeyTwice { person, key: key.clone() });
        }
    }
    match rows.balance {
        Some(held) if held != balance => {
            report.find(Finding::WalletDiffers { person, balance: held, sum: balance });
        }
        None if !rows.entries.is_empty() => report.find(Finding::NoWallet { person }),
        _ => {}
    }
}

fn keys(person: Id, rows: &PersonRows, report: &mut Report) {
    let mut seen = HashSet::new();
    for (key, _) in &rows.keys {
        if !seen.insert(key) {
            report.find(Finding::KeyTwice { person, key: key.clone() });
        }
    }
}
