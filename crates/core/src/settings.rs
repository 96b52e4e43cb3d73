//! The settings of a node at its start.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::ids::NodeName;
use crate::labels::Labels;
use crate::record::Layouts;
use crate::registry::DurabilityClass;
use crate::time::Millis;

/// The settings of a node at its start. They do not change while the node lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Its name.
    pub name: NodeName,
    /// The incarnation of this node's last life, when its data folder proves that life over; evicted at once (law 8).
    pub predecessor: Option<u64>,
    /// The address of its HTTP interface, for people and peers.
    pub address: String,
    /// Its installation folder; a node with another one than the others is warned about (S0-04).
    pub home: String,
    /// The program's version.
    pub version: String,
    /// The layouts of the tree that the program knows.
    pub knows: Layouts,
    /// The term of its lease (L).
    pub ttl: Millis,
    /// How many failures its quota makes up for (n), at least 1.
    pub tolerance: u32,
    /// The number of owned jobs above which it raises the alarm (M).
    pub alarm: u32,
    /// How many runs it executes at once.
    pub slots: u32,
    /// Its labels, which node selectors match.
    pub labels: Labels,
    /// The limits of whole runs that it cannot enforce, and why; empty where it enforces all of them.
    pub lacking: String,
    /// How free jobs are spread over nodes, where the cluster's settings do not say `first_come`.
    pub spread: Spread,
    /// Which quota it uses.
    pub quota: Quota,
    /// How long before its due moment a fire is claimed at most, and before anything is known of the registry.
    pub lead_max: Millis,
    /// How long before its due moment a fire is claimed at least. Between the two it follows the time that commits take
    /// ([`ClaimLead`](crate::local::ClaimLead)).
    pub lead_min: Millis,
    /// How much its clock may differ from the registry's before it claims no fire (law 6).
    pub max_clock_skew: Millis,
    /// How often it reads everything again even if no change is missing.
    pub rescan: Millis,
    /// How much before its term the engine may end a lease.
    pub early: Millis,
    /// The worst time in which a leader without a deadline notices that it lost its lease, by the engine (T1, S4-35).
    pub notice: Millis,
    /// The most guards and writes that the engine takes in one transaction.
    pub operations_max: usize,
    /// The durability class of the registry's claims.
    pub class: DurabilityClass,
    /// The registry's generation, for tokens.
    pub generation: u16,
}

/// How free jobs are spread over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Above its fair share ⌈K/S⌉ a node lets others go first for a second, and releases jobs while others have fewer.
    #[default]
    Even,
    /// First come, first served, up to the quota: seed 001 to the letter.
    FirstCome,
}

/// The quota that a node uses (S1-21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Quota {
    /// The quota computed from its view.
    #[default]
    Now,
    /// The larger of that one and the one of the last listing: lost changes never make it too small, late changes
    /// may leave it too large for as long as a listing lasts.
    Larger,
}
