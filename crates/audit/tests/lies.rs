//! The auditor is told lies of every kind, one at a time, over a record that is honest otherwise, and finds each.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use audit::{
    Batch, Database, Ending, Entry, Id, Opening, Options, Payment, Report, Reservation, Slot, Ticket, Token,
    Told, Venue, Visit, Waiting, audit,
};
use serde_json::{Value, json};

const NOON: Slot = Slot(1 << 32 | 20_000 << 11 | 720);
const EVENING: Slot = Slot(1 << 32 | 20_000 << 11 | 1_140);
const TABLES: Slot = Slot(2 << 32 | 20_000 << 11 | 720);
const LIST: Slot = Slot(1 << 32 | 20_000 << 11 | 1_200);
const HALL: Slot = Slot(3 << 32 | 20_000 << 11 | 1_140);
const DEADLINE: i64 = 1_000_000;

fn ticket(slot: Slot, number: u64) -> Ticket {
    Ticket::new(slot, 2, number)
}

/// A line of the log; person and reservation have the number of the guest.
fn line(verdict: &str, ticket: Option<Ticket>, guest: u128, party: i64, left: i64) -> Value {
    let mut line = json!({"person": Id(guest), "verdict": verdict, "party": party, "left": left,
        "reservation": Id(guest)});
    if let Some(ticket) = ticket {
        line["ticket"] = json!(ticket);
    }
    line
}

fn refused(mut line: Value, code: &str) -> Value {
    let left = line["left"].clone();
    line["refused"] = match code {
        "not-enough-places" | "table-unavailable" => json!({"code": code, "remaining": left}),
        _ => json!({"code": code}),
    };
    line.as_object_mut().unwrap().remove("reservation");
    line
}

/// A line about no reservation.
fn noted(mut line: Value) -> Value {
    line.as_object_mut().unwrap().remove("reservation");
    line
}

fn batch(version: i64, lines: &[Value]) -> Batch {
    Batch { version, decided_at: version * 1_000, decisions: json!(lines).to_string() }
}

fn row(guest: u128, slot: Slot, ticket: Ticket, status: &str, party: i64) -> Reservation {
    let paid = if status == "CONFIRMED" { 5 } else { 0 };
    Reservation {
        id: Id(guest),
        slot,
        person: Id(guest),
        status: status.into(),
        party,
        table: None,
        payment: "deposit".into(),
        price: 5,
        paid,
        refunded: 0,
        refund_due: 0,
        expires_at: DEADLINE,
        ticket,
        reseats: None,
        seats: vec![],
        offered: false,
    }
}

fn venue(id: i64, inventory: Value) -> Venue {
    Venue { id, version: 1, settings: json!({"name": "Here", "inventory": inventory}).to_string() }
}

fn entry(id: i64, amount: i64, balance: i64, kind: &str, reservation: Option<u128>) -> Entry {
    Entry { id, amount, balance, kind: kind.into(), reservation: reservation.map(Id), key: None }
}

fn visit(guest: u128, slot: Slot, ticket: Ticket, ending: Ending) -> Visit {
    let asked = u64::try_from(guest).unwrap() * 10;
    let told = Told { asked, at: asked + 1, ticket: Some(ticket), ending: Some(ending) };
    let key = Some("wish".into());
    Visit { person: Id(guest), slot, key, told: vec![told], paid: false, keeps: true }
}

/// A room for two: one has paid, one left before the turn came, two are inside, one waits.
fn room() -> (Opening, Vec<Token>) {
    use sha2::Digest;
    let seed = vec![1; 32];
    let opening = Opening {
        id: 1,
        venue: 1,
        largest: 2,
        order: "arrival".into(),
        seed_hash: sha2::Sha256::digest(&seed).to_vec(),
        seed,
        opened: true,
        entrants: Some(3),
        arrivals: 5,
        numbers: 5,
        let_in: 4,
    };
    let token = |n: i64, state: &str, let_in_at, ended_at| {
        let (person, state) = (Id(n.unsigned_abs().into()), state.into());
        Token { arrival: n, person, number: Some(n), state, let_in_at, ended_at }
    };
    let tokens = vec![
        token(1, "DONE", Some(100_000), Some(300_000)),
        token(2, "LEFT", None, Some(150_000)),
        token(3, "INSIDE", Some(100_000), None),
        token(4, "INSIDE", Some(300_000), None),
        token(5, "WAITING", None, None),
    ];
    (opening, tokens)
}

