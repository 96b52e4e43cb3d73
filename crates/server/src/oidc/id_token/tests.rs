//! Tokens that are as expected, and every way in which they are not.

use jsonwebtoken::{EncodingKey, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::json;

use super::*;

const NOW: Wall = Wall(1_763_749_200_000);
const ISSUER: &str = "https://id.example";

/// A key of a provider.
struct ProviderKey {
    private: EncodingKey,
    public: Jwk,
    algorithm: Algorithm,
}

impl ProviderKey {
    fn elliptic(id: &str) -> Self {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        Self::new(EncodingKey::from_ec_der(pair.serialized_der()), Algorithm::ES256, id)
    }

    fn rsa(id: &str) -> Self {
        let pair = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
        // jsonwebtoken takes what PKCS #8 wraps: the last octet string.
        let der = pair.serialized_der();
        let start = der.windows(4).skip(4).position(|four| four[..2] == [0x30, 0x82] && four != &der[..4]);
        let inner = &der[start.expect("an RSA key") + 4..];
        Self::new(EncodingKey::from_rsa_der(inner), Algorithm::RS256, id)
    }

    fn new(private: EncodingKey, algorithm: Algorithm, id: &str) -> Self {
        let mut public = Jwk::from_encoding_key(&private, algorithm).expect("a public key");
        public.common.key_id = Some(id.to_owned());
        Self { private, public, algorithm }
    }

    /// A token of this key, with these claims in place of the right ones; `null` leaves one out.
    fn token(&self, other: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid.clone_from(&self.public.common.key_id);
        encode(&header, &claims(other), &self.private).expect("it is signed")
    }
}

fn claims(other: &Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": "jobs", "nonce": "n", "sub": "s", "iat": NOW.0 / 1_000, "exp": NOW.0 / 1_000 + 300,
    });
    for (name, value) in other.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    claims.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    claims
}

fn check_at(token: &str, keys: &[&ProviderKey], now: Wall) -> Result<Claims, TokenFault> {
    let keys: Vec<Jwk> = keys.iter().map(|key| key.public.clone()).collect();
    verified(token, &keys, &TokenExpectation { issuer: ISSUER, client: "jobs", nonce: "n", now })
}

fn refusal(token: &str, keys: &[&ProviderKey]) -> String {
    match check_at(token, keys, NOW) {
        Err(TokenFault::Wrong(why)) => why,
        Err(TokenFault::UnknownKey) => "unknown key".to_owned(),
        Ok(claims) => panic!("it is accepted: {claims:?}"),
    }
}

#[test]
fn a_token_of_the_provider_for_this_client_and_login_is_accepted() {
    for key in [ProviderKey::elliptic("a"), ProviderKey::rsa("b")] {
        for fine in [
            json!({}),
            json!({ "aud": ["jobs"] }),
            json!({ "azp": "jobs" }),
            json!({ "aud": ["jobs", "other"], "azp": "jobs" }),
            json!({ "nbf": NOW.0 / 1_000 }),
            json!({ "iat": NOW.0 / 1_000 + 59 }),
            json!({ "exp": NOW.0 / 1_000 - 59 }),
            json!({ "exp": NOW.0 as f64 / 1_000.0 + 0.5 }),
        ] {
            let claims = check_at(&key.token(&fine), &[&key], NOW);
            assert_eq!(claims.as_ref().map(|claims| &claims["sub"]), Ok(&json!("s")), "{fine}");
        }
    }
}

