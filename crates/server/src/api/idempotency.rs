//! `Idempotency-Key`: a request that is repeated has no further effect, whichever node gets it.
//!
//! No answer is stored. A manual run gets its request id from the key, so the registry and the history know the run; all
//! other changes that take a key are done once however often they are requested.

use axum::http::{HeaderMap, HeaderName};
use evenkeel::audit::Proof;
use evenkeel_core::ids::{IdError, RequestId};
use evenkeel_core::input::CommandKind;

use super::ApiError;
use crate::key::digest;

/// The header.
const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The header in which GitHub and programs that follow it name a delivery; one that is sent again has the same name.
const DELIVERY: HeaderName = HeaderName::from_static("x-github-delivery");
/// The longest key in characters.
const KEY_MAX: usize = 255;

/// What each request makes anew, so that a repeated one would make another.
const MADE_ANEW: [CommandKind; 4] =
    [CommandKind::APPLY_TOKEN, CommandKind::ROTATE_TOKEN, CommandKind::LOGIN_LINK, CommandKind::JOIN_TOKEN];

/// The key of a request, if it has one.
///
/// # Errors
/// It is not understood, or the change cannot be repeated without effect.
pub(super) fn key(headers: &HeaderMap, changed: CommandKind) -> Result<Option<String>, ApiError> {
    let Some(text) = one_text(headers, &HEADER, "Idempotency-Key")? else { return Ok(None) };
    if MADE_ANEW.contains(&changed) {
        let text =
            "this address makes a new secret for each request, whatever its Idempotency-Key: leave it out";
        return Err(ApiError::invalid(text));
    }
    Ok(Some(text.to_owned()))
}

/// The id of the request for a run that a webhook's delivery has, if its sender names deliveries.
///
/// # Errors
/// The name is not understood.
pub(super) fn delivery(headers: &HeaderMap, caller: &Proof) -> Result<Option<RequestId>, ApiError> {
    let Some(name) = one_text(headers, &DELIVERY, "X-GitHub-Delivery")? else { return Ok(None) };
    // No key has a line's end.
    Ok(Some(request_id(caller, &format!("delivery\n{name}"))?))
}

/// The one value of a header; `None` if there is none.
fn one_text<'a>(headers: &'a HeaderMap, name: &HeaderName, title: &str) -> Result<Option<&'a str>, ApiError> {
    let mut lines = headers.get_all(name).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    let text = line.to_str().map(str::trim).unwrap_or_default();
    if lines.next().is_some() || text.is_empty() || text.len() > KEY_MAX {
        let text = format!("{title} takes one text of 1 to {KEY_MAX} characters: send it once");
        return Err(ApiError::invalid(text));
    }
    Ok(Some(text))
}

/// The id of the request for a run with this key: the same for the same caller, and another one for every other.
///
/// # Errors
/// The text is not valid as a request id, which cannot happen.
pub(super) fn request_id(caller: &Proof, key: &str) -> Result<RequestId, IdError> {
    let digest = digest(format!("{caller}\n{key}").as_bytes());
    format!("key-{}", digest.get(..24).unwrap_or(&digest)).parse()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_key_is_one_short_text_and_no_secret_is_made_with_it() {
        let read = |lines: &[&str], changed| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(HEADER, HeaderValue::from_str(line).expect("a value"));
            }
            key(&headers, changed).map_err(ApiError::message)
        };
        let long = "x".repeat(KEY_MAX + 1);
        assert_eq!(read(&[], CommandKind::RUN), Ok(None));
        assert_eq!(read(&[" order-7 "], CommandKind::RUN), Ok(Some("order-7".to_owned())));
        for wrong in [&["a", "b"][..], &[""], &[&long]] {
            assert!(read(wrong, CommandKind::RUN).is_err(), "{wrong:?}");
        }
        assert!(read(&["a"], CommandKind::APPLY_TOKEN).expect_err("a secret").contains("leave it out"));
    }

    #[test]
    fn a_delivery_is_no_key_and_is_of_one_caller() {
        let headers =
            |name: &str| HeaderMap::from_iter([(DELIVERY, HeaderValue::from_str(name).expect("a value"))]);
        let caller = Proof::Token("ci".to_owned());
        let id = |name: &str, caller: &Proof| delivery(&headers(name), caller).map_err(ApiError::message);
        assert_eq!(delivery(&HeaderMap::new(), &caller).map_err(ApiError::message), Ok(None));
        let one = id("7", &caller).expect("it is one").expect("an id");
        assert_eq!(id(" 7 ", &caller), Ok(Some(one.clone())));
        assert_ne!(one, request_id(&caller, "7").expect("an id"));
        assert_ne!(id("7", &Proof::Token("other".to_owned())), Ok(Some(one)));
        assert!(id("", &caller).is_err());
    }

    #[test]
    fn the_id_of_a_request_is_of_one_caller_and_one_key() {
        let id = |caller: &Proof, key| request_id(caller, key).expect("an id");
        let (ann, bob) =
            (Proof::Token("ann".parse().expect("a name")), Proof::Token("bob".parse().expect("a name")));
        assert_eq!(id(&ann, "k"), id(&ann, "k"));
        assert_ne!(id(&ann, "k"), id(&bob, "k"));
        assert_ne!(id(&ann, "k"), id(&ann, "l"));
    }
}
