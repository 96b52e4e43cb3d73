//! The checker's track of what the registry and the calls between nodes say of nodes: beats, the leader, strikes.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::{Member, NodeName, Operation};
use evenkeel_core::record::{BeatRecord, ClusterSettings, OfflineRecord, ServingRecord, StrikeRecord};
use evenkeel_core::registry::Revision;

/// The checker's knowledge of nodes and their peers.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerTrack {
    pub(super) beats: BTreeMap<Operation, BeatRecord>,
    pub(super) serving: ServingRecord,
    /// When the leadership was won, in the world's time and the registry's.
    pub(super) won: (i64, Revision),
    /// Whether the leader has read everything since.
    pub(super) loaded: bool,
    pub(super) settings: ClusterSettings,
    pub(super) strikes: BTreeMap<(NodeName, NodeName), StrikeRecord>,
    pub(super) offline: BTreeMap<NodeName, OfflineRecord>,
    /// How often each node was marked offline, and how often that was reported.
    pub(super) turned: BTreeMap<NodeName, (u64, u64)>,
    /// Whether each node reached each other one in its latest call.
    pub(super) reached: BTreeMap<(NodeName, Member), bool>,
    /// Which members answered which node since they were last marked offline.
    pub(super) answered: BTreeSet<(NodeName, Member)>,
}
