//! Plans a transaction: turns it and the observed state of its keys into the operations of one atomic `multi`.
//!
//! The `multi` itself checks everything that was observed again, by versions. Versions do not cover two things: a node
//! that was deleted and created again restarts at 0, so a plan that relies on a version also checks that no entry was
//! deleted meanwhile (`deaths`); and that a node is absent, which is checked by creating and deleting it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Guard, LeaseId, Revision, Txn, Value, Write};
use zookeeper_client::Stat;

use super::paths::{ZnodePaths, data, keys_to_data, revision};

/// The observed version of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZnodeVersion {
    pub(super) version: i32,
    pub(super) revision: Revision,
    pub(super) born: Revision,
}

impl ZnodeVersion {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { version: stat.version, revision: revision(stat.mzxid), born: revision(stat.czxid) }
    }
}

/// The observed note of a living lease: the keys in it, and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseNote {
    pub(super) keys: Vec<Key>,
    pub(super) version: i32,
}

/// The observed state of everything that some transactions name, at a moment with this count of deaths, or more.
#[derive(Clone, Debug, Default)]
pub(super) struct ZnodeView {
    pub(super) deaths: i32,
    /// Absent ones are not included.
    pub(super) entries: BTreeMap<Key, ZnodeVersion>,
    /// Ended ones are not included.
    pub(super) leases: BTreeMap<LeaseId, LeaseNote>,
}