/// Noon, four places. Guest 1 comes with two and pays. Guest 2 comes with one. Guest 3 wants two and is refused, and asks
/// again. Guest 2 cancels, and guest 4 gets what is left. Guest 5 is there for an instant. Guest 6 moves to the evening.
/// Guest 7 comes too late, and gets the same answer under two tickets in the evening. In the evening guest 8 cancels and
/// waits for the money. Guest 2 has paid a provider after cancelling, and part of that is back. Elsewhere guests 11 and 12 have
/// a table each, and 13 has none. Guest 21 gives up four places for which three parties wait: 22 and 24 are offered what fits
/// them, 23 is passed over. Guest 31 has two of three seats, 32 wanted one of those.
fn honest() -> (Database, Vec<Visit>) {
    let (noon, evening, tables) =
        (|n| Some(ticket(NOON, n)), |n| Some(ticket(EVENING, n)), |n| Some(ticket(TABLES, n)));
    let (list, hall) = (|n| Some(ticket(LIST, n)), |n| Some(ticket(HALL, n)));
    let batches = vec![
        (NOON, batch(1, &[line("book", noon(1), 1, 2, 4), line("book", noon(2), 2, 1, 2)])),
        (
            NOON,
            batch(
                2,
                &[
                    line("pay", noon(3), 1, 2, 1),
                    refused(line("book", noon(4), 3, 2, 1), "not-enough-places"),
                    refused(line("book", noon(5), 1, 1, 1), "already-booked"),
                ],
            ),
        ),
        (NOON, batch(3, &[line("cancel", noon(6), 2, 1, 1), line("book", noon(7), 4, 1, 2)])),
        (NOON, batch(4, &[line("book", noon(8), 5, 1, 1)])),
        (
            NOON,
            Batch {
                decided_at: DEADLINE + 1,
                ..batch(5, &[line("expire", None, 5, 1, 1), line("book", noon(9), 6, 1, 1)])
            },
        ),
        // Version 6 is the one at which guest 6 left.
        (NOON, batch(7, &[line("change", noon(10), 1, 3, 1)])),
        (
            EVENING,
            batch(
                1,
                &[
                    line("move", evening(1), 6, 2, 4),
                    line("book", evening(2), 7, 1, 2),
                    line("book", evening(3), 7, 1, 1),
                    line("book", evening(4), 8, 1, 1),
                ],
            ),
        ),
        (EVENING, batch(2, &[line("pay", evening(5), 8, 1, 0), line("cancel", evening(6), 8, 1, 0)])),
        (TABLES, batch(1, &[line("book", tables(1), 11, 2, 2), line("book", tables(2), 12, 4, 1)])),
        (TABLES, batch(2, &[refused(line("book", tables(3), 13, 1, 0), "table-unavailable")])),
        (LIST, batch(1, &[line("book", list(1), 21, 4, 4)])),
        (LIST, batch(2, &[noted(line("join", list(2), 22, 3, 0)), noted(line("join", list(3), 23, 2, 0))])),
        (LIST, batch(3, &[noted(line("join", list(4), 24, 1, 0))])),
        (
            LIST,
            batch(
                4,
                &[
                    line("cancel", list(5), 21, 4, 0),
                    line("offer", None, 22, 3, 1),
                    line("offer", None, 24, 1, 0),
                ],
            ),
        ),
        (
            HALL,
            batch(
                1,
                &[line("book", hall(1), 31, 2, 3), refused(line("book", hall(2), 32, 1, 1), "seat-taken")],
            ),
        ),
    ];
    let mut reservations = vec![
        Reservation { price: 8, paid: 8, ..row(1, NOON, ticket(NOON, 1), "CONFIRMED", 3) },
        row(2, NOON, ticket(NOON, 2), "CANCELED", 1),
        row(4, NOON, ticket(NOON, 7), "TEMPORARY", 1),
        row(5, NOON, ticket(NOON, 8), "EXPIRED", 1),
        row(6, EVENING, ticket(NOON, 9), "TEMPORARY", 2),
        row(7, EVENING, ticket(EVENING, 2), "TEMPORARY", 1),
        Reservation { paid: 5, refund_due: 5, ..row(8, EVENING, ticket(EVENING, 4), "REFUND_PENDING", 1) },
    ];
    for guest in [11, 12] {
        let number = u64::try_from(guest - 10).unwrap();
        let seats = if guest == 11 { 2 } else { 4 };
        reservations.push(Reservation {
            table: Some(i64::try_from(guest).unwrap() - 10),
            ..row(guest, TABLES, ticket(TABLES, number), "TEMPORARY", seats)
        });
    }
    for (guest, number, status, party) in
        [(21, 1, "CANCELED", 4), (22, 2, "TEMPORARY", 3), (24, 4, "TEMPORARY", 1)]
    {
        let offered = status == "TEMPORARY";
        reservations.push(Reservation { offered, ..row(guest, LIST, ticket(LIST, number), status, party) });
    }
    reservations.push(Reservation {
        seats: vec!["A-1-1".into(), "A-1-2".into()],
        ..row(31, HALL, ticket(HALL, 1), "TEMPORARY", 2)
    });
    let sections = json!([{"name": "A", "price": 5, "rows": [{"name": "1", "seats": 3}]}]);
    let waiting = Waiting { person: Id(23), party: 2, rank: 2, passed: 1, ticket: ticket(LIST, 3) };
    let seats = json!([{"number": 1, "seats": 2}, {"number": 2, "seats": 4}]);
    let database = Database {
        venues: vec![
            venue(1, json!({"kind": "places", "capacity": 4})),
            venue(2, json!({"kind": "tables", "tables": seats})),
            venue(3, json!({"kind": "seats", "sections": sections})),
        ],
        slots: [(NOON, 7), (EVENING, 2), (TABLES, 2), (LIST, 4), (HALL, 1)].into(),
        reservations,
        batches,
        wallets: [(Id(1), 92), (Id(8), 0)].into(),
        entries: vec![
            (Id(1), entry(1, 100, 100, "charge", None)),
            (Id(1), entry(2, -5, 95, "payment", Some(1))),
            (Id(8), entry(3, 5, 5, "charge", None)),
            (Id(8), entry(4, -5, 0, "payment", Some(8))),
            (Id(1), entry(5, -3, 92, "payment", Some(1))),
        ],
        keys: vec![(Id(1), "wish".into(), ticket(NOON, 1)), (Id(2), "wish".into(), ticket(NOON, 2))],
        waiting: vec![(LIST, waiting)],
        seats: vec![(HALL, "A-1-1".into(), Id(31)), (HALL, "A-1-2".into(), Id(31))],
        payments: vec![(
            Id(2),
            Payment { id: Id(99), status: "PAID".into(), captured: 5, pays: None, returned: 2, due: 3 },
        )],
        openings: vec![room()],
    };
    let won = |guest: u128, slot, number| visit(guest, slot, ticket(slot, number), Ending::Won(Id(guest)));
    let no = |guest, slot, number, code: &str| {
        visit(guest, slot, ticket(slot, number), Ending::Refused(code.into()))
    };
    let mut visits = vec![
        won(1, NOON, 1),
        Visit { keeps: false, ..won(2, NOON, 2) },
        no(3, NOON, 4, "not-enough-places"),
        won(4, NOON, 7),
        Visit { keeps: false, ..won(5, NOON, 8) },
        won(6, NOON, 9),
        won(7, EVENING, 2),
        won(8, EVENING, 4),
        won(11, TABLES, 1),
        won(12, TABLES, 2),
        no(13, TABLES, 3, "table-unavailable"),
        Visit { keeps: false, ..won(21, LIST, 1) },
        won(31, HALL, 1),
        no(32, HALL, 2, "seat-taken"),
    ];
    visits[0].paid = true;
    (database, visits)
}