#[test]
fn a_token_that_says_anything_else_is_refused() {
    let key = ProviderKey::elliptic("a");
    let second = NOW.0 / 1_000;
    for (other, why) in [
        (json!({ "iss": "https://evil.example" }), "of the issuer"),
        (json!({ "iss": format!("{ISSUER}/") }), "of the issuer"),
        (json!({ "iss": null }), "of the issuer"),
        (json!({ "aud": "other" }), "another client"),
        (json!({ "aud": null }), "another client"),
        (json!({ "aud": ["other", "jobs"] }), "several clients"),
        (json!({ "aud": ["other", "jobs"], "azp": "other" }), "another client"),
        (json!({ "azp": "other" }), "another client"),
        (json!({ "azp": 1 }), "another client"),
        (json!({ "nonce": "m" }), "another login"),
        (json!({ "nonce": null }), "another login"),
        (json!({ "exp": second - 60 }), "expired"),
        (json!({ "exp": null }), "no exp"),
        (json!({ "exp": "soon" }), "no time"),
        (json!({ "exp": 1e300 }), "no time"),
        (json!({ "iat": null }), "no iat"),
        (json!({ "iat": second + 61 }), "future"),
        (json!({ "iat": second - 3_600 }), "too old"),
        (json!({ "nbf": second + 61 }), "future"),
        (json!({ "sub": null }), "no sub"),
        (json!({ "sub": "" }), "no sub"),
    ] {
        let said = refusal(&key.token(&other), &[&key]);
        assert!(said.contains(why), "{other}: {said}");
    }
}

#[test]
fn only_a_key_of_the_provider_signs_tokens() {
    let (own, other, rsa) = (ProviderKey::elliptic("a"), ProviderKey::elliptic("a"), ProviderKey::rsa("a"));
    assert!(refusal(&other.token(&json!({})), &[&own]).contains("signature"));
    assert_eq!(refusal(&rsa.token(&json!({})), &[&own]), "unknown key", "another kind of key");
    assert_eq!(refusal(&own.token(&json!({})), &[]), "unknown key");
    let renamed = ProviderKey {
        public: {
            let mut key = own.public.clone();
            key.common.key_id = Some("b".to_owned());
            key
        },
        ..ProviderKey::elliptic("x")
    };
    assert_eq!(refusal(&own.token(&json!({})), &[&renamed]), "unknown key", "it goes by the name");
    let token = own.token(&json!({}));
    let (head, _) = token.rsplit_once('.').expect("three parts");
    for changed in
        [format!("{head}."), head.to_owned(), format!("{head}.AAAA"), String::new(), "a.b.c".to_owned()]
    {
        assert_ne!(refusal(&changed, &[&own]), "", "{changed}");
    }
    let encrypts = |key: &ProviderKey| {
        let mut public = key.public.clone();
        public.common.public_key_use = Some(PublicKeyUse::Encryption);
        public
    };
    let expected = TokenExpectation { issuer: ISSUER, client: "jobs", nonce: "n", now: NOW };
    assert_eq!(verified(&token, &[encrypts(&own)], &expected), Err(TokenFault::UnknownKey));
}

#[test]
fn a_token_without_a_signature_or_with_a_public_one_is_refused() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    let key = ProviderKey::rsa("a");
    let body = BASE64.encode(claims(&json!({})).to_string());
    for algorithm in ["none", "None", "NONE", ""] {
        let header = BASE64.encode(json!({ "alg": algorithm, "kid": "a" }).to_string());
        assert!(refusal(&format!("{header}.{body}."), &[&key]).contains("no signed token"), "{algorithm}");
    }
    // The classic confusion: what is public is taken for a shared secret.
    let AlgorithmParameters::RSA(public) = &key.public.algorithm else { panic!("an RSA key") };
    let whole = serde_json::to_vec(&key.public).expect("JSON");
    for secret in [public.n.as_bytes(), &BASE64.decode(&public.n).expect("base64"), &whole] {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("a".to_owned());
        let token =
            encode(&header, &claims(&json!({})), &EncodingKey::from_secret(secret)).expect("it is signed");
        assert!(refusal(&token, &[&key]).contains("not accepted"));
    }
    let mut header = Header::new(Algorithm::RS256);
    (header.kid, header.crit) = (Some("a".to_owned()), Some(vec!["b64".to_owned()]));
    let token = encode(&header, &claims(&json!({})), &key.private).expect("it is signed");
    assert!(refusal(&token, &[&key]).contains("critical"));
}