impl ZnodeView {
    /// The state of entries that were read later than `before`, for guards: ended leases stay ended. It has no
    /// versions, so it cannot be used for plans.
    pub(super) fn from_changes(found: &[Change], before: &Self) -> Self {
        let entries = found.iter().filter_map(|change| {
            let entry = change.entry.as_ref()?;
            let seen = ZnodeVersion { version: ANY, revision: entry.revision, born: entry.born };
            Some((change.key.clone(), seen))
        });
        Self { deaths: before.deaths, entries: entries.collect(), leases: before.leases.clone() }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MultiOp {
    /// Checks that a node exists; with a version, that it has this one.
    Check(String, i32),
    /// Creates a node.
    Create(String, Vec<u8>),
    /// Writes a node of this version.
    Set(String, Vec<u8>, i32),
    /// Deletes a node of this version.
    Delete(String, i32),
    /// Creates the next node of the news.
    Record(String, Vec<u8>),
}

impl MultiOp {
    /// Whether it succeeds only if this node has a certain version.
    pub(super) fn relies_on(&self, node: &str) -> bool {
        match self {
            Self::Check(path, version) | Self::Set(path, _, version) => path == node && *version != ANY,
            Self::Create(..) | Self::Delete(..) | Self::Record(..) => false,
        }
    }

    /// The node that it deletes.
    pub(super) fn deleted(&self) -> Option<&str> {
        match self {
            Self::Delete(path, _) => Some(path),
            _ => None,
        }
    }
}

/// The plan of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MultiPlan {
    ops: Vec<MultiOp>,
    /// Whether it relies on a version.
    versioned: bool,
    /// Whether it deletes an entry.
    pub(super) deletes: bool,
    /// Whether it creates or deletes a node among the cold entries, even if it is as before afterwards.
    touches_cold: bool,
    /// The cold entries that it changes.
    news: Vec<Key>,
}

/// Any version.
pub(super) const ANY: i32 = -1;

/// The net effect of a transaction's writes on one key.
struct NetWrite<'t> {
    value: Option<(&'t Value, Option<LeaseId>)>,
    /// Whether it is deleted on the way.
    recreated: bool,
}

/// The operations of a transaction, if the observed state satisfies its guards.
pub(super) fn plan_txn(tree: &ZnodePaths, txn: &Txn, view: &ZnodeView) -> Option<MultiPlan> {
    if !holds(txn, view) {
        return None;
    }
    let effects = net_writes(txn);
    let mut draft =
        PlanBuilder { paths: tree, ops: Vec::new(), versioned: false, deletes: false, touches_cold: false };
    let guarded: BTreeSet<_> = txn.guards.iter().filter_map(open).chain(owners(txn)).collect();
    draft.ops.extend(guarded.into_iter().map(|lease| MultiOp::Check(tree.lease(lease), ANY)));
    let only_guarded: BTreeSet<_> = txn.guards.iter().filter_map(Guard::key).collect();
    for key in only_guarded.into_iter().filter(|key| !effects.contains_key(key)) {
        draft.guard(key, view.entries.get(key));
    }
    let mut news = Vec::new();
    for (key, effect) in &effects {
        if draft.write(key, effect, view.entries.get(*key)) && key.is_cold() {
            news.push((*key).clone());
        }
    }
    draft.record_owners(&effects, view);
    Some(MultiPlan {
        ops: draft.ops,
        versioned: draft.versioned,
        deletes: draft.deletes,
        touches_cold: draft.touches_cold,
        news,
    })
}

/// Whether the observed state satisfies a transaction's guards.
pub(super) fn holds(txn: &Txn, view: &ZnodeView) -> bool {
    let alive = |lease: &LeaseId| view.leases.contains_key(lease);
    let holds = |guard: &Guard| match guard {
        Guard::Absent(key) => !view.entries.contains_key(key),
        Guard::Present(key) => view.entries.contains_key(key),
        Guard::At(key, at) => view.entries.get(key).is_some_and(|seen| seen.revision == *at),
        Guard::Born(key, born) => view.entries.get(key).is_some_and(|seen| seen.born == *born),
        Guard::Open(lease) => alive(lease),
    };
    // An entry cannot be owned by an ended lease, so the transaction is refused as if by a guard.
    txn.guards.iter().all(holds) && owners(txn).iter().all(alive)
}

/// Merges the operations of independent transactions. The first of them writes the order, whose
/// revision is that of all. `deaths` is the version of the count of deaths before them.
pub(super) fn merge_plans(tree: &ZnodePaths, plans: Vec<MultiPlan>, deaths: i32) -> Vec<MultiOp> {
    let (kills, versioned) = (plans.iter().any(|plan| plan.deletes), plans.iter().any(|plan| plan.versioned));
    let mut ops = vec![MultiOp::Set(tree.order(), vec![], ANY)];
    let (mut checked, mut news) = (BTreeSet::new(), Vec::new());
    let stirs = plans.iter().any(|plan| plan.touches_cold);
    for plan in plans {
        // A node guards on its own entry in every request.
        ops.extend(plan.ops.into_iter().filter(|op| match op {
            MultiOp::Check(path, version) => checked.insert((path.clone(), *version)),
            _ => true,
        }));
        news.extend(plan.news);
    }
    match (kills, versioned) {
        (true, _) => ops.push(MultiOp::Set(tree.deaths(), vec![], deaths)),
        (false, true) => ops.push(MultiOp::Check(tree.deaths(), deaths)),
        (false, false) => {}
    }
    // News without keys show that a transaction changed the folder.
    if stirs || !news.is_empty() {
        ops.push(MultiOp::Record(format!("{}/n-", tree.news()), keys_to_data(&news)));
    }
    ops
}

fn open(guard: &Guard) -> Option<LeaseId> {
    match guard {
        Guard::Open(lease) => Some(*lease),
        _ => None,
    }
}

/// The leases that own a transaction's entries.
pub(super) fn owners(txn: &Txn) -> BTreeSet<LeaseId> {
    let owner = |write: &Write| match write {
        Write::Put { owner, .. } => *owner,
        Write::Delete { .. } => None,
    };
    txn.writes.iter().filter_map(owner).collect()
}

/// All leases that a transaction names.
pub(super) fn leases(txn: &Txn) -> BTreeSet<LeaseId> {
    txn.guards.iter().filter_map(open).chain(owners(txn)).collect()
}

fn net_writes(txn: &Txn) -> BTreeMap<&Key, NetWrite<'_>> {
    let mut effects = BTreeMap::new();
    for write in &txn.writes {
        let effect = effects.entry(write.key()).or_insert(NetWrite { value: None, recreated: false });
        match write {
            Write::Put { value, owner, .. } => effect.value = Some((value, *owner)),
            Write::Delete { .. } => (effect.value, effect.recreated) = (None, true),
        }
    }
    effects
}

struct PlanBuilder<'p> {
    paths: &'p ZnodePaths,
    ops: Vec<MultiOp>,
    /// Whether it relies on a version.
    versioned: bool,
    deletes: bool,
    touches_cold: bool,
}

