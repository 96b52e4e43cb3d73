//! The description of the API, as it is served: for programs, for editors, and as a page.

use axum::http::header;
use axum::response::{Html, IntoResponse, Response};

use super::openapi;

/// The description as OpenAPI.
pub(super) const OPENAPI: &str = "/api/v1/openapi.json";
/// The JSON Schema of job files.
pub(super) const JOB_SCHEMA: &str = "/api/v1/schemas/job.json";
/// The page.
pub(super) const PAGE: &str = "/docs/api";

pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi::text()).into_response()
}

pub(super) async fn job_schema() -> Response {
    ([(header::CONTENT_TYPE, "application/schema+json")], openapi::job_file_text()).into_response()
}

pub(super) async fn page() -> Html<String> {
    Html(openapi::page(&openapi::document()).into_string())
}
