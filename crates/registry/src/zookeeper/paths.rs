//! The nodes of one namespace, and their data.
//!
//! ```text
//! /NAMESPACE            the layout and the generation
//!   cold/KEY  hot/KEY   one node an entry: its owner in eight bytes, then its value
//!   lease/N             exists as long as lease N lives: an ephemeral node of a session of its own
//!   owned/N             the keys of entries that lease N may own
//!   news/n-…            one node a transaction that changed cold entries: their keys. So each creation or deletion
//!                       in `cold` is at the moment of one of these, unless another program did it
//!   order               written by each transaction: its revision is the registry's
//!   deaths              written by each deletion: for versions restart with a node that is created again
//! ```

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Entry, LeaseId, Revision};
use zookeeper_client::Stat;

/// The paths of the nodes.
#[derive(Clone, Debug)]
pub(super) struct ZnodePaths {
    root: String,
}

/// How many bytes precede an entry's value.
const HEAD: usize = 8;

impl ZnodePaths {
    pub(super) fn new(namespace: &str) -> Self {
        Self { root: format!("/{namespace}") }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The nodes of a new namespace, parents first.
    pub(super) fn folders(&self) -> [String; 8] {
        ["", "/cold", "/hot", "/lease", "/owned", "/news", "/order", "/deaths"]
            .map(|name| format!("{}{name}", self.root))
    }

    pub(super) fn cold(&self) -> String {
        format!("{}/cold", self.root)
    }

    /// A node among the cold entries that is no entry.
    pub(super) fn probe(&self) -> String {
        format!("{}/cold/%probe", self.root)
    }

    pub(super) fn leases(&self) -> String {
        format!("{}/lease", self.root)
    }

    pub(super) fn all_owned(&self) -> String {
        format!("{}/owned", self.root)
    }

    pub(super) fn news(&self) -> String {
        format!("{}/news", self.root)
    }

    pub(super) fn order(&self) -> String {
        format!("{}/order", self.root)
    }

    pub(super) fn deaths(&self) -> String {
        format!("{}/deaths", self.root)
    }

    pub(super) fn entry(&self, key: &Key) -> String {
        let folder = if key.is_cold() { "cold" } else { "hot" };
        format!("{}/{folder}/{}", self.root, name(key))
    }

    pub(super) fn lease(&self, lease: LeaseId) -> String {
        format!("{}/lease/{}", self.root, lease.0)
    }

    pub(super) fn owned(&self, lease: LeaseId) -> String {
        format!("{}/owned/{}", self.root, lease.0)
    }
}

/// A key as a node's name. A slash would be another node, so it becomes a bar.
pub(super) fn name(key: &Key) -> String {
    let mut name = String::with_capacity(key.as_str().len());
    for byte in key.as_str().bytes() {
        match byte {
            b'/' => name.push('|'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'@' | b'~' | b'+' | b'=' | b':' => {
                name.push(char::from(byte));
            }
            b'.' if key.as_str().len() > 2 => name.push('.'),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    // A node's name must not be empty.
    if name.is_empty() { "%".into() } else { name }
}

/// The key of a node's name; `None` when the name is not the engine's.
pub(super) fn key(name: &str) -> Option<Key> {
    if name == "%" {
        return Some(Key::from_stored(String::new()));
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'|' => b'/',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().map(Key::from_stored)
}

/// Several keys as one node's data.
pub(super) fn keys_to_data<'k>(keys: impl IntoIterator<Item = &'k Key>) -> Vec<u8> {
    keys.into_iter().map(name).collect::<Vec<_>>().join("\n").into_bytes()
}

/// The keys of a node's data. Foreign ones are left out.
pub(super) fn data_to_keys(data: &[u8]) -> Vec<Key> {
    let names = std::str::from_utf8(data).unwrap_or_default().split('\n');
    names.filter(|name| !name.is_empty()).filter_map(key).collect()
}

/// An entry's data.
pub(super) fn data(value: &[u8], owner: Option<LeaseId>) -> Vec<u8> {
    let owner = owner.map_or(0, |lease| lease.0);
    [&owner.to_be_bytes(), value].concat()
}

/// An entry from its node; `None` when that is not the engine's.
pub(super) fn entry(data: &[u8], stat: &Stat) -> Option<Entry> {
    let (owner, value) = data.split_first_chunk::<HEAD>()?;
    let owner = u64::from_be_bytes(*owner);
    Some(Entry {
        value: value.into(),
        revision: revision(stat.mzxid),
        born: revision(stat.czxid),
        owner: (owner > 0).then_some(LeaseId(owner)),
    })
}

/// The revision of a zxid: ZooKeeper numbers all that it does in one order.
pub(super) fn revision(zxid: i64) -> Revision {
    Revision(zxid.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_name_of_its_own_and_comes_back() {
        let keys = [
            "", ".", "..", "...", "a", "A", "a/b", "a//b", "/", "a|b", "a%7Cb", "%", "%%", "ä", "日本",
            "a\nb",
        ];
        let mut names: Vec<_> = keys.iter().map(|text| name(&Key::from_stored(*text))).collect();
        for (text, name) in keys.iter().zip(&names) {
            assert_eq!(key(name).as_ref().map(Key::as_str), Some(*text), "{name}");
            assert!(!name.contains('/') && name != "." && name != "..");
        }
        assert_eq!(key("%probe").or(key("%strange")), None, "these are no keys");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), keys.len());
    }

    #[test]
    fn many_keys_are_one_text() {
        let keys: Vec<_> = ["a\nb", "", "x/y"].map(Key::from_stored).to_vec();
        assert_eq!(data_to_keys(&keys_to_data(&keys)), keys);
        assert_eq!(data_to_keys(b""), vec![]);
    }
}
