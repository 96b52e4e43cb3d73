//! What the entries of the tree hold, and how it is written.
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
use crate::job::Spec;
use crate::labels::Labels;
use crate::overlap::SkippedSpan;
use crate::registry::Value;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};

mod calendar;
mod cluster;
mod notification;
mod peers;
mod pool;
mod sharded;

pub use calendar::{CalendarRecord, CalendarSpec};
pub use cluster::{
    ClusterRecord, JoinRefusal, LAYOUT, Layouts, RegistryBookmark, RegistryPosition, UnknownLayout,
};
pub use notification::NotificationRecord;
pub use peers::{
    BeatRecord, ClusterSettings, CountRecord, Handover, LoadRecord, OfflineRecord, Plan, Planned, Planner,
    PlannerKind, ProcessedItems, ServingRecord, StrikeRecord,
};
pub use pool::{PoolPermit, PoolRecord};
pub(crate) use sharded::regroup;
pub use sharded::{
    NodeSwitches, OpenShards, ReshardCause, ReshardPending, ShardAssignment, ShardGroup, ShardMap,
    ShardRunState, Sharding,
};

/// A member, under `keys::node`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberInfo {
    /// Where its HTTP interface answers.
    pub address: String,
    /// Its installation folder.
    pub home: String,
    /// How many runs it executes at once.
    pub slots: u32,
    /// n (S1-17).
    pub tolerance: u32,
    /// M (S1-26).
    pub alarm: u32,
    /// Its program's version.
    pub version: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Which limits of whole runs it cannot keep, and why; empty where it keeps all of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lacking: String,
    /// The newest layout of the tree that its program knows.
    #[serde(default = "first_layout", skip_serializing_if = "is_first_layout")]
    pub knows: u32,
}

/// What a member knows that says nothing of it.
fn first_layout() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first_layout(layout: &u32) -> bool {
    *layout == first_layout()
}

/// A job's declaration with its switches, or what is left of a deleted one, under `keys::spec`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecRecord {
    /// The job is there.
    Live(Box<Spec>),
    /// The job was deleted; its version goes on counting when it is created again.
    Deleted {
        /// The version of this entry.
        version: u64,
    },
}

impl SpecRecord {
    /// The version of the entry.
    #[must_use]
    pub fn version(&self) -> u64 {
        match self {
            Self::Live(spec) => spec.version,
            Self::Deleted { version } => *version,
        }
    }
}

/// Who holds a job, under `keys::place`. Also written with every change of the spec, so that one guard covers both; but
/// news of the two may come apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Assignment {
    /// The holder; persistent, and to be taken over only in a commit guarded by the holder's absence.
    pub owner: Option<Member>,
    /// Rises with every write.
    pub epoch: u64,
    /// The version of the spec it goes with: whoever knows another one has not heard of both yet, and waits.
    #[serde(default)]
    pub version: u64,
    /// Of a sharded job, who leads it and who has which shards. Kept when the job is deleted, for its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharding: Option<Box<Sharding>>,
    /// Of a dispatched job, that runs of it may stand in its plan; also after it was deleted, until none does.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub planned: bool,
    /// Of a claimed job that nobody holds, that its run waits for another attempt.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub waits: bool,
}

impl Assignment {
    /// The same holder, written once more.
    #[must_use]
    pub fn next(self) -> Self {
        Self { epoch: self.epoch + 1, ..self }
    }
}

/// A claimed job's hot state, under `keys::lane`; written only by its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunState {
    /// The watermark: no fire due up to here is ever claimed again.
    pub watermark: Wall,
    /// Counts claims, attempts and withdrawals; the lower part of tokens. Rises with every write.
    pub seq: u64,
    /// The fires that are claimed and not finished: one, unless the job lets its runs overlap. Only the last may be unstarted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Open>,
    /// Verdicts that history has not acknowledged yet (law 9).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// Fires behind the watermark that came due while runs went on, and that nobody will run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<SkippedSpan>,
}

