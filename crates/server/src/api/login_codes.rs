//! One-time codes of login links: who gets one from this node opens the console without typing a key.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use evenkeel_core::time::{Millis, Mono};

use crate::exit::CliError;
use crate::key::{digest, hex};
use crate::request;

/// The number of codes that are remembered; the one that ends first gives way.
const CODES_MAX: usize = 64;

/// The codes that were given and not used: the digest of each, and when it ends.
#[derive(Debug, Default)]
pub(crate) struct LoginCodes(Mutex<BTreeMap<String, Mono>>);

impl LoginCodes {
    /// A new code, which is good for this time.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(crate) fn give(&self, now: Mono, lasts: Millis) -> Result<String, CliError> {
        let code = hex(&request::chance::<16>()?);
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, ends| *ends > now);
        if codes.len() >= CODES_MAX {
            let first = codes.iter().min_by_key(|(_, ends)| **ends).map(|(code, _)| code.clone());
            first.and_then(|first| codes.remove(&first));
        }
        codes.insert(digest(code.as_bytes()), now + lasts);
        Ok(code)
    }

    /// Takes a code, which is of no use after that; whether it was good.
    pub(super) fn take(&self, code: &str, now: Mono) -> bool {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.remove(&digest(code.as_bytes())).is_some_and(|ends| ends > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once_and_for_its_time() {
        let codes = LoginCodes::default();
        let give = |at| codes.give(Mono(at), Millis(10)).expect("chance");
        let code = give(0);
        assert!(!codes.take("", Mono(0)) && !codes.take(&code[1..], Mono(0)));
        assert!(codes.take(&code, Mono(9)));
        assert!(!codes.take(&code, Mono(9)), "it was used");
        let late = give(0);
        assert!(!codes.take(&late, Mono(10)), "its time is over");
    }

    #[test]
    fn not_more_codes_are_remembered_than_there_is_room_for() {
        let codes = LoginCodes::default();
        let given: Vec<String> =
            (0..=CODES_MAX as i64).map(|n| codes.give(Mono(n), Millis(1_000)).expect("chance")).collect();
        assert!(!codes.take(&given[0], Mono(100)), "the first has given way");
        assert!(given[1..].iter().all(|code| codes.take(code, Mono(100))));
    }
}
