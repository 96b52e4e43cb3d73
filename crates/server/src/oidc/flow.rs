//! One login at the provider, from the way there to the way back: what binds both to one browser.
//!
//! No node remembers it. The browser keeps an id with a signature, and every secret of the login is made of the id with the
//! cluster's key, so that any node can go on with a login that another began.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_core::time::{Millis, Wall};
use sha2::{Digest, Sha256};

use crate::exit::CliError;
use crate::key::{KeyRing, hex, is_same};
use crate::request;

/// How long a login may take.
pub(crate) const FLOW_LASTS: Millis = Millis::secs(600);
/// How far the clocks of two nodes may differ.
const SKEW_MAX: Millis = Millis::secs(60);

/// One login at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginFlow {
    id: String,
    begun: Wall,
}

impl LoginFlow {
    /// A login that begins now.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(crate) fn begin(now: Wall) -> Result<Self, CliError> {
        Ok(Self { id: hex(&request::chance::<16>()?), begun: now })
    }

    /// What the browser keeps of it.
    pub(crate) fn cookie(&self, key: &KeyRing) -> String {
        format!("{}:{}:{}", self.id, self.begun.0, self.signed("flow", key))
    }

    /// The login that a browser has kept, if a node of this cluster began it and its time is not over.
    pub(crate) fn of_cookie(text: &str, key: &KeyRing, now: Wall) -> Option<Self> {
        let mut parts = text.split(':');
        let mut part = || parts.next();
        let (id, begun, signature) = (part()?.to_owned(), part()?.parse().ok().map(Wall)?, part()?);
        let flow = Self { id, begun };
        let age = now - begun;
        let is_own = parts.next().is_none() && key.signed(&flow.text("flow"), signature);
        (is_own && (-SKEW_MAX.0..FLOW_LASTS.0).contains(&age.0)).then_some(flow)
    }

    /// What the provider gives back with its answer: the answer belongs to this login.
    pub(crate) fn state(&self, key: &KeyRing) -> String {
        self.signed("state", key)
    }

    /// Whether an answer of the provider belongs to this login; compares in constant time.
    pub(crate) fn is_state(&self, state: &str, key: &KeyRing) -> bool {
        is_same(self.state(key).as_bytes(), state.as_bytes())
    }

    /// What the ID token must have: it was made for this login.
    pub(crate) fn nonce(&self, key: &KeyRing) -> String {
        self.signed("nonce", key)
    }

    /// What proves to the provider that the node which shows the code began the login (PKCE).
    pub(crate) fn verifier(&self, key: &KeyRing) -> String {
        self.signed("verifier", key)
    }

    /// What the provider compares the verifier with.
    pub(crate) fn challenge(&self, key: &KeyRing) -> String {
        digest_of(&self.verifier(key))
    }

    fn signed(&self, of: &str, key: &KeyRing) -> String {
        key.sign(&self.text(of))
    }

    fn text(&self, of: &str) -> String {
        format!("evenkeel oidc {of} 1\n{}\n{}", self.id, self.begun.0)
    }
}

/// The challenge of a verifier by the method S256 of RFC 7636.
fn digest_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ClusterKey;

    const NOW: Wall = Wall(1_763_749_200_000);

    fn key(text: &str) -> KeyRing {
        KeyRing::new(ClusterKey::new(text.to_owned()), [])
    }

    #[test]
    fn a_login_goes_on_with_its_own_cookie_for_its_time_on_any_node() {
        let (own, flow) = (key("0123456789abcdef"), LoginFlow::begin(NOW).expect("chance"));
        let cookie = flow.cookie(&own);
        let found = |text: &str, after: i64| LoginFlow::of_cookie(text, &own, NOW + Millis(after));
        assert_eq!(found(&cookie, FLOW_LASTS.0 - 1).as_ref(), Some(&flow));
        assert_eq!(found(&cookie, FLOW_LASTS.0), None, "it took too long");
        assert_eq!(found(&cookie, -SKEW_MAX.0 - 1), None, "it begins in the future");
        assert_eq!(LoginFlow::of_cookie(&cookie, &key("0123456789abcdeF"), NOW), None, "another cluster");
        let later = cookie.replacen("1763749200000", "1763749200001", 1);
        for other in
            [later, cookie.replacen(':', ";", 1), format!("{cookie}:1"), String::new(), "::".to_owned()]
        {
            assert_eq!(found(&other, 0), None, "{other}");
        }
        // A text that is signed for something else begins no login.
        let [id, begun, _] = cookie.split(':').collect::<Vec<_>>()[..] else { panic!("three parts") };
        assert_eq!(found(&format!("{id}:{begun}:{}", flow.state(&own)), 0), None);
    }

    #[test]
    fn every_secret_of_a_login_is_its_own() {
        let own = key("0123456789abcdef");
        let secrets = |flow: &LoginFlow| {
            [flow.state(&own), flow.nonce(&own), flow.verifier(&own), flow.challenge(&own)]
        };
        let (one, other) = (LoginFlow::begin(NOW).expect("chance"), LoginFlow::begin(NOW).expect("chance"));
        let all: std::collections::BTreeSet<_> = secrets(&one).into_iter().chain(secrets(&other)).collect();
        assert_eq!(all.len(), 8);
        assert!(one.is_state(&one.state(&own), &own) && !one.is_state(&other.state(&own), &own));
        assert!(!one.is_state("", &own));
        assert!((43..=128).contains(&one.verifier(&own).len()), "RFC 7636");
    }

    /// The example of RFC 7636, appendix B.
    #[test]
    fn a_challenge_is_the_digest_of_the_verifier() {
        let challenge = digest_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
