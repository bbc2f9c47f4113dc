//! Running a venue: its settings, tables and menu, and the day's reservations.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;

use axum::extract::State;
use booking::hall::Section;
use booking::policy::Policy;
use booking::venue::{
    DEFAULT_CAPACITY, Kind, MAX_PARTY, MAX_SHOWS, MenuItem, Settings, Show, WeekTimes, Zone,
};
use booking::{Hall, Inventory, SlotId, Table, Venue, VenueId, Won};
use hyper::StatusCode;
use jiff::ToSpan;
use serde::Deserialize;
use utoipa::ToSchema;

use super::App;
use super::availability::Day;
use super::extract::{Guest, Id, Json, Query, misread};
use super::problem::{Problem, ProblemBody};
use super::reservations::venue;
use super::venues::MenuItemView;
use super::views::{List, ReservationView, VenueView};

/// A venue that this person runs.
pub async fn own_venue(app: &App, guest: &Guest, id: VenueId) -> Result<Arc<Venue>, Problem> {
    let venue = venue(app, id).await?;
    if venue.is_staff(guest.id) { Ok(venue) } else { Err(Problem::forbidden()) }
}

/// Settings of a venue; what is left out stays as it is, or takes its default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VenueSettings {
    name: Option<String>,
    /// `restaurant` or `concert`.
    #[schema(value_type = Option<String>)]
    kind: Option<Kind>,
    /// `places`, `tables` or `seats`.
    inventory: Option<String>,
    /// People a slot, with inventory `places`.
    capacity: Option<u32>,
    /// One reservation a slot, whatever its size.
    exclusive: Option<bool>,
    #[schema(value_type = Option<Vec<super::views::TableView>>)]
    tables: Option<Vec<Table>>,
    /// Priced seats: sections, best first; rows from the front.
    #[schema(value_type = Option<Vec<super::views::SectionView>>)]
    sections: Option<Vec<Section>>,
    /// An IANA name; Asia/Seoul by default.
    #[schema(value_type = Option<String>)]
    time_zone: Option<Zone>,
    /// Start times by weekday: `{"monday":["11:00","12:00"], …}`.
    #[schema(value_type = Option<Object>)]
    times: Option<WeekTimes>,
    /// Days with shows: `[{"date":"2026-12-24","times":["19:00"]}]`. As long as there are any, `times` does not count.
    #[schema(value_type = Option<Vec<super::views::ShowView>>)]
    shows: Option<Vec<Show>>,
    book_ahead_days: Option<u16>,
    /// How many people may join the venue's lines in any second; `null` for any number.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<u32>)]
    requests_per_second: Option<Option<u32>>,
    /// The terms to change, such as `{"holdSeconds":600}`; the others stay.
    #[schema(value_type = Option<Object>)]
    policy: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Tells a field that is `null` from one that was left out.
fn said<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// These terms with some changed.
fn policy_on(base: &Policy, changes: serde_json::Map<String, serde_json::Value>) -> Result<Policy, Problem> {
    let mut terms = serde_json::to_value(base).map_err(|_| Problem::internal())?;
    terms.as_object_mut().ok_or_else(Problem::internal)?.extend(changes);
    serde_path_to_error::deserialize(terms).map_err(|error| misread("/policy", &error))
}

impl VenueSettings {
    /// These settings on top of others.
    fn on(self, base: Settings) -> Result<Settings, Problem> {
        let inventory = self.inventory_on(&base.inventory)?;
        let settings = Settings {
            name: self.name.map_or(base.name, |name| name.trim().to_owned()),
            kind: self.kind.unwrap_or(base.kind),
            inventory,
            time_zone: self.time_zone.unwrap_or(base.time_zone),
            times: self.times.map_or(base.times, WeekTimes::in_order),
            shows: self.shows.map_or(base.shows, in_order),
            book_ahead_days: self.book_ahead_days.unwrap_or(base.book_ahead_days),
            requests_per_second: self.requests_per_second.unwrap_or(base.requests_per_second),
            policy: match self.policy {
                Some(changes) => policy_on(&base.policy, changes)?,
                None => base.policy,
            },
        };
        if !(1..=100).contains(&settings.name.chars().count()) {
            return Err(Problem::field("/name", "must have between 1 and 100 characters"));
        }
        if settings.shows.len() > MAX_SHOWS {
            return Err(Problem::field("/shows", "must be 400 days at most"));
        }
        if !(1..=365).contains(&settings.book_ahead_days) {
            return Err(Problem::field("/bookAheadDays", "must be between 1 and 365"));
        }
        if settings.requests_per_second.is_some_and(|limit| !(1..=100_000).contains(&limit)) {
            return Err(Problem::field("/requestsPerSecond", "must be between 1 and 100,000, or null"));
        }
        if let Some((name, message)) = settings.policy.fault() {
            return Err(Problem::field(format!("/policy/{name}"), message));
        }
        Ok(settings)
    }

