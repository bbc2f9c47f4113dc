//! What clients see of the domain: the shapes of the contract.

use booking::hall::Section;
use booking::venue::{Kind, Show, StartTime, WeekTimes};
use booking::{
    Inventory, ProviderPayment, Reservation, ReservationId, Status, Table, Venue, VenueId, policy::Policy,
};
use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;
use utoipa::ToSchema;

use super::payments::PaymentView;
use super::tickets::TicketRef;

/// Part of a list, and where to go on.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T> {
    /// This part.
    pub items: Vec<T>,
    /// Send it as `cursor` for the next part.
    pub next: Option<String>,
}

impl<T> List<T> {
    /// A list that has no further part.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

/// A reservation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Reservation)]
pub struct ReservationView {
    #[schema(value_type = String)]
    id: ReservationId,
    #[schema(value_type = String, example = "TEMPORARY")]
    status: Status,
    #[schema(value_type = String)]
    venue_id: VenueId,
    #[schema(value_type = String, format = Date)]
    date: Date,
    #[schema(value_type = String, example = "12:00")]
    time: StartTime,
    /// The name it is made out to.
    name: String,
    party_size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    seats: Vec<String>,
    payment: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    items: Vec<OrderView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// What has to be paid now, in won.
    amount_due: i64,
    amount_paid: i64,
    amount_refunded: i64,
    /// What is still to be returned, while a refund is pending.
    refund_due: i64,
    /// Until when it must be paid; null once it is.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The place in line that won it.
    ticket: TicketRef,
    /// The expired reservation that this one stands in for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    reseats: Option<ReservationId>,
    /// Whether it was offered from the waitlist: accept it with a payment or at `/api/offers/{id}/accept`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    offer: bool,
    /// The payment with a provider that was just begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_payment: Option<PaymentView>,
    /// Payments with providers, also those that bought nothing; only where one reservation is looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    provider_payments: Vec<PaymentView>,
}

/// Something ordered ahead.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderView {
    menu_item_id: String,
    name: String,
    price: i64,
    quantity: u32,
}

impl From<&Reservation> for ReservationView {
    fn from(r: &Reservation) -> Self {
        let items = r.order.iter().map(|line| OrderView {
            menu_item_id: line.item.to_string(),
            name: line.name.to_string(),
            price: line.price.0,
            quantity: line.quantity,
        });
        Self {
            id: r.id,
            status: r.status(),
            venue_id: r.slot.venue(),
            date: r.slot.date(),
            time: StartTime(r.slot.time()),
            name: r.name.to_string(),
            party_size: r.party,
            table: r.table,
            seats: r.seats.iter().map(ToString::to_string).collect(),
            payment: r.payment.as_str(),
            items: items.collect(),
            note: r.note.as_ref().map(|note| note.to_string()),
            amount_due: r.amount_due().0,
            amount_paid: r.paid.0,
            amount_refunded: r.refunded.0,
            refund_due: r.refund_due.0,
            expires_at: (r.status() == Status::Temporary).then_some(r.expires_at),
            created_at: r.created_at,
            ticket: r.ticket.into(),
            reseats: r.reseats,
            offer: r.offered,
            provider_payment: None,
            provider_payments: Vec::new(),
        }
    }
}

impl ReservationView {
    /// Whether it is a hold.
    pub fn is_held(&self) -> bool {
        self.status == Status::Temporary
    }

    /// The same, with the payment that was begun for it.
    pub fn with_payment(self, payment: &ProviderPayment) -> Self {
        Self { provider_payment: Some(payment.into()), ..self }
    }

    /// The same, with all payments about it.
    pub fn with_payments(self, payments: &[ProviderPayment]) -> Self {
        Self { provider_payments: payments.iter().map(PaymentView::from).collect(), ..self }
    }

    /// As it is seen at `now`: a hold whose time is over has expired, whatever its row still says.
    pub fn seen_at(r: &Reservation, now: Timestamp) -> Self {
        let view = Self::from(r);
        if !r.has_expired(now) {
            return view;
        }
        Self { status: Status::Expired, amount_due: 0, expires_at: None, ..view }
    }
}

/// A venue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Venue)]
pub struct VenueView {
    #[schema(value_type = String)]
    id: VenueId,
    name: String,
    #[schema(value_type = String, example = "restaurant")]
    kind: Kind,
    /// `places`, `tables` or `seats`.
    inventory: &'static str,
    /// Whether one reservation takes the whole slot.
    exclusive: bool,
    /// How much a slot offers: people, tables, seats, or one reservation where it is exclusive.
    capacity: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<TableView>>)]
    tables: Option<Vec<Table>>,
    /// Priced seats: sections, best first; rows from the front; seats numbered from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<SectionView>>)]
    sections: Option<Vec<Section>>,
    time_zone: String,
    #[schema(value_type = Object)]
    times: WeekTimes,
    /// Days with shows, where not every week is like the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<ShowView>)]
    shows: Vec<Show>,
    book_ahead_days: u16,
    /// How many people may join its lines in any second; absent where there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_second: Option<u32>,
    #[schema(value_type = Object)]
    policy: Policy,
}

/// A table.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Table)]
#[serde(rename_all = "camelCase")]
pub struct TableView {
    number: u32,
    seats: u32,
}

/// Seats that cost the same.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Section)]
pub struct SectionView {
    name: String,
    /// Of one seat, in won.
    price: i64,
    rows: Vec<RowView>,
}

/// A row of seats.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Row)]
pub struct RowView {
    name: String,
    /// How many.
    seats: u32,
}

/// A day with shows.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Show)]
pub struct ShowView {
    #[schema(format = Date)]
    date: String,
    #[schema(example = json!(["19:00"]))]
    times: Vec<String>,
}

impl From<&Venue> for VenueView {
    fn from(venue: &Venue) -> Self {
        let settings = &venue.settings;
        let (inventory, tables, sections) = match &settings.inventory {
            Inventory::Places { .. } | Inventory::Exclusive => ("places", None, None),
            Inventory::Tables { tables } => ("tables", Some(tables.clone()), None),
            Inventory::Seats { sections } => ("seats", None, Some(sections.sections().to_vec())),
        };
        Self {
            id: venue.id,
            name: settings.name.clone(),
            kind: settings.kind,
            inventory,
            exclusive: settings.inventory == Inventory::Exclusive,
            capacity: settings.inventory.capacity(),
            tables,
            sections,
            time_zone: settings.time_zone.name().to_owned(),
            times: settings.times.clone(),
            shows: settings.shows.clone(),
            book_ahead_days: settings.book_ahead_days,
            requests_per_second: settings.requests_per_second,
            policy: settings.policy.clone(),
        }
    }
}