impl PlanBuilder<'_> {
    fn guard(&mut self, key: &Key, seen: Option<&ZnodeVersion>) {
        match seen {
            Some(seen) => {
                self.versioned = true;
                self.ops.push(MultiOp::Check(self.paths.entry(key), seen.version));
            }
            None => self.absent(key),
        }
    }

    fn absent(&mut self, key: &Key) {
        self.touches_cold |= key.is_cold();
        let path = self.paths.entry(key);
        self.ops.extend([MultiOp::Create(path.clone(), vec![]), MultiOp::Delete(path, ANY)]);
    }

    /// Adds the operations of one key; returns whether anything changes.
    fn write(&mut self, key: &Key, effect: &NetWrite<'_>, seen: Option<&ZnodeVersion>) -> bool {
        let path = self.paths.entry(key);
        let bytes = effect.value.map(|(value, owner)| data(value, owner));
        match (seen, bytes) {
            (None, None) => {
                self.absent(key);
                return false;
            }
            (None, Some(bytes)) => self.ops.push(MultiOp::Create(path, bytes)),
            (Some(seen), Some(bytes)) if !effect.recreated => {
                self.versioned = true;
                self.ops.push(MultiOp::Set(path, bytes, seen.version));
            }
            (Some(seen), bytes) => {
                self.deletes = true;
                self.ops.push(MultiOp::Delete(path.clone(), seen.version));
                self.ops.extend(bytes.map(|bytes| MultiOp::Create(path, bytes)));
            }
        }
        true
    }

    /// Notes for each lease the entries that it owns from now on. A recreated entry is noted again even if it is there
    /// already: a process that ends the lease meanwhile saw nothing to delete, and must see that the note has changed.
    fn record_owners(&mut self, effects: &BTreeMap<&Key, NetWrite<'_>>, view: &ZnodeView) {
        for (lease, noted) in &view.leases {
            let owned =
                effects.iter().filter(|(_, effect)| effect.value.is_some_and(|(_, by)| by == Some(*lease)));
            let owned: Vec<_> = owned.map(|(key, _)| *key).collect();
            let made = owned.iter().any(|key| !view.entries.contains_key(*key));
            let new: Vec<_> = owned.into_iter().filter(|key| !noted.keys.contains(key)).collect();
            if made || !new.is_empty() {
                let keys = noted.keys.iter().chain(new);
                self.ops.push(MultiOp::Set(self.paths.owned(*lease), keys_to_data(keys), noted.version));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This distinguishes an operator's change from the engine's own.
    #[test]
    fn whatever_makes_or_deletes_a_node_among_the_cold_entries_is_in_the_news() {
        let (tree, cold, hot) =
            (ZnodePaths::new("ns"), Key::from_stored("node/a@1"), Key::from_stored("run/j/a@1"));
        assert!(cold.is_cold() && !hot.is_cold());
        let news = |guard: &Key, write: &Key| {
            let write = Write::Put { key: write.clone(), value: Value::from([]), owner: None };
            let txn = Txn { guards: vec![Guard::Absent(guard.clone())], writes: vec![write] };
            let plan = plan_txn(&tree, &txn, &ZnodeView::default()).unwrap_or_else(|| panic!("it holds"));
            let ops = merge_plans(&tree, vec![plan], 0);
            ops.into_iter().find_map(|op| if let MultiOp::Record(_, keys) = op { Some(keys) } else { None })
        };
        assert_eq!(news(&hot, &hot), None);
        assert_eq!(news(&hot, &cold), Some(keys_to_data([&cold])));
        assert_eq!(news(&cold, &hot), Some(vec![]));
    }

    #[test]
    fn what_is_made_anew_is_noted_anew() {
        let (tree, key, lease) = (ZnodePaths::new("ns"), Key::from_stored("node/a@1"), LeaseId(7));
        let write = Write::Put { key: key.clone(), value: Value::from([]), owner: Some(lease) };
        let txn = Txn { guards: vec![], writes: vec![write] };
        let note = tree.owned(lease);
        let notes = |keys: Vec<Key>, entry: Option<ZnodeVersion>| {
            let leases = BTreeMap::from([(lease, LeaseNote { keys, version: 3 })]);
            let view = ZnodeView {
                deaths: 0,
                entries: entry.map(|it| (key.clone(), it)).into_iter().collect(),
                leases,
            };
            let ops = plan_txn(&tree, &txn, &view).unwrap_or_else(|| panic!("it holds")).ops;
            ops.iter().filter(|op| op.relies_on(&note)).count()
        };
        let there = ZnodeVersion { version: 0, revision: Revision(1), born: Revision(1) };
        assert_eq!(notes(vec![], None), 1);
        assert_eq!(
            notes(vec![key.clone()], Some(there)),
            0,
            "whoever ends the lease deletes this version of it"
        );
        assert_eq!(notes(vec![key.clone()], None), 1, "whoever ends the lease has not seen it");
    }
}
