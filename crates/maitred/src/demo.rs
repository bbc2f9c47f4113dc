//! Demo data: three restaurants with menus, a concert hall, and people to try them with.

use booking::hall::{Row, Section};
use booking::policy::Policy;
use booking::venue::{Kind, MenuItem, Settings, WeekTimes, Zone};
use booking::{Hall, Inventory, PersonId, Table, Won};
use jiff::Timestamp;
use store::{Account, AccountError, Store};

use crate::fresh;
use crate::passwords::Passwords;

/// The password of everybody in the demo.
pub const PASSWORD: &str = "demo-password";

const STAFF: (&str, &str) = ("staff@demo.maitred", "Demo staff");
const GUESTS: [(&str, &str); 2] =
    [("guest1@demo.maitred", "Demo guest 1"), ("guest2@demo.maitred", "Demo guest 2")];

/// Adds the demo's data to a store, unless it is there already; what to tell whoever started it.
pub async fn seed(store: &Store, now: Timestamp) -> anyhow::Result<String> {
    if store.account_by_email(STAFF.0.into()).await?.is_none() {
        let staff = add_account(store, STAFF, now).await?;
        for (email, name) in GUESTS {
            let guest = add_account(store, (email, name), now).await?;
            store.charge(guest, Won(1_000_000), Some("demo".into()), now).await?;
        }
        for (settings, menu) in venues() {
            store.add_venue(settings, menu, vec![staff]).await?;
        }
    }
    let mut told = String::from("Demo accounts (password: demo-password)\n");
    for (email, name) in [STAFF].into_iter().chain(GUESTS) {
        told.push_str(&format!("  {email:<22} {name}\n"));
    }
    told.push_str("Demo venues\n");
    for venue in store.venues().await? {
        told.push_str(&format!("  {:<22} {}\n", format!("/api/venues/{}", venue.id), venue.settings.name));
    }
    Ok(told)
}

async fn add_account(store: &Store, (email, name): (&str, &str), now: Timestamp) -> anyhow::Result<PersonId> {
    let password_hash =
        Passwords::default().hash(PASSWORD.into()).await.map_err(|_| anyhow::anyhow!("no hash"))?;
    let account =
        Account { id: fresh::person_id(now), email: email.into(), name: name.into(), password_hash };
    match store.add_account(account.clone(), now).await {
        Ok(()) => Ok(account.id),
        // Another process seeds the same file.
        Err(AccountError::EmailTaken) => {
            let known = store.account_by_email(email.into()).await?;
            known
                .map(|account| account.id)
                .ok_or_else(|| anyhow::anyhow!("the account {email} comes and goes"))
        }
        Err(error) => Err(error.into()),
    }
}

fn venues() -> [(Settings, Vec<MenuItem>); 4] {
    let settings = |name: &str, inventory, first, last| Settings {
        name: name.into(),
        kind: Kind::Restaurant,
        inventory,
        time_zone: seoul(),
        times: WeekTimes::daily(first, last),
        shows: vec![],
        book_ahead_days: 60,
        requests_per_second: None,
        policy: Policy::default(),
    };
    let tables = [2, 2, 2, 2, 4, 4, 4, 4, 6, 8].into_iter().zip(1..);
    let tables = tables.map(|(seats, number)| Table { number, seats }).collect();
    [
        (
            settings("Noodle Hall (20 places)", Inventory::Places { capacity: 20 }, 11, 20),
            menu(&[("Cold noodles", 11_000), ("Dumplings", 8_000), ("Barley tea", 3_000)]),
        ),
        (
            settings("The Private Room (one party at a time)", Inventory::Exclusive, 12, 21),
            menu(&[("Seven courses", 120_000), ("Wine pairing", 60_000)]),
        ),
        (
            settings("Ten Tables", Inventory::Tables { tables }, 11, 21),
            menu(&[("Set lunch", 18_000), ("Grilled fish", 24_000), ("Rice wine", 9_000)]),
        ),
        (
            Settings {
                kind: Kind::Concert,
                policy: Policy::for_shows(),
                ..settings("Moonlight Hall (50 seats)", Inventory::Seats { sections: hall() }, 19, 19)
            },
            vec![],
        ),
    ]
}

/// Two rows of ten in front, three behind.
fn hall() -> Hall {
    let rows = |rows: std::ops::RangeInclusive<u32>| {
        rows.map(|row| Row { name: row.to_string(), seats: 10 }).collect()
    };
    let section = |name: &str, price, rows| Section { name: name.into(), price: Won(price), rows };
    Hall::from(vec![section("R", 90_000, rows(1..=2)), section("S", 60_000, rows(3..=5))])
}

fn seoul() -> Zone {
    Zone::named("Asia/Seoul").unwrap_or_else(|| unreachable!("the time zones are part of the program"))
}

fn menu(items: &[(&str, i64)]) -> Vec<MenuItem> {
    items
        .iter()
        .zip(1..)
        .map(|(&(name, price), id)| MenuItem { id, name: name.into(), price: Won(price) })
        .collect()
}
