//! The join tokens that wait to be used. They are in memory only: a token ends with the process that made it.

use std::sync::{Mutex, PoisonError};

use evenkeel::audit::Requester;
use evenkeel_core::ids::NodeName;
use evenkeel_core::time::Mono;

use crate::key::digest;

/// The maximum number of tokens that wait to be used; the oldest gives way.
const TOKENS_MAX: usize = 1_000;

/// The tokens that this process has made. They end with it.
#[derive(Default)]
pub(crate) struct JoinTokens(Mutex<Vec<OpenToken>>);

/// A token that was not used yet.
pub(super) struct OpenToken {
    /// The digest of the secret.
    pub(super) digest: String,
    /// The end of its time.
    pub(super) until: Mono,
    /// The only node that may use it.
    pub(super) node: Option<NodeName>,
    /// The requester that it was made for.
    pub(super) asker: Requester,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// This process has not made it, or it was used, or its time is over.
    Unknown,
    /// It is for another node.
    Another,
}

impl JoinTokens {
    pub(super) fn add(&self, secret: &str, token: OpenToken) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= TOKENS_MAX {
            open.remove(0);
        }
        open.push(OpenToken { digest: digest(secret.as_bytes()), ..token });
    }

    /// Uses a token up; returns the requester that it was made for.
    pub(super) fn take(&self, secret: &str, node: &NodeName, now: Mono) -> Result<Requester, TokenError> {
        let shown = digest(secret.as_bytes());
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|token| now < token.until);
        let at = open.iter().position(|token| token.digest == shown).ok_or(TokenError::Unknown)?;
        match open.get(at).is_some_and(|token| token.node.as_ref().is_none_or(|named| named == node)) {
            true => Ok(open.remove(at).asker),
            false => Err(TokenError::Another),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::audit::Proof;

    use super::*;

    #[test]
    fn a_token_is_accepted_once_in_time_and_for_its_node() {
        let tokens = JoinTokens::default();
        let asker = Requester::new(Proof::Key, "10.0.0.7", "ann@ops1");
        let name = |text: &str| text.parse::<NodeName>().expect("a name");
        let add = |secret: &str, node: Option<&str>| {
            let node = node.map(name);
            tokens.add(
                secret,
                OpenToken { digest: String::new(), until: Mono(100), node, asker: asker.clone() },
            );
        };
        add("one", None);
        add("two", Some("b"));
        add("three", None);
        assert_eq!(tokens.take("other", &name("a"), Mono(1)), Err(TokenError::Unknown));
        assert_eq!(tokens.take("one", &name("a"), Mono(1)), Ok(asker.clone()));
        assert_eq!(tokens.take("one", &name("a"), Mono(1)), Err(TokenError::Unknown), "it is used up");
        assert_eq!(tokens.take("two", &name("a"), Mono(1)), Err(TokenError::Another));
        assert_eq!(tokens.take("two", &name("b"), Mono(99)), Ok(asker.clone()), "that has not used it up");
        assert_eq!(tokens.take("three", &name("a"), Mono(100)), Err(TokenError::Unknown), "its time is over");
    }

    #[test]
    fn no_more_tokens_wait_than_the_limit() {
        let tokens = JoinTokens::default();
        for n in 0..=TOKENS_MAX {
            let asker = Requester::new(Proof::Key, "", "");
            tokens
                .add(&n.to_string(), OpenToken { digest: String::new(), until: Mono(9), node: None, asker });
        }
        let node = "a".parse().expect("a name");
        assert_eq!(tokens.take("0", &node, Mono(1)).err(), Some(TokenError::Unknown));
        assert!(tokens.take("1", &node, Mono(1)).is_ok());
    }
}
