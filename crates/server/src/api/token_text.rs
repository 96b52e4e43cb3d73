//! The text of an API token: `evk1.SECRET.NAME`. Its beginning lets scanners for leaked secrets find it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use evenkeel_core::ids::PrincipalName;
use evenkeel_core::principal::SecretDigest;
use evenkeel_core::time::{Millis, Wall};

use crate::exit::CliError;
use crate::key::{digest, hex, is_same};
use crate::request;

/// What each token begins with.
const BEGINNING: &str = "evk1.";

/// A token as its holder shows it. `Debug` prints its name only.
pub(super) struct TokenText {
    /// The name of the token.
    pub(super) name: PrincipalName,
    secret: String,
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenText").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TokenText {
    /// A token with a new secret.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(super) fn make(name: PrincipalName) -> Result<Self, CliError> {
        Ok(Self { name, secret: hex(&request::chance::<32>()?) })
    }

    /// Whether a text is meant as a token, and not as the cluster's key.
    pub(super) fn is_meant(text: &str) -> bool {
        text.starts_with(BEGINNING)
    }

    /// What the registry keeps of the secret: it has 256 random bits, so a plain digest cannot be guessed back.
    pub(super) fn digest(&self) -> SecretDigest {
        SecretDigest::new(digest(self.secret.as_bytes()))
    }

    /// Whether the registry keeps this of the secret; compares in constant time.
    pub(super) fn is_of(&self, kept: &SecretDigest) -> bool {
        is_same(self.digest().expose().as_bytes(), kept.expose().as_bytes())
    }
}

impl FromStr for TokenText {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (secret, name) = text.strip_prefix(BEGINNING).and_then(|rest| rest.split_once('.')).ok_or(())?;
        Ok(Self { name: name.parse().map_err(|_| ())?, secret: secret.to_owned() })
    }
}

/// The whole text, with the secret.
impl fmt::Display for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGINNING}{}.{}", self.secret, self.name)
    }
}

/// Until when no further use of a token is written, for each token that this node has written one of.
#[derive(Debug, Default)]
pub(crate) struct NotedUses(Mutex<BTreeMap<PrincipalName, Wall>>);

impl NotedUses {
    /// How long a use that was written need not show in the registry.
    const PAUSE: Millis = Millis::secs(60);

    /// Whether this use is to be written: none was within the last minute.
    pub(super) fn is_first(&self, name: &PrincipalName, now: Wall) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|_, at| (0..Self::PAUSE.0).contains(&(now - *at).0));
        if noted.contains_key(name) {
            return false;
        }
        noted.insert(name.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_is_only_itself() {
        let token = TokenText::make("ci.build".parse().expect("a name")).expect("chance");
        let text = token.to_string();
        assert!(TokenText::is_meant(&text) && !TokenText::is_meant("correct-horse-battery"));
        let Ok(read) = text.parse::<TokenText>() else { panic!("it is one: {text}") };
        assert_eq!(read.name, token.name);
        assert!(read.is_of(&token.digest()));
        let other = TokenText::make(token.name.clone()).expect("chance");
        assert!(!other.is_of(&token.digest()) && !other.is_of(&SecretDigest::default()));
        for bad in ["evk1.", "evk1.00", "evk1.00.", "evk2.00.ci", "evk1.00.a/b"] {
            assert!(bad.parse::<TokenText>().is_err(), "{bad}");
        }
    }

    #[test]
    fn uses_of_one_token_are_written_once_a_minute() {
        let (uses, one, other) = (NotedUses::default(), "a".parse().unwrap(), "b".parse().unwrap());
        assert!(uses.is_first(&one, Wall(0)) && !uses.is_first(&one, Wall(59_999)));
        assert!(uses.is_first(&other, Wall(1)) && uses.is_first(&one, Wall(60_000)));
        assert!(uses.is_first(&one, Wall(5)), "the clock was set back");
    }
}
