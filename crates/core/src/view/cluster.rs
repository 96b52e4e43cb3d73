//! The view of the cluster: loads, beats, strikes, offline marks, the serving leader, settings.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;
use serde::de::DeserializeOwned;

use super::known_entry::{EntryUpdate, newer};
use super::{KnownEntry, View, ViewChanges};
use crate::ids::{JobName, Member, Namespace, NodeName, Operation, PrincipalName, SecretName};
use crate::keys::ParsedKey;
use crate::load::Score;
use crate::principal::{Principal, PrincipalKind};
use crate::record::{
    BeatRecord, ClusterRecord, ClusterSettings, CountRecord, LoadRecord, NotificationRecord, OfflineRecord,
    PlannerKind, PrincipalRecord, ProcessedItems, SealedSecret, SecretRecord, ServingRecord, StrikeRecord,
    decode,
};
use crate::registry::{Change, Revision};

/// The operation of planning dispatched jobs (S0-26: create tasks).
pub const DISPATCH: &str = "dispatch";

impl View {
    /// The settings of the whole cluster.
    #[must_use]
    pub fn settings(&self) -> ClusterSettings {
        self.peers.settings.value.clone().unwrap_or_default()
    }

    /// The known settings entry.
    #[must_use]
    pub fn settings_entry(&self) -> &KnownEntry<ClusterSettings> {
        &self.peers.settings
    }

    /// The known entry of the cluster itself: whose registry this is, and whether nodes may join.
    #[must_use]
    pub fn cluster(&self) -> &KnownEntry<ClusterRecord> {
        &self.peers.cluster
    }

    /// Whether all members that joined before that entry was last written are known: the registry was listed since.
    #[must_use]
    pub fn knows_who_joined(&self) -> bool {
        self.listed && self.floor >= self.peers.cluster.revision
    }

    /// The member that has an operation, as far as is known.
    #[must_use]
    pub fn beat(&self, operation: &Operation) -> Option<&KnownEntry<BeatRecord>> {
        self.peers.beats.get(operation)
    }

    /// The entry of the operation of this name, if it was ever claimed.
    #[must_use]
    pub fn beat_known(&self, name: &str) -> Option<(&Operation, &KnownEntry<BeatRecord>)> {
        self.peers.beats.iter().find(|(operation, _)| operation.as_str() == name)
    }

    /// Every operation that was ever claimed, with its last holder.
    pub fn beats(&self) -> impl Iterator<Item = (&Operation, &BeatRecord)> {
        self.peers.beats.iter().filter_map(|(operation, known)| Some((operation, known.value.as_ref()?)))
    }

    /// The known entry of a job's notifications.
    #[must_use]
    pub fn notifications(&self, job: &JobName) -> Option<&KnownEntry<NotificationRecord>> {
        self.peers.notifications.get(job)
    }

    /// The known entry of a user or an API token.
    #[must_use]
    pub fn principal_entry(
        &self,
        kind: PrincipalKind,
        name: &PrincipalName,
    ) -> Option<&KnownEntry<PrincipalRecord>> {
        self.peers.principals.get(&(kind, name.clone()))
    }

    /// A user or an API token that exists.
    #[must_use]
    pub fn principal(&self, kind: PrincipalKind, name: &PrincipalName) -> Option<&Principal> {
        self.principal_entry(kind, name)?.value.as_ref()?.live()
    }

    /// All users or all API tokens, by name, each with its version.
    pub fn principals(&self, kind: PrincipalKind) -> impl Iterator<Item = (&Principal, u64)> {
        let known = self.peers.principals.iter().filter(move |((of, _), _)| *of == kind);
        let records = known.filter_map(|(_, entry)| entry.value.as_ref());
        records.filter_map(|record| Some((record.live()?, record.version())))
    }

    /// The users and API tokens whose entries have no valid seal.
    pub fn unsealed_principals(&self) -> impl Iterator<Item = (PrincipalKind, &PrincipalName)> {
        let unsealed = |known: &KnownEntry<PrincipalRecord>| {
            matches!(known.value, Some(PrincipalRecord::Unsealed { .. }))
        };
        self.peers
            .principals
            .iter()
            .filter(move |(_, known)| unsealed(known))
            .map(|((kind, name), _)| (*kind, name))
    }

    /// The known entry of a secret.
    #[must_use]
    pub fn secret_entry(&self, name: &SecretName) -> Option<&KnownEntry<SecretRecord>> {
        self.peers.secrets.get(name)
    }

    /// A secret that exists.
    #[must_use]
    pub fn secret(&self, name: &SecretName) -> Option<&SealedSecret> {
        self.secret_entry(name)?.value.as_ref()?.live()
    }

    /// All secrets by the names of their entries.
    pub fn secrets(&self) -> impl Iterator<Item = (&SecretName, &SealedSecret)> {
        self.peers.secrets.iter().filter_map(|(name, entry)| Some((name, entry.value.as_ref()?.live()?)))
    }

