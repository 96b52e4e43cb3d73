//! The settings of people's login by others: an OpenID Connect provider, or a proxy.

use std::path::{Path, PathBuf};

use axum::http::HeaderName;
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};

use super::SettingsArgs;
use crate::client::read_certificates;
use crate::exit::CliError;
use crate::group_roles::GroupRoles;
use crate::key::read_secret;
use crate::oidc::{OidcSettings, is_safe_address};
use crate::proxies::ProxyLogin;

/// How long a session lasts that began with the provider, and the limits.
const SESSION: Millis = Millis::secs(12 * 3_600);
const SESSION_LIMITS: SpanLimits = SpanLimits::new(Millis::secs(60), Millis::secs(7 * 24 * 3_600));
/// Where a provider sends people back.
pub(crate) const CALLBACK: &str = "/login/oidc/callback";

/// The settings of people's login by others.
#[derive(Debug, Default)]
pub(crate) struct LoginSettings {
    /// The login by a provider.
    pub(crate) oidc: Option<OidcSettings>,
    /// The login by a trusted proxy.
    pub(crate) proxy: Option<ProxyLogin>,
}

/// The settings of people's login as written.
pub(super) struct LoginArgs {
    issuer: Option<String>,
    client_id: Option<String>,
    client_secret_file: Option<PathBuf>,
    scopes: Option<String>,
    user_claim: Option<String>,
    groups_claim: Option<String>,
    label: Option<String>,
    redirect_url: Option<String>,
    ca_file: Option<PathBuf>,
    session: Option<String>,
    user_header: Option<String>,
    groups_header: Option<String>,
    has_proxies: bool,
    group_role: Vec<String>,
}

impl LoginArgs {
    /// Takes them from all settings.
    pub(super) fn taken(all: &mut SettingsArgs) -> Self {
        let text = |setting: &mut Option<String>| setting.take().filter(|text| !text.trim().is_empty());
        Self {
            issuer: text(&mut all.oidc_issuer),
            client_id: text(&mut all.oidc_client_id),
            client_secret_file: all.oidc_client_secret_file.take(),
            scopes: text(&mut all.oidc_scopes),
            user_claim: text(&mut all.oidc_user_claim),
            groups_claim: text(&mut all.oidc_groups_claim),
            label: text(&mut all.oidc_label),
            redirect_url: text(&mut all.oidc_redirect_url),
            ca_file: all.oidc_ca_file.take(),
            session: text(&mut all.oidc_session),
            user_header: text(&mut all.proxy_user_header),
            groups_header: text(&mut all.proxy_groups_header),
            has_proxies: !all.trusted_proxy.is_empty(),
            group_role: std::mem::take(&mut all.group_role),
        }
    }

    /// Resolves the settings.
    ///
    /// # Errors
    /// One of them is invalid, or lacks another one; the text has the fix.
    pub(super) fn resolve(self) -> Result<LoginSettings, CliError> {
        let roles = self.group_role.iter().map(|text| text.trim().parse()).collect::<Result<_, _>>();
        let roles = GroupRoles::new(roles.map_err(|e| CliError::usage(format!("--group-role: {e}")))?);
        let proxy = self.proxy(&roles)?;
        let has_roles = !roles.is_empty();
        let oidc = self.provider(roles)?;
        if has_roles && proxy.is_none() && oidc.is_none() {
            return Err(CliError::usage(
                "--group-role is of no use without a login that knows groups: give --oidc-issuer or --proxy-user-header",
            ));
        }
        Ok(LoginSettings { oidc, proxy })
    }

    fn proxy(&self, roles: &GroupRoles) -> Result<Option<ProxyLogin>, CliError> {
        let groups =
            self.groups_header.as_deref().map(|name| header("--proxy-groups-header", name)).transpose()?;
        let Some(user) = self.user_header.as_deref() else {
            return match groups {
                Some(_) => Err(CliError::usage(
                    "--proxy-groups-header is of no use without --proxy-user-header: give both or none",
                )),
                None => Ok(None),
            };
        };
        if !self.has_proxies {
            return Err(CliError::usage(
                "--proxy-user-header is of no use without --trusted-proxy CIDR: name the proxies that are believed",
            ));
        }
        let user = header("--proxy-user-header", user)?;
        if groups.as_ref() == Some(&user) {
            return Err(CliError::usage("--proxy-user-header and --proxy-groups-header are two headers"));
        }
        Ok(Some(ProxyLogin { user, groups, roles: roles.clone() }))
    }

