//! One person's money: the wallet, its movements, and the reservations that they were for.

use std::collections::{HashMap, HashSet};

use crate::finding::{Finding, Report};
use crate::ids::Id;
use crate::rows::{Entry, Payment, PersonRows};

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
    payments(person, rows, &own, report);
    for row in &rows.reservations {
        let entries = moved.remove(&row.id).unwrap_or_default();
        let of = |kind: &'static str| {
            entries.iter().filter(move |entry| entry.kind == kind).map(|entry| entry.amount)
        };
        let outside = || rows.payments.iter().filter(|payment| payment.pays == Some(row.id));
        let charged = -of("payment").sum::<i64>() + outside().map(|payment| payment.captured).sum::<i64>();
        let returned = of("refund").sum::<i64>() + outside().map(|payment| payment.returned).sum::<i64>();
        let asked: i64 = outside().map(|payment| payment.due).sum();
        // Where the staff hands out refunds, more may be due than anybody was asked for.
        if asked > row.refund_due || (asked < row.refund_due && row.status != "REFUND_PENDING") {
            report.find(Finding::DueDiffers { reservation: row.id, due: row.refund_due, asked });
        }
        let (reservation, times) = (row.id, of("payment").count() + outside().count());
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

/// What a provider has taken pays for one reservation, or goes back.
fn payments(person: Id, rows: &PersonRows, own: &HashSet<Id>, report: &mut Report) {
    for row in &rows.payments {
        let &Payment { id: payment, captured, returned, due, .. } = row;
        if returned < 0 || due < 0 || returned + due > captured {
            report.find(Finding::ReturnedTooMuch { person, payment, captured, returned, due });
        } else if row.pays.is_none() && returned + due < captured {
            report.find(Finding::MoneyKept { person, payment, captured, returned, due });
        }
        if (row.status == "PAID") != (captured > 0) {
            let status = row.status.clone();
            report.find(Finding::CapturedUnpaid { person, payment, status, captured });
        }
        if let Some(reservation) = row.pays.filter(|id| !own.contains(id)) {
            report.find(Finding::PaymentAstray { person, payment, reservation });
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
