//! Login by an OpenID Connect provider: the code flow with PKCE, in which this node is the client.
//!
//! - [`flow`]: what binds the way to the provider and the way back to one browser.
//! - [`transport`]: requests to the provider, at the addresses of [`address`]; [`cache`] and [`document`]: what it says of itself.
//! - [`id_token`] and [`claims`]: what it says of a person.

mod address;
mod cache;
mod claims;
mod document;
mod flow;
mod id_token;
mod transport;

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_core::principal::Grants;
use evenkeel_core::time::Millis;
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use serde_json::Value;

use crate::client::escape;
use crate::group_roles::GroupRoles;
use crate::key::{KeyRing, digest, number};
pub(crate) use address::is_safe_address;
use cache::{CacheUse, KnownProvider, ProviderCache};
use claims::Claims;
pub(crate) use claims::is_name;
pub(crate) use flow::{FLOW_LASTS, LoginFlow};
use id_token::{TokenExpectation, TokenFault, verified};
pub(crate) use transport::OidcFault;
use transport::{ProviderClient, read};

/// The settings of a login by a provider.
#[derive(Clone, Debug)]
pub(crate) struct OidcSettings {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    /// `None` for a public client.
    pub(crate) client_secret: Option<String>,
    pub(crate) scopes: String,
    /// The claim with a person's name, and the one with its groups.
    pub(crate) user_claim: String,
    pub(crate) groups_claim: String,
    pub(crate) roles: GroupRoles,
    /// What the login page calls the provider.
    pub(crate) label: String,
    /// Where the provider sends people back, if it is not the address at which they use this node.
    pub(crate) redirect_url: Option<String>,
    pub(crate) authority: Vec<CertificateDer<'static>>,
    /// How long a session lasts at most.
    pub(crate) session: Millis,
}

/// A provider, by which people log in.
pub(crate) struct OidcProvider {
    settings: OidcSettings,
    client: Arc<ProviderClient>,
    cache: ProviderCache,
}

/// A person for whom the provider vouches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OidcPerson {
    pub(crate) name: String,
    /// What the provider itself calls the person, always.
    pub(crate) subject: String,
    pub(crate) grants: Grants,
}

/// The answer to a code.
#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
    access_token: Option<String>,
}

/// The refusal of a code.
#[derive(Default, Deserialize)]
struct TokenRefusal {
    #[serde(default)]
    error: String,
}

impl OidcProvider {
    /// A provider by these settings. Nothing is asked of it before the first login.
    pub(crate) fn new(settings: OidcSettings) -> Self {
        let client = Arc::new(ProviderClient::new(settings.authority.clone()));
        Self { settings, client, cache: ProviderCache::default() }
    }

    pub(crate) fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// The epoch of sessions that began with this provider: other roles, or another provider, end them.
    pub(crate) fn epoch(&self) -> u64 {
        let OidcSettings { issuer, client_id, roles, .. } = &self.settings;
        number(&digest(
            format!("evenkeel oidc sessions 1\n{issuer}\n{client_id}\n{}", roles.text()).as_bytes(),
        ))
    }

    /// Where a browser begins this login.
    ///
    /// # Errors
    /// The provider does not answer.
    pub(crate) async fn authorization_url(
        &self,
        flow: &LoginFlow,
        key: &KeyRing,
        redirect: &str,
    ) -> Result<String, OidcFault> {
        let known = self.known(CacheUse::Usual).await?;
        let base = &known.document.authorization_endpoint;
        let fields = [
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("redirect_uri", redirect),
            ("scope", &self.settings.scopes),
            ("state", &flow.state(key)),
            ("nonce", &flow.nonce(key)),
            ("code_challenge", &flow.challenge(key)),
            ("code_challenge_method", "S256"),
        ];
        Ok(format!("{base}{}{}", if base.contains('?') { '&' } else { '?' }, form(&fields)))
    }

    /// Whether an answer may be of this provider, by the issuer that it names.
    ///
    /// # Errors
    /// The provider does not answer.
    pub(crate) async fn is_issuer(&self, named: Option<&str>) -> Result<bool, OidcFault> {
        match named {
            Some(named) => Ok(named == self.settings.issuer),
            None => Ok(!self.known(CacheUse::Usual).await?.document.names_itself),
        }
    }

