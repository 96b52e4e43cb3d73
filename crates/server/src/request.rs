//! Ids of requests for manual runs: random enough that two people never use the same one.

use std::fs::File;
use std::io::Read;

use evenkeel_core::ids::{Fire, IdError, RequestId, RunId, Shard};

use crate::exit::{CliError, ExitKind};
use crate::key::digest;

/// A new request id of twelve letters and digits.
///
/// # Errors
/// The host has no source of randomness.
pub(crate) fn fresh() -> Result<String, CliError> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bytes: [u8; 12] = chance()?;
    Ok(bytes.iter().map(|b| char::from(LETTERS[usize::from(b % 32)])).collect())
}

/// The id of a restart request of this run: always the same, and the same for all shards of a fire.
///
/// # Errors
/// The text is not valid as a request id, which cannot happen.
pub(crate) fn named_after(run: &RunId) -> Result<RequestId, IdError> {
    let fire = RunId { shard: Shard(0), ..run.clone() };
    let digest = digest(fire.to_string().as_bytes());
    format!("{RESTART}{}", digest.get(..20).unwrap_or(&digest)).parse()
}

/// What the ids of restart requests begin with.
const RESTART: &str = "again-";

/// Whether a run was requested to do another one again.
pub(crate) fn is_restart(run: &RunId) -> bool {
    matches!(&run.fire, Fire::Asked(id) if id.as_str().starts_with(RESTART))
}

/// Random bytes.
///
/// # Errors
/// The host has no source of randomness.
pub(crate) fn chance<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")
        .and_then(|mut chance| chance.read_exact(&mut bytes))
        .map_err(|e| CliError::new(ExitKind::Failed, format!("/dev/urandom cannot be read: {e}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_asked_for_again_under_one_name_for_each_fire() {
        let named = |run: &str| named_after(&run.parse().expect("a run")).expect("an id").to_string();
        assert_eq!(named("a:1000:0"), "again-6dd52466c71a5aec3a35");
        assert_eq!(named("a:1000:0"), named("a:1000:7"));
        let others = ["a:1000:0", "a:1001:0", "b:1000:0", "a:ask-x:0"].map(named);
        assert_eq!(std::collections::BTreeSet::from(others).len(), 4);
        assert!(is_restart(&format!("a:ask-{}:0", named("a:1000:0")).parse().expect("a run")));
        assert!(!is_restart(&"a:ask-x:0".parse().expect("a run")));
    }

    #[test]
    fn fresh_ids_are_request_ids_and_differ() {
        let (one, other) = (fresh().expect("chance"), fresh().expect("chance"));
        assert_ne!(one, other);
        assert!(one.parse::<RequestId>().is_ok(), "{one}");
    }
}
