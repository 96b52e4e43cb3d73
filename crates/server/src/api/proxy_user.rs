//! The person for whom a trusted proxy vouches, by a header that the settings name. What others send in it is ignored.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName};
use evenkeel::audit::Proof;
use evenkeel_core::principal::Grants;

use super::ApiError;
use super::access_policy::AccessPolicy;
use super::forwarded::Forwarded;
use super::known_caller::KnownCaller;
use crate::listen::Caller;
use crate::oidc::is_name;
use crate::proxies::ProxyLogin;

/// The person for whom a trusted proxy vouches; a request has it as an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyUser {
    name: String,
    grants: Grants,
}

impl ProxyUser {
    /// The person as a caller.
    pub(super) fn caller(self) -> KnownCaller {
        KnownCaller {
            proof: Proof::Proxy(self.name),
            grants: self.grants,
            session: None,
            token: None,
            trigger: None,
            key: None,
        }
    }
}

/// Notes in a request for whom the proxy vouches that sends it. Whether it is a trusted one was found out before.
pub(super) fn resolve(access: &AccessPolicy, request: &mut Request) -> Result<(), ApiError> {
    let Some(login) = &access.proxy_login else { return Ok(()) };
    if request.extensions().get::<Forwarded>().is_none() {
        if request.headers().contains_key(&login.user) {
            note_stranger(access, login, request);
        }
        return Ok(());
    }
    if let Some(user) = user(login, request.headers())? {
        request.extensions_mut().insert(user);
    }
    Ok(())
}

/// Says once that somebody else than a proxy sends the header: that is an attack, or a proxy that the settings do not name.
fn note_stranger(access: &AccessPolicy, login: &ProxyLogin, request: &Request) {
    if access.is_first_stranger() {
        let from = request.extensions().get::<Caller>().map(|caller| caller.0.ip().to_string());
        tracing::warn!(
            "{} sends the header {}, and is no proxy that --trusted-proxy names: it is ignored, here and from now on",
            from.unwrap_or_default(),
            login.user
        );
    }
}

fn user(login: &ProxyLogin, headers: &HeaderMap) -> Result<Option<ProxyUser>, ApiError> {
    let name = single(headers, &login.user)?;
    let groups = login.groups.as_ref().map(|header| single(headers, header)).transpose()?.flatten();
    let Some(name) = name else { return Ok(None) };
    if !is_name(name) {
        return Err(ambiguous(&login.user));
    }
    let groups = groups.unwrap_or_default().split(',').map(str::trim).filter(|group| !group.is_empty());
    Ok(Some(ProxyUser { name: name.to_owned(), grants: login.roles.of_member(groups) }))
}

/// The one value of a header. A proxy that adds its own to one that its caller has sent vouches for neither.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(ambiguous(name));
    }
    let Some(first) = first else { return Ok(None) };
    let text = std::str::from_utf8(first.as_bytes()).map_err(|_| ambiguous(name))?;
    Ok(Some(text.trim()).filter(|text| !text.is_empty()))
}

fn ambiguous(name: &HeaderName) -> ApiError {
    ApiError::invalid(format!(
        "the proxy's header {name} makes no sense: it must send one name of one person, and remove what its caller sends"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_roles::GroupRoles;

    fn seen(headers: &[(&str, &str)]) -> Result<Option<String>, ()> {
        let roles = ["devs=author:team-a", "ops=operator"].map(|role| role.parse().expect("a role"));
        let login = ProxyLogin {
            user: HeaderName::from_static("x-user"),
            groups: Some(HeaderName::from_static("x-groups")),
            roles: GroupRoles::new(roles.into()),
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).expect("a name"), value.parse().expect("a value"));
        }
        let user = user(&login, &map).map_err(|_| ())?;
        let shown = |user: ProxyUser| {
            let grants: Vec<String> = user.grants.0.iter().map(ToString::to_string).collect();
            format!("{} {}", user.name, grants.join(" "))
        };
        Ok(user.map(shown))
    }

    #[test]
    fn one_header_names_one_person_with_its_groups() {
        let of = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(seen(&[("x-user", "ann")]), of("ann "));
        assert_eq!(
            seen(&[("x-user", " ann@example.org "), ("x-groups", "devs, ops,,x")]),
            of("ann@example.org operator author:team-a")
        );
        for none in [&[][..], &[("x-user", "")], &[("x-user", " ")], &[("x-groups", "ops")]] {
            assert_eq!(seen(none), Ok(None), "{none:?}");
        }
        for ambiguous in [
            &[("x-user", "ann"), ("x-user", "ann")][..],
            &[("x-user", "ann"), ("x-user", "")],
            &[("x-user", "ann bob")],
            &[("x-user", "ann"), ("x-groups", "a"), ("x-groups", "ops")],
        ] {
            assert_eq!(seen(ambiguous), Err(()), "{ambiguous:?}");
        }
    }
}
