//! A join token as text: `evenkeel1/HOST:PORT/FINGERPRINT/SECRET`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::bounded;
use crate::exit::CliError;
use crate::key::hex;
use crate::request;

/// The first word of a token, with the version of its form.
const FORM: &str = "evenkeel1";
/// The size limit of a file with a token.
const FILE_BYTES_MAX: u64 = 4096;

/// Where to get a cluster's identity, how to know that node, and what to show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct JoinToken {
    /// `HOST:PORT` of the node that made it.
    pub(crate) address: String,
    /// The fingerprint of the cluster's authority.
    pub(crate) authority: String,
    /// It is accepted once.
    pub(crate) secret: String,
}

/// A secret that nobody can guess.
///
/// # Errors
/// The host has no source of randomness.
pub(crate) fn new_secret() -> Result<String, CliError> {
    Ok(hex(&request::chance::<16>()?))
}

impl JoinToken {
    /// A token as it is written, or the token in a file of this name.
    ///
    /// # Errors
    /// It is none, and no file with one can be read.
    pub(crate) fn read(text: &str) -> Result<Self, CliError> {
        let text = text.trim();
        if let Ok(token) = text.parse() {
            return Ok(token);
        }
        let none = || {
            CliError::usage(
                "--join is no token: make one with `evenkeel cluster join-token` on a host of the cluster",
            )
        };
        if text.starts_with(FORM) || text.is_empty() {
            return Err(none());
        }
        let found = bounded::text(Path::new(text), FILE_BYTES_MAX)
            .map_err(|e| CliError::unreadable(format!("the join token in {text}"), e))?;
        found.trim().parse().map_err(|()| none())
    }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, authority, secret } = self;
        write!(f, "{FORM}/{address}/{authority}/{secret}")
    }
}

/// Without the secret.
impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({})", self.address)
    }
}

impl FromStr for JoinToken {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/');
        let (Some(FORM), Some(address), Some(authority), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let is_hex =
            |text: &str, len: usize| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
        let named = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        match named && is_hex(authority, 64) && is_hex(secret, 32) {
            true => Ok(Self { address: address.into(), authority: authority.into(), secret: secret.into() }),
            false => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_also_from_a_file() {
        let (authority, secret) = ("0a".repeat(32), new_secret().expect("chance"));
        for address in ["10.0.0.7:7700", "[2001:db8::1]:7700", "node-1.example:1"] {
            let token =
                JoinToken { address: address.into(), authority: authority.clone(), secret: secret.clone() };
            let text = token.to_string();
            assert_eq!(JoinToken::read(&format!(" {text}\n")).ok(), Some(token.clone()));
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), format!("{text}\n")).expect("written");
            assert_eq!(JoinToken::read(&file.path().display().to_string()).ok(), Some(token.clone()));
            assert!(!format!("{token:?}").contains(&secret), "{token:?}");
            for broken in [&text[..text.len() - 1], &text.replace(address, "h"), &format!("{text}/x"), ""] {
                let refused = JoinToken::read(broken).expect_err("it is none").message;
                assert!(refused.contains("join") && !refused.contains(&secret), "{broken}: {refused}");
            }
        }
    }
}