    fn provider(self, roles: GroupRoles) -> Result<Option<OidcSettings>, CliError> {
        let (Some(issuer), Some(client_id)) = (&self.issuer, &self.client_id) else {
            return match self.lone() {
                Some((flag, other)) => {
                    Err(CliError::usage(format!("{flag} is of no use without {other}: give both or none")))
                }
                None => Ok(None),
            };
        };
        let (issuer, client_id) = (issuer.trim().to_owned(), client_id.trim().to_owned());
        if !is_safe_address(&issuer) || issuer.contains('?') {
            return Err(CliError::usage(format!(
                "--oidc-issuer is {issuer:?}: write an https address, as https://id.example.org/realms/all, just as the \
                 provider writes it; http is for a provider on this host"
            )));
        }
        let host = issuer.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let scopes = self.scopes.unwrap_or_else(|| "openid profile email".to_owned());
        if !scopes.split(' ').any(|scope| scope == "openid") {
            return Err(CliError::usage(format!("--oidc-scopes is {scopes:?}: openid must be one of them")));
        }
        Ok(Some(OidcSettings {
            label: self.label.unwrap_or_else(|| host.to_owned()),
            client_secret: self.client_secret_file.as_deref().map(client_secret).transpose()?,
            user_claim: self.user_claim.unwrap_or_else(|| "sub".to_owned()),
            groups_claim: self.groups_claim.unwrap_or_else(|| "groups".to_owned()),
            redirect_url: self.redirect_url.map(redirect_url).transpose()?,
            authority: match &self.ca_file {
                Some(path) => read_certificates("--oidc-ca-file", path)?,
                None => Vec::new(),
            },
            session: match &self.session {
                Some(text) => TimeSpan::parse("--oidc-session", text, SESSION_LIMITS)
                    .map_err(|e| CliError::usage(e.to_string()))?
                    .millis(),
                None => SESSION,
            },
            issuer,
            client_id,
            scopes,
            roles,
        }))
    }

    /// A flag that lacks another one.
    fn lone(&self) -> Option<(&'static str, &'static str)> {
        let (issuer, client) = ("--oidc-issuer", "--oidc-client-id");
        if self.issuer.is_some() {
            return Some((issuer, client));
        }
        if self.client_id.is_some() {
            return Some((client, issuer));
        }
        let given = [
            (self.client_secret_file.is_some(), "--oidc-client-secret-file"),
            (self.scopes.is_some(), "--oidc-scopes"),
            (self.user_claim.is_some(), "--oidc-user-claim"),
            (self.groups_claim.is_some(), "--oidc-groups-claim"),
            (self.label.is_some(), "--oidc-label"),
            (self.redirect_url.is_some(), "--oidc-redirect-url"),
            (self.ca_file.is_some(), "--oidc-ca-file"),
            (self.session.is_some(), "--oidc-session"),
        ];
        given.into_iter().find_map(|(is_given, flag)| is_given.then_some((flag, issuer)))
    }
}

/// The name of a header that has no other meaning.
fn header(flag: &str, name: &str) -> Result<HeaderName, CliError> {
    const TAKEN: [&str; 10] = [
        "authorization",
        "connection",
        "content-type",
        "cookie",
        "host",
        "origin",
        "sec-fetch-site",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    let header = HeaderName::try_from(name.trim()).ok().filter(|header| !TAKEN.contains(&header.as_str()));
    header.ok_or_else(|| {
        CliError::usage(format!(
            "{flag} is {name:?}: write the name of a header that has no other meaning, as X-Forwarded-User"
        ))
    })
}

fn client_secret(path: &Path) -> Result<String, CliError> {
    let secret = read_secret("client secret", path)?;
    if secret.is_empty() {
        return Err(CliError::usage(format!(
            "client secret {}: the first line is empty, and it must be the secret",
            path.display()
        )));
    }
    Ok(secret)
}

fn redirect_url(text: String) -> Result<String, CliError> {
    let text = text.trim().to_owned();
    if is_safe_address(&text) && text.ends_with(CALLBACK) {
        return Ok(text);
    }
    Err(CliError::usage(format!(
        "--oidc-redirect-url is {text:?}: write https://HOST{CALLBACK}, with the prefix of a proxy after the host if it has one"
    )))
}
