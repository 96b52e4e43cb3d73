//! What the entry of the cluster itself holds: whose registry this is, in which layout, and whether nodes may join here.
//!
//! This entry is read by every program, also by one that is older or newer than whoever wrote it: what its fields mean never
//! changes.

use alloc::string::String;
use core::cmp::Ordering;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::registry::Revision;
use crate::time::Wall;

/// The newest layout of the tree that this program knows.
pub const LAYOUT: u32 = 2;

/// The layouts of the tree that a program knows: it can read and write in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layouts {
    /// The first of them.
    pub oldest: u32,
    /// The last of them.
    pub newest: u32,
}

impl Layouts {
    /// Those of this program.
    pub const OWN: Self = Self { oldest: LAYOUT, newest: LAYOUT };

    /// Those of a program that says nothing of them.
    #[must_use]
    pub fn first_layout() -> Self {
        Self { oldest: 1, newest: 1 }
    }

    /// Whether this layout is one of them.
    #[must_use]
    pub fn knows(self, layout: u32) -> bool {
        (self.oldest..=self.newest).contains(&layout)
    }

    /// This layout, if it is none of them.
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
    /// Which.
    pub layout: u32,
    /// Those that it knows.
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

/// Whose registry this is, under `keys::cluster`. Every join is guarded by it as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// The cluster's id; never the same for two clusters.
    pub id: String,
    /// The layout in which all entries are written.
    pub layout: u32,
    /// A layout that is to be the next one. Whoever joins and does not know it takes this back with the same commit, so as long
    /// as it stands only those who know it have joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u32>,
    /// Rises whenever that changes, so that no value comes twice.
    #[serde(default, skip_serializing_if = "is_unchanged")]
    pub seq: u64,
    /// What its moves and restores add to the engine's own generation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u16,
    /// Why nobody may join here; `None` as a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shut: Option<JoinRefusal>,
    /// From what its books were put in here, in the words of [`Shut::Filling`]; `None` where they began here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<String>,
    /// The engine's own generation, as whoever joined last has seen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<u16>,
    /// The registry may have forgotten what was done until then. What was due by this moment may have run, though no entry
    /// says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Wall>,
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
        let (wanted, shut, filled, engine, lost) = (None, None, None, None, None);
        Self { id, layout: LAYOUT, wanted, seq: 0, generation: 0, shut, filled, engine, lost }
    }

    /// The same with another layout wanted, or none any more.
    #[must_use]
    pub fn wanting(&self, wanted: Option<u32>) -> Self {
        Self { wanted, seq: self.seq + 1, ..self.clone() }
    }

    /// The same in this layout, which nobody need want any more.
    #[must_use]
    pub fn raised(&self, layout: u32) -> Self {
        Self { layout, ..self.wanting(None) }
    }

    /// The same as it is on an engine of this generation, found at this moment; `None` where that was known. An engine of
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

    /// Whether a registry that stands so, on an engine of this generation, has less than a node saw there before: it went back in
    /// time while nobody was there, and nobody has seen to that yet.
    #[must_use]
    pub fn is_behind(&self, seen: &RegistryBookmark, engine: u16, stands: RegistryPosition) -> bool {
        match self.generation_on(engine).cmp(&seen.generation) {
            Ordering::Less => true,
            Ordering::Equal => engine != seen.engine || stands.is_before(seen),
            Ordering::Greater => false,
        }
    }

    /// The same in a generation above the one that was seen, found at this moment to have gone back until now.
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

    /// The generation that has begun for nodes of `ours`, if that is another one.
    #[must_use]
    pub fn outdates(&self, ours: u16) -> Option<u16> {
        let begun = self.generation_on(self.engine?);
        (begun > ours).then_some(begun)
    }

    /// The generation that tokens carry, with the engine's own.
    #[must_use]
    pub fn generation_on(&self, engine: u16) -> u16 {
        self.generation.saturating_add(engine)
    }
}

/// How a node saw a registry last. It remembers that itself, for a registry that went back in time does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryBookmark {
    /// The engine's own generation.
    pub engine: u16,
    /// The one that tokens carried.
    pub generation: u16,
    /// How far the order had gone.
    pub revision: Revision,
    /// The key of an entry that the node had written, one that stays for ever, and when that was. The order alone may be
    /// carried on by others: leases that end, other users of the engine, its own elections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<(String, Revision)>,
}

/// How far a registry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryPosition {
    /// How far the order has gone.
    pub revision: Revision,
    /// When the entry that a node remembers was last written; `None` where it is not there, or where none is remembered.
    pub entry: Option<Revision>,
}

impl RegistryPosition {
    /// Whether it has come less far than was seen. An entry that is not there says nothing: somebody may have deleted it by hand.
    fn is_before(self, seen: &RegistryBookmark) -> bool {
        let written = self.entry.zip(seen.entry.as_ref());
        self.revision < seen.revision || written.is_some_and(|(found, (_, seen))| found < *seen)
    }
}

/// Why nobody may join a cluster in this registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinRefusal {
    /// The cluster's books are elsewhere now.
    Moved {
        /// Where, without a password.
        to: String,
        /// Since when.
        at: Wall,
    },
    /// Books are being put in here, and not all of them are there yet.
    Filling {
        /// What is being put in; whoever puts in the same goes on with it.
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