fn report(database: &Database, visits: &[Visit]) -> Report {
    audit(database, visits, Options { now: Some(DEADLINE + 10), ..Options::default() })
}

#[test]
fn an_honest_record_passes() {
    let (database, visits) = honest();
    let report = report(&database, &visits);
    assert!(report.is_clean(), "{:#?}", report.findings);
    let counts = report.counts;
    assert_eq!((counts.slots, counts.batches, counts.reservations), (5, 15, 13));
    assert_eq!((counts.decisions, counts.entries, counts.visits), (29, 5, 14));
}

/// The decisions of a batch, to be changed.
fn lines(database: &mut Database, slot: Slot, version: i64, change: impl FnOnce(&mut Vec<Value>)) {
    let mut batches = database.batches.iter_mut();
    let (_, batch) = batches.find(|(of, batch)| *of == slot && batch.version == version).unwrap();
    let mut lines: Vec<Value> = serde_json::from_str(&batch.decisions).unwrap();
    change(&mut lines);
    batch.decisions = json!(lines).to_string();
}

fn found(database: &mut Database, guest: u128) -> &mut Reservation {
    database.reservations.iter_mut().find(|row| row.id == Id(guest)).unwrap()
}

type Lie = fn(&mut Database, &mut Vec<Visit>);

/// Each with the kind that must be among what is found.
const LIES: &[(&str, Lie)] = &[
    ("oversold", |database, _| {
        // Decided from an old copy: it says that as much was left as before guest 4.
        lines(database, NOON, 4, |lines| {
            lines[0] = line("book", Some(ticket(NOON, 8)), 5, 2, 2);
        });
        found(database, 5).party = 2;
    }),
    ("wrong-left", |database, _| lines(database, NOON, 3, |lines| lines[1]["left"] = json!(1))),
    ("oversold", |database, _| {
        lines(database, EVENING, 1, |lines| lines[0]["party"] = json!(9));
        found(database, 6).party = 9;
    }),
    ("oversold-now", |database, _| found(database, 4).party = 4),
    ("wrong-party", |database, _| found(database, 4).party = 2),
    ("oversold-now", |database, _| database.venues[0] = venue(1, json!({"kind": "exclusive"}))),
    ("booked-twice", |database, _| found(database, 4).person = Id(1)),
    ("booked-twice", |database, _| {
        found(database, 2).status = "TEMPORARY".into();
        found(database, 2).person = Id(4);
    }),
    ("table-twice", |database, _| found(database, 12).table = Some(1)),
    ("wrong-table", |database, _| found(database, 11).table = Some(3)),
    ("wrong-table", |database, _| {
        found(database, 12).table = Some(1);
        found(database, 11).table = Some(2);
    }),
    ("out-of-order", |database, _| {
        lines(database, NOON, 1, |lines| {
            lines[0]["ticket"] = json!(ticket(NOON, 2));
            lines[1]["ticket"] = json!(ticket(NOON, 1));
        });
        found(database, 1).ticket = ticket(NOON, 2);
        found(database, 2).ticket = ticket(NOON, 1);
    }),
    ("overtaken", |database, _| {
        // Guest 3 came before guest 2, and was refused for what guest 2 has.
        lines(database, NOON, 1, |lines| lines[1]["ticket"] = json!(ticket(NOON, 5)));
        lines(database, NOON, 2, |lines| drop(lines.remove(2)));
        found(database, 2).ticket = ticket(NOON, 5);
    }),
    ("overtaken", |database, _| {
        lines(database, TABLES, 1, |lines| lines[0]["ticket"] = json!(ticket(TABLES, 4)));
        lines(database, TABLES, 1, |lines| lines.swap(0, 1));
        lines(database, TABLES, 1, |lines| {
            lines[0]["left"] = json!(2);
            lines[1]["left"] = json!(1);
        });
        found(database, 11).ticket = ticket(TABLES, 4);
    }),
    ("wrongly-refused", |database, _| {
        lines(database, NOON, 2, |lines| lines[1]["party"] = json!(1));
    }),
    ("wrongly-refused", |database, _| {
        lines(database, NOON, 2, |lines| lines[1]["refused"]["remaining"] = json!(0));
    }),
    ("wrongly-refused", |database, _| {
        lines(database, NOON, 2, |lines| lines[2]["person"] = json!(Id(99)));
    }),
    ("expired-hold-counted", |database, _| {
        found(database, 2).expires_at = -100_000;
    }),
    ("decided-twice", |database, _| {
        lines(database, NOON, 2, |lines| lines[2]["ticket"] = json!(ticket(NOON, 4)));
    }),
    ("decided-elsewhere", |database, _| {
        lines(database, NOON, 2, |lines| lines[2]["ticket"] = json!(ticket(EVENING, 9)));
    }),
    ("undecided", |database, _| {
        database.reservations.push(row(99, EVENING, ticket(EVENING, 99), "CANCELED", 1));
    }),
    ("undecided", |database, _| lines(database, NOON, 1, |lines| drop(lines.remove(1)))),
    ("undecided", |database, _| {
        // It is where nothing has moved it.
        let left = database.slots.insert(NOON, 8);
        assert_eq!(left, Some(7));
        found(database, 4).slot = TABLES;
    }),
    ("unmade", |database, _| database.reservations.retain(|row| row.id != Id(4))),
    ("unmade", |database, _| found(database, 4).ticket = ticket(NOON, 70)),
    ("batch-missing", |database, _| {
        database.batches.retain(|(slot, batch)| (*slot, batch.version) != (NOON, 2));
    }),
    ("batch-missing", |database, _| {
        database.slots.insert(TABLES, 3);
    }),
    ("batch-twice", |database, _| {
        let again = database.batches[0].clone();
        database.batches.push(again);
    }),
    ("sold-around-the-list", |database, _| {
        lines(database, LIST, 4, |lines| {
            lines.insert(1, line("book", Some(ticket(LIST, 6)), 25, 1, 4));
        });
    }),
    ("offered-out-of-turn", |database, _| lines(database, LIST, 4, |lines| lines.swap(1, 2))),
    ("offered-to-nobody", |database, _| {
        lines(database, LIST, 4, |lines| lines.push(line("offer", None, 99, 1, 0)));
    }),
    ("waitlist-differs", |database, _| database.waiting.clear()),
    ("waitlist-differs", |database, _| database.waiting[0].1.passed = 0),
    ("seat-twice", |database, _| {
        let two = vec!["A-1-2".into()];
        database
            .reservations
            .push(Reservation { seats: two, ..row(98, HALL, ticket(HALL, 9), "CONFIRMED", 1) });
    }),
    ("wrong-seats", |database, _| found(database, 31).seats[0] = "A-1-4".into()),
    ("wrong-seats", |database, _| drop(found(database, 31).seats.pop())),
    ("held-seats-differ", |database, _| drop(database.seats.pop())),
    ("held-seats-differ", |database, _| database.seats.push((HALL, "A-1-3".into(), Id(31)))),
    ("left-unseen", |database, _| {
        database.slots.insert(NOON, 6);
        database.batches.retain(|(slot, batch)| (*slot, batch.version) != (NOON, 7));
        let (_, last) = database.batches.iter_mut().find(|(_, batch)| batch.version == 5).unwrap();
        last.version = 6;
        let (_, fourth) = database.batches.iter_mut().find(|(_, batch)| batch.version == 4).unwrap();
        fourth.version = 5;
    }),
    ("wrong-version", |database, _| {
        database.slots.insert(NOON, 5);
    }),
    ("wrong-version", |database, _| {
        database.slots.remove(&TABLES);
    }),
    ("unreadable", |database, _| database.batches[0].1.decisions = "[{".into()),
    ("unreadable", |database, _| database.venues[0].settings = "{}".into()),
    ("no-venue", |database, _| drop(database.venues.remove(1))),
    ("illegal-transition", |database, _| {
        lines(database, NOON, 7, |lines| lines.push(line("pay", Some(ticket(NOON, 11)), 5, 1, 0)));
    }),
    ("illegal-transition", |database, _| {
        lines(database, NOON, 3, |lines| lines[0]["verdict"] = json!("no-show"));
    }),
    ("wrong-status", |database, _| found(database, 2).status = "EXPIRED".into()),
    ("wrong-status", |database, _| found(database, 4).status = "CONFIRMED".into()),
    ("expired-early", |database, _| {
        let (_, batch) = database.batches.iter_mut().find(|(_, batch)| batch.version == 5).unwrap();
        batch.decided_at = DEADLINE - 10_000;
    }),
    ("wallet-differs", |database, _| {
        database.wallets.insert(Id(1), 100);
    }),
    ("wrong-balance", |database, _| database.entries[1].1.balance = 96),
    ("wallet-differs", |database, _| drop(database.entries.remove(0))),
    ("overdrawn", |database, _| database.entries[2].1.amount = 1),
    ("money-kept", |database, _| database.payments[0].1.due = 2),
    ("returned-too-much", |database, _| database.payments[0].1.due = 4),
    ("captured-unpaid", |database, _| database.payments[0].1.status = "CANCELLED".into()),
    ("payment-astray", |database, _| database.payments[0].1.pays = Some(Id(1))),
    ("paid-differs", |database, _| database.payments[0].1.pays = Some(Id(2))),
    ("due-differs", |database, _| database.payments[0].1.pays = Some(Id(2))),
    ("gap-in-room", |database, _| database.openings[0].1[4].number = Some(7)),
    ("gap-in-room", |database, _| database.openings[0].0.numbers = 6),
    ("seed-differs", |database, _| database.openings[0].0.seed[0] = 2),
    ("wrong-rank", |database, _| {
        database.openings[0].1[2].number = Some(4);
        database.openings[0].1[3].number = Some(3);
    }),
    ("wrong-rank", |database, _| database.openings[0].0.order = "draw".into()),
    ("two-tokens", |database, _| database.openings[0].1[4].person = Id(3)),
    ("let-in-wrongly", |database, _| database.openings[0].0.let_in = 5),
    ("let-in-before", |database, _| database.openings[0].1[3].let_in_at = Some(50_000)),
    ("too-many-inside", |database, _| database.openings[0].0.largest = 1),
    ("wrong-entry", |database, _| database.entries[2].1.kind = "refund".into()),
    ("no-wallet", |database, _| {
        database.wallets.remove(&Id(8));
    }),
    ("entry-astray", |database, _| database.entries[3].1.reservation = Some(Id(1))),
    ("charged-twice", |database, _| {
        database.entries.push((Id(1), entry(6, -5, 87, "payment", Some(1))));
        database.wallets.insert(Id(1), 87);
    }),
    ("paid-differs", |database, _| found(database, 4).paid = 5),
    ("paid-differs", |database, _| drop(database.entries.remove(3))),
    ("refunded-differs", |database, _| found(database, 1).refunded = 1),
    ("status-and-money", |database, _| found(database, 1).price = 20),
    ("status-and-money", |database, _| found(database, 8).refund_due = 0),
    ("key-twice", |database, _| {
        let again = database.keys[0].clone();
        database.keys.push(again);
    }),
    ("key-twice", |database, _| {
        database.entries[0].1.key = Some("charge".into());
        database.entries[1].1.key = Some("charge".into());
    }),
    ("promise-lost", |database, _| database.reservations.retain(|row| row.id != Id(4))),
    ("promise-lost", |database, _| found(database, 4).status = "CANCELED".into()),
    ("refusal-unknown", |_, visits| {
        visits[2] = visit(3, NOON, ticket(NOON, 4), Ending::Refused("line-full".into()))
    }),
    ("not-asked-for", |_, visits| {
        visits[3].told[0].ending = Some(Ending::Refused("not-enough-places".into()))
    }),
    ("not-asked-for", |_, visits| drop(visits.remove(3))),
    ("not-asked-for", |database, visits| {
        // Told nothing, and has two.
        visits[3].told[0].ending = None;
        let two = Reservation { id: Id(98), ..row(4, NOON, ticket(NOON, 98), "CANCELED", 1) };
        database.reservations.push(two);
    }),
    ("decided-behind-their-back", |_, visits| visits[2].told[0].ending = Some(Ending::Left)),
    ("decided-behind-their-back", |_, visits| {
        visits[2].told[0].ending = Some(Ending::TurnedAway("line-full".into()));
    }),
    ("two-answers", |_, visits| {
        let other = Told { ending: Some(Ending::Left), ..visits[0].told[0].clone() };
        visits[0].told.push(other);
    }),
    ("two-answers-for-key", |_, visits| {
        visits.push(visit(1, EVENING, ticket(EVENING, 9), Ending::Won(Id(9))));
    }),
    ("payment-lost", |_, visits| visits[3].paid = true),
    ("misnumbered", |_, visits| {
        let (first, last) = (visits[0].told[0].ticket, visits[3].told[0].ticket);
        (visits[0].told[0].ticket, visits[3].told[0].ticket) = (last, first);
    }),
];

