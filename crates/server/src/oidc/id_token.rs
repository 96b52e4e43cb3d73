//! Checks ID tokens: the provider signed this one, for this client, for this login, and lately.

use evenkeel_core::time::{Millis, Wall};
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::Value;

use super::claims::Claims;

/// The signatures that are accepted. One with a shared secret never is: it could be made with what is public.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// How far the provider's clock and this node's may differ.
const LEEWAY: Millis = Millis::secs(60);
/// A token that was made longer ago than this belongs to no login of now.
const AGE_MAX: Millis = Millis::secs(3_600);

/// What a token must say.
pub(super) struct TokenExpectation<'a> {
    pub(super) issuer: &'a str,
    pub(super) client: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Wall,
}

/// Why a token is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenFault {
    /// None of the known keys is the one that it names: the provider may have new ones.
    UnknownKey,
    /// Anything else.
    Wrong(String),
}

/// The claims of a token that is as expected.
///
/// # Errors
/// It is not, or its key is unknown.
pub(super) fn verified(
    token: &str,
    keys: &[Jwk],
    expected: &TokenExpectation<'_>,
) -> Result<Claims, TokenFault> {
    let header =
        decode_header(token).map_err(|e| TokenFault::Wrong(format!("it is no signed token ({e})")))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(TokenFault::Wrong(format!("signatures by {:?} are not accepted", header.alg)));
    }
    if header.crit.is_some() {
        return Err(TokenFault::Wrong("it has critical extensions, and none is known".to_owned()));
    }
    let claims = signed(token, keys, &header)?;
    check(&claims, expected).map_err(TokenFault::Wrong)?;
    Ok(claims)
}

/// The claims, if one of the keys has signed them.
fn signed(token: &str, keys: &[Jwk], header: &Header) -> Result<Claims, TokenFault> {
    let mut validation = Validation::new(header.alg);
    // What the claims must say is checked below, by one clock.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let mut fitting = keys.iter().filter(|key| fits(key, header)).peekable();
    if fitting.peek().is_none() {
        return Err(TokenFault::UnknownKey);
    }
    for key in fitting {
        let Ok(key) = DecodingKey::from_jwk(key) else { continue };
        if let Ok(decoded) = decode::<Claims>(token, &key, &validation) {
            return Ok(decoded.claims);
        }
    }
    match header.kid {
        Some(_) => Err(TokenFault::Wrong("its signature is wrong".to_owned())),
        // Which key it means is not said: it may be a new one.
        None => Err(TokenFault::UnknownKey),
    }
}

/// Whether a key may be the one that signed a token with this header.
fn fits(key: &Jwk, header: &Header) -> bool {
    let family = match &key.algorithm {
        AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(_) => AlgorithmFamily::Ec,
        AlgorithmParameters::OctetKeyPair(_) => AlgorithmFamily::Ed,
        AlgorithmParameters::OctetKey(_) => return false,
    };
    let common = &key.common;
    let is_meant = header.kid.is_none() || header.kid == common.key_id;
    let signs = common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    let by = common.key_algorithm.is_none_or(|by| by.to_string() == format!("{:?}", header.alg));
    is_meant && signs && by && family == header.alg.family()
}

fn check(claims: &Claims, expected: &TokenExpectation<'_>) -> Result<(), String> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(format!("it is of the issuer {:?}", text("iss").unwrap_or_default()));
    }
    check_audience(claims, expected.client)?;
    if text("nonce") != Some(expected.nonce) {
        return Err("it was made for another login".to_owned());
    }
    let moment =
        |name: &str| claims.get(name).map(|value| seconds(value).ok_or(format!("its {name} is no time")));
    let needed = |name: &str| moment(name).unwrap_or_else(|| Err(format!("it has no {name}")));
    let (expires, made, now) = (needed("exp")?, needed("iat")?, expected.now);
    if now >= expires + LEEWAY {
        return Err("it has expired".to_owned());
    }
    if made > now + LEEWAY || moment("nbf").transpose()?.is_some_and(|from| from > now + LEEWAY) {
        return Err("it is of the future: compare the clocks of this node and of the provider".to_owned());
    }
    if now - made >= AGE_MAX {
        return Err("it is too old".to_owned());
    }
    match text("sub") {
        Some(sub) if !sub.is_empty() => Ok(()),
        _ => Err("it has no sub".to_owned()),
    }
}

/// Refuses a token that was made for another client.
fn check_audience(claims: &Claims, client: &str) -> Result<(), String> {
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let party = claims.get("azp").map(|party| party.as_str().unwrap_or_default());
    if !audiences.contains(&client) || party.is_some_and(|party| party != client) {
        return Err("it was made for another client".to_owned());
    }
    if audiences.len() > 1 && party.is_none() {
        return Err("it was made for several clients, and does not say for which".to_owned());
    }
    Ok(())
}

/// A time in seconds, which may have a fraction.
fn seconds(value: &Value) -> Option<Wall> {
    let seconds = value.as_i64().or_else(|| value.as_f64().filter(|s| s.abs() < 1e15).map(|s| s as i64))?;
    seconds.checked_mul(1_000).map(Wall)
}

#[cfg(test)]
mod tests;
