//! The documentation, which loads nothing from anywhere else.

use std::sync::Arc;

use axum::Router;
use utoipa::Modify;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::App;

/// Says in the document how to sign in.
pub struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        document.components.get_or_insert_default().add_security_scheme("bearer", scheme);
        document.security = Some(vec![SecurityRequirement::new("bearer", Vec::<String>::new())]);
    }
}

/// The pages for people.
pub fn routes() -> Router<Arc<App>> {
    // Left to itself, it sends every reader to an online validator.
    let config = Config::default().validator_url("none");
    let docs =
        SwaggerUi::new("/docs").url("/api/openapi.json", super::routes().into_openapi()).config(config);
    Router::new().merge(docs)
}
