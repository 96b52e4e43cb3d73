//! What a provider says of itself: its addresses, and how a client proves itself (OpenID Connect Discovery).

use serde::Deserialize;

use super::address::is_safe_address;

/// What a provider says of itself. Everything else in its document is of no use here.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ProviderDocument {
    issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) jwks_uri: String,
    #[serde(default)]
    pub(super) userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Whether each answer says which provider it is from (RFC 9207).
    #[serde(default, rename = "authorization_response_iss_parameter_supported")]
    pub(super) names_itself: bool,
}

impl ProviderDocument {
    /// Where the document of an issuer is.
    pub(super) fn address(issuer: &str) -> String {
        format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
    }

    /// The same, if it is of this issuer and every address in it is safe.
    ///
    /// # Errors
    /// It is of another issuer, or names an address without encryption.
    pub(super) fn checked(self, issuer: &str) -> Result<Self, String> {
        if self.issuer != issuer {
            return Err(format!(
                "it calls itself {:?}, and --oidc-issuer is {issuer:?}: make them the same",
                self.issuer
            ));
        }
        let own = [&self.authorization_endpoint, &self.token_endpoint, &self.jwks_uri];
        let all = own.into_iter().chain(&self.userinfo_endpoint);
        if let Some(address) = { all }.find(|address| !is_safe_address(address)) {
            return Err(format!("it names {address:?}, which is no https address"));
        }
        Ok(self)
    }

    /// Whether a client sends its secret as a field of the form, and not as a header.
    pub(super) fn takes_secret_in_form(&self) -> bool {
        let has = |method: &str| {
            self.token_endpoint_auth_methods_supported
                .as_ref()
                .is_some_and(|all| all.iter().any(|m| m == method))
        };
        has("client_secret_post") && !has("client_secret_basic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_of_its_issuer_and_encrypted() {
        let document = ProviderDocument {
            issuer: "https://id.example".to_owned(),
            authorization_endpoint: "https://id.example/auth".to_owned(),
            token_endpoint: "https://id.example/token".to_owned(),
            jwks_uri: "https://keys.example/keys".to_owned(),
            ..ProviderDocument::default()
        };
        assert!(document.clone().checked("https://id.example").is_ok());
        for other in ["https://id.example/", "https://evil.example", "http://id.example"] {
            assert!(document.clone().checked(other).is_err(), "{other}");
        }
        let plain =
            ProviderDocument { token_endpoint: "http://id.example/token".to_owned(), ..document.clone() };
        assert!(plain.checked("https://id.example").is_err());
        let file = ProviderDocument { userinfo_endpoint: Some("file:///etc/passwd".to_owned()), ..document };
        assert!(file.checked("https://id.example").is_err());
    }

    #[test]
    fn a_secret_goes_into_the_form_only_where_no_header_is_taken() {
        let with = |methods: Option<&[&str]>| {
            let all = methods.map(|methods| methods.iter().map(ToString::to_string).collect());
            ProviderDocument { token_endpoint_auth_methods_supported: all, ..ProviderDocument::default() }
                .takes_secret_in_form()
        };
        assert!(!with(None) && !with(Some(&["client_secret_post", "client_secret_basic"])));
        assert!(with(Some(&["private_key_jwt", "client_secret_post"])));
    }
}