#[test]
fn every_lie_is_found() {
    for (number, (kind, lie)) in LIES.iter().enumerate() {
        let (mut database, mut visits) = honest();
        lie(&mut database, &mut visits);
        let report = report(&database, &visits);
        assert!(
            report.of_kind(kind) > 0,
            "lie {number} is {kind}, and this was found: {:#?}",
            report.findings
        );
    }
}

/// A finding that no lie shows may never be found.
#[test]
fn every_finding_has_its_lie() {
    let text = include_str!("../src/finding.rs");
    let sentences = text.split("pub enum Note").next().unwrap();
    let names = sentences.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(" {"));
    let names = names.map(|(name, _)| name).filter(|name| name.starts_with(char::is_uppercase));
    for name in names {
        let kind: String = name
            .chars()
            .enumerate()
            .flat_map(|(at, letter)| {
                let dash = (at > 0 && letter.is_uppercase()).then_some('-');
                dash.into_iter().chain(letter.to_lowercase())
            })
            .collect();
        let shown = LIES.iter().any(|(shown, _)| *shown == kind) || kind == "held-too-long";
        assert!(shown, "no lie shows {kind}");
    }
}

#[test]
fn what_is_past_its_deadline_is_noted_while_live_and_found_at_rest() {
    let (database, visits) = honest();
    let late = Options { now: Some(DEADLINE + 100_000), ..Options::default() };
    let live = audit(&database, &visits, late.clone());
    assert!(live.is_clean() && live.notes.len() == 8, "{live:?}");
    let rest = audit(&database, &visits, Options { settled: true, ..late });
    assert_eq!(rest.of_kind("held-too-long"), 8);
}