    /// The person for whom the provider gave this code.
    ///
    /// # Errors
    /// The provider does not answer, does not accept the code, or the person cannot be let in.
    pub(crate) async fn person(
        &self,
        code: &str,
        (flow, key): (&LoginFlow, &KeyRing),
        redirect: &str,
    ) -> Result<OidcPerson, OidcFault> {
        let known = self.known(CacheUse::Usual).await?;
        let answer = self.exchange(&known, code, &flow.verifier(key), redirect).await?;
        let token = answer.id_token.ok_or_else(|| {
            OidcFault::Unavailable("the provider sends no ID token: its scopes need openid".to_owned())
        })?;
        let expected = TokenExpectation {
            issuer: &self.settings.issuer,
            client: &self.settings.client_id,
            nonce: &flow.nonce(key),
            now: evenkeel::clock::now().wall,
        };
        let verified = match verified(&token, &known.keys, &expected) {
            Err(TokenFault::UnknownKey) => {
                let again = self.known(CacheUse::After(known.read())).await?;
                verified(&token, &again.keys, &expected)
            }
            verified => verified,
        };
        let mut claims = verified.map_err(|fault| match fault {
            TokenFault::UnknownKey => {
                OidcFault::Refused("no key of the provider has signed the ID token".to_owned())
            }
            TokenFault::Wrong(why) => OidcFault::Refused(format!("the ID token is refused: {why}")),
        })?;
        self.complete(&known, &mut claims, answer.access_token).await?;
        self.of_claims(&claims)
    }

    async fn known(&self, of: CacheUse) -> Result<KnownProvider, OidcFault> {
        self.cache.get(&self.client, &self.settings.issuer, of).await
    }

    /// Gives the provider a code for a token.
    async fn exchange(
        &self,
        known: &KnownProvider,
        code: &str,
        verifier: &str,
        redirect: &str,
    ) -> Result<TokenAnswer, OidcFault> {
        let OidcSettings { client_id, client_secret, .. } = &self.settings;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
        ];
        let authorization = match client_secret {
            Some(secret) if known.document.takes_secret_in_form() => {
                fields.extend([("client_id", client_id.as_str()), ("client_secret", secret)]);
                None
            }
            Some(secret) => {
                // A colon ends the id.
                let id = escape(client_id).replace(':', "%3A");
                Some(format!("Basic {}", STANDARD.encode(format!("{id}:{}", escape(secret)))))
            }
            None => {
                fields.push(("client_id", client_id));
                None
            }
        };
        let address = &known.document.token_endpoint;
        let (status, body) = self.client.post(address, authorization, form(&fields)).await?;
        if status == 200 {
            return read(address, &body);
        }
        let TokenRefusal { error } = serde_json::from_slice(&body).unwrap_or_default();
        match error.as_str() {
            "invalid_grant" => Err(OidcFault::Refused("the provider does not accept the code".to_owned())),
            _ => Err(OidcFault::Unavailable(format!(
                "{address} answers with status {status} {:?}",
                error.chars().take(40).collect::<String>()
            ))),
        }
    }

    /// Adds what the ID token lacks and the provider says at another address.
    async fn complete(
        &self,
        known: &KnownProvider,
        claims: &mut Claims,
        access: Option<String>,
    ) -> Result<(), OidcFault> {
        let needed = [&self.settings.user_claim, &self.settings.groups_claim];
        let (Some(address), Some(access)) = (&known.document.userinfo_endpoint, access) else {
            return Ok(());
        };
        if needed.into_iter().all(|path| claims::claim(claims, path).is_some()) {
            return Ok(());
        }
        let more: Claims = self.client.get(address, Some(&access)).await?;
        if more.get("sub") != claims.get("sub") {
            return Err(OidcFault::Refused(format!("{address} says something of another person")));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    fn of_claims(&self, claims: &Claims) -> Result<OidcPerson, OidcFault> {
        let OidcSettings { user_claim, groups_claim, roles, .. } = &self.settings;
        let name = claims::name(claims, user_claim).map_err(OidcFault::Unusable)?;
        let groups = claims::groups(claims, groups_claim);
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(OidcPerson { name, subject, grants: roles.of_member(groups.into_iter()) })
    }
}

/// Fields as a form or a query has them.
fn form(fields: &[(&str, &str)]) -> String {
    fields.iter().fold(String::new(), |mut text, (name, value)| {
        let and = if text.is_empty() { "" } else { "&" };
        // Writing to a text cannot fail.
        let _ = write!(text, "{and}{name}={}", escape(value));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_escaped() {
        assert_eq!(form(&[("a", "b c"), ("d", "é&=")]), "a=b%20c&d=%C3%A9%26%3D");
    }
}
