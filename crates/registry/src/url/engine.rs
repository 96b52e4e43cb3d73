//! The URL of an engine on a server: its addresses, user, namespace and options.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::RegistryError;

/// The environment variable that a registry's password may come from.
pub const PASSWORD: &str = "EVENKEEL_REGISTRY_PASSWORD";

/// The purpose of a URL, for its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlPurpose {
    /// The noun in error messages.
    pub noun: &'static str,
    /// The environment variable that its password may come from.
    pub password: &'static str,
}

impl UrlPurpose {
    /// A registry.
    pub const REGISTRY: Self = Self { noun: "registry", password: PASSWORD };
}

/// The default namespace of a cluster.
const NAMESPACE: &str = "evenkeel";

/// Longer ones would not fit in front of the names that engines accept.
const NAMESPACE_MAX: usize = 40;

/// The options after the `?` of every engine's URL.
const OPTIONS: [&str; 5] = ["password_file", "tls", "ca", "cert", "key"];

/// `SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/SEGMENT…][?OPTION=VALUE&…]`, parsed.
///
/// Anything that could be a password is hidden when it is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct EngineUrl {
    purpose: UrlPurpose,
    scheme: String,
    user: Option<String>,
    password: Option<String>,
    addresses: Vec<EngineAddress>,
    segments: Vec<String>,
    options: BTreeMap<String, String>,
}

/// One address of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineAddress {
    /// Name or address, an IPv6 address without its brackets.
    pub name: String,
    /// `None` for the engine's usual port.
    pub port: Option<u16>,
}

/// The options of encryption. Paths are of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The trusted certificates; `None` for those that this host trusts.
    pub ca: Option<PathBuf>,
    /// The client certificate and its key, if the server requires one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How exposed an engine is, as far as its URL says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// Whether each of its addresses is local to this host.
    pub loopback: bool,
    /// Whether clients log in, by a password or a certificate.
    pub login: bool,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

impl EngineUrl {
    /// How exposed the engine is.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] for options that exclude each other, or a password file that cannot be read.
    pub fn exposure(&self) -> Result<Exposure, RegistryError> {
        let tls = self.tls()?;
        let certificate = tls.as_ref().is_some_and(|tls| tls.identity.is_some());
        let login = certificate || self.password()?.is_some_and(|password| !password.is_empty());
        Ok(Exposure {
            loopback: self.addresses.iter().all(EngineAddress::is_loopback),
            login,
            tls: tls.is_some(),
        })
    }

    /// Parses a registry's URL.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] says what is wrong with it, and never contains a password.
    pub fn parse(text: &str) -> Result<Self, RegistryError> {
        Self::parse_for(UrlPurpose::REGISTRY, text)
    }

