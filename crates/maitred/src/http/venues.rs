//! Venues and their menus, for everybody.

use std::sync::Arc;

use axum::extract::State;
use booking::VenueId;
use booking::venue::MenuItem;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::extract::Id;
use super::openings::OpeningView;
use super::problem::{Problem, ProblemBody};
use super::reservations::venue;
use super::views::{List, VenueView};

/// All venues.
#[utoipa::path(get, path = "/api/venues", tag = "venues", responses((status = 200, body = List<VenueView>)))]
pub async fn list(State(app): State<Arc<App>>) -> Result<axum::Json<List<VenueView>>, Problem> {
    let venues = app.store.venues().await?;
    Ok(axum::Json(List::whole(venues.iter().map(VenueView::from).collect())))
}

/// One venue, and when its sale opens.
#[derive(Debug, Serialize, ToSchema)]
pub struct VenueAndOpening {
    #[serde(flatten)]
    venue: VenueView,
    #[serde(skip_serializing_if = "Option::is_none")]
    opening: Option<OpeningView>,
}

/// One venue.
#[utoipa::path(get, path = "/api/venues/{id}", operation_id = "venue", tag = "venues", params(("id" = String, Path)),
    responses((status = 200, body = VenueAndOpening), (status = 404, body = ProblemBody)))]
pub async fn one(
    State(app): State<Arc<App>>,
    Id(id): Id<VenueId>,
) -> Result<axum::Json<VenueAndOpening>, Problem> {
    let venue = VenueView::from(venue(&app, id).await?.as_ref());
    let view = app.rooms.view(id).await?;
    Ok(axum::Json(VenueAndOpening { venue, opening: view.map(|view| OpeningView::from(&view.opening)) }))
}

/// Something on the menu.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MenuItem)]
pub struct MenuItemView {
    id: String,
    name: String,
    /// In won.
    price: i64,
}

impl From<&MenuItem> for MenuItemView {
    fn from(item: &MenuItem) -> Self {
        Self { id: item.id.to_string(), name: item.name.to_string(), price: item.price.0 }
    }
}

/// What can be ordered ahead.
#[utoipa::path(get, path = "/api/venues/{id}/menu", tag = "venues", params(("id" = String, Path)),
    responses((status = 200, body = List<MenuItemView>), (status = 404, body = ProblemBody)))]
pub async fn menu(
    State(app): State<Arc<App>>,
    Id(id): Id<VenueId>,
) -> Result<axum::Json<List<MenuItemView>>, Problem> {
    let venue = venue(&app, id).await?;
    Ok(axum::Json(List::whole(venue.menu.iter().map(MenuItemView::from).collect())))
}