impl Default for RunState {
    fn default() -> Self {
        Self { watermark: Wall::MIN, seq: 0, open: Vec::new(), verdicts: Vec::new(), passed: Vec::new() }
    }
}

impl RunState {
    /// What is open of a fire.
    #[must_use]
    pub fn open_of(&self, fire: &Fire) -> Option<&Open> {
        self.open.iter().find(|open| open.fire == *fire)
    }

    /// Puts an open fire in the place of what was open of it before.
    pub fn put_open(&mut self, new: Open) {
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

/// A claimed fire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Open {
    /// Which fire.
    pub fire: Fire,
    /// The moment it stands for.
    pub due: Wall,
    /// It starts in `[from, from + 1 s]`; later only after another commit has moved `from` (law 2).
    pub from: Wall,
    /// Who runs it.
    pub by: Member,
    /// Counted from 1.
    pub attempt: u32,
    /// The lane's `seq` when this attempt was claimed: the lower part of its token.
    pub seq: u64,
    /// The watermark before the claim, for withdrawing it.
    pub back: Wall,
    /// The attempt before failed, and this one is not claimed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<RetryWait>,
    /// When the first attempt could start; `None` in the first itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Wall>,
}

impl Open {
    /// When the first attempt could start: from then on the run takes its time.
    #[must_use]
    pub fn began(&self) -> Wall {
        self.began.unwrap_or(self.from)
    }
}

/// How far a clock may be set back before a wait counts as over.
const SET_BACK: Millis = Millis::secs(60);

/// What lies between an attempt that failed and the next one. Nothing of the run goes on in it, so whoever takes the entry over
/// is in no doubt; the next attempt takes another commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryWait {
    /// The moment from which on the run may be attempted again.
    pub until: Wall,
    /// How long that was when it began.
    pub length: Millis,
}

impl RetryWait {
    /// When it began.
    #[must_use]
    pub fn since(self) -> Wall {
        self.until - self.length
    }

    /// The moment to wait for; `None` when it is over. So it is where the clock was set back far.
    #[must_use]
    pub fn left(self, now: Wall) -> Option<Wall> {
        (now < self.until && self.until - now <= self.length + SET_BACK).then_some(self.until)
    }
}

/// Requests to run a job now, under `keys::asked`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TriggerRecord {
    /// Oldest first; remembered after they were taken, so that asking twice asks once (I24).
    pub requests: Vec<TriggerRequest>,
}

/// One request to run a job now.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TriggerRequest {
    /// Its id, chosen by whoever asked.
    pub id: RequestId,
    /// When it was asked.
    pub at: Wall,
    /// Whether a run was claimed for it, by all who should.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub taken: bool,
    /// Of a sharded job, the only node that should run its shards; all, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Of a sharded job, the shards that have been claimed for it, or were busy.
    #[serde(default, skip_serializing_if = "ShardSet::is_empty")]
    pub shards: ShardSet,
    /// Of a job that runs on every node, those that gave up the number under which they were to answer, or had: whatever
    /// number they have next, it is not theirs any more.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub former: BTreeSet<NodeName>,
    /// When it was taken back by hand, before any node had claimed a run for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<Wall>,
}

/// How many requests of a job are remembered.
pub const REQUESTS_MAX: usize = 64;

/// A lock of an embedder, under `keys::lock`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRecord {
    /// Who holds it.
    pub holder: Option<Member>,
    /// Counts holders; the lower part of their tokens.
    pub seq: u64,
}

/// The wish that a node be drained, under `keys::intent`. Taken back it stays as a tombstone: were it deleted, an order
/// that came late could make it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DrainIntent {
    /// Since when it is, or is not, wished.
    pub since: Wall,
    /// Whether it is wished.
    pub wanted: bool,
    /// The life of the node that owns nothing any more, written by itself: it may be stopped (S1-61).
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
