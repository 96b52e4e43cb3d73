//! What is saved on the way: answers are compressed for callers that take it, and one that its caller has already is not sent
//! again.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};

use super::ApiError;
use super::headers::text;
use crate::key::digest;

/// The shortest answer that is compressed, in bytes: a shorter one fits in a packet anyway.
const LEAST: u64 = 1_024;

/// Compresses answers by gzip. Streams are left as they are: a line of output must not wait for the next one.
pub(super) fn compression() -> CompressionLayer<impl Predicate> {
    CompressionLayer::new().gzip(true).compress_when(SizeAbove::new(LEAST).and(is_whole))
}

/// Leaves of `Accept-Encoding` whether the caller takes gzip. A caller that refuses answers as they are gets them all the same:
/// it would be refused after its change was made.
pub(super) async fn understood(mut request: Request, next: Next) -> Response {
    let takes = request.headers().get_all(header::ACCEPT_ENCODING).iter().any(takes_gzip);
    request.headers_mut().remove(header::ACCEPT_ENCODING);
    if takes {
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    next.run(request).await
}

fn takes_gzip(line: &HeaderValue) -> bool {
    let line = line.to_str().unwrap_or_default().to_ascii_lowercase();
    line.split(',').any(|part| {
        let mut parts = part.split(';').map(str::trim);
        let quality = |part: &str| part.strip_prefix("q=")?.parse::<f64>().ok();
        parts.next() == Some("gzip") && parts.find_map(quality).is_none_or(|quality| quality > 0.0)
    })
}

/// Whether an answer is of a kind that is made as a whole.
fn is_whole(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    let kind = text(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let kinds = ["json", "html", "css", "javascript", "svg", "openmetrics", "version=0.0.4"];
    kinds.iter().any(|word| kind.contains(word))
}

/// Gives answers with JSON an `ETag` of their content, and answers 304 where the caller has this content already. An answer
/// about one object has the object's version as its tag, by which it is edited: parts of it change without an edit.
pub(super) async fn validated(request: Request, next: Next) -> Response {
    let asks = request.method() == Method::GET;
    let known = text(request.headers(), &header::IF_NONE_MATCH).map(str::to_owned);
    let response = next.run(request).await;
    let is_json = text(response.headers(), &header::CONTENT_TYPE) == Some("application/json");
    if !asks
        || response.status() != StatusCode::OK
        || !is_json
        || response.headers().contains_key(header::ETAG)
    {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // It is in memory already: handlers make whole texts of JSON.
    let bytes = match to_bytes(body, usize::MAX).await {
        Ok(bytes) => bytes,
        Err(e) => return ApiError::internal(e.to_string()).into_response(),
    };
    let hash = digest(&bytes);
    // Weak: compressed or not, it is one.
    let tag = format!("W/\"{}\"", hash.get(..32).unwrap_or(&hash));
    parts.headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    if known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag)) {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_TYPE);
        parts.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_where_a_caller_names_it_and_does_not_refuse_it() {
        for (line, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("br", false),
            ("identity;q=0", false),
            ("*;q=0", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(&HeaderValue::from_str(line).expect("a value")), takes, "{line}");
        }
    }
}
