//! The cluster's identity as far as a node needs it, and the key with which nodes seal declarations, users and tokens.

use std::fmt;

use evenkeel_core::keys::Key;
use evenkeel_core::record::{split_seal, unsealed};
use evenkeel_core::registry::Value;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The identity of a cluster, which all its nodes have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Its public name: a registry whose nodes have another one is refused.
    pub name: String,
    /// The key by which the nodes know their own entries.
    pub seals: SealKey,
}

/// An entry that should have a seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenedEntry {
    /// The record of an entry that a node has written.
    Sealed(Value),
    /// The record of an entry that no node has written, marked so.
    Foreign(Value),
}

/// The secret with which the nodes of a cluster seal the entries that decide which programs run and who is let in.
///
/// A node that has one believes no such entry without a valid seal: who can write to the registry around the nodes cannot
/// make them run a command. All nodes of a cluster need the same key. It prints nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey([u8; 32]);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

impl SealKey {
    /// A key of these bytes, which should be random.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// The seal of a record under a key of the registry, in hexadecimal digits.
    #[must_use]
    pub fn seal(&self, key: &Key, record: &[u8]) -> String {
        let code = self.code(key, record).finalize().into_bytes();
        code.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether this is the seal of that record; compares in constant time.
    #[must_use]
    pub fn is_seal(&self, key: &Key, record: &[u8], seal: &[u8]) -> bool {
        let bytes: Option<Vec<u8>> = seal.chunks(2).map(byte_of).collect();
        bytes.is_some_and(|bytes| self.code(key, record).verify_slice(&bytes).is_ok())
    }

    /// The record of an entry as rules may see it, if that is not the entry as it stands: without its seal, or marked
    /// because it has no valid one.
    pub(crate) fn open(&self, key: &Key, value: &Value) -> OpenedEntry {
        let (record, seal) = split_seal(value);
        if self.is_seal(key, record, seal) {
            return OpenedEntry::Sealed(record.into());
        }
        OpenedEntry::Foreign(unsealed(key, record))
    }

    /// The key of the registry is in it, so that no entry can be put in the place of another one.
    fn code(&self, key: &Key, record: &[u8]) -> Hmac<Sha256> {
        let keyed = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        keyed
            .chain_update(b"evenkeel entry 1\n")
            .chain_update(key.as_str())
            .chain_update(b"\n")
            .chain_update(record)
    }
}

fn byte_of(digits: &[u8]) -> Option<u8> {
    let [high, low] = digits else { return None };
    let digit = |ascii: &u8| char::from(*ascii).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_key_one_record_and_one_secret() {
        let key = |text: &str| Key::from_stored(text);
        let own = SealKey::new([7; 32]);
        let seal = own.seal(&key("job/a/spec"), b"{}");
        let good = |secret: &SealKey, name: &str, record: &[u8], seal: &str| {
            secret.is_seal(&key(name), record, seal.as_bytes())
        };
        assert!(good(&own, "job/a/spec", b"{}", &seal));
        assert!(!good(&own, "job/b/spec", b"{}", &seal));
        assert!(!good(&own, "job/a/spec", b"{ }", &seal));
        assert!(!good(&SealKey::new([8; 32]), "job/a/spec", b"{}", &seal));
        for broken in ["", "0", &seal[2..], &format!("{seal}00"), &"zz".repeat(32)] {
            assert!(!good(&own, "job/a/spec", b"{}", broken), "{broken}");
        }
        assert!(!format!("{own:?}").contains('7'));
    }
}
