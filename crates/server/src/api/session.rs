//! Sessions of browsers: a signed cookie that every node of the cluster can check, with an idle and an absolute limit.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use evenkeel_core::time::{Millis, Wall};

use super::cookies::Cookie;
use super::session_subject::{SessionOwner, SessionSubject};
use crate::exit::CliError;
use crate::key::{KeyRing, hex};
use crate::request;

/// A session ends after this time without a request.
const IDLE_MAX: Millis = Millis::secs(12 * 3_600);
/// A session ends this long after the login.
const AGE_MAX: Millis = Millis::secs(7 * 24 * 3_600);
/// The cookie is written anew when its last use is this long ago, so that not every answer has one.
const REFRESH_AFTER: Millis = Millis::secs(300);
/// How far the clocks of two nodes may differ: a session of one is good on the other.
const SKEW_MAX: Millis = Millis::secs(60);

/// A session of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    of: SessionSubject,
    begun: Wall,
    used: Wall,
    nonce: String,
}

impl Session {
    /// A session that begins now.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(super) fn begin(of: &SessionSubject, now: Wall) -> Result<Self, CliError> {
        let nonce = hex(&request::chance::<8>()?);
        Ok(Self { of: of.clone(), begun: now, used: now, nonce })
    }

    /// Whose session it is.
    pub(super) fn subject(&self) -> SessionSubject {
        self.of.clone()
    }

    /// The session of a request, if it has one that is signed with this key and has not ended.
    pub(super) fn of(headers: &HeaderMap, key: &KeyRing, now: Wall) -> Option<Self> {
        Cookie::SESSION.values(headers).find_map(|value| Self::parse(value, key)).filter(|session| {
            let (idle, age) = (now - session.used, now - session.begun);
            (-SKEW_MAX.0..IDLE_MAX.0).contains(&idle.0)
                && (-SKEW_MAX.0..AGE_MAX.0).contains(&age.0)
                && session.of.ends().is_none_or(|ends| now < ends)
        })
    }

    fn parse(value: &str, key: &KeyRing) -> Option<Self> {
        let (text, signature) = value.rsplit_once(':')?;
        key.signed(&signed_text(text), signature).then_some(())?;
        let mut parts = text.split(':');
        let mut part = || parts.next();
        let session = Self {
            of: SessionSubject { owner: SessionOwner::parse(part()?)?, epoch: part()?.parse().ok()? },
            begun: Wall(part()?.parse().ok()?),
            used: Wall(part()?.parse().ok()?),
            nonce: part()?.to_owned(),
        };
        parts.next().is_none().then_some(session)
    }

    /// The same session, used now, if its cookie is to be written anew.
    pub(super) fn refreshed(&self, now: Wall) -> Option<Self> {
        (now - self.used >= REFRESH_AFTER).then(|| Self { used: now, ..self.clone() })
    }

    /// How long one use of the session may last: no longer than it may be idle, and not beyond its end.
    pub(super) fn longest_use(&self, now: Wall) -> Duration {
        let end = self.of.ends().map_or(self.begun + AGE_MAX, |ends| ends.min(self.begun + AGE_MAX));
        let left = (end - now).min(IDLE_MAX);
        Duration::from_millis(left.0.max(0).cast_unsigned())
    }

    /// The header that gives the browser the cookie. No script reads it, and no other site's page makes a browser send it.
    pub(super) fn set_cookie(&self, headers: &HeaderMap, key: &KeyRing) -> (HeaderName, HeaderValue) {
        let Self { of, begun, used, nonce } = self;
        let text = format!("{}:{}:{}:{}:{nonce}", of.owner.written(), of.epoch, begun.0, used.0);
        let signature = key.sign(&signed_text(&text));
        Cookie::SESSION.set(headers, &format!("{text}:{signature}"), AGE_MAX)
    }
}

