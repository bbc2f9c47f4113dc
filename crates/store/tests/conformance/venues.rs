//! Venues: settings, menu and staff under one version.

use booking::policy::Policy;
use booking::venue::{Kind, MenuItem, Settings, StartTime, WeekTimes, Zone};
use booking::*;
use jiff::civil::time;
use store::CommitError;

use super::world::{World, person, places, settings, tables};

fn item(id: u32, name: &str, price: i64) -> MenuItem {
    MenuItem { id, name: name.into(), price: Won(price) }
}

#[tokio::test]
async fn a_venue_is_read_back_as_it_was_made() {
    let world = World::new(places(20)).await;
    let unusual = Settings {
        name: "Späti “Zum 🐻”".into(),
        kind: Kind::Restaurant,
        inventory: Inventory::Tables {
            tables: vec![Table { number: 9, seats: 2 }, Table { number: 1, seats: 12 }],
        },
        time_zone: Zone::named("America/St_Johns").unwrap(),
        times: WeekTimes { sunday: vec![StartTime(time(10, 30, 0, 0))], ..WeekTimes::default() },
        book_ahead_days: 365,
        shows: vec![],
        requests_per_second: None,
        policy: Policy { hold_seconds: 61, refunds_by_staff: true, ..Policy::default() },
    };
    let menu = vec![item(1, "국밥", 9_000), item(3, "water", 0)];
    let added = world.store.add_venue(unusual, menu, vec![person(1), person(2)]).await.unwrap();
    assert_eq!((added.version, added.staff.len()), (1, 2));
    assert_eq!(world.store.venue(added.id).await.unwrap().as_ref(), Some(&added));

    let exclusive = world.store.add_venue(settings(Inventory::Exclusive), vec![], vec![]).await.unwrap();
    assert_eq!(world.store.venues().await.unwrap(), [world.venue.clone(), added, exclusive]);
    assert_eq!(world.store.venue(VenueId(1_000)).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_answered_to_whoever_made_a_venue_is_what_is_stored() {
    let world = World::new(places(20)).await;
    let menu = vec![item(2, "soup", 5_000), item(1, "rice", 1_000)];
    let staff = vec![person(2), person(1), person(2)];
    let added = world.store.add_venue(settings(places(20)), menu, staff).await.unwrap();
    assert_eq!(world.store.venue(added.id).await.unwrap(), Some(added));
}

#[tokio::test]
async fn settings_are_replaced_only_at_the_version_that_was_read() {
    let world = World::new(places(20)).await;
    let id = world.venue.id;
    assert!(world.store.set_settings(id, 1, settings(places(4))).await.unwrap());
    assert!(!world.store.set_settings(id, 1, settings(places(6))).await.unwrap());
    assert!(!world.store.set_settings(id, 3, settings(places(6))).await.unwrap());
    assert!(!world.store.set_settings(VenueId(1_000), 1, settings(places(6))).await.unwrap());
    let venue = world.store.venue(id).await.unwrap().unwrap();
    assert_eq!((venue.version, venue.settings), (2, settings(places(4))));
    assert!(world.store.set_settings(id, 2, settings(tables(3))).await.unwrap());
}

#[tokio::test]
async fn a_new_menu_is_a_new_version_and_batches_notice() {
    let world = World::new(places(20)).await;
    let slot = world.load(world.slot(12)).await;
    let (batch, _) = world.decide(&slot, &[world.book(slot.id, 1, 2)]).await;
    for (version, menu) in
        [(2, vec![item(1, "soup", 5_000), item(2, "rice", 1_000)]), (3, vec![item(2, "rice", 2_000)])]
    {
        world.store.set_menu(world.venue.id, menu.clone()).await.unwrap();
        let venue = world.store.venue(world.venue.id).await.unwrap().unwrap();
        assert_eq!((venue.version, venue.menu), (version, menu));
    }
    assert!(matches!(world.store.commit(batch).await, Err(CommitError::Stale)));
}
