//! Backups: which entries of a cluster are copied to another registry, and how the names of members change.
//!
//! A member's name ends in the number of its lease, and another engine counts its leases anew: one day it may give a
//! number again that is in the registry data. So no such name is copied. Each named member gets a number that no engine
//! gives, keeps it for ever, and counts for every rule as a dead member.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::{CalendarName, JobName, Member, NodeName};
use crate::keys::{self, Key, ParsedKey, parse};
use crate::record::{
    Assignment, Attempt, Backfill, BeatRecord, CalendarRecord, LockRecord, NamespaceRecord, NodeIntent,
    NodeSwitches, NotificationRecord, PermitsRecord, Plan, RunState, ServingRecord, ShardRunState,
    SpecRecord, TriggerRecord, decode, encode, split_seal,
};
use crate::registry::{DurabilityClass, LeaseId, Value};

/// The first of the numbers that no engine gives to a lease: most count from 1, etcd below 2⁶³, and ZooKeeper could get
/// here only with server number 255 in the last minute of a span of 35 years.
pub const GONE: u64 = 0xFFFF_FFFF_0000_0000;

/// Entries by their keys.
pub type EntryMap = BTreeMap<Key, Value>;

/// Whether an entry is copied. Entries with a lease end with it; load, strikes and offline marks are about lives that
/// are over; the cluster's own entry is written anew.
#[must_use]
pub fn is_copied(key: &Key, owner: Option<LeaseId>) -> bool {
    let of_a_life = matches!(
        parse(key),
        Some(
            ParsedKey::Node(_)
                | ParsedKey::Load(_)
                | ParsedKey::Strike(..)
                | ParsedKey::Offline(_)
                | ParsedKey::Cluster
        )
    );
    owner.is_none() && !of_a_life
}

/// The job that an entry is of; such entries are read together, at one revision.
#[must_use]
pub fn job_of(key: &Key) -> Option<JobName> {
    match parse(key)? {
        ParsedKey::Spec(job)
        | ParsedKey::Assignment(job)
        | ParsedKey::Triggers(job)
        | ParsedKey::RunState(job)
        | ParsedKey::Plan(job)
        | ParsedKey::ShardRunState(job, _) => Some(job),
        _ => None,
    }
}

/// Every key that entries of a job can have, given its assignment: hot ones are in no listing.
#[must_use]
pub fn keys_of(job: &JobName, place: Option<&Value>) -> BTreeSet<Key> {
    let mut all = BTreeSet::from([
        keys::spec(job),
        keys::assignment(job),
        keys::triggers(job),
        keys::run_state(job),
        keys::plan(job),
    ]);
    let sharding = place.and_then(|value| decode::<Assignment>(value)).and_then(|place| place.sharding);
    if let Some(sharding) = sharding {
        let assignments =
            sharding.shard_map.assignments.iter().chain(&sharding.kept).map(|assignment| &assignment.holder);
        let may = sharding
            .run_states
            .iter()
            .chain(&sharding.shard_map.among)
            .chain(assignments)
            .chain(&sharding.leader);
        all.extend(may.map(|member| keys::shard_run_state(job, member)));
    }
    all
}

/// The same entries, with no member in them that another engine could ever give a lease. The result is deterministic,
/// so an interrupted copy can be resumed.
#[must_use]
pub fn retire_members(entries: &EntryMap) -> EntryMap {
    let mut named = BTreeSet::new();
    for (key, value) in entries {
        map_members(key, value, &mut |member| {
            named.insert(member.clone());
        });
    }
    let mut next: BTreeMap<NodeName, u64> = BTreeMap::new();
    for member in named.iter().filter(|member| member.incarnation >= GONE) {
        next.insert(member.node.clone(), member.incarnation.saturating_add(1));
    }
    let mut gone = BTreeMap::new();
    for member in named.into_iter().filter(|member| member.incarnation < GONE) {
        let number = next.entry(member.node.clone()).or_insert(GONE);
        gone.insert(member.clone(), Member { incarnation: *number, ..member });
        *number = number.saturating_add(1);
    }
    let mut bury = |member: &mut Member| {
        if let Some(new) = gone.get(member) {
            *member = new.clone();
        }
    };
    entries.iter().map(|(key, value)| map_members(key, value, &mut bury)).collect()
}