/// A venue that has changed: the log tells what it was, and may tell of no more than the changes there were.
#[test]
fn a_venue_may_change_as_often_as_it_did() {
    let (mut database, visits) = honest();
    database.venues[0] = venue(1, json!({"kind": "places", "capacity": 40}));
    assert!(!report(&database, &visits).is_clean(), "it has never changed");
    database.venues[0].version = 2;
    assert!(report(&database, &visits).is_clean());
    assert_eq!(report(&database, &visits).notes.len(), 1);
    // Once is explained, and twice is not.
    lines(&mut database, NOON, 3, |lines| lines[1]["left"] = json!(3));
    lines(&mut database, NOON, 4, |lines| lines[0]["left"] = json!(1));
    assert!(!report(&database, &visits).is_clean());
}

/// Whoever was told nothing may have one place or none.
#[test]
fn an_unknown_end_is_one_or_none() {
    let (database, mut visits) = honest();
    visits[3].told[0].ending = None;
    visits.push(Visit { told: vec![], ..visits[2].clone() });
    let report = report(&database, &visits);
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// Where lines were parted for a while, whoever was out of order without harm is noted, and whoever was harmed is found.
#[test]
fn parted_lines_may_be_out_of_order_but_nobody_overtaken() {
    let parted = Options { strict_order: false, ..Options::default() };
    for (kind, lie) in LIES.iter().filter(|(kind, _)| ["out-of-order", "overtaken"].contains(kind)) {
        let (mut database, mut visits) = honest();
        lie(&mut database, &mut visits);
        let report = audit(&database, &[], parted.clone());
        assert_eq!(report.of_kind("overtaken") > 0, *kind == "overtaken", "{report:#?}");
        assert!(report.of_kind("out-of-order") == 0, "{report:#?}");
        assert!(*kind == "overtaken" || report.notes.len() == 1, "{report:#?}");
    }
}