    fn inventory_on(&self, base: &Inventory) -> Result<Inventory, Problem> {
        let kept = match base {
            Inventory::Tables { .. } => "tables",
            Inventory::Seats { .. } => "seats",
            _ => "places",
        };
        let named = match (&self.tables, &self.sections) {
            (Some(_), _) => "tables",
            (None, Some(_)) => "seats",
            (None, None) => kept,
        };
        match self.inventory.as_deref().unwrap_or(named) {
            "places" => {
                let exclusive =
                    self.exclusive.unwrap_or(self.capacity.is_none() && *base == Inventory::Exclusive);
                let capacity = match (self.capacity, base) {
                    (Some(capacity), _) => capacity,
                    (None, Inventory::Places { capacity }) => *capacity,
                    (None, _) => DEFAULT_CAPACITY,
                };
                if !(1..=10_000_000).contains(&capacity) {
                    return Err(Problem::field("/capacity", "must be between 1 and 10,000,000"));
                }
                Ok(if exclusive { Inventory::Exclusive } else { Inventory::Places { capacity } })
            }
            "tables" => match (&self.tables, base) {
                (Some(tables), _) => Ok(Inventory::Tables { tables: checked(tables.clone())? }),
                (None, Inventory::Tables { .. }) => Ok(base.clone()),
                (None, _) => Err(Problem::field("/tables", "must list the tables")),
            },
            "seats" => match (&self.sections, base) {
                (Some(sections), _) => hall(sections.clone()),
                (None, Inventory::Seats { .. }) => Ok(base.clone()),
                (None, _) => Err(Problem::field("/sections", "must list the seats")),
            },
            _ => Err(Problem::field("/inventory", "must be \"places\", \"tables\" or \"seats\"")),
        }
    }
}

/// Days with shows in order, each once, each with its times in order.
fn in_order(shows: Vec<Show>) -> Vec<Show> {
    let mut days = BTreeMap::<_, BTreeSet<_>>::new();
    shows.into_iter().for_each(|show| days.entry(show.date).or_default().extend(show.times));
    days.into_iter().map(|(date, times)| Show { date, times: times.into_iter().collect() }).collect()
}

fn hall(sections: Vec<Section>) -> Result<Inventory, Problem> {
    let sections = Hall::from(sections);
    match sections.fault() {
        Some((pointer, message)) => Err(Problem::field(pointer, message)),
        None => Ok(Inventory::Seats { sections }),
    }
}

fn checked(mut tables: Vec<Table>) -> Result<Vec<Table>, Problem> {
    tables.sort_by_key(|table| table.number);
    let fault = if !(1..=1_000).contains(&tables.len()) {
        Some("must be between 1 and 1,000")
    } else if tables.iter().any(|table| !(1..=MAX_PARTY).contains(&table.seats)) {
        Some("must each have between 1 and 100 seats")
    } else if tables.windows(2).any(|pair| pair[0].number == pair[1].number) {
        Some("must have different numbers")
    } else {
        None
    };
    fault.map_or(Ok(tables), |message| Err(Problem::field("/tables", message)))
}

/// Open a venue; whoever does runs it.
#[utoipa::path(post, path = "/api/venues", tag = "staff", request_body = VenueSettings,
    responses((status = 201, body = VenueView), (status = 422, body = ProblemBody)))]
pub async fn add_venue(
    State(app): State<Arc<App>>,
    guest: Guest,
    Json { value, .. }: Json<VenueSettings>,
) -> Result<(StatusCode, axum::Json<VenueView>), Problem> {
    let kind = value.kind.unwrap_or(Kind::Restaurant);
    let base = Settings {
        name: String::new(),
        kind,
        inventory: Inventory::Places { capacity: DEFAULT_CAPACITY },
        time_zone: Zone::named("Asia/Seoul").ok_or_else(Problem::internal)?,
        times: WeekTimes::daily(11, 20),
        shows: vec![],
        book_ahead_days: 60,
        requests_per_second: None,
        policy: match kind {
            Kind::Restaurant => Policy::default(),
            Kind::Concert => Policy::for_shows(),
        },
    };
    let venue = app.store.add_venue(value.on(base)?, vec![], vec![guest.id]).await?;
    Ok((StatusCode::CREATED, axum::Json(VenueView::from(&venue))))
}