    /// How many secrets are in a namespace.
    #[must_use]
    pub fn secrets_in(&self, name: &Namespace) -> usize {
        self.secrets().filter(|(secret, _)| secret.namespace() == name.as_str()).count()
    }

    /// The serving leader's entry, as far as is known.
    #[must_use]
    pub fn serving(&self) -> &KnownEntry<ServingRecord> {
        &self.peers.serving
    }

    /// The living leader, serving or not.
    #[must_use]
    pub fn leader(&self) -> Option<&Member> {
        let leader = self.peers.serving.value.as_ref()?.leader.as_ref()?;
        self.member(leader).map(|_| leader)
    }

    /// The planner of dispatched jobs: the serving leader, or the holder of the last beat; `None` when there is none.
    #[must_use]
    pub fn planner(&self) -> Option<&Member> {
        let planner = match self.settings().planner {
            PlannerKind::Leader => {
                self.leader().filter(|_| self.serving().value.as_ref().is_some_and(|s| s.serves))
            }
            PlannerKind::Beat => self.beat_known(DISPATCH)?.1.value.as_ref().map(|beat| &beat.holder),
        };
        planner.filter(|planner| self.member(planner).is_some())
    }

    /// The known load entry of a node, whichever life wrote it. Loads are in no feed: a node knows its own, and those of
    /// the others as they were when it last read them.
    #[must_use]
    pub fn load_entry(&self, node: &NodeName) -> Option<&KnownEntry<LoadRecord>> {
        self.peers.loads.get(node)
    }

    /// Notes that the loads of the nodes were read as of this revision.
    pub(crate) fn note_loads_read(&mut self, as_of: Revision) {
        self.peers.loads_as_of = self.peers.loads_as_of.max(as_of);
    }

    /// As of when the loads of the nodes were last read in this life.
    #[must_use]
    pub fn loads_as_of(&self) -> Revision {
        self.peers.loads_as_of
    }

    /// Begins another life, which knows no load of others.
    pub(super) fn forget_loads_read(&mut self) {
        self.peers.loads_as_of = Revision::default();
    }

    /// The load of a member, as it was last read.
    #[must_use]
    pub fn load(&self, member: &Member) -> Option<&LoadRecord> {
        let record = self.peers.loads.get(&member.node)?.value.as_ref()?;
        (record.incarnation == member.incarnation).then_some(record)
    }

    /// The known entry in which a node counts the items of a job that it processed.
    #[must_use]
    pub fn count_entry(&self, job: &JobName, node: &NodeName) -> Option<&KnownEntry<CountRecord>> {
        self.peers.counts.get(&(job.clone(), node.clone()))
    }

    /// The items of a job that each node processed in its latest interval.
    pub fn counts(&self, job: &JobName) -> impl Iterator<Item = (&NodeName, &ProcessedItems)> {
        let first = (job.clone(), Member::least().node);
        let of_job = self.peers.counts.range(first..).take_while(move |((name, _), _)| name == job);
        of_job.filter_map(|((_, node), known)| Some((node, &known.value.as_ref()?.count)))
    }

    /// A member's load score; full while it is not known.
    #[must_use]
    pub fn score(&self, member: &Member) -> Score {
        self.load(member).map_or(Score::FULL, |load| load.score)
    }

    /// The known entry of one node's strikes against another.
    #[must_use]
    pub fn strike(&self, node: &NodeName, observer: &NodeName) -> Option<&KnownEntry<StrikeRecord>> {
        self.peers.strikes.get(&(node.clone(), observer.clone()))
    }