/// Shows every member that an entry names, and returns the entry with its changes. An unreadable or unchanged entry
/// stays as it is to the byte.
fn map_members(key: &Key, value: &Value, see: &mut dyn FnMut(&mut Member)) -> (Key, Value) {
    let mut new_key = key.clone();
    let new = match parse(key) {
        Some(ParsedKey::Assignment(_)) => rewritten(value, |place: &mut Assignment| {
            place.owner.iter_mut().for_each(&mut *see);
            if let Some(sharding) = &mut place.sharding {
                let assignments = sharding.shard_map.assignments.iter_mut().chain(&mut sharding.kept);
                let assignments = assignments.map(|assignment| &mut assignment.holder);
                let run_states = sharding.run_states.iter_mut().chain(&mut sharding.shard_map.among);
                run_states.chain(assignments).chain(&mut sharding.leader).for_each(see);
            }
        }),
        Some(ParsedKey::Permits(_)) => rewritten(value, |record: &mut PermitsRecord| {
            record.permits.iter_mut().for_each(|permit| see(&mut permit.by))
        }),
        Some(ParsedKey::RunState(_)) => rewritten(value, |run_state: &mut RunState| {
            run_state.open.iter_mut().flat_map(Attempt::members_mut).for_each(see)
        }),
        Some(ParsedKey::ShardRunState(job, mut member)) => {
            see(&mut member);
            new_key = keys::shard_run_state(&job, &member);
            rewritten(value, |run_state: &mut ShardRunState| {
                run_state.open.iter_mut().flat_map(Attempt::members_mut).for_each(&mut *see)
            })
        }
        Some(ParsedKey::Plan(_)) => rewritten(value, |plan: &mut Plan| {
            plan.runs.iter_mut().flat_map(Attempt::members_mut).for_each(&mut *see);
            plan.planner.iter_mut().for_each(|planner| see(&mut planner.member));
        }),
        Some(ParsedKey::Beat(_)) => rewritten(value, |beat: &mut BeatRecord| see(&mut beat.holder)),
        Some(ParsedKey::Notifications(_)) => {
            rewritten(value, |told: &mut NotificationRecord| see(&mut told.by))
        }
        Some(ParsedKey::Serving) => {
            rewritten(value, |serving: &mut ServingRecord| serving.leader.iter_mut().for_each(see))
        }
        Some(ParsedKey::Lock(_)) => {
            rewritten(value, |lock: &mut LockRecord| lock.holder.iter_mut().for_each(see))
        }
        // It was meant for a life that is over.
        Some(ParsedKey::Switches(..)) => {
            rewritten(value, |switches: &mut NodeSwitches| switches.shutdown = None)
        }
        _ => None,
    };
    (new_key, new.unwrap_or_else(|| value.clone()))
}

fn rewritten<T>(value: &Value, change: impl FnOnce(&mut T)) -> Option<Value>
where
    T: Serialize + DeserializeOwned + Clone + PartialEq,
{
    let old: T = decode(value)?;
    let mut new = old.clone();
    change(&mut new);
    (new != old).then(|| encode(&new))
}

/// The runs that are claimed and not ended, each with its member, in words; those between two attempts are left out, as
/// they continue after any migration. An unreadable entry may hold runs, so it is listed.
#[must_use]
pub fn open_runs(entries: &EntryMap) -> Vec<String> {
    let mut open = Vec::new();
    for (key, value) in entries {
        let mut add = |job: &JobName, what: &str, by: &Member| open.push(format!("{job}{what} on {by}"));
        let read = match parse(key) {
            Some(ParsedKey::RunState(job)) => decode::<RunState>(value).map(|run_state| {
                let open = run_state.open.iter().filter(|open| open.wait.is_none());
                open.for_each(|open| add(&job, "", &open.by));
            }),
            Some(ParsedKey::ShardRunState(job, by)) => decode::<ShardRunState>(value).map(|run_state| {
                let open = run_state.open.iter().filter(|open| open.wait.is_none());
                open.for_each(|open| add(&job, &format!(" shards {}", open.shards), &by));
            }),
            Some(ParsedKey::Plan(job)) => decode::<Plan>(value).map(|plan| {
                plan.runs.iter().filter(|run| run.is_claimed()).for_each(|run| add(&job, "", &run.by));
            }),
            _ => Some(()),
        };
        if read.is_none() {
            open.push(format!("{key}, which this version cannot read"));
        }
    }
    open
}

/// The counts of the registry data, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackupCounts {
    /// All entries.
    pub entries: usize,
    /// Jobs that are there.
    pub jobs: usize,
    /// Deleted jobs, which are remembered for their tokens.
    pub deleted: usize,
    /// Jobs with a pending reshard.
    pub marks: usize,
    /// Run states and plans: each goes on counting its claims, the lower part of tokens, where it is.
    pub run_states: usize,
    /// Watermarks up to which fires are settled; a sharded job may have many.
    pub watermarks: usize,
    /// Runs that are claimed and not ended.
    pub open: usize,
    /// Triggers, and fires of backfills, that no node has claimed a run for.
    pub requests: usize,
    /// Locks of embedders.
    pub locks: usize,
    /// Calendars that jobs share.
    pub calendars: usize,
    /// Declared namespaces.
    pub namespaces: usize,
    /// Nodes that are to be drained, and will be again where they join.
    pub drained: Vec<NodeName>,
    /// Nodes that are cordoned, and will be again where they join.
    pub cordoned: Vec<NodeName>,
    /// Unreadable entries, which are copied as they are.
    pub unreadable: Vec<String>,
}

