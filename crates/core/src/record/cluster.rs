//! The cluster's own entry: whose registry this is, in which layout, and whether nodes may join.
//!
//! This entry is read by every program, also by one that is older or newer than its writer: the meaning of its
//! fields never changes.

use alloc::string::String;
use core::cmp::Ordering;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::registry::Revision;
use crate::time::Wall;

/// The newest layout of the tree that this program knows.
pub const LAYOUT: u32 = 2;

/// The layouts of the tree that a program knows: it can read and write each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layouts {
    /// The first of them.
    pub oldest: u32,
    /// The last of them.
    pub newest: u32,
}

impl Layouts {
    /// The layouts of this program.
    pub const OWN: Self = Self { oldest: LAYOUT, newest: LAYOUT };

    /// The layouts of a program that does not publish them.
    #[must_use]
    pub fn first_layout() -> Self {
        Self { oldest: 1, newest: 1 }
    }

    /// Whether the program knows this layout.
    #[must_use]
    pub fn knows(self, layout: u32) -> bool {
        (self.oldest..=self.newest).contains(&layout)
    }

    /// An error for this layout, if the program does not know it.
    #[must_use]
    pub fn lacks(self, layout: u32) -> Option<UnknownLayout> {
        (!self.knows(layout)).then_some(UnknownLayout { layout, knows: self })
    }
}

impl fmt::Display for Layouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

/// A layout that a program does not know, so it must not touch what is written in it. The text says the fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnknownLayout {
    /// The unknown layout.
    pub layout: u32,
    /// The layouts that the program knows.
    pub knows: Layouts,
}

impl fmt::Display for UnknownLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layout, knows } = self;
        write!(f, "it has layout {layout}, this program knows {knows}: ")?;
        match *layout > knows.newest {
            true => f.write_str("use a newer program"),
            false => f.write_str(
                "start the program before this one on all nodes, say `evenkeel cluster finalize-upgrade`, then use this one",
            ),
        }
    }
}

/// The identity and state of a cluster, under `keys::cluster`. Every join is guarded by this entry as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// The cluster's id; never the same for two clusters.
    pub id: String,
    /// The layout in which all entries are written.
    pub layout: u32,
    /// The layout that is to be the next one. A node that joins and does not know it takes this back in the same
    /// commit, so as long as it stands only nodes that know it have joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u32>,
    /// Rises with every change of `wanted`, so that no value comes twice.
    #[serde(default, skip_serializing_if = "is_unchanged")]
    pub seq: u64,
    /// How much the cluster's moves and restores add to the engine's own generation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u16,
    /// Why no node may join; `None` as a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shut: Option<JoinRefusal>,
    /// The source of a migration, in the words of [`JoinRefusal::Filling`]; `None` if the data began here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<String>,
    /// The engine's own generation, as the last member to join saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<u16>,
    /// The registry may have lost writes up to this moment. A fire that was due by then may have run, though no entry
    /// says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Wall>,
    /// The public name of the identity by which the cluster's nodes prove themselves to each other; `None` until the
    /// first node says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The fingerprint of the secret with which entries are sealed, since it replaced the first one: a node without it would
    /// seal entries that no other node believes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u16) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unchanged(n: &u64) -> bool {
    *n == 0
}

impl ClusterRecord {
    /// The entry of a new cluster, in the newest layout that this program knows.
    #[must_use]
    pub fn new(id: String) -> Self {
        Self {
            id,
            layout: LAYOUT,
            wanted: None,
            seq: 0,
            generation: 0,
            shut: None,
            filled: None,
            engine: None,
            lost: None,
            identity: None,
            secret: None,
        }
    }

    /// The same entry with another layout requested, or none.
    #[must_use]
    pub fn wanting(&self, wanted: Option<u32>) -> Self {
        Self { wanted, seq: self.seq + 1, ..self.clone() }
    }

    /// The same entry in this layout, with no layout requested.
    #[must_use]
    pub fn raised(&self, layout: u32) -> Self {
        Self { layout, ..self.wanting(None) }
    }

