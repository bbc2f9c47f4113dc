//! What is left: of a day's slots, and on which days anything is.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use booking::venue::StartTime;
use booking::{Hall, Inventory, Seat, Slot, SlotId, Status, Venue, VenueId};
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use store::Occupancy;
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::{Id, Query, date};
use super::problem::{Problem, ProblemBody};
use super::reservations::venue;
use super::views::List;

/// Which day.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct Day {
    /// `YYYY-MM-DD`, in the venue's time zone.
    pub date: String,
}

impl Day {
    /// The date, if it is one.
    pub fn parsed(&self) -> Result<Date, Problem> {
        date(&self.date).ok_or_else(|| Problem::field("?date", "is not a date; write YYYY-MM-DD"))
    }
}

/// What is left of a slot.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SlotAvailability)]
pub struct SlotView {
    #[schema(value_type = String, example = "12:00")]
    time: StartTime,
    capacity: u32,
    /// People, tables, seats, or one reservation where the venue is exclusive. None while what is left is kept for somebody
    /// on the waitlist.
    remaining: u32,
    /// How many people stand in line for it.
    waiting_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    tables: Option<Vec<TableState>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seats: Option<Vec<SeatState>>,
}

/// A table in a slot.
#[derive(Debug, Serialize, ToSchema)]
pub struct TableState {
    number: u32,
    seats: u32,
    free: bool,
}

/// A seat in a slot.
#[derive(Debug, Serialize, ToSchema)]
pub struct SeatState {
    /// Its label: section, row and number.
    #[schema(example = "A-1-7")]
    seat: String,
    section: String,
    row: String,
    number: usize,
    /// In won.
    price: i64,
    /// `AVAILABLE`, `HELD` until it is paid, or `RESERVED`.
    status: &'static str,
}

/// Every seat of a hall, as it is in a slot.
fn seats(hall: &Hall, slot: &Slot, now: Timestamp) -> Vec<SeatState> {
    let status = |seat: &Seat| match slot.of_seat(seat).filter(|holder| !holder.has_expired(now)) {
        None => "AVAILABLE",
        Some(holder) if holder.status() == Status::Temporary => "HELD",
        Some(_) => "RESERVED",
    };
    let rows = hall.rows().flat_map(|(section, row, seats)| {
        seats.iter().zip(1..).map(move |(seat, number)| (section, row, seat, number))
    });
    rows.map(|(section, row, seat, number)| SeatState {
        seat: seat.to_string(),
        section: section.name.clone(),
        row: row.name.clone(),
        number,
        price: section.price.0,
        status: status(seat),
    })
    .collect()
}

fn remaining(inventory: &Inventory, taken: Option<&Occupancy>) -> u32 {
    let used = taken.map_or(0, |taken| match inventory {
        _ if taken.kept => inventory.capacity(),
        Inventory::Places { .. } | Inventory::Seats { .. } => taken.people,
        Inventory::Exclusive => taken.reservations,
        Inventory::Tables { tables } => {
            let used = tables.iter().filter(|table| taken.tables.contains(&table.number)).count();
            u32::try_from(used).unwrap_or(u32::MAX)
        }
    });
    inventory.capacity().saturating_sub(used)
}

async fn taken(
    app: &App,
    venue: &Venue,
    from: Date,
    to: Date,
) -> Result<HashMap<SlotId, Occupancy>, Problem> {
    let (first, last) = (SlotId::day_range(venue.id, from), SlotId::day_range(venue.id, to));
    let (Some((first, _)), Some((_, last))) = (first, last) else { return Ok(HashMap::new()) };
    let occupancy = app.seating.occupancy(first, last, app.clock.now()).await?;
    Ok(occupancy.iter().map(|taken| (taken.slot, taken.clone())).collect())
}

/// The slots of a day that can still be booked, and what is left of each.
#[utoipa::path(get, path = "/api/venues/{id}/availability", tag = "venues", params(("id" = String, Path), Day),
    responses((status = 200, body = List<SlotView>), (status = 404, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn day(
    State(app): State<Arc<App>>,
    Id(id): Id<VenueId>,
    Query(day): Query<Day>,
) -> Result<axum::Json<List<SlotView>>, Problem> {
    let date = day.parsed()?;
    let venue = venue(&app, id).await?;
    let now = app.clock.now();
    let taken = taken(&app, &venue, date, date).await?;
    let inventory = &venue.settings.inventory;
    let times = venue.times_on(date).iter();
    let offered = times.filter_map(|&time| Some((time, venue.slot(date, time, now).ok()?)));
    let (times, slots): (Vec<_>, Vec<_>) = offered.unzip();
    let waiting = app.desk.waiting_for(&slots).await;
    let mut halls = HashMap::new();
    if let Some(hall) = inventory.hall() {
        for &slot in &slots {
            halls.insert(slot, seats(hall, &*app.seating.of(slot).await?, now));
        }
    }
    let slots = times.into_iter().zip(slots).zip(waiting).map(|((time, slot), waiting_count)| {
        let taken = taken.get(&slot);
        let tables = match inventory {
            Inventory::Tables { tables } => Some(tables),
            _ => None,
        };
        let tables = tables.map(|tables| {
            let free = |number| taken.is_none_or(|taken| !taken.tables.contains(&number));
            tables
                .iter()
                .map(|t| TableState { number: t.number, seats: t.seats, free: free(t.number) })
                .collect()
        });
        let remaining = remaining(inventory, taken);
        let seats = halls.remove(&slot);
        SlotView { time, capacity: inventory.capacity(), remaining, waiting_count, tables, seats }
    });
    Ok(axum::Json(List::whole(slots.collect())))
}

/// The days on which something is left.
#[utoipa::path(get, path = "/api/venues/{id}/dates", tag = "venues", params(("id" = String, Path)),
    responses((status = 200, body = List<String>), (status = 404, body = ProblemBody)))]
pub async fn dates(
    State(app): State<Arc<App>>,
    Id(id): Id<VenueId>,
) -> Result<axum::Json<List<Date>>, Problem> {
    let venue = venue(&app, id).await?;
    let now = app.clock.now();
    let today = venue.settings.time_zone.zone().to_datetime(now).date();
    let last = today.saturating_add(i32::from(venue.settings.book_ahead_days).days());
    let taken = taken(&app, &venue, today, last).await?;
    let days = today.series(1.day()).take_while(|day| *day <= last).filter(|&day| {
        let mut slots = venue.times_on(day).iter().filter_map(|&time| venue.slot(day, time, now).ok());
        slots.any(|slot| remaining(&venue.settings.inventory, taken.get(&slot)) > 0)
    });
    Ok(axum::Json(List::whole(days.collect())))
}
