//! Entries with a seal: how the seal is written beside the record, and what an entry without a valid one becomes.
//!
//! A seal is a code over a key and its record, made with a secret of the cluster's nodes. Who can write to the registry
//! and has no such secret can neither declare a job nor create a user. The secret and the code are matters of the process
//! around the node: rules never see a seal.

use alloc::vec::Vec;

use super::{PrincipalRecord, SpecRecord, decode, encode};
use crate::keys::{Key, ParsedKey, parse};
use crate::registry::Value;

/// The number of hexadecimal digits of a seal.
const SEAL_DIGITS: usize = 64;
/// How many bytes an entry is longer by its seal: a line break before the digits.
pub const SEAL_BYTES: usize = 1 + SEAL_DIGITS;

/// A record with its seal, as the registry keeps it: the record is a line of its own, which a person can read.
#[must_use]
pub fn with_seal(record: &[u8], seal: &str) -> Value {
    let mut value = Vec::with_capacity(record.len() + 1 + seal.len());
    value.extend_from_slice(record);
    value.push(b'\n');
    value.extend_from_slice(seal.as_bytes());
    value.into()
}

/// The record and the seal of an entry; the seal is empty if there is none.
#[must_use]
pub fn split_seal(value: &[u8]) -> (&[u8], &[u8]) {
    let at = value.len().saturating_sub(SEAL_BYTES);
    match value.split_at(at) {
        (record, [b'\n', seal @ ..])
            if seal.len() == SEAL_DIGITS && seal.iter().all(u8::is_ascii_hexdigit) =>
        {
            (record, seal)
        }
        _ => (value, &[]),
    }
}

/// What the view receives in place of a record without a valid seal: the same, marked so that no rule acts on it. A record
/// that cannot be read stays as it is.
#[must_use]
pub fn unsealed(key: &Key, record: &[u8]) -> Value {
    let marked = match parse(key) {
        Some(ParsedKey::Spec(_)) => decode::<SpecRecord>(record).map(|record| encode(&record.unsealed())),
        Some(ParsedKey::Principal(..)) => {
            decode::<PrincipalRecord>(record).map(|record| encode(&record.unsealed()))
        }
        _ => None,
    };
    marked.unwrap_or_else(|| record.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, JobFile, Spec, Work};
    use crate::keys;
    use crate::principal::PrincipalKind;
    use crate::time::Wall;

    #[test]
    fn a_seal_is_found_again_and_nothing_else_is_one() {
        let seal = "0f".repeat(SEAL_DIGITS / 2);
        let value = with_seal(b"{}", &seal);
        assert_eq!(value.len(), 2 + SEAL_BYTES);
        assert_eq!(split_seal(&value), (&b"{}"[..], seal.as_bytes()));
        for text in ["", "{}", "\n", &seal, "{}\n0f", &alloc::format!("{{}}\n{}", "x".repeat(SEAL_DIGITS))] {
            assert_eq!(split_seal(text.as_bytes()), (text.as_bytes(), &b""[..]), "{text}");
        }
    }

    #[test]
    fn declarations_and_principals_have_seals_and_run_states_have_none() {
        let job = "team-a/spec".parse().unwrap();
        let principal = |kind| keys::principal(kind, &"ann".parse().unwrap());
        for key in [keys::spec(&job), principal(PrincipalKind::User), principal(PrincipalKind::Token)] {
            assert!(key.has_seal(), "{key}");
        }
        for key in [keys::assignment(&job), keys::triggers(&job), keys::run_state(&job), keys::cluster()] {
            assert!(!key.has_seal(), "{key}");
        }
    }

    #[test]
    fn a_declaration_without_a_seal_is_no_job_and_still_says_what_it_declares() {
        let file = JobFile::new("j".parse().unwrap(), "@daily", Work::Function("f".into()));
        let spec = Spec::new(Job::parse(file).unwrap(), 7, Wall(0));
        let key = keys::spec(&spec.job.name);
        let live = encode(&SpecRecord::Live(spec.clone().into()));
        let marked: SpecRecord = decode(&unsealed(&key, &live)).unwrap();
        assert_eq!((marked.version(), marked.clone().live()), (7, None));
        assert_eq!(marked, SpecRecord::Unsealed(spec.into()));
        let deleted = encode(&SpecRecord::Deleted { version: 8 });
        assert_eq!(unsealed(&key, &deleted), deleted, "who can write a tombstone can delete the entry, too");
        assert_eq!(&*unsealed(&key, b"{\"live\":"), b"{\"live\":");
    }
}