    /// The strikes that count against a member: those of this life, since it was last marked online (I44).
    pub fn strikes<'a>(
        &'a self,
        member: &'a Member,
    ) -> impl Iterator<Item = (&'a NodeName, &'a KnownEntry<StrikeRecord>, &'a StrikeRecord)> {
        let first = (member.node.clone(), Member::least().node);
        let forgiven = self.forgiven(member);
        let all = self.peers.strikes.range(first..).take_while(move |((node, _), _)| *node == member.node);
        all.filter_map(|((_, observer), known)| Some((observer, known, known.value.as_ref()?))).filter(
            move |(_, _, strike)| {
                strike.incarnation == member.incarnation
                    && strike.count > 0
                    && forgiven.is_none_or(|beat| strike.beat > beat)
            },
        )
    }

    /// The beat up to which a member's strikes are forgiven: it was marked online again then.
    #[must_use]
    pub fn forgiven(&self, member: &Member) -> Option<u64> {
        let record = self.offline_entry(&member.node).and_then(|known| known.value.as_ref());
        record.filter(|r| r.incarnation == member.incarnation && !r.offline).map(|r| r.beat)
    }

    /// In how many beats some observer could not reach a member. Strikes of one beat count once, however many observers
    /// gave them (S0-48).
    #[must_use]
    pub fn beats_missed(&self, member: &Member) -> u32 {
        let forgiven = self.forgiven(member);
        let beats = self.strikes(member).flat_map(|(.., strike)| strike.missed());
        let beats: BTreeSet<u64> = beats.filter(|beat| forgiven.is_none_or(|until| *beat > until)).collect();
        u32::try_from(beats.len()).unwrap_or(u32::MAX)
    }

    /// The known entry of a node's offline mark.
    #[must_use]
    pub fn offline_entry(&self, node: &NodeName) -> Option<&KnownEntry<OfflineRecord>> {
        self.peers.offline.get(node)
    }

    /// Whether its peers have marked a member as offline.
    #[must_use]
    pub fn is_offline(&self, member: &Member) -> bool {
        let record = self.peers.offline.get(&member.node).and_then(|known| known.value.as_ref());
        record.is_some_and(|record| record.offline && record.incarnation == member.incarnation)
    }

    /// Whether a node has joined in a later life while this one is still listed.
    #[must_use]
    pub fn is_replaced(&self, member: &Member) -> bool {
        let mut later = self.members.range((Bound::Excluded(member), Bound::Unbounded));
        later.next().is_some_and(|(next, _)| next.node == member.node)
    }

    /// Takes a change of one of these entries.
    pub(super) fn absorb_peers(&mut self, parsed: ParsedKey, change: &Change, touched: &mut ViewChanges) {
        let peers = &mut self.peers;
        // No rule uses the counts or the secrets, and what waits for loads is looked at when they have been read.
        touched.peers |= !matches!(parsed, ParsedKey::Count(..) | ParsedKey::Load(_) | ParsedKey::Secret(_));
        let result = match parsed {
            ParsedKey::Load(node) => match learn_one(peers.loads.entry(node).or_default(), change) {
                // No feed tells of it when it is written again.
                LearnResult::Gone => LearnResult::Known,
                result => result,
            },
            ParsedKey::Count(node, job) => learn(&mut peers.counts, (job, node), change),
            ParsedKey::Beat(operation) => {
                touched.planner = true;
                learn(&mut peers.beats, operation, change)
            }
            ParsedKey::Strike(node, observer) => learn(&mut peers.strikes, (node, observer), change),
            ParsedKey::Offline(node) => {
                touched.nodes = true;
                learn(&mut peers.offline, node, change)
            }
            ParsedKey::Serving => {
                touched.planner = true;
                learn_one(&mut peers.serving, change)
            }
            ParsedKey::Settings => {
                touched.planner = true;
                learn_one(&mut peers.settings, change)
            }
            ParsedKey::Cluster => learn_one(&mut peers.cluster, change),
            ParsedKey::Principal(kind, name) => {
                let of = (kind, name);
                let before = peers.principals.get(&of).map(|known| known.revision);
                let result = learn(&mut peers.principals, of.clone(), change);
                let unsealed = |known: &&KnownEntry<PrincipalRecord>| {
                    matches!(known.value, Some(PrincipalRecord::Unsealed { .. }))
                        && Some(known.revision) != before
                };
                if peers.principals.get(&of).filter(unsealed).is_some() {
                    touched.unsealed.push(change.key.clone());
                }
                result
            }
            ParsedKey::Secret(name) => learn(&mut peers.secrets, name, change),
            ParsedKey::Notifications(job) => learn(&mut peers.notifications, job, change),
            _ => return,
        };
        match result {
            LearnResult::Gone => {
                self.gone.insert(change.key.clone(), change.revision);
            }
            LearnResult::Unreadable => touched.unreadable.push(change.key.clone()),
            LearnResult::Known => {}
        }
    }
}

enum LearnResult {
    Known,
    Gone,
    Unreadable,
}

fn learn<K: Ord, T: DeserializeOwned>(
    map: &mut BTreeMap<K, KnownEntry<T>>,
    key: K,
    change: &Change,
) -> LearnResult {
    let mut known = map.remove(&key).unwrap_or_default();
    let result = learn_one(&mut known, change);
    if !matches!(result, LearnResult::Gone) {
        map.insert(key, known);
    }
    result
}

fn learn_one<T: DeserializeOwned>(known: &mut KnownEntry<T>, change: &Change) -> LearnResult {
    match newer(Some(known.revision), change) {
        EntryUpdate::Stale => LearnResult::Known,
        EntryUpdate::Gone(revision) => {
            *known = KnownEntry::absent(revision);
            LearnResult::Gone
        }
        EntryUpdate::Put(entry) => {
            *known = KnownEntry::present(decode(&entry.value), entry.revision);
            if known.value.is_none() { LearnResult::Unreadable } else { LearnResult::Known }
        }
    }
}
