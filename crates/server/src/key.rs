//! The cluster's key: people send it; nodes sign with it and never send it.

mod file;
mod ring;

use sha2::{Digest, Sha256};

pub(crate) use evenkeel_client::key::{ClusterKey, bytes, hex, is_same};
pub(crate) use file::{KeyFile, existing_own_key, read_key, read_secret};
pub(crate) use ring::KeyRing;

/// A number of 60 bits, made of hexadecimal digits.
pub(crate) fn number(digits: &str) -> u64 {
    u64::from_str_radix(digits.get(..15).unwrap_or_default(), 16).unwrap_or_default()
}

/// The digest of a body.
pub(crate) fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha256() {
        assert_eq!(digest(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
