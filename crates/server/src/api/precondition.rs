//! `ETag`, `If-Match` and `If-None-Match`: an edit of what its caller has not read is refused.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use evenkeel_core::input::{CommandKind, ObjectKind, Precondition};
use serde::Serialize;

use super::ApiError;

/// An object and its version, which the answer has as its `ETag`.
#[derive(Debug)]
pub(super) struct WithVersion<T>(pub(super) T, pub(super) u64);

impl<T: Serialize> IntoResponse for WithVersion<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.0).into_response();
        let tag = HeaderValue::from_str(&format!("\"{}\"", self.1));
        response.headers_mut().extend(tag.ok().map(|tag| (header::ETAG, tag)));
        response
    }
}

/// What the caller of a change wants of the object that it changes.
///
/// # Errors
/// A header is not understood, or the change is of nothing that has a version: a condition that is passed over would be
/// worse than none.
pub(super) fn wanted(headers: &HeaderMap, changed: CommandKind) -> Result<Option<Precondition>, ApiError> {
    let [matches, differs] = [header::IF_MATCH, header::IF_NONE_MATCH].map(|name| lines(headers, &name));
    let (matches, differs) = (matches?, differs?);
    let wanted = match (matches, differs) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(ApiError::invalid("send If-Match or If-None-Match, not both")),
        (Some(text), None) if text == "*" => Precondition::Exists,
        (Some(text), None) => Precondition::Version(versions(&text)?),
        (None, Some(text)) if text == "*" => Precondition::Absent,
        (None, Some(text)) => {
            let text = format!(
                "If-None-Match takes * for a change, which is to create something only, and not {text:?}"
            );
            return Err(ApiError::invalid(text));
        }
    };
    match changed.object {
        ObjectKind::Job
        | ObjectKind::Calendar
        | ObjectKind::Namespace
        | ObjectKind::User
        | ObjectKind::Token
        | ObjectKind::Secret => Ok(Some(wanted)),
        ObjectKind::Jobs => Err(ApiError::invalid(
            "a request for several jobs takes no If-Match: PUT /api/v1/jobs/NAME changes one, and takes it",
        )),
        ObjectKind::Run
        | ObjectKind::Node
        | ObjectKind::Settings
        | ObjectKind::Layout
        | ObjectKind::Console => Err(ApiError::invalid(format!(
            "If-Match says nothing about {}, which has no version: leave it out",
            changed.object.as_str()
        ))),
    }
}

/// The value of a header, whose lines make one list.
fn lines(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, ApiError> {
    let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
    let lines = lines.map_err(|_| ApiError::invalid(format!("{name} is no text")))?;
    Ok((!lines.is_empty()).then(|| lines.join(",").trim().to_owned()))
}

/// The versions in a list of tags, as `"7"` or `"7", "9"`.
fn versions(text: &str) -> Result<Vec<u64>, ApiError> {
    let version = |tag: &str| tag.trim().strip_prefix('"')?.strip_suffix('"')?.parse().ok();
    text.split(',').map(version).collect::<Option<Vec<u64>>>().ok_or_else(|| {
        ApiError::invalid(format!(
            "If-Match takes the ETag of an answer, as \"7\", a list of them, or *, and not {text:?}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[(HeaderName, &'static str)]) -> Result<Option<Precondition>, String> {
        let lines = lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value)| {
            headers.append(name, value);
        });
        wanted(&headers, CommandKind::APPLY_CALENDAR).map_err(ApiError::message)
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let (matches, differs) = (header::IF_MATCH, header::IF_NONE_MATCH);
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(matches.clone(), "*")]), Ok(Some(Precondition::Exists)));
        assert_eq!(of(&[(differs.clone(), "*")]), Ok(Some(Precondition::Absent)));
        let both = of(&[(matches.clone(), "\"7\" , \"8\""), (matches.clone(), "\"9\"")]);
        assert_eq!(both, Ok(Some(Precondition::Version([7, 8, 9].into()))));
        for text in ["7", "W/\"7\"", "\"seven\"", "\"7", "", "\"7\",", "\"-1\"", "\"7\", *"] {
            let said = of(&[(matches.clone(), text)]).expect_err(text);
            assert!(said.starts_with("If-Match takes the ETag"), "{said}");
        }
        assert!(of(&[(differs.clone(), "\"7\"")]).is_err());
        assert!(of(&[(differs, "*"), (matches, "*")]).is_err());
    }

    #[test]
    fn what_has_no_version_takes_no_condition() {
        let headers = HeaderMap::from_iter([(header::IF_MATCH, HeaderValue::from_static("\"7\""))]);
        for kind in
            [CommandKind::APPLY_JOBS, CommandKind::KILL, CommandKind::CONFIGURE, CommandKind::LOGIN_LINK]
        {
            assert!(wanted(&headers, kind).is_err(), "{kind:?}");
        }
        assert!(wanted(&headers, CommandKind::DELETE_TOKEN).is_ok());
    }
}
