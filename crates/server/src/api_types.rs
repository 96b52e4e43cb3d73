//! The API's response types, for server and client: stable fields, times as RFC 3339 in UTC with milliseconds.

mod answers;
mod applied;
mod attention;
mod audit;
mod backfill;
mod balance;
mod calendars;
pub(crate) mod declared;
mod events;
mod explain;
mod fires;
mod forecast;
mod health;
mod namespaces;
mod node;
mod plan;
mod principals;
mod secrets;
mod shards;
mod summary;
mod switches;
mod unsealed;
mod versions;
mod words;

use std::collections::BTreeMap;

use evenkeel_core::input::ApplyResult;
use evenkeel_core::job::{Job, Placement};
use evenkeel_core::node::Spread;
use evenkeel_core::record::{Handover, PlannerKind};
use evenkeel_core::time::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use answers::{
    AttemptDetail, BulkAnswer, BulkItem, CalendarPage, ClaimAnswer, ClaimReason, DeclaredAnswer, DoneAnswer,
    EndedRow, ForgetAnswer, JoinTokenAnswer, LoadPage, LoginLink, NewToken, NextFires, NodePage, RunAnswer,
    RunDetail, TokenPage, TreePage, UpgradeAnswer, UserPage, WaitAnswer,
};
pub(crate) use applied::{ApplyAnswer, ApplyRow};
pub(crate) use attention::{AttentionKind, AttentionPage, AttentionRow};
pub(crate) use audit::{AuditPage, AuditRow};
pub(crate) use backfill::BackfillAnswer;
pub(crate) use balance::{BalanceReport, BalanceRow, ObstacleRow, ProjectedLoad, WhatIfRow};
pub(crate) use calendars::{CalendarDetail, CalendarRow};
pub(crate) use events::{EventPage, EventRow, LoadRow};
pub(crate) use explain::{ExplanationRow, ExplanationStep};
pub(crate) use fires::FireRow;
pub(crate) use forecast::{ForecastAnswer, ForecastPeakRow, ForecastStep, QuietStepRow};
pub(crate) use health::{ClusterHealth, HealthReason, HealthVerdict, NodeHealthRow, NodeMeasures};
#[cfg(test)]
pub(crate) use health::{LeaseHealth, TimeSummary};
pub(crate) use namespaces::{NamespacePage, NamespaceRow};
pub(crate) use node::NodeRow;
pub(crate) use plan::{FieldEdit, PlanAnswer, PlanEffect, PlanRefusal, PlanRow, PlannedFire};
pub(crate) use principals::{CallerRow, TokenRow, UserRow};
pub(crate) use secrets::{SecretPage, SecretRow};
pub(crate) use shards::{
    AssignmentRow, ReshardPendingRow, ShardActivity, ShardPage, ShardRangeRow, ShardRow, ShardingRow,
};
pub(crate) use summary::{SummaryLine, SummaryPage};
pub(crate) use switches::SwitchRow;
pub(crate) use unsealed::{UnsealedJobRow, UnsealedPage};
pub(crate) use versions::{FieldChange, JobVersionDetail, JobVersionPage, JobVersionRow, RollbackAnswer};
pub(crate) use words::{moment, word, zone};

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JobRow {
    /// Its name.
    pub(crate) name: String,
    /// Its schedule as declared, several rules with `; ` between; empty if it has only manual runs.
    pub(crate) schedule: String,
    /// Its time zone; `UTC` if none is declared.
    pub(crate) timezone: String,
    /// How nodes are chosen for it.
    #[schemars(with = "String")]
    pub(crate) placement: Placement,
    /// The node that owns it; the leader of a sharded job, or the planner of a dispatched one.
    pub(crate) owner: Option<String>,
    /// The number of nodes that own it, or shards of it; 0 for a dispatched job.
    pub(crate) nodes: usize,
    /// Its next fire; none if it is paused, disabled or has no further fire.
    pub(crate) next: Option<String>,
    /// Whether it has only manual runs for now.
    pub(crate) paused: bool,
    /// Whether no node owns it, and it has no manual runs either.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) disabled: bool,
    /// The calendars that it names and that do not exist: without them it never fires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// Whether no online node matches its node selector: until one does, nothing of it runs.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) unschedulable: bool,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
}

/// All details of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JobDetail {
    /// Its name.
    pub(crate) name: String,
    /// The declaration as last applied; `disabled` and `switches` show what operators changed.
    #[schemars(schema_with = "crate::api_types::declared::job")]
    pub(crate) job: Job,
    /// Rises with every change.
    pub(crate) version: u64,
    /// The node that owns it; the leader of a sharded job, or the planner of a dispatched one.
    pub(crate) owner: Option<String>,
    /// Its next fire.
    pub(crate) next: Option<String>,
    /// Whether it has only manual runs for now.
    pub(crate) paused: bool,
    /// Fires up to this time are ignored: the job was created, enabled or rescheduled then.
    pub(crate) since: String,
    /// The calendars that it names and that do not exist: without them it never fires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// Whether no online node matches its node selector: until one does, nothing of it runs.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) unschedulable: bool,
    /// Whether no node owns it, and it has no manual runs either.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) disabled: bool,
    /// The switches that operators set against the declaration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) switches: Vec<SwitchRow>,
    /// Its shard assignments; none if it is not sharded.
    pub(crate) sharing: Option<ShardingRow>,
}

