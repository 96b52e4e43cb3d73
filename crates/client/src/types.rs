//! What the API answers: stable fields, times as RFC 3339 in UTC with milliseconds.

mod answers;
mod applied;
mod attention;
mod audit;
mod backfill;
mod balance;
mod calendars;
pub mod declared;
mod events;
mod explain;
mod fires;
mod forecast;
mod health;
mod job_runs;
mod namespaces;
mod node;
mod plan;
mod principals;
mod report;
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

pub use answers::{
    AttemptDetail, BulkAnswer, BulkItem, CalendarPage, ClaimAnswer, ClaimReason, DeclaredAnswer, DoneAnswer,
    EndedRow, ForgetAnswer, JoinTokenAnswer, LoadPage, LoginLink, NewToken, NextFires, NodePage, RunAnswer,
    RunDetail, TokenPage, TreePage, UpgradeAnswer, UserPage, WaitAnswer,
};
pub use applied::{ApplyAnswer, ApplyRow};
pub use attention::{AttentionKind, AttentionPage, AttentionRow};
pub use audit::{AuditPage, AuditRow};
pub use backfill::BackfillAnswer;
pub use balance::{BalanceReport, BalanceRow, ObstacleRow, ProjectedLoad, WhatIfRow};
pub use calendars::{CalendarDetail, CalendarRow};
pub use events::{EventPage, EventRow, LoadRow};
pub use explain::{ExplanationRow, ExplanationStep};
pub use fires::FireRow;
pub use forecast::{ForecastAnswer, ForecastPeakRow, ForecastStep, QuietStepRow};
pub use health::{
    ClockHealth, ClusterHealth, HealthReason, HealthVerdict, LeaseHealth, NodeHealthRow, NodeMeasures,
    TimeSummary,
};
pub use job_runs::{JobOutcomeRow, JobRunsRow};
pub use namespaces::{NamespacePage, NamespaceRow};
pub use node::NodeRow;
pub use plan::{
    FieldEdit, PlanAnswer, PlanEffect, PlanRefusal, PlanRow, PlanTotals, PlannedCalendar, PlannedFire,
};
pub use principals::{CallerRow, TokenRow, UserRow};
pub use report::{FireState, ReportCounts, ReportJob, ReportPage, ReportRow};
pub use secrets::{SecretPage, SecretRow};
pub use shards::{
    AssignmentRow, ReshardPendingRow, ShardActivity, ShardPage, ShardRangeRow, ShardRow, ShardingRow,
};
pub use summary::{SummaryCounts, SummaryLine, SummaryPage};
pub use switches::SwitchRow;
pub use unsealed::{UnsealedJobRow, UnsealedPage};
pub use versions::{FieldChange, JobVersionDetail, JobVersionPage, JobVersionRow, RollbackAnswer};
pub use words::{moment, word, zone};

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobRow {
    /// Its name.
    pub name: String,
    /// Its schedule as declared, several rules with `; ` between; empty if it has only manual runs.
    pub schedule: String,
    /// Its time zone; `UTC` if none is declared.
    pub timezone: String,
    /// How nodes are chosen for it.
    #[schemars(with = "String")]
    pub placement: Placement,
    /// The node that owns it; the leader of a sharded job, or the planner of a dispatched one.
    pub owner: Option<String>,
    /// The number of nodes that own it, or shards of it; 0 for a dispatched job.
    pub nodes: usize,
    /// Its next fire; none if it is paused, disabled or has no further fire.
    pub next: Option<String>,
    /// Whether it has only manual runs for now.
    pub paused: bool,
    /// Whether no node owns it, and it has no manual runs either.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub disabled: bool,
    /// Whether its runs execute nothing.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub shadow: bool,
    /// The calendars that it names and that do not exist: without them it never fires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Whether no online node matches its node selector: until one does, nothing of it runs.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub unschedulable: bool,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What its runs do; left out unless the request asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<JobRunsRow>,
}

