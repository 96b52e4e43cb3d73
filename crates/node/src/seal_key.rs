//! The cluster's identity as far as a node needs it, and the key with which nodes seal declarations, users and tokens.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use evenkeel_core::keys::Key;
use evenkeel_core::record::{split_seal, unsealed, with_seal};
use evenkeel_core::registry::Value;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The identity of a cluster, which all its nodes have.
#[derive(Clone, Debug)]
pub struct NodeIdentity {
    /// Its public name: a registry whose nodes have another one is refused.
    pub name: String,
    /// The keys by which the nodes know their own entries.
    pub seals: SealKeys,
}

/// The keys of seals. A copy shares them, so they can be replaced while a node runs.
#[derive(Clone, Debug)]
pub struct SealKeys(Arc<RwLock<Vec<SealKey>>>);

/// An entry that should have a seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenedEntry {
    /// The record of an entry that a node has sealed with the first key.
    Sealed(Value),
    /// The record of an entry that a node has sealed with another one, which is on its way out or in.
    SealedByAnother(Value),
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

    /// A public name of the key, from which it cannot be guessed.
    pub(crate) fn fingerprint(&self) -> String {
        let digest = Sha256::new_with_prefix(b"evenkeel seal key 1\n").chain_update(self.0).finalize();
        digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
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

impl SealKeys {
    /// Seals are made with the first key; those of the others are valid, too.
    #[must_use]
    pub fn new(first: SealKey, others: impl IntoIterator<Item = SealKey>) -> Self {
        Self(Arc::new(RwLock::new([first].into_iter().chain(others).collect())))
    }

    /// Replaces the keys in all copies.
    pub fn replace(&self, first: SealKey, others: impl IntoIterator<Item = SealKey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = [first].into_iter().chain(others).collect();
    }

    /// The fingerprints of the keys, that of the first key first.
    pub(crate) fn fingerprints(&self) -> Vec<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().map(SealKey::fingerprint).collect()
    }

    /// An entry of this record, with the seal of the first key.
    pub(crate) fn seal(&self, key: &Key, record: &[u8]) -> Value {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        keys.first().map_or_else(|| record.into(), |first| with_seal(record, &first.seal(key, record)))
    }

    /// The record of an entry as rules may see it.
    pub(crate) fn open(&self, key: &Key, value: &Value) -> OpenedEntry {
        let (record, seal) = split_seal(value);
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match keys.iter().position(|secret| secret.is_seal(key, record, seal)) {
            Some(0) => OpenedEntry::Sealed(record.into()),
            Some(_) => OpenedEntry::SealedByAnother(record.into()),
            None => OpenedEntry::Foreign(unsealed(key, record)),
        }
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
