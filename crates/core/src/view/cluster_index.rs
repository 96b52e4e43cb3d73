//! The entries of the cluster as a whole that a view knows.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::known_entry::KnownEntry;
use crate::ids::{JobName, NodeName, Operation, PrincipalName, SecretName};
use crate::keys::{self, Key};
use crate::principal::PrincipalKind;
use crate::record::{
    BeatRecord, ClusterRecord, ClusterSettings, CountRecord, LoadRecord, NotificationRecord, OfflineRecord,
    PrincipalRecord, SecretRecord, ServingRecord, StrikeRecord,
};
use crate::registry::Revision;

/// The entries of the cluster as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ClusterEntries {
    pub(super) loads: BTreeMap<NodeName, KnownEntry<LoadRecord>>,
    /// As of when they were last read.
    pub(super) loads_as_of: Revision,
    pub(super) counts: BTreeMap<(JobName, NodeName), KnownEntry<CountRecord>>,
    pub(super) beats: BTreeMap<Operation, KnownEntry<BeatRecord>>,
    pub(super) strikes: BTreeMap<(NodeName, NodeName), KnownEntry<StrikeRecord>>,
    pub(super) offline: BTreeMap<NodeName, KnownEntry<OfflineRecord>>,
    pub(super) serving: KnownEntry<ServingRecord>,
    pub(super) settings: KnownEntry<ClusterSettings>,
    pub(super) cluster: KnownEntry<ClusterRecord>,
    pub(super) notifications: BTreeMap<JobName, KnownEntry<NotificationRecord>>,
    pub(super) principals: BTreeMap<(PrincipalKind, PrincipalName), KnownEntry<PrincipalRecord>>,
    pub(super) secrets: BTreeMap<SecretName, KnownEntry<SecretRecord>>,
}

impl ClusterEntries {
    /// All known keys of cold entries, to find out which ones a listing lacks.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut all: Vec<Key> = self.counts.keys().map(|(job, node)| keys::count(node, job)).collect();
        all.extend(self.beats.keys().map(keys::beat));
        all.extend(self.strikes.keys().map(|(node, observer)| keys::strike(node, observer)));
        all.extend(self.offline.keys().map(keys::offline));
        all.extend(self.notifications.keys().map(keys::notifications));
        all.extend(self.principals.keys().map(|(kind, name)| keys::principal(*kind, name)));
        all.extend(self.secrets.keys().map(keys::secret));
        all.extend(self.serving.value.as_ref().map(|_| keys::serving()));
        all.extend(self.settings.value.as_ref().map(|_| keys::settings()));
        all.extend(self.cluster.value.as_ref().map(|_| keys::cluster()));
        all
    }
}
