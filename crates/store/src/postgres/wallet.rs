//! Wallets: balances, charges and the ledger.

use std::collections::{HashMap, HashSet, VecDeque};

use booking::wallet::MAX_BALANCE;
use booking::{PersonId, ReservationId, Won};

use super::Postgres;
use super::batch::LOCK_WALLETS;
use super::columns::{Columns, Wide, text};
use super::session::Step;
use crate::error::Error;
use crate::records::{Charge, ChargeError, Entry, Page};

/// In the order in which everybody locks them.
const MAKE_WALLETS: &str = "INSERT INTO wallet (person, balance, version) SELECT DISTINCT person, 0, 0 \
     FROM unnest($1::uuid[]) AS person ORDER BY person ON CONFLICT DO NOTHING";
/// Charges whose keys were used before: a wallet that is locked gets no others meanwhile.
const KNOWN: &str = "SELECT c.n, e.id, e.amount, e.balance, e.kind, e.reservation, e.at \
     FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS c (person, key, n) JOIN wallet_entry e USING (person, key)";
/// Enters charges up to the first that a wallet cannot bear, and moves the balances by them.
const CHARGE: &str = "WITH entered AS (INSERT INTO wallet_entry (person, amount, balance, kind, key, at) \
     SELECT person, amount, balance, 'charge', key, at FROM (SELECT c.*, \
     (wallet.balance + sum(c.amount) OVER (PARTITION BY c.person ORDER BY c.n))::bigint AS balance \
     FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[]) WITH ORDINALITY AS c (person, amount, key, at, n) \
     JOIN wallet ON wallet.person = c.person \
     WHERE NOT EXISTS (SELECT FROM wallet_entry e WHERE e.person = c.person AND e.key = c.key)) AS running \
     WHERE balance <= $5 ORDER BY n RETURNING id, person, amount, balance, kind, reservation, at), \
     moved AS (UPDATE wallet SET balance = wallet.balance + e.amount, version = version + e.charges \
     FROM (SELECT person, sum(amount)::bigint AS amount, count(*) AS charges FROM entered GROUP BY person) AS e \
     WHERE wallet.person = e.person) \
     SELECT person, id, amount, balance, kind, reservation, at FROM entered ORDER BY id";

impl Postgres {
    /// What a person's wallet holds.
    pub(crate) async fn balance(&self, person: PersonId) -> Result<Won, Error> {
        let rows = self.ask("SELECT balance FROM wallet WHERE person = $1", &[&Wide(person.0)]).await?;
        rows.first().map_or(Ok(Won::ZERO), |row| Columns::of(row, "a wallet").won())
    }

    /// Puts points into wallets, each charge as far as its wallet bears it; with a key, once. All that it bears are one
    /// transaction and one exchange; another is needed only where a wallet is nearly full.
    pub(crate) async fn charge_all(
        &self,
        charges: Vec<Charge>,
    ) -> Result<Vec<Result<Entry, ChargeError>>, Error> {
        let mut told: Vec<Option<Result<Entry, ChargeError>>> = charges.iter().map(|_| None).collect();
        loop {
            // Of those with the same key one is enough; the others are answered like it.
            let mut keys = HashSet::new();
            let open = (0..charges.len()).filter(|&n| told[n].is_none());
            let open: Vec<_> = open
                .filter(|&n| charges[n].key.as_ref().is_none_or(|key| keys.insert((charges[n].person, key))))
                .collect();
            if open.is_empty() {
                return told
                    .into_iter()
                    .map(|told| told.ok_or(Error::Unreadable { what: "a charge" }))
                    .collect();
            }
            let charged = self.charge_what_fits(open.iter().map(|&n| &charges[n])).await?;
            for (n, charged) in open.into_iter().zip(charged) {
                told[n] = charged;
            }
            let named = (0..charges.len())
                .filter_map(|n| Some(((charges[n].person, charges[n].key.clone()?), told[n].clone()?)));
            let named: HashMap<_, _> = named.collect();
            for (charge, told) in charges.iter().zip(&mut told).filter(|(_, told)| told.is_none()) {
                let first = charge.key.clone().and_then(|key| named.get(&(charge.person, key)));
                *told = first.map(|first| first.clone().and_then(|before| again(&before, charge)));
            }
        }
    }

