//! Ids of requests by hand: chance enough that two people never ask under the same one.

use std::fs::File;
use std::io::Read;

use crate::exit::{Exit, Failure};

/// A new request id of twelve letters and digits.
///
/// # Errors
/// The host has no source of chance.
pub(crate) fn fresh() -> Result<String, Failure> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bytes: [u8; 12] = chance()?;
    Ok(bytes.iter().map(|b| char::from(LETTERS[usize::from(b % 32)])).collect())
}

/// Bytes that nobody can guess.
///
/// # Errors
/// The host has no source of chance.
pub(crate) fn chance<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")
        .and_then(|mut chance| chance.read_exact(&mut bytes))
        .map_err(|e| Failure::new(Exit::Failed, format!("/dev/urandom cannot be read: {e}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::words::RequestId;

    #[test]
    fn fresh_ids_are_request_ids_and_differ() {
        let (one, other) = (super::fresh().expect("chance"), super::fresh().expect("chance"));
        assert_ne!(one, other);
        assert!(one.parse::<RequestId>().is_ok(), "{one}");
    }
}
