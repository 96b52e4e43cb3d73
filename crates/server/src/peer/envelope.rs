//! The headers of a request between nodes and of its response; all of them are signed.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use evenkeel_core::ids::Member;
use evenkeel_core::time::Wall;

use crate::exit::CliError;
use crate::key::{ClusterKey, digest};
use crate::request;

const FROM: HeaderName = HeaderName::from_static("evenkeel-from");
const TO: HeaderName = HeaderName::from_static("evenkeel-to");
const AT: HeaderName = HeaderName::from_static("evenkeel-time");
const NONCE: HeaderName = HeaderName::from_static("evenkeel-nonce");
const DIGEST: HeaderName = HeaderName::from_static("evenkeel-digest");
const SIGNATURE: HeaderName = HeaderName::from_static("evenkeel-signature");

/// The headers of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestEnvelope {
    /// The calling member: node and incarnation.
    pub(super) from: Member,
    /// The called member: node and incarnation.
    pub(super) to: Member,
    /// The time, by the caller's clock.
    pub(super) at: Wall,
    /// A number that is used only once.
    pub(super) nonce: u128,
    /// The digest of the body.
    pub(super) digest: String,
}

impl RequestEnvelope {
    /// An envelope with a new nonce.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(super) fn new(from: Member, to: Member, body: &[u8]) -> Result<Self, CliError> {
        let at = evenkeel::clock::now().wall;
        Ok(Self { from, to, at, nonce: u128::from_be_bytes(request::chance()?), digest: digest(body) })
    }

    /// The signed text of a request. No part can contain a line break, so no two requests have the same text.
    fn request(&self, method: &Method, path: &str) -> String {
        let Self { from, to, at, nonce, digest } = self;
        let at = at.0;
        format!("evenkeel request 1\n{method}\n{path}\n{from}\n{to}\n{at}\n{nonce:032x}\n{digest}")
    }

    /// The signed text of the response to it; `from` is the answering member.
    fn answer(&self, from: &Member, status: u16, body: &[u8]) -> String {
        let (to, nonce, digest) = (&self.from, self.nonce, digest(body));
        format!("evenkeel answer 1\n{nonce:032x}\n{from}\n{to}\n{status}\n{digest}")
    }

    /// The headers of the request, signed if there is a key.
    pub(super) fn write(&self, key: Option<&ClusterKey>, method: &Method, path: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let signature = key.map(|key| key.sign(&self.request(method, path)));
        let nonce = format!("{:032x}", self.nonce);
        for (name, text) in [
            (FROM, Some(self.from.to_string())),
            (TO, Some(self.to.to_string())),
            (AT, Some(self.at.0.to_string())),
            (NONCE, Some(nonce)),
            (DIGEST, Some(self.digest.clone())),
            (SIGNATURE, signature),
        ] {
            let value = text.and_then(|text| HeaderValue::try_from(text).ok());
            headers.extend(value.map(|value| (name, value)));
        }
        headers
    }

    /// Reads the headers of a request, and the signature if there is one.
    ///
    /// # Errors
    /// A header is missing, duplicate or invalid; the text names it.
    pub(super) fn read(headers: &HeaderMap) -> Result<(Self, Option<String>), String> {
        let envelope = Self {
            from: parsed(headers, &FROM)?,
            to: parsed(headers, &TO)?,
            at: Wall(parsed(headers, &AT)?),
            nonce: u128::from_str_radix(needed(headers, &NONCE)?, 16).map_err(|_| malformed(&NONCE))?,
            digest: needed(headers, &DIGEST)?.to_owned(),
        };
        Ok((envelope, one(headers, &SIGNATURE)?.map(ToOwned::to_owned)))
    }

    /// Whether the request is signed with this key.
    pub(super) fn is_signed(
        &self,
        key: &ClusterKey,
        method: &Method,
        path: &str,
        signature: Option<&str>,
    ) -> bool {
        signature.is_some_and(|signature| key.signed(&self.request(method, path), signature))
    }

    /// The headers of this member's response to it, signed if there is a key.
    pub(super) fn reply(
        &self,
        key: Option<&ClusterKey>,
        from: &Member,
        status: u16,
        body: &[u8],
    ) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let signature = key.map(|key| key.sign(&self.answer(from, status, body)));
        for (name, text) in [(FROM, Some(from.to_string())), (SIGNATURE, signature)] {
            let value = text.and_then(|text| HeaderValue::try_from(text).ok());
            headers.extend(value.map(|value| (name, value)));
        }
        headers
    }

    /// The member that has answered the request.
    ///
    /// # Errors
    /// The response is not signed with the key; the text says why.
    pub(super) fn answered_by(
        &self,
        key: Option<&ClusterKey>,
        headers: &HeaderMap,
        status: u16,
        body: &[u8],
    ) -> Result<Member, String> {
        let stranger = |_| {
            let fix = "give all nodes the same --cluster-key-file";
            format!("its answer (status {status}) is not signed with this cluster's key: {fix}")
        };
        let from: Member = parsed(headers, &FROM).map_err(stranger)?;
        let signature = one(headers, &SIGNATURE).map_err(stranger)?.unwrap_or_default();
        match key {
            Some(key) if !key.signed(&self.answer(&from, status, body), signature) => {
                Err(stranger(String::new()))
            }
            _ => Ok(from),
        }
    }
}