    /// The same entry on an engine of this generation, found at this moment; `None` where that was known. An engine of
    /// another generation than before may have gone back in time until now.
    #[must_use]
    pub fn found_on(&self, engine: u16, now: Wall) -> Option<Self> {
        let known = self.engine.is_none_or(|known| known == engine);
        let lost = if known { self.lost } else { self.lost.max(Some(now)) };
        (self.engine != Some(engine)).then(|| Self {
            engine: Some(engine),
            lost,
            seq: self.seq + 1,
            ..self.clone()
        })
    }

    /// The same entry with this identity; `None` where it has one.
    #[must_use]
    pub fn identified(&self, identity: &str) -> Option<Self> {
        let identity = Some(identity.into());
        self.identity.is_none().then(|| Self { identity, seq: self.seq + 1, ..self.clone() })
    }

    /// The same entry, sealed with the secret of this fingerprint; `None` where it is already.
    #[must_use]
    pub fn sealed_with(&self, secret: &str) -> Option<Self> {
        let new = Some(secret.into());
        (self.secret != new).then(|| Self { secret: new, seq: self.seq + 1, ..self.clone() })
    }

    /// Whether a registry at this position and generation has less than a node saw there before: it went back in time
    /// while no member was there, and no member has recorded that yet.
    #[must_use]
    pub fn is_behind(&self, seen: &RegistryBookmark, engine: u16, stands: RegistryPosition) -> bool {
        match self.generation_on(engine).cmp(&seen.generation) {
            Ordering::Less => true,
            Ordering::Equal => engine != seen.engine || stands.is_before(seen),
            Ordering::Greater => false,
        }
    }

    /// The same entry in a generation above the one that was seen, with a rollback that was found at this moment.
    #[must_use]
    pub fn gone_back(&self, seen: &RegistryBookmark, engine: u16, now: Wall) -> Self {
        let added = seen.generation.saturating_add(1).saturating_sub(engine);
        Self {
            generation: self.generation.max(added),
            engine: Some(engine),
            lost: self.lost.max(Some(now)),
            seq: self.seq + 1,
            ..self.clone()
        }
    }

    /// The generation that has begun for nodes of `ours`, if it is another one.
    #[must_use]
    pub fn outdates(&self, ours: u16) -> Option<u16> {
        let begun = self.generation_on(self.engine?);
        (begun > ours).then_some(begun)
    }

    /// The generation that tokens carry, which includes the engine's own.
    #[must_use]
    pub fn generation_on(&self, engine: u16) -> u16 {
        self.generation.saturating_add(engine)
    }
}

/// The position at which a node saw a registry last. The node keeps it, for a registry that went back does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryBookmark {
    /// The engine's own generation.
    pub engine: u16,
    /// The generation that tokens carried.
    pub generation: u16,
    /// The revision that the registry had reached.
    pub revision: Revision,
    /// The key of an entry that the node had written, one that is never deleted, and its revision. The order alone may
    /// be advanced by others: leases that end, other users of the engine, its own elections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<(String, Revision)>,
}

/// The position of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryPosition {
    /// The revision that it has reached.
    pub revision: Revision,
    /// The revision of the entry that a node remembers; `None` where it is absent, or where none is remembered.
    pub entry: Option<Revision>,
}

impl RegistryPosition {
    /// Whether it is behind the bookmark. An absent entry proves nothing: an operator may have deleted it.
    fn is_before(self, seen: &RegistryBookmark) -> bool {
        let written = self.entry.zip(seen.entry.as_ref());
        self.revision < seen.revision || written.is_some_and(|(found, (_, seen))| found < *seen)
    }
}

/// Why no node may join a cluster in this registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinRefusal {
    /// The registry data of the cluster was migrated elsewhere.
    Moved {
        /// The target, without a password.
        to: String,
        /// Since when.
        at: Wall,
    },
    /// A migration into this registry is under way and not complete.
    Filling {
        /// The source of the migration; only the same source may continue it.
        from: String,
    },
}

impl fmt::Display for JoinRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved { to, .. } => {
                write!(f, "this cluster was moved to {to}: start its nodes with that registry")
            }
            Self::Filling { from } => write!(
                f,
                "{from} is being put into this registry and not all of it is there: run that command once more, it goes \
                 on where it stopped"
            ),
        }
    }
}
