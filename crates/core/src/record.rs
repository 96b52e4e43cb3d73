//! The records in the entries of the tree, and how they are written.
//!
//! Values are JSON, so that a person can read a registry with the engine's own tools. A record never repeats a value
//! under one key: every write raises a number in it, and so a writer whose answer was lost knows its own write again.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::effect::Verdict;
use crate::ids::{Fire, Member, NodeName, RequestId};
use crate::job::{RunParameters, Spec};
use crate::labels::Labels;
use crate::overlap::SkippedSpan;
use crate::registry::Value;
use crate::shards::ShardSet;
use crate::time::Wall;

mod attempt;
mod backfill;
mod calendar;
mod cluster;
mod declared;
mod namespace;
mod notification;
mod outcomes;
mod peers;
mod permits;
mod principal;
mod seal;
mod secret;
mod sharded;

pub use attempt::{Attempt, PlannedNode, RetryWait};
pub(crate) use backfill::RequestedFire;
pub use backfill::{BACKFILLS_MAX, Backfill};
pub use calendar::{CalendarRecord, CalendarSpec};
pub use cluster::{
    ClusterRecord, JoinRefusal, LAYOUT, Layouts, RegistryBookmark, RegistryPosition, UnknownLayout,
};
pub use declared::{Declared, Versioned};
pub use namespace::{CreatedJob, NamespaceRecord, NamespaceSpec};
pub use notification::NotificationRecord;
pub use outcomes::{FailureStreak, Outcomes};
pub use peers::{
    BeatRecord, ClusterSettings, CountRecord, Handover, LoadRecord, OfflineRecord, Plan, Planner,
    PlannerKind, ProcessedItems, ServingRecord, StrikeRecord,
};
pub use permits::{PermitsRecord, RunPermit};
pub use principal::PrincipalRecord;
pub use seal::{SEAL_BYTES, split_seal, unsealed, with_seal};
pub use secret::{SealedSecret, SecretRecord};
pub(crate) use sharded::regroup;
pub use sharded::{
    NodeSwitches, ReshardCause, ReshardPending, ShardAssignment, ShardGroup, ShardMap, ShardRunState,
    Sharding,
};

/// A member, under `keys::node`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberInfo {
    /// The address of its HTTP interface.
    pub address: String,
    /// Its installation folder.
    pub home: String,
    /// How many runs it executes at once.
    pub slots: u32,
    /// n: its tolerance (S1-17).
    pub tolerance: u32,
    /// M: its alarm threshold (S1-26).
    pub alarm: u32,
    /// The version of its program.
    pub version: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The limits of whole runs that it cannot enforce, and why; empty where it enforces all of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lacking: String,
    /// The newest layout of the tree that its program knows.
    #[serde(default = "first_layout", skip_serializing_if = "is_first_layout")]
    pub knows: u32,
}

/// The layout of a member that does not publish one.
fn first_layout() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first_layout(layout: &u32) -> bool {
    *layout == first_layout()
}

/// The declaration of a job with its switches, or the tombstone of a deleted one, under `keys::spec`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecRecord {
    /// The job exists.
    Live(Box<Spec>),
    /// The job was deleted; its version goes on counting when it is created again.
    Deleted {
        /// The version of this entry.
        version: u64,
    },
    /// The entry has no valid seal, so the job does not exist for any rule. No registry has this: the process around the
    /// node makes it of an entry that it does not trust.
    Unsealed(Box<Spec>),
}

impl SpecRecord {
    /// The version of the entry.
    #[must_use]
    pub fn version(&self) -> u64 {
        match self {
            Self::Live(spec) | Self::Unsealed(spec) => spec.version,
            Self::Deleted { version } => *version,
        }
    }

    /// The declaration, unless the job was deleted or its entry has no valid seal.
    #[must_use]
    pub fn live(self) -> Option<Spec> {
        match self {
            Self::Live(spec) => Some(*spec),
            Self::Deleted { .. } | Self::Unsealed(_) => None,
        }
    }

    /// The same entry as one without a valid seal. A tombstone stays one: who can write it can delete the entry, too.
    #[must_use]
    pub fn unsealed(self) -> Self {
        match self {
            Self::Live(spec) => Self::Unsealed(spec),
            other => other,
        }
    }
}

/// The assignment of a job to its owner, under `keys::assignment`. Also written with every change of the spec, so
/// that one guard covers both; but changes of the two may arrive separately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Assignment {
    /// The owner; persistent. It is replaced only in a commit guarded by the owner's absence.
    pub owner: Option<Member>,
    /// Rises with every write.
    pub epoch: u64,
    /// The version of the spec it goes with: a node that knows another one has not received both yet, and waits.
    #[serde(default)]
    pub version: u64,
    /// Of a sharded job, its leader and its shard assignments. Kept when the job is deleted, for its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharding: Option<Box<Sharding>>,
    /// Of a dispatched job, whether its plan may hold runs; also after it was deleted, until none does.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub planned: bool,
    /// Of a claimed job without an owner, whether its run waits for another attempt.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub waits: bool,
}