/// Change a venue's settings. Reservations that exist are kept; what no longer fits is not sold again.
#[utoipa::path(patch, path = "/api/venues/{id}", tag = "staff", params(("id" = String, Path)), request_body = VenueSettings,
    responses((status = 200, body = VenueView), (status = 403, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn change_venue(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Json { value, .. }: Json<VenueSettings>,
) -> Result<axum::Json<VenueView>, Problem> {
    own_venue(&app, &guest, id).await?;
    let current = app.venues.refresh(id).await?.ok_or_else(|| Problem::not_found("venue"))?;
    let settings = value.on(current.settings.clone())?;
    store_settings(&app, &current, settings).await
}

async fn store_settings(
    app: &App,
    current: &Venue,
    settings: Settings,
) -> Result<axum::Json<VenueView>, Problem> {
    if discriminant(&settings.inventory) != discriminant(&current.settings.inventory)
        && has_bookings(app, current).await?
    {
        // People who hold places would have no table, and their places would be sold again.
        return Err(Problem::field("/inventory", "cannot change while reservations are to come"));
    }
    // Somebody else changed it in between: whoever asks again sees what.
    if !app.store.set_settings(current.id, current.version, settings).await? {
        return Err(Problem::unavailable());
    }
    let venue = app.venues.refresh(current.id).await?.ok_or_else(|| Problem::not_found("venue"))?;
    Ok(axum::Json(VenueView::from(venue.as_ref())))
}

/// Whether anybody holds a place from today on.
async fn has_bookings(app: &App, venue: &Venue) -> Result<bool, Problem> {
    let now = app.clock.now();
    let today = venue.settings.time_zone.zone().to_datetime(now).date();
    let range =
        (SlotId::day_range(venue.id, today), SlotId::day_range(venue.id, today.saturating_add(366.days())));
    let (Some((first, _)), Some((_, last))) = range else { return Ok(false) };
    Ok(!app.store.occupancy(first, last, now).await?.is_empty())
}

/// All tables of a venue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    #[schema(value_type = Vec<super::views::TableView>)]
    tables: Vec<Table>,
}

/// Replace a venue's tables.
#[utoipa::path(put, path = "/api/venues/{id}/tables", tag = "staff", params(("id" = String, Path)), request_body = Tables,
    responses((status = 200, body = VenueView), (status = 403, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn set_tables(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Json { value: Tables { tables }, .. }: Json<Tables>,
) -> Result<axum::Json<VenueView>, Problem> {
    own_venue(&app, &guest, id).await?;
    let current = app.venues.refresh(id).await?.ok_or_else(|| Problem::not_found("venue"))?;
    let inventory = Inventory::Tables { tables: checked(tables)? };
    store_settings(&app, &current, Settings { inventory, ..current.settings.clone() }).await
}

/// All seats of a venue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Seats {
    #[schema(value_type = Vec<super::views::SectionView>)]
    sections: Vec<Section>,
}

/// Replace a venue's seats: sections, best first; rows from the front; seats numbered from 1.
#[utoipa::path(put, path = "/api/venues/{id}/seats", tag = "staff", params(("id" = String, Path)), request_body = Seats,
    responses((status = 200, body = VenueView), (status = 403, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn set_seats(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Json { value: Seats { sections }, .. }: Json<Seats>,
) -> Result<axum::Json<VenueView>, Problem> {
    own_venue(&app, &guest, id).await?;
    let current = app.venues.refresh(id).await?.ok_or_else(|| Problem::not_found("venue"))?;
    let inventory = hall(sections)?;
    store_settings(&app, &current, Settings { inventory, ..current.settings.clone() }).await
}

/// A whole menu.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Menu {
    items: Vec<NewItem>,
}

/// Something for the menu.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewItem {
    name: String,
    /// In won.
    price: i64,
}

/// Replace a venue's menu.
#[utoipa::path(put, path = "/api/venues/{id}/menu", tag = "staff", params(("id" = String, Path)), request_body = Menu,
    responses((status = 200, body = List<MenuItemView>), (status = 403, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn set_menu(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Json { value: Menu { items }, .. }: Json<Menu>,
) -> Result<axum::Json<List<MenuItemView>>, Problem> {
    own_venue(&app, &guest, id).await?;
    if items.len() > 500 {
        return Err(Problem::field("/items", "must be 500 at most"));
    }
    for (at, item) in items.iter().enumerate() {
        if !(1..=100).contains(&item.name.trim().chars().count()) {
            return Err(Problem::field(
                format!("/items/{at}/name"),
                "must have between 1 and 100 characters",
            ));
        }
        if !(0..=10_000_000).contains(&item.price) {
            return Err(Problem::field(format!("/items/{at}/price"), "must be between 0 and 10,000,000 won"));
        }
    }
    let menu = items.into_iter().zip(1..);
    let menu = menu
        .map(|(item, id)| MenuItem { id, name: item.name.trim().into(), price: Won(item.price) })
        .collect();
    app.store.set_menu(id, menu).await?;
    let venue = app.venues.refresh(id).await?.ok_or_else(|| Problem::not_found("venue"))?;
    Ok(axum::Json(List::whole(venue.menu.iter().map(MenuItemView::from).collect())))
}

/// A day's reservations, by time.
#[utoipa::path(get, path = "/api/venues/{id}/reservations", tag = "staff", params(("id" = String, Path), Day),
    responses((status = 200, body = List<ReservationView>), (status = 403, body = ProblemBody)))]
pub async fn reservations(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Query(day): Query<Day>,
) -> Result<axum::Json<List<ReservationView>>, Problem> {
    own_venue(&app, &guest, id).await?;
    let found = app.store.reservations_on(id, day.parsed()?).await?;
    Ok(axum::Json(List::whole(found.iter().map(|r| ReservationView::seen_at(r, app.clock.now())).collect())))
}