    /// Parses a URL for this purpose.
    ///
    /// # Errors
    /// Same as [`parse`](Self::parse).
    pub fn parse_for(purpose: UrlPurpose, text: &str) -> Result<Self, RegistryError> {
        let refused =
            |what: &str| RegistryError::Refused(format!("{} {:?} {what}", purpose.noun, redacted(text)));
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(refused("has no host: write SCHEME://HOST"));
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None if path.contains('@') || options.contains('@') => {
                return Err(refused("has a user or password with / or ? in it: write these as %2F and %3F"));
            }
            None => (None, authority),
        };
        let decoded = |text: &str| {
            decode(text).ok_or_else(|| refused("has a % without two hexadecimal digits of UTF-8 behind it"))
        };
        let (user, password) = match login.map(|login| login.split_once(':').ok_or(login)) {
            None => (None, None),
            Some(Err(user)) => (Some(decoded(user)?), None),
            Some(Ok((user, password))) => (Some(decoded(user)?), Some(decoded(password)?)),
        };
        let hosts: Option<Vec<_>> = hosts.split(',').map(EngineAddress::parse).collect();
        let hosts = hosts.ok_or_else(|| {
            refused("has a host that is none: write HOST, HOST:PORT or [ADDRESS]:PORT, with commas between several")
        })?;
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let segments = segments.map(decoded).collect::<Result<Vec<_>, _>>()?;
        let mut told = BTreeMap::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if told.insert(decoded(name)?, decoded(value)?).is_some() {
                return Err(refused("says one option twice"));
            }
        }
        let user = user.filter(|user| !user.is_empty());
        Ok(Self { purpose, scheme: scheme.into(), user, password, addresses: hosts, segments, options: told })
    }

    /// The engine's name.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Every address, at least one.
    #[must_use]
    pub fn addresses(&self) -> &[EngineAddress] {
        &self.addresses
    }

    /// The only address, for an engine that uses one.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when there are several.
    pub fn single_address(&self) -> Result<&EngineAddress, RegistryError> {
        match self.addresses.as_slice() {
            [host] => Ok(host),
            _ => Err(self.refusal("names several hosts: this engine is spoken to at one")),
        }
    }

    /// The value of an option.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Refuses options that neither all engines nor this one know.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] names the option and the known ones.
    pub fn allow_options(&self, own: &[&str]) -> Result<(), RegistryError> {
        let known: Vec<_> = OPTIONS.iter().chain(own).copied().collect();
        match self.options.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                Err(self.refusal(&format!("has the unknown option {name:?}: use {}", known.join(", "))))
            }
        }
    }

    /// The path segments before the namespace, as many as `names` has, and the namespace.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] says which segment is missing, superfluous, or no valid namespace.
    pub fn path_segments<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<([&str; N], &str), RegistryError> {
        let form = names.iter().map(|name| format!("/{name}")).collect::<String>();
        let Some((first, rest)) = self.segments.split_first_chunk::<N>() else {
            return Err(self.refusal(&format!("is too short: write {}://HOST{form}", self.scheme)));
        };
        let namespace = match rest {
            [] => NAMESPACE,
            [namespace] => namespace,
            _ => {
                let form = format!("is too long: write {}://HOST{form}/NAMESPACE", self.scheme);
                return Err(self.refusal(&form));
            }
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = namespace.len() <= NAMESPACE_MAX
            && namespace.starts_with(plain)
            && namespace.chars().all(|c| plain(c) || c == '-' || c == '_');
        if !good {
            return Err(self.refusal(&format!(
                "has the namespace {namespace:?}: use up to {NAMESPACE_MAX} of a-z, 0-9, - and _, \
                 and begin with a letter or digit"
            )));
        }
        Ok((first.each_ref().map(String::as_str), namespace))
    }

    /// The password: from the URL, from the file that `password_file` names, or from the environment
    /// variable that its [`UrlPurpose`] names.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when the file cannot be read.
    pub fn password(&self) -> Result<Option<String>, RegistryError> {
        self.password_or(|| std::env::var(self.purpose.password).ok())
    }

    fn password_or(&self, outside: impl FnOnce() -> Option<String>) -> Result<Option<String>, RegistryError> {
        if let Some(password) = &self.password {
            return Ok(Some(password.clone()));
        }
        let Some(path) = self.option("password_file") else {
            return Ok(outside().filter(|password| !password.is_empty()));
        };
        match std::fs::read_to_string(path) {
            Ok(password) => Ok(Some(password.trim_end_matches(['\r', '\n']).to_owned())),
            Err(error) => Err(self.refusal(&format!("names a password file that cannot be read: {error}"))),
        }
    }

    /// Whether the connection is to be encrypted, and with which files.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] for options that exclude each other.
    pub fn tls(&self) -> Result<Option<TlsFiles>, RegistryError> {
        let path = |name| self.option(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let on = match self.option("tls") {
            None | Some("off") => false,
            Some("on") => true,
            Some(_) => return Err(self.refusal("says of tls neither on nor off")),
        };
        if !on {
            return match ["ca", "cert", "key"].into_iter().find(|name| self.options.contains_key(*name)) {
                None => Ok(None),
                Some(name) => Err(self.refusal(&format!("has the option {name} without tls=on: add it"))),
            };
        }
        let identity = match (path("cert"), path("key")) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some((cert, key)),
            _ => return Err(self.refusal("has one of cert and key without the other: say both")),
        };
        Ok(Some(TlsFiles { ca: path("ca"), identity }))
    }

    /// The purpose and the URL, as messages name them: `registry etcd://HOST`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} {self}", self.purpose.noun)
    }

    /// An error that names this URL.
    #[must_use]
    pub fn refusal(&self, what: &str) -> RegistryError {
        RegistryError::Refused(format!("{} {what}", self.label()))
    }
}

impl EngineAddress {
    fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, rest) = rest.split_once(']')?;
                (name, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            None => None,
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
        };
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '%' | '#' | '\\' | '"');
        (!name.is_empty() && !name.contains(odd)).then(|| Self { name: name.into(), port })
    }

    /// Whether it is an address of this host that no other host can reach.
    fn is_loopback(&self) -> bool {
        let address: Option<std::net::IpAddr> = self.name.parse().ok();
        address.map_or_else(|| self.name.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
    }

    /// `HOST:PORT`, with the engine's default port if it has none.
    #[must_use]
    pub fn with_port(&self, usual: u16) -> String {
        Self { name: self.name.clone(), port: Some(self.port.unwrap_or(usual)) }.to_string()
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]", self.name)?,
            false => f.write_str(&self.name)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Display for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        if let Some(user) = &self.user {
            write!(f, "{user}{}@", if self.password.is_some() { ":***" } else { "" })?;
        }
        for (i, host) in self.addresses.iter().enumerate() {
            write!(f, "{}{host}", if i > 0 { "," } else { "" })?;
        }
        self.segments.iter().try_for_each(|segment| write!(f, "/{segment}"))?;
        for (i, (name, value)) in self.options.iter().enumerate() {
            // An unknown option may be a password in the wrong place.
            let value = if OPTIONS.contains(&name.as_str()) { value } else { "***" };
            write!(f, "{}{name}={value}", if i > 0 { '&' } else { '?' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineUrl({self})")
    }
}

/// An invalid URL without anything that may be a password.
pub(super) fn redacted(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
    let slashes = if scheme.is_empty() { "" } else { "://" };
    match rest.rsplit_once('@') {
        Some((_, rest)) => {
            let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
            format!("{scheme}{slashes}***@{rest}")
        }
        None => {
            let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
            format!("{scheme}{slashes}{rest}")
        }
    }
}

/// Decodes `%XX`; `None` if the result is no UTF-8 text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
