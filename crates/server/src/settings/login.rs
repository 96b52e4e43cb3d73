//! The settings of people's login by others: an OpenID Connect provider.

use std::path::{Path, PathBuf};

use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};

use super::SettingsArgs;
use crate::client::read_certificates;
use crate::exit::CliError;
use crate::group_roles::GroupRoles;
use crate::key::read_secret;
use crate::oidc::{OidcSettings, is_safe_address};

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
        let (Some(issuer), Some(client_id)) = (&self.issuer, &self.client_id) else {
            return match self.lone() {
                Some((flag, other)) => {
                    Err(CliError::usage(format!("{flag} is of no use without {other}: give both or none")))
                }
                None if !roles.is_empty() => Err(CliError::usage(
                    "--group-role is of no use without a login that knows groups: give --oidc-issuer",
                )),
                None => Ok(LoginSettings::default()),
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
        let oidc = OidcSettings {
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
        };
        Ok(LoginSettings { oidc: Some(oidc) })
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