/// The record of a job's declaration, as a backup has it: with its seal, if the cluster has seals.
fn spec_of(value: &Value) -> Option<SpecRecord> {
    decode(split_seal(value).0)
}

/// Counts the entries.
#[must_use]
pub fn count_entries(entries: &EntryMap) -> BackupCounts {
    let mut all =
        BackupCounts { entries: entries.len(), open: open_runs(entries).len(), ..BackupCounts::default() };
    for (key, value) in entries {
        let read = match parse(key) {
            Some(ParsedKey::Spec(_)) => spec_of(value).map(|spec| match spec {
                SpecRecord::Live(_) | SpecRecord::Unsealed(_) => all.jobs += 1,
                SpecRecord::Deleted { .. } => all.deleted += 1,
            }),
            Some(ParsedKey::Assignment(_)) => decode::<Assignment>(value).map(|place| {
                all.marks +=
                    usize::from(place.sharding.is_some_and(|sharding| sharding.reshard_pending.is_some()));
            }),
            Some(ParsedKey::RunState(_)) => decode::<RunState>(value).map(|_| {
                all.run_states += 1;
                all.watermarks += 1;
            }),
            Some(ParsedKey::Plan(_)) => decode::<Plan>(value).map(|_| {
                all.run_states += 1;
                all.watermarks += 1;
            }),
            Some(ParsedKey::ShardRunState(..)) => decode::<ShardRunState>(value).map(|run_state| {
                all.run_states += 1;
                all.watermarks += run_state.groups.len();
            }),
            Some(ParsedKey::Triggers(_)) => decode::<TriggerRecord>(value).map(|asked| {
                let left = asked.backfills.iter().map(Backfill::left).sum::<usize>();
                all.requests += left + asked.requests.iter().filter(|request| !request.taken).count();
            }),
            Some(ParsedKey::Lock(_)) => decode::<LockRecord>(value).map(|_| all.locks += 1),
            Some(ParsedKey::Calendar(_)) => decode::<CalendarRecord>(value)
                .map(|record| all.calendars += usize::from(record.live().is_some())),
            Some(ParsedKey::Namespace(_)) => decode::<NamespaceRecord>(value)
                .map(|record| all.namespaces += usize::from(record.live().is_some())),
            Some(ParsedKey::Intent(node)) => decode::<NodeIntent>(value).map(|intent| {
                all.cordoned.extend(intent.cordoned.then(|| node.clone()));
                all.drained.extend(intent.wanted.then_some(node));
            }),
            _ => Some(()),
        };
        if read.is_none() {
            all.unreadable.push(key.to_string());
        }
    }
    all
}

/// The entries that are larger than the engine accepts, with their sizes.
#[must_use]
pub fn too_large(entries: &EntryMap, value_max: usize) -> Vec<(String, usize)> {
    let large = entries.iter().filter(|(_, value)| value.len() > value_max);
    large.map(|(key, value)| (key.as_str().to_owned(), value.len())).collect()
}

/// The jobs whose required durability is above the class of this registry.
#[must_use]
pub fn asking_for_more<'a>(
    entries: impl Iterator<Item = (&'a Key, &'a Value)>,
    class: DurabilityClass,
) -> Vec<JobName> {
    let specs = entries.filter(|(key, _)| matches!(parse(key), Some(ParsedKey::Spec(_))));
    let jobs = specs.filter_map(|(_, value)| Some(spec_of(value)?.live()?.job));
    jobs.filter(|job| job.suits(class).is_err()).map(|job| job.name.clone()).collect()
}

/// The missing calendars that jobs name, each with a job that has no schedule without it.
#[must_use]
pub fn missing_calendars<'a>(
    entries: impl Iterator<Item = (&'a Key, &'a Value)>,
) -> Vec<(CalendarName, JobName)> {
    let (mut there, mut named) = (BTreeSet::new(), BTreeMap::new());
    for (key, value) in entries {
        match parse(key) {
            Some(ParsedKey::Calendar(name)) => {
                let record: Option<CalendarRecord> = decode(value);
                if record.is_some_and(|record| record.live().is_some()) {
                    there.insert(name);
                }
            }
            Some(ParsedKey::Spec(job)) => {
                let Some(spec) = spec_of(value).and_then(SpecRecord::live) else { continue };
                named.extend(spec.job.calendars().map(|name| (name.clone(), job.clone())));
            }
            _ => {}
        }
    }
    named.into_iter().filter(|(name, _)| !there.contains(name)).collect()
}

#[cfg(test)]
mod tests;
