//! The cache of entry versions, so that a transaction need not first read what this process saw or wrote last.
//!
//! It alone decides nothing: every request checks the versions, and that no entry was deleted since they were
//! cached. So an outdated version costs a try, and never causes a refusal.

use std::collections::BTreeMap;

use super::plan::ZnodeVersion;

/// How many entries are cached; then all are dropped. A node with a hundred thousand jobs writes two of each.
const MOST: usize = 200_000;

/// Entry versions by the paths of their nodes.
#[derive(Debug, Default)]
pub(super) struct EntryCache {
    /// The count of deaths when the entries were seen, or less: never more, for then another death would not be
    /// noticed. Versions restart with a node that is created again, so those from before another death are worthless.
    pub(super) deaths: i32,
    entries: BTreeMap<String, ZnodeVersion>,
}

impl EntryCache {
    pub(super) fn get(&self, path: &str) -> Option<ZnodeVersion> {
        self.entries.get(path).copied()
    }

    /// Caches what was seen at a moment with this count of deaths.
    pub(super) fn insert(&mut self, deaths: i32, seen: impl Iterator<Item = (String, ZnodeVersion)>) {
        if !self.entries.is_empty() && deaths.wrapping_sub(self.deaths) < 0 {
            return;
        }
        if self.deaths != deaths || self.entries.len() > MOST {
            self.clear();
            self.deaths = deaths;
        }
        for (path, seen) in seen {
            let known = self.entries.entry(path).or_insert(seen);
            if known.revision < seen.revision {
                *known = seen;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::registry::Revision;

    use super::*;

    fn seen(version: i32, at: u64) -> ZnodeVersion {
        ZnodeVersion { version, revision: Revision(at), born: Revision(1) }
    }

    fn insert_one(memory: &mut EntryCache, deaths: i32, version: i32, at: u64) {
        memory.insert(deaths, [("a".to_owned(), seen(version, at))].into_iter());
    }

    #[test]
    fn an_answer_that_comes_late_takes_no_later_one_away() {
        let mut memory = EntryCache::default();
        insert_one(&mut memory, 0, 5, 50);
        insert_one(&mut memory, 0, 4, 40);
        assert_eq!(memory.get("a"), Some(seen(5, 50)));
        assert_eq!(memory.get("b"), None);
    }

    /// The older version may be that of another node by now.
    #[test]
    fn what_was_seen_before_a_death_is_forgotten() {
        let mut memory = EntryCache::default();
        insert_one(&mut memory, 0, 5, 50);
        memory.insert(1, [("b".to_owned(), seen(0, 60))].into_iter());
        assert_eq!((memory.get("a"), memory.get("b"), memory.deaths), (None, Some(seen(0, 60)), 1));
        insert_one(&mut memory, 0, 6, 55);
        assert_eq!((memory.get("a"), memory.deaths), (None, 1), "an answer of before the death");
    }

    #[test]
    fn who_found_the_memory_wrong_begins_anew_at_any_number() {
        let mut memory = EntryCache::default();
        insert_one(&mut memory, 7, 5, 50);
        memory.clear();
        insert_one(&mut memory, 3, 1, 20);
        assert_eq!((memory.get("a"), memory.deaths), (Some(seen(1, 20)), 3));
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut memory = EntryCache::default();
        memory.insert(0, (0..=MOST).map(|nth| (nth.to_string(), seen(0, 1))));
        insert_one(&mut memory, 0, 1, 2);
        assert_eq!((memory.get("0"), memory.get("a")), (None, Some(seen(1, 2))));
    }
}
