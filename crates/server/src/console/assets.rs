//! The files of the console's program: their names change with their contents, so browsers keep them for good.

use axum::extract::Path;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::built::FILES;
use crate::api::ApiError;

/// A built file.
pub(super) struct ConsoleFile {
    /// Its name, with the first characters of its digest.
    pub(super) name: &'static str,
    /// Its media type.
    pub(super) kind: &'static str,
    /// Its bytes.
    pub(super) plain: &'static [u8],
    /// The same, compressed by gzip.
    pub(super) gzip: &'static [u8],
}

/// `/assets/NAME`.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let file = FILES.iter().find(|file| file.name == name);
    let file = file.ok_or_else(|| {
        ApiError::not_found("this is no file of this version's console: load the page again")
    })?;
    let kind = (header::CONTENT_TYPE, file.kind);
    // What a caller takes was reduced to gzip or nothing before.
    Ok(if headers.contains_key(header::ACCEPT_ENCODING) {
        ([kind, (header::CONTENT_ENCODING, "gzip")], file.gzip).into_response()
    } else {
        ([kind], file.plain).into_response()
    })
}