/// A header that occurs at most once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, String> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| malformed(name)),
        (Some(_), Some(_)) => Err(format!("header {name} is there twice")),
    }
}

fn needed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, String> {
    one(headers, name)?.ok_or_else(|| format!("header {name} is missing"))
}

fn parsed<T: std::str::FromStr>(headers: &HeaderMap, name: &HeaderName) -> Result<T, String> {
    needed(headers, name)?.parse().map_err(|_| malformed(name))
}

fn malformed(name: &HeaderName) -> String {
    format!("header {name} makes no sense")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/peer/v1/offers?x=1";

    fn member(text: &str) -> Member {
        text.parse().expect("a member")
    }

    fn key(text: &str) -> ClusterKey {
        ClusterKey::new(text.to_owned())
    }

    fn envelope() -> RequestEnvelope {
        let (from, to) = (member("a@1"), member("b@2"));
        RequestEnvelope { from, to, at: Wall(1_763_749_200_000), nonce: 7, digest: digest(b"body") }
    }

    fn let_in(key: &ClusterKey, method: &Method, path: &str, headers: &HeaderMap) -> bool {
        let read = RequestEnvelope::read(headers);
        read.is_ok_and(|(envelope, signature)| envelope.is_signed(key, method, path, signature.as_deref()))
    }

    #[test]
    fn what_is_written_is_read() {
        let own = key("0123456789abcdef");
        let headers = envelope().write(Some(&own), &Method::POST, PATH);
        let (read, signature) = RequestEnvelope::read(&headers).expect("it is complete");
        assert_eq!(read, envelope());
        assert!(signature.is_some());
        assert!(let_in(&own, &Method::POST, PATH, &headers));
        let unsigned = envelope().write(None, &Method::POST, PATH);
        assert_eq!(RequestEnvelope::read(&unsigned), Ok((envelope(), None)));
        assert!(!let_in(&own, &Method::POST, PATH, &unsigned));
        let other = RequestEnvelope::new(member("a@1"), member("b@2"), b"").expect("chance");
        assert_ne!(
            other.nonce,
            RequestEnvelope::new(member("a@1"), member("b@2"), b"").expect("chance").nonce
        );
    }

    #[test]
    fn whatever_is_changed_breaks_the_signature() {
        let own = key("0123456789abcdef");
        let headers = envelope().write(Some(&own), &Method::POST, PATH);
        assert!(!let_in(&key("0123456789abcdeF"), &Method::POST, PATH, &headers));
        assert!(!let_in(&own, &Method::GET, PATH, &headers));
        for path in ["/peer/v1/offers", "/peer/v1/offers?x=2", "/peer/v1/role?x=1"] {
            assert!(!let_in(&own, &Method::POST, path, &headers), "{path}");
        }
        for (name, value) in [
            (FROM, "c@1"),
            (TO, "b@3"),
            (AT, "1763749200001"),
            (NONCE, "00000000000000000000000000000008"),
            (DIGEST, &digest(b"another")),
            (SIGNATURE, ""),
        ] {
            let mut changed = headers.clone();
            changed.insert(&name, HeaderValue::from_str(value).expect("a value"));
            assert!(!let_in(&own, &Method::POST, PATH, &changed), "{name} = {value}");
            changed.remove(&name);
            assert!(!let_in(&own, &Method::POST, PATH, &changed), "without {name}");
            let mut twice = headers.clone();
            twice.append(&name, headers.get(&name).expect("it is there").clone());
            assert!(!let_in(&own, &Method::POST, PATH, &twice), "{name} twice");
        }
    }

    #[test]
    fn an_answer_is_of_one_request_one_member_one_status_and_one_body() {
        let own = key("0123456789abcdef");
        let asked = envelope();
        let headers = asked.reply(Some(&own), &member("b@2"), 200, b"yes");
        let by = |asked: &RequestEnvelope, key: &ClusterKey, headers: &HeaderMap, status, body: &[u8]| {
            asked.answered_by(Some(key), headers, status, body)
        };
        assert_eq!(by(&asked, &own, &headers, 200, b"yes"), Ok(member("b@2")));
        let other = RequestEnvelope { nonce: 8, ..envelope() };
        assert!(by(&other, &own, &headers, 200, b"yes").is_err(), "the answer to another request");
        assert!(by(&asked, &key("0123456789abcdeF"), &headers, 200, b"yes").is_err());
        assert!(by(&asked, &own, &headers, 204, b"yes").is_err());
        assert!(by(&asked, &own, &headers, 200, b"no").is_err());
        let mut changed = headers.clone();
        changed.insert(FROM, HeaderValue::from_static("b@3"));
        assert!(by(&asked, &own, &changed, 200, b"yes").is_err());
        assert!(by(&asked, &own, &HeaderMap::new(), 200, b"yes").is_err());
        let request = asked.write(Some(&own), &Method::POST, PATH);
        assert!(by(&asked, &own, &request, 200, b"yes").is_err(), "a request is no answer");
        let unsigned = asked.reply(None, &member("b@2"), 200, b"yes");
        assert!(by(&asked, &own, &unsigned, 200, b"yes").is_err());
        assert_eq!(asked.answered_by(None, &unsigned, 200, b"yes"), Ok(member("b@2")));
    }
}
