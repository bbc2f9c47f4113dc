//! Waiting rooms: numbers without gaps and in order, draws as they were announced, letting in by number, and never too many
//! inside.

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use crate::finding::{Finding, Report};
use crate::rows::{Opening, Token};

/// Audits an opening with all its tokens, by arrival; clocks may be apart by `skew`.
pub(crate) fn audit(opening: &Opening, tokens: &[Token], skew: i64, report: &mut Report) {
    report.counts.tokens += u64::try_from(tokens.len()).unwrap_or(0);
    counters(opening, tokens, report);
    draw(opening, tokens, report);
    people(opening, tokens, report);
    order(opening, tokens, skew, report);
    inside(opening, tokens, skew, report);
}

fn numbered(tokens: &[Token]) -> Vec<(i64, &Token)> {
    let mut numbered: Vec<_> = tokens.iter().filter_map(|token| Some((token.number?, token))).collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered
}

/// Arrivals and numbers count from one, without gaps, to where the opening says they end.
fn counters(opening: &Opening, tokens: &[Token], report: &mut Report) {
    let id = opening.id;
    let mut gap = |what: &str, counted: Vec<i64>, last: i64| {
        let wrong = counted.iter().zip(1..).find(|(found, expected)| *found != expected).map(|(_, n)| n);
        let count = i64::try_from(counted.len()).unwrap_or(i64::MAX);
        if let Some(expected) = wrong.or((count != last).then_some(count.min(last) + 1)) {
            report.find(Finding::GapInRoom { opening: id, what: what.into(), expected });
        }
    };
    gap("arrival", tokens.iter().map(|token| token.arrival).collect(), opening.arrivals);
    gap("number", numbered(tokens).into_iter().map(|(number, _)| number).collect(), opening.numbers);
}

/// What was published before is what was drawn with, and everybody's number follows from it: those who came before the
/// opening by lot, or by arrival, and whoever came later behind them by arrival.
fn draw(opening: &Opening, tokens: &[Token], report: &mut Report) {
    if Sha256::digest(&opening.seed).as_slice() != opening.seed_hash {
        report.find(Finding::SeedDiffers { opening: opening.id });
    }
    let entrants = opening.entrants.unwrap_or(0);
    let rank = |token: &Token| {
        let early = token.arrival <= entrants;
        let lot = (early && opening.order == "draw").then(|| lot(opening, token));
        (!early, lot, token.arrival)
    };
    for pair in numbered(tokens).windows(2) {
        let [(number, lower), (_, higher)] = pair else { continue };
        if rank(lower) > rank(higher) {
            let (opening, number) = (opening.id, *number);
            report.find(Finding::WrongRank { opening, number, person: lower.person });
        }
    }
}

/// SHA-256 of the seed and the entry, which is SHA-256 of the opening and the person.
fn lot(opening: &Opening, token: &Token) -> [u8; 32] {
    let entry = Sha256::new()
        .chain_update(opening.id.to_be_bytes())
        .chain_update(token.person.0.to_be_bytes())
        .finalize();
    Sha256::new().chain_update(&opening.seed).chain_update(entry).finalize().into()
}

/// Nobody stands there twice.
fn people(opening: &Opening, tokens: &[Token], report: &mut Report) {
    let mut live = HashSet::new();
    for token in tokens.iter().filter(|token| ["WAITING", "INSIDE"].contains(&token.state.as_str())) {
        if !live.insert(token.person) {
            report.find(Finding::TwoTokens { opening: opening.id, person: token.person });
        }
    }
}

/// People were let in by number, as far as the opening says and no farther.
fn order(opening: &Opening, tokens: &[Token], skew: i64, report: &mut Report) {
    let id = opening.id;
    let mut latest: Option<(i64, i64)> = None;
    for (number, token) in numbered(tokens) {
        let waits = token.state == "WAITING";
        if waits == (number <= opening.let_in) && (waits || token.let_in_at.is_some()) {
            report.find(Finding::LetInWrongly { opening: id, number, let_in: opening.let_in });
        }
        let Some(at) = token.let_in_at else { continue };
        if let Some((before, then)) = latest
            && at + skew < then
        {
            report.find(Finding::LetInBefore { opening: id, number, before });
        }
        latest =
            Some(latest.map_or((number, at), |(n, then)| if at > then { (number, at) } else { (n, then) }));
    }
}

/// At no instant were more inside than the room ever held.
fn inside(opening: &Opening, tokens: &[Token], skew: i64, report: &mut Report) {
    let mut moments: Vec<(i64, i64)> = Vec::new();
    for token in tokens {
        let Some(from) = token.let_in_at.map(|at| at + skew) else { continue };
        let to = token.ended_at.unwrap_or(i64::MAX);
        if from < to {
            moments.extend([(from, 1), (to, -1)]);
        }
    }
    // Whoever goes makes room for whoever comes at the same instant.
    moments.sort_unstable();
    let mut inside = 0;
    for (_, change) in moments {
        inside += change;
        if inside > opening.largest {
            let (opening, size) = (opening.id, opening.largest);
            return report.find(Finding::TooManyInside { opening, inside, size });
        }
    }
}
