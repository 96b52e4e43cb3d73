//! One-time codes of login links: who gets one from this node opens the console without typing a key.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use evenkeel_core::time::{Millis, Mono};

use super::session_subject::SessionSubject;
use crate::exit::CliError;
use crate::key::{digest, hex};
use crate::request;

/// The number of codes that are remembered; the one that ends first gives way.
const CODES_MAX: usize = 64;

/// The codes that were given and not used, by the digest of each.
#[derive(Debug, Default)]
pub(crate) struct LoginCodes(Mutex<BTreeMap<String, LoginCode>>);

#[derive(Debug)]
struct LoginCode {
    of: SessionSubject,
    ends: Mono,
}

impl LoginCodes {
    /// A new code, which begins a session of this subject and is good for this time.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(crate) fn give(&self, of: SessionSubject, now: Mono, lasts: Millis) -> Result<String, CliError> {
        let code = hex(&request::chance::<16>()?);
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, code| code.ends > now);
        if codes.len() >= CODES_MAX {
            let first = codes.iter().min_by_key(|(_, code)| code.ends).map(|(digest, _)| digest.clone());
            first.and_then(|first| codes.remove(&first));
        }
        codes.insert(digest(code.as_bytes()), LoginCode { of, ends: now + lasts });
        Ok(code)
    }

    /// Whose session a code begins, if it is good. It stays so.
    pub(super) fn look(&self, code: &str, now: Mono) -> Option<SessionSubject> {
        let codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.get(&digest(code.as_bytes())).filter(|code| code.ends > now).map(|code| code.of.clone())
    }

    /// Takes a code, which is of no use after that; whose session it begins, if it was good.
    pub(super) fn take(&self, code: &str, now: Mono) -> Option<SessionSubject> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.remove(&digest(code.as_bytes())).filter(|code| code.ends > now).map(|code| code.of)
    }
}

#[cfg(test)]
mod tests {
    use super::super::session_subject::SessionOwner;
    use super::*;

    const KEY: SessionSubject = SessionSubject { owner: SessionOwner::Key, epoch: 3 };

    #[test]
    fn a_code_is_good_once_and_for_its_time() {
        let codes = LoginCodes::default();
        let give = |at| codes.give(KEY, Mono(at), Millis(10)).expect("chance");
        let code = give(0);
        assert!(codes.take("", Mono(0)).is_none() && codes.take(&code[1..], Mono(0)).is_none());
        assert_eq!(codes.look(&code, Mono(9)), Some(KEY), "a look does not use it up");
        assert_eq!(codes.look(&code, Mono(10)), None);
        assert_eq!(codes.take(&code, Mono(9)), Some(KEY));
        assert!(codes.take(&code, Mono(9)).is_none(), "it was used");
        let late = give(0);
        assert!(codes.take(&late, Mono(10)).is_none(), "its time is over");
    }

    #[test]
    fn not_more_codes_are_remembered_than_there_is_room_for() {
        let codes = LoginCodes::default();
        let given: Vec<String> = (0..=CODES_MAX as i64)
            .map(|n| codes.give(KEY, Mono(n), Millis(1_000)).expect("chance"))
            .collect();
        assert!(codes.take(&given[0], Mono(100)).is_none(), "the first has given way");
        assert!(given[1..].iter().all(|code| codes.take(code, Mono(100)).is_some()));
    }
}