/// All details of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDetail {
    /// Its name.
    pub name: String,
    /// The declaration as last applied; `disabled` and `switches` show what operators changed.
    #[schemars(schema_with = "crate::types::declared::job")]
    pub job: Job,
    /// Rises with every change.
    pub version: u64,
    /// The node that owns it; the leader of a sharded job, or the planner of a dispatched one.
    pub owner: Option<String>,
    /// Its next fire.
    pub next: Option<String>,
    /// Whether it has only manual runs for now.
    pub paused: bool,
    /// Fires up to this time are ignored: the job was created, enabled or rescheduled then.
    pub since: String,
    /// The calendars that it names and that do not exist: without them it never fires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Whether no online node matches its node selector: until one does, nothing of it runs.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub unschedulable: bool,
    /// Whether no node owns it, and it has no manual runs either.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub disabled: bool,
    /// The switches that operators set against the declaration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchRow>,
    /// Its shard assignments; none if it is not sharded.
    pub sharing: Option<ShardingRow>,
}

/// A run, or its latest attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// Its id.
    pub run: String,
    /// The job.
    pub job: String,
    /// The shard.
    pub shard: u32,
    /// The moment at which it is due.
    pub due: String,
    /// The node that claimed it; empty if none has.
    pub node: String,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// `running`, `succeeded`, `failed`, `killed`, `timed_out`, `fenced`, `lost`, `skipped`, `waiting`.
    pub state: String,
    /// Why it did not succeed, or why it waits.
    pub reason: Option<String>,
    /// When the attempt started.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// Whether `run kill` ends it: a request, or a claimed run. A node of an earlier version does not report it.
    #[serde(default)]
    pub killable: Option<bool>,
}

/// The least loaded node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceRow {
    /// Its name.
    pub node: String,
    /// Its address.
    pub address: String,
    /// Its load score, from 0 to 100; none until it reports one.
    pub score: Option<f64>,
}

/// The settings of the whole cluster, and its leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingsRow {
    /// Which node plans dispatched jobs.
    #[schemars(with = "String")]
    pub planner: PlannerKind,
    /// The length of a beat.
    #[schemars(with = "String")]
    pub beat: TimeSpan,
    /// The number of strikes that make a node offline.
    pub strikes: u32,
    /// What a new leader waits for.
    #[schemars(with = "String")]
    pub handover: Handover,
    /// How free jobs are distributed over nodes.
    #[schemars(with = "String")]
    pub spread: Spread,
    /// The present leader, if the planner is a leader; none while this node cannot know it.
    pub leader: Option<String>,
    /// What this node knew last, if its lease is not trusted and it cannot know the leader; none if it can.
    #[serde(default)]
    pub leader_unknown: Option<LeaderUnknown>,
}

/// The last known leader, as a node whose lease is not trusted knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaderUnknown {
    /// The last known leader.
    pub last: Option<String>,
    /// Since when another node may lead.
    pub since: Option<String>,
}

/// A change of cluster settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// Which node plans dispatched jobs.
    #[schemars(with = "Option<String>")]
    pub planner: Option<PlannerKind>,
    /// The length of a beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub beat: Option<TimeSpan>,
    /// The number of strikes that make a node offline.
    pub strikes: Option<u32>,
    /// What a new leader waits for.
    #[schemars(with = "Option<String>")]
    pub handover: Option<Handover>,
    /// How free jobs are distributed over nodes.
    #[schemars(with = "Option<String>")]
    pub spread: Option<Spread>,
}

/// The layout of the registry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutRow {
    /// Its number.
    pub layout: u32,
    /// `updated` if it was raised, `unchanged` if it was the newest already.
    #[schemars(with = "String")]
    pub applied: ApplyResult,
}

/// A page of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobPage {
    /// The jobs, by name.
    pub jobs: Vec<JobRow>,
    /// The `after` of the next page; none at the end.
    pub after: Option<String>,
    /// How many jobs the list has on all its pages; left out where jobs are searched for by text or labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// The number of jobs in other namespaces, where the list is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<usize>,
    /// Online nodes that did not answer: what only their histories have of the runs is not in the rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunPage {
    /// The latest first.
    pub runs: Vec<RunRow>,
    /// On the first page, waiting runs that no history has: first those that `run kill` ends, then fires that no node
    /// has claimed; of both the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<RunRow>,
    /// The number of further waiting runs.
    #[serde(default)]
    pub waiting_more: usize,
    /// The `before` of the next page; none at the end.
    pub before: Option<String>,
    /// Online nodes that did not answer: records that only their histories have are not in the page.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// All running attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunningRow {
    /// The number of attempts.
    pub running: usize,
    /// The attempts, the latest first.
    pub runs: Vec<RunRow>,
    /// Online nodes that did not answer: their running attempts are not counted.
    #[serde(default)]
    pub missing: Vec<String>,
}
