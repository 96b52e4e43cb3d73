//! Which events open an incident at a service for people on call, and which close it.

use sha2::{Digest, Sha256};

use super::message::Message;

/// The most bytes of an incident's key: PagerDuty takes 255 characters, Opsgenie 512.
const KEY_MAX: usize = 255;
/// The hexadecimal digits of a SHA-256.
const DIGEST_LEN: usize = 64;

/// Kinds of events that open one incident, and the kinds that close it. Every other kind opens an incident of its own,
/// which a person closes.
const PAIRS: &[(&[&str], &[&str])] = &[
    (&["job.failure", "job.lost"], &["job.recovery"]),
    (&["node.offline"], &["node.online"]),
    (&["disconnected"], &["connected"]),
    (&["lease_lost"], &["joined"]),
];

/// What a message does to an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Incident {
    /// The key, the same for the events that open it and those that close it. It needs no escaping in a URL.
    pub(super) key: String,
    /// Whether it is opened, or closed.
    pub(super) is_open: bool,
}

impl Incident {
    pub(super) fn of(message: &Message) -> Self {
        let kind = message.kind;
        let pair = PAIRS.iter().find(|(opens, closes)| opens.contains(&kind) || closes.contains(&kind));
        let first = pair.and_then(|(opens, _)| opens.first());
        let is_open = pair.is_none_or(|(opens, _)| opens.contains(&kind));
        Self { key: key(first.unwrap_or(&kind), &message.subject), is_open }
    }
}

/// The kinds whose incident this kind closes, or that close the incident which it opens.
pub(super) fn opposites(kind: &str) -> &'static [&'static str] {
    let sides = PAIRS.iter().flat_map(|(opens, closes)| [(opens, closes), (closes, opens)]);
    sides.into_iter().find(|(side, _)| side.contains(&kind)).map_or(&[], |(_, other)| other)
}

/// Bytes beyond letters, digits and `.`, `_`, `-` are written `~2F`, so that two subjects never have the same key, and it
/// may stand in the path of a URL. A long one ends with its digest.
fn key(kind: &str, subject: &str) -> String {
    let mut key = format!("evenkeel:{kind}:");
    for byte in subject.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            key.push(char::from(byte));
        } else {
            key.push_str(&format!("~{byte:02X}"));
        }
    }
    if key.len() <= KEY_MAX {
        return key;
    }
    let digest: String = Sha256::digest(&key).iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = key.get(..KEY_MAX - DIGEST_LEN - 1).unwrap_or_default();
    format!("{kept}~{digest}")
}

#[cfg(test)]
mod tests {
    use evenkeel_core::effect::find_event_kind;

    use super::*;

    #[test]
    fn every_kind_of_the_pairs_is_an_event_that_is_sent() {
        let kinds = PAIRS.iter().flat_map(|(opens, closes)| opens.iter().chain(closes.iter()));
        for kind in kinds {
            let found = find_event_kind(kind).unwrap();
            assert!(found.name == *kind && found.notified, "{kind}");
        }
        assert_eq!(opposites("job.recovery"), ["job.failure", "job.lost"]);
        assert_eq!(opposites("job.lost"), ["job.recovery"]);
        assert_eq!(opposites("alarm"), [""; 0]);
    }

    #[test]
    fn keys_are_safe_in_a_path_and_differ_when_subjects_do() {
        assert_eq!(key("job.failure", "team-a/report"), "evenkeel:job.failure:team-a~2Freport");
        assert_eq!(key("k", "a~2Fb"), "evenkeel:k:a~7E2Fb");
        let long = |end: &str| key("k", &format!("{}{end}", "é".repeat(200)));
        assert_eq!((long("a").len(), long("a") == long("b")), (KEY_MAX, false));
        let safe = |c: char| c.is_ascii_alphanumeric() || "._-~:".contains(c);
        assert!(long("a").chars().all(safe));
    }
}