    /// One transaction with as many of these as fit. One that does not fit behind those that were before it, and would now,
    /// is left to the next.
    async fn charge_what_fits(
        &self,
        charges: impl Iterator<Item = &Charge>,
    ) -> Result<Vec<Option<Result<Entry, ChargeError>>>, Error> {
        let charges: Vec<_> = charges.collect();
        let person: Vec<_> = charges.iter().map(|charge| Wide(charge.person.0)).collect();
        let amount: Vec<_> = charges.iter().map(|charge| charge.amount.0).collect();
        let key: Vec<_> = charges.iter().map(|charge| charge.key.as_deref().map(text)).collect();
        let at: Vec<_> = charges.iter().map(|charge| charge.at.as_millisecond()).collect();
        let steps = [
            Step::new(MAKE_WALLETS, &[&person]),
            Step::new(LOCK_WALLETS, &[&person]),
            Step::new(KNOWN, &[&person, &key]),
            Step::new(CHARGE, &[&person, &amount, &key, &at, &MAX_BALANCE.0]),
            Step::new("SELECT person, balance FROM wallet WHERE person = ANY ($1::uuid[])", &[&person]),
        ];
        let rows = self.transact(&steps).await?;
        let known = rows[2].iter().map(|row| Ok((row.try_get::<_, i64>(0)?, row)));
        let known: HashMap<_, _> = known.collect::<Result<_, tokio_postgres::Error>>()?;
        // Those that are entered are the first of their wallet's that are new, in order.
        let mut entered: HashMap<u128, VecDeque<Entry>> = HashMap::new();
        for row in &rows[3] {
            let mut columns = Columns::of(row, "a movement");
            let person = columns.id()?;
            entered.entry(person).or_default().push_back(entry(columns)?);
        }
        let balances = rows[4].iter().map(|row| {
            let mut columns = Columns::of(row, "a wallet");
            Ok((columns.id()?, columns.won()?))
        });
        let balances: HashMap<_, _> = balances.collect::<Result<_, Error>>()?;
        let told = charges.iter().zip(1..).map(|(charge, n)| {
            if let Some(row) = known.get(&n) {
                let mut columns = Columns::of(row, "a movement");
                columns.take::<i64>()?;
                return Ok(Some(again(&entry(columns)?, charge)));
            }
            let person = charge.person.0;
            if let Some(entry) = entered.get_mut(&person).and_then(VecDeque::pop_front) {
                return Ok(Some(Ok(entry)));
            }
            let holds = balances.get(&person).copied().unwrap_or(Won::ZERO);
            Ok((holds.0 + charge.amount.0 > MAX_BALANCE.0).then_some(Err(ChargeError::TooMuch)))
        });
        told.collect()
    }

    /// A wallet's movements, newest first, from before the cursor.
    pub(crate) async fn wallet_entries(
        &self,
        person: PersonId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<Entry>, Error> {
        let sql = "SELECT id, amount, balance, kind, reservation, at FROM wallet_entry \
                   WHERE person = $1 AND ($2::bigint IS NULL OR id < $2) ORDER BY id DESC LIMIT $3";
        let rows = self.ask(sql, &[&Wide(person.0), &before, &(i64::from(limit) + 1)]).await?;
        let items =
            rows.iter().map(|row| entry(Columns::of(row, "a movement"))).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::of(items, limit, |last| last.id.to_string()))
    }
}

/// What a charge comes to whose key was used for this one before.
fn again(before: &Entry, charge: &Charge) -> Result<Entry, ChargeError> {
    if before.amount == charge.amount { Ok(before.clone()) } else { Err(ChargeError::KeyUsed) }
}

fn entry(mut columns: Columns<'_>) -> Result<Entry, Error> {
    Ok(Entry {
        id: columns.take()?,
        amount: columns.won()?,
        balance: columns.won()?,
        kind: columns.name()?,
        reservation: columns.optional_id()?.map(ReservationId),
        at: columns.instant()?,
    })
}
