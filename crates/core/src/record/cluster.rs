//! What the entry of the cluster itself holds: whose registry this is, and whether nodes may join here.

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::time::Wall;

/// The layout of the tree that this program reads and writes.
pub const LAYOUT: u32 = 1;

/// Whose registry this is, under `keys::cluster`. Every join is guarded by it as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// The cluster's id; never the same for two clusters.
    pub id: String,
    /// The layout of the tree.
    pub layout: u32,
    /// What its moves and restores add to the engine's own generation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u16,
    /// Why nobody may join here; `None` as a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shut: Option<Shut>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u16) -> bool {
    *n == 0
}

impl ClusterRecord {
    /// The generation that tokens carry, with the engine's own.
    #[must_use]
    pub fn generation_on(&self, engine: u16) -> u16 {
        self.generation.saturating_add(engine)
    }
}

/// Why nobody may join a cluster in this registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shut {
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

impl fmt::Display for Shut {
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