fn signed_text(text: &str) -> String {
    format!("evenkeel session 1\n{text}")
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;
    use crate::key::ClusterKey;

    const NOW: Wall = Wall(1_763_749_200_000);

    fn key(text: &str) -> KeyRing {
        KeyRing::new(ClusterKey::new(text.to_owned()), [])
    }

    fn own() -> KeyRing {
        key("0123456789abcdef")
    }

    fn sent(session: &Session, host: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a host"));
        let (_, cookie) = session.set_cookie(&headers, &own());
        let pair = cookie.to_str().expect("text").split(';').next().expect("a pair").to_owned();
        headers.insert(header::COOKIE, format!("other=1; {pair}").parse().expect("a header"));
        headers
    }

    #[test]
    fn a_session_ends_by_idleness_and_by_age() {
        let begun =
            Session::begin(&SessionSubject { owner: SessionOwner::Key, epoch: 3 }, NOW).expect("chance");
        let headers = sent(&begun, "127.0.0.1:7700");
        let found = |headers: &HeaderMap, after: Millis| Session::of(headers, &own(), NOW + after);
        assert_eq!(found(&headers, Millis(0)), Some(begun.clone()));
        assert_eq!(found(&headers, IDLE_MAX - Millis(1)), Some(begun.clone()));
        assert_eq!(found(&headers, IDLE_MAX), None, "nothing came for too long");
        let mut used = begun.clone();
        let mut at = Millis(0);
        while at + Millis::secs(3_600) < AGE_MAX {
            at = at + Millis::secs(3_600);
            used = found(&sent(&used, "127.0.0.1:7700"), at)
                .and_then(|s| s.refreshed(NOW + at))
                .expect("it goes on");
        }
        assert!(found(&sent(&used, "127.0.0.1:7700"), AGE_MAX - Millis(1)).is_some());
        assert_eq!(found(&sent(&used, "127.0.0.1:7700"), AGE_MAX), None, "it is used, and too old");
        assert_eq!(used.longest_use(NOW + AGE_MAX - Millis::secs(60)), Duration::from_secs(60));
        assert_eq!(used.longest_use(NOW), Duration::from_secs(12 * 3_600));
        assert_eq!(begun.refreshed(NOW + REFRESH_AFTER - Millis(1)), None);
        assert!(found(&headers, Millis(-SKEW_MAX.0)).is_some(), "the clock of another node");
        assert_eq!(found(&headers, Millis(-SKEW_MAX.0 - 1)), None, "it begins in the future");
    }

    #[test]
    fn only_an_unchanged_cookie_of_the_cluster_is_a_session() {
        let begun =
            Session::begin(&SessionSubject { owner: SessionOwner::Key, epoch: 3 }, NOW).expect("chance");
        let headers = sent(&begun, "127.0.0.1:7700");
        assert!(Session::of(&headers, &own(), NOW).is_some());
        assert_eq!(Session::of(&headers, &key("0123456789abcdeF"), NOW), None, "another key");
        let line = headers.get(header::COOKIE).and_then(|line| line.to_str().ok()).expect("text").to_owned();
        for (old, new) in [
            ("=key:", "=user/ann:"),
            (":3:", ":4:"),
            ("17637492", "17637493"),
            (":", ";"),
            ("-7700", "-7701"),
        ] {
            let mut changed = headers.clone();
            changed.insert(header::COOKIE, line.replacen(old, new, 1).parse().expect("a header"));
            assert_eq!(Session::of(&changed, &own(), NOW), None, "{old} → {new}");
        }
        assert_eq!(Session::of(&HeaderMap::new(), &own(), NOW), None);
        // A signature of the key over something else is none of a session.
        let mut other = headers.clone();
        let text = format!("key:3:{}:{}:00", NOW.0, NOW.0);
        let pair = format!("evenkeel-session-7700={text}:{}", own().sign(&text));
        other.insert(header::COOKIE, pair.parse().expect("a header"));
        assert_eq!(Session::of(&other, &own(), NOW), None);
    }
}