impl Assignment {
    /// The same owner, with the next epoch.
    #[must_use]
    pub fn next(self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), ..self }
    }
}

/// The run state of a claimed job, under `keys::run_state`; written only by its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunState {
    /// The watermark: no fire due up to here is ever claimed again.
    pub watermark: Wall,
    /// Counts claims, attempts and withdrawals; the lower part of tokens. Rises with every write.
    pub seq: u64,
    /// The claimed fires that are not finished: one, unless runs may overlap. Only the last may be unstarted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Attempt>,
    /// Verdicts that history has not acknowledged yet (law 9).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// The runs in a row that ended badly, of a job that is paused after some.
    #[serde(default, skip_serializing_if = "FailureStreak::is_none")]
    pub failures: FailureStreak,
    /// Fires behind the watermark that came due while runs went on, and that will not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<SkippedSpan>,
}

impl Default for RunState {
    fn default() -> Self {
        Self {
            watermark: Wall::MIN,
            seq: 0,
            open: Vec::new(),
            verdicts: Vec::new(),
            failures: FailureStreak::default(),
            passed: Vec::new(),
        }
    }
}

impl RunState {
    /// The parts that the ends of runs change.
    pub fn outcomes(&mut self) -> Outcomes<'_> {
        Outcomes { verdicts: &mut self.verdicts, failures: &mut self.failures }
    }

    /// The open run of a fire.
    #[must_use]
    pub fn open_of(&self, fire: &Fire) -> Option<&Attempt> {
        self.open.iter().find(|open| open.fire == *fire)
    }

    /// Stores an open fire in place of the earlier state of the same fire.
    pub fn put_open(&mut self, new: Attempt) {
        match self.open.iter_mut().find(|open| open.fire == new.fire) {
            Some(open) => *open = new,
            None => self.open.push(new),
        }
    }

    /// Closes a fire.
    pub fn close(&mut self, fire: &Fire) {
        self.open.retain(|open| open.fire != *fire);
    }
}

/// Triggers of a job, under `keys::triggers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TriggerRecord {
    /// Oldest first; kept after they were handled, so that the same trigger sent twice runs once (I24).
    pub requests: Vec<TriggerRequest>,
    /// Backfills, oldest first. One that is over is kept until others take its place, so that the same one sent twice is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backfills: Vec<Backfill>,
}

/// One manual trigger of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TriggerRequest {
    /// Its id, chosen by the caller.
    pub id: RequestId,
    /// When it was triggered.
    pub at: Wall,
    /// Whether all members that should run it have claimed a run for it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub taken: bool,
    /// Of a sharded job, the only node that should run its shards; all, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Of a sharded job, the shards that have been claimed for it, or were busy.
    #[serde(default, skip_serializing_if = "ShardSet::is_empty")]
    pub shards: ShardSet,
    /// Of a broadcast job, the nodes that lost or left the number under which they were to run it: under their next
    /// number they do not run it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub former: BTreeSet<NodeName>,
    /// The parameters of its runs, until they are claimed: then their attempts have them. A job that declares none has none
    /// here, so a program that does not know this field does not know the job either, and leaves the entry alone.
    #[serde(default, skip_serializing_if = "RunParameters::is_empty")]
    pub parameters: RunParameters,
    /// When it was cancelled, before any node had claimed a run for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<Wall>,
}

impl TriggerRequest {
    /// Marks it as handled: what its runs need is in their attempts now.
    pub(crate) fn take(&mut self) {
        self.taken = true;
        self.parameters = RunParameters::default();
    }
}

/// How many triggers of a job are remembered.
pub const REQUESTS_MAX: usize = 64;

/// A lock of an embedder, under `keys::lock`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRecord {
    /// The holder.
    pub holder: Option<Member>,
    /// Counts holders; the lower part of their tokens.
    pub seq: u64,
}

/// What operators want of a node, under `keys::intent`. When all of it is withdrawn the entry stays as a tombstone: were
/// it deleted, a command that arrives late could create it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeIntent {
    /// When the drain was requested or withdrawn last.
    pub since: Wall,
    /// Whether a drain is requested.
    pub wanted: bool,
    /// Whether the node is cordoned: it keeps what it has and gets nothing new.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub cordoned: bool,
    /// The drained life, written by the node itself once it owns nothing any more: it may be stopped (S1-61).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<u64>,
    /// Rises with every write.
    pub seq: u64,
}

/// What an entry can hold.
pub trait Record: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Record for T {}

/// Writes a record.
#[must_use]
pub fn encode<T: Serialize>(record: &T) -> Value {
    // Our records are maps with text keys and plain numbers, which JSON can always express.
    serde_json::to_vec(record).expect("records are plain data").into()
}

/// Reads a record; `None` when the bytes are not one, so that a broken entry is left alone instead of stopping a node.
#[must_use]
pub fn decode<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).ok()
}