/// A run, or its latest attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RunRow {
    /// Its id.
    pub(crate) run: String,
    /// The job.
    pub(crate) job: String,
    /// The shard.
    pub(crate) shard: u32,
    /// The moment at which it is due.
    pub(crate) due: String,
    /// The node that claimed it; empty if none has.
    pub(crate) node: String,
    /// The attempt, counted from 1.
    pub(crate) attempt: u32,
    /// `running`, `succeeded`, `failed`, `killed`, `timed_out`, `fenced`, `lost`, `skipped`, `waiting`.
    pub(crate) state: String,
    /// Why it did not succeed, or why it waits.
    pub(crate) reason: Option<String>,
    /// When the attempt started.
    pub(crate) started: Option<String>,
    /// When it ended.
    pub(crate) ended: Option<String>,
    /// Whether `run kill` ends it: a request, or a claimed run. A node of an earlier version does not report it.
    #[serde(default)]
    pub(crate) killable: Option<bool>,
}

/// The least loaded node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServiceRow {
    /// Its name.
    pub(crate) node: String,
    /// Its address.
    pub(crate) address: String,
    /// Its load score, from 0 to 100; none until it reports one.
    pub(crate) score: Option<f64>,
}

/// The settings of the whole cluster, and its leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SettingsRow {
    /// Which node plans dispatched jobs.
    #[schemars(with = "String")]
    pub(crate) planner: PlannerKind,
    /// The length of a beat.
    #[schemars(with = "String")]
    pub(crate) beat: TimeSpan,
    /// The number of strikes that make a node offline.
    pub(crate) strikes: u32,
    /// What a new leader waits for.
    #[schemars(with = "String")]
    pub(crate) handover: Handover,
    /// How free jobs are distributed over nodes.
    #[schemars(with = "String")]
    pub(crate) spread: Spread,
    /// The present leader, if the planner is a leader; none while this node cannot know it.
    pub(crate) leader: Option<String>,
    /// What this node knew last, if its lease is not trusted and it cannot know the leader; none if it can.
    #[serde(default)]
    pub(crate) leader_unknown: Option<LeaderUnknown>,
}

/// The last known leader, as a node whose lease is not trusted knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LeaderUnknown {
    /// The last known leader.
    pub(crate) last: Option<String>,
    /// Since when another node may lead.
    pub(crate) since: Option<String>,
}

/// A change of cluster settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsChange {
    /// Which node plans dispatched jobs.
    #[schemars(with = "Option<String>")]
    pub(crate) planner: Option<PlannerKind>,
    /// The length of a beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(crate) beat: Option<TimeSpan>,
    /// The number of strikes that make a node offline.
    pub(crate) strikes: Option<u32>,
    /// What a new leader waits for.
    #[schemars(with = "Option<String>")]
    pub(crate) handover: Option<Handover>,
    /// How free jobs are distributed over nodes.
    #[schemars(with = "Option<String>")]
    pub(crate) spread: Option<Spread>,
}

/// The layout of the registry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LayoutRow {
    /// Its number.
    pub(crate) layout: u32,
    /// `updated` if it was raised, `unchanged` if it was the newest already.
    #[schemars(with = "String")]
    pub(crate) applied: ApplyResult,
}

/// A page of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct JobPage {
    /// The jobs, by name.
    pub(crate) jobs: Vec<JobRow>,
    /// The `after` of the next page; none at the end.
    pub(crate) after: Option<String>,
    /// How many jobs the list has on all its pages; left out where jobs are searched for by text or labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<usize>,
    /// The number of jobs in other namespaces, where the list is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) elsewhere: Option<usize>,
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RunPage {
    /// The latest first.
    pub(crate) runs: Vec<RunRow>,
    /// On the first page, waiting runs that no history has: first those that `run kill` ends, then fires that no node
    /// has claimed; of both the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting: Vec<RunRow>,
    /// The number of further waiting runs.
    #[serde(default)]
    pub(crate) waiting_more: usize,
    /// The `before` of the next page; none at the end.
    pub(crate) before: Option<String>,
    /// Online nodes that did not answer: records that only their histories have are not in the page.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
}

/// All running attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RunningRow {
    /// The number of attempts.
    pub(crate) running: usize,
    /// The attempts, the latest first.
    pub(crate) runs: Vec<RunRow>,
    /// Online nodes that did not answer: their running attempts are not counted.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
}
