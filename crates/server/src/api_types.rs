//! What the API says and the client reads: rows with stable fields, times as RFC 3339 in UTC with milliseconds.

mod audit;
mod balance;
mod calendars;
mod events;
mod explain;
mod fires;
mod shards;
mod switches;

use evenkeel_core::input::ApplyResult;
use evenkeel_core::job::{Job, Placement};
use evenkeel_core::labels::Labels;
use evenkeel_core::node::Spread;
use evenkeel_core::record::{Handover, PlannerKind};
use evenkeel_core::schedule::Seconds;
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

pub(crate) use audit::{AuditPage, AuditRow};
pub(crate) use balance::{BalanceReport, BalanceRow, ObstacleRow, ProjectedLoad, WhatIfRow};
pub(crate) use calendars::{CalendarDetail, CalendarRow};
pub(crate) use events::{EventPage, EventRow, LoadRow};
pub(crate) use explain::{ExplanationRow, ExplanationStep};
pub(crate) use fires::FireRow;
pub(crate) use shards::{
    AssignmentRow, ReshardPendingRow, ShardActivity, ShardPage, ShardRangeRow, ShardRow, ShardingRow,
};
pub(crate) use switches::SwitchRow;

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRow {
    /// Its name.
    pub(crate) name: String,
    /// Its schedule as declared, several rules with `; ` between; empty when it runs only by hand.
    pub(crate) schedule: String,
    /// Its zone; `UTC` when none is declared.
    pub(crate) timezone: String,
    /// How nodes are chosen for it.
    pub(crate) placement: Placement,
    /// The node that holds it; the one that leads it when it is sharded, or plans it when it is dispatched.
    pub(crate) owner: Option<String>,
    /// How many nodes hold it, or shards of it; none of a dispatched one.
    pub(crate) nodes: usize,
    /// Its next fire; none while it is paused, disabled or has no further fire.
    pub(crate) next: Option<String>,
    /// Whether it fires only by hand for now.
    pub(crate) paused: bool,
    /// Whether no node holds it, and it does not run by hand either.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) disabled: bool,
    /// The calendars that it names and that there are not: without them it never fires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// Whether no living node has the labels that it asks for: until one has, nothing of it runs.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) fits_nobody: bool,
}

/// Everything about a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobDetail {
    /// Its name.
    pub(crate) name: String,
    /// The declaration as it was applied last; `disabled` and `switches` say what operators made of it.
    pub(crate) job: Job,
    /// Rises with every change.
    pub(crate) version: u64,
    /// The node that holds it; the one that leads it when it is sharded, or plans it when it is dispatched.
    pub(crate) owner: Option<String>,
    /// Its next fire.
    pub(crate) next: Option<String>,
    /// Whether it fires only by hand for now.
    pub(crate) paused: bool,
    /// Fires up to here are nobody's.
    pub(crate) since: String,
    /// The calendars that it names and that there are not: without them it never fires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// Whether no living node has the labels that it asks for: until one has, nothing of it runs.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) fits_nobody: bool,
    /// Whether no node holds it, and it does not run by hand either.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) disabled: bool,
    /// What operators switched, so that it is not as the declaration says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) switches: Vec<SwitchRow>,
    /// Who has which of its shards; none when it is not sharded.
    pub(crate) sharing: Option<ShardingRow>,
}

/// A run, or its latest attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRow {
    /// Its id.
    pub(crate) run: String,
    /// Of which job.
    pub(crate) job: String,
    /// Which shard.
    pub(crate) shard: u32,
    /// The moment it stands for.
    pub(crate) due: String,
    /// The node that has it; empty while none has.
    pub(crate) node: String,
    /// Which attempt, counted from 1.
    pub(crate) attempt: u32,
    /// `running`, `succeeded`, `failed`, `killed`, `timed_out`, `fenced`, `lost`, `skipped`, `waiting`.
    pub(crate) state: String,
    /// In words, where it did not succeed, or why it waits.
    pub(crate) reason: Option<String>,
    /// When the attempt started.
    pub(crate) started: Option<String>,
    /// When it ended.
    pub(crate) ended: Option<String>,
    /// Whether `run kill` ends it: a request, or a run that a node has. A node of an earlier version does not say.
    #[serde(default)]
    pub(crate) killable: Option<bool>,
}

/// A node: one that lives, or that left within the last day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeRow {
    /// Its name.
    pub(crate) name: String,
    /// `online`, `draining`, `drained`, `offline`, or `gone`.
    #[serde(default)]
    pub(crate) state: String,
    /// The version of its program.
    #[serde(default)]
    pub(crate) version: String,
    /// How many jobs it holds (X).
    pub(crate) held: usize,
    /// How many shards of sharded jobs it has.
    pub(crate) shards: usize,
    /// How many it may hold at most just now (N).
    pub(crate) quota: usize,
    /// Above how many it raises the alarm (M).
    pub(crate) alarm: u32,
    /// Whether it gives its jobs up, or has done so.
    pub(crate) draining: bool,
    /// Whether it is drained and owns nothing any more, so that it may be stopped.
    #[serde(default)]
    pub(crate) drained: bool,
    /// Whether its peers take it for unreachable.
    #[serde(default)]
    pub(crate) offline: bool,
    /// Its load score; none until load is sampled.
    pub(crate) score: Option<f64>,
    /// What jobs may choose it by.
    #[serde(default)]
    pub(crate) labels: Labels,
    /// Where it answers; empty for one that does not.
    pub(crate) address: String,
    /// How much of its processors is in use, in percent.
    pub(crate) cpu: Option<f64>,
    /// How much of its memory is in use, in percent.
    pub(crate) memory: Option<f64>,
    /// How many of its slots are busy, as it said last.
    pub(crate) busy: Option<u32>,
    /// How many runs it executes at once.
    pub(crate) slots: u32,
    /// When it joined, as far as history knows.
    pub(crate) joined: Option<String>,
    /// Since when its peers cannot reach it.
    pub(crate) offline_since: Option<String>,
    /// When it measured what stands here of its load; it does so once a minute.
    #[serde(default)]
    pub(crate) measured: Option<String>,
    /// Since when it is gone; none while it lives.
    #[serde(default)]
    pub(crate) gone_since: Option<String>,
    /// What became of its jobs, where it is gone.
    #[serde(default)]
    pub(crate) left: Option<String>,
    /// Why its history takes no entries, so that it starts nothing and refuses changes; none while it does.
    #[serde(default)]
    pub(crate) history: Option<String>,
}

/// The node that has least to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServiceRow {
    /// Its name.
    pub(crate) node: String,
    /// Where it answers.
    pub(crate) address: String,
    /// Its load score, from 0 to 100; none while it has not said one.
    pub(crate) score: Option<f64>,
}

/// What is set for the whole cluster, and who leads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettingsRow {
    /// Who plans dispatched jobs.
    pub(crate) planner: PlannerKind,
    /// The length of a beat.
    pub(crate) beat: Seconds,
    /// How many strikes make a node offline.
    pub(crate) strikes: u32,
    /// What a new leader waits for.
    pub(crate) handover: Handover,
    /// How free jobs are spread over nodes.
    pub(crate) spread: Spread,
    /// The living leader, where one plans; none while the node that answers cannot know.
    pub(crate) leader: Option<String>,
    /// What that node knew last, where its lease is not trusted and it cannot know who leads; none while it can.
    #[serde(default)]
    pub(crate) leader_unknown: Option<LeaderUnknown>,
}

/// What a node whose lease is not trusted knew last of who leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaderUnknown {
    /// The leader that it knew of last.
    pub(crate) last: Option<String>,
    /// Since when another one may lead.
    pub(crate) since: Option<String>,
}

/// What is to be set of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsChange {
    /// Who plans dispatched jobs.
    pub(crate) planner: Option<PlannerKind>,
    /// The length of a beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beat: Option<Seconds>,
    /// How many strikes make a node offline.
    pub(crate) strikes: Option<u32>,
    /// What a new leader waits for.
    pub(crate) handover: Option<Handover>,
    /// How free jobs are spread over nodes.
    pub(crate) spread: Option<Spread>,
}

/// In which layout the tree is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayoutRow {
    /// Its number.
    pub(crate) layout: u32,
    /// `updated` where it was raised, `unchanged` where it was the newest already.
    pub(crate) applied: ApplyResult,
}

/// A page of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobPage {
    /// In the order of their names.
    pub(crate) jobs: Vec<JobRow>,
    /// Give this as `after` for the next page; none at the end.
    pub(crate) after: Option<String>,
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunPage {
    /// The latest first.
    pub(crate) runs: Vec<RunRow>,
    /// Beside the first page, runs that wait and that no history has: first those that `run kill` ends, then fires that no node
    /// has claimed; of both the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting: Vec<RunRow>,
    /// How many more of them there are.
    #[serde(default)]
    pub(crate) waiting_more: usize,
    /// Give this as `before` for the next page; none at the end.
    pub(crate) before: Option<String>,
    /// Nodes that live and did not answer: what only their histories have is not in the page.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
}

/// All that runs now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningRow {
    /// How many attempts that are.
    pub(crate) running: usize,
    /// Each of them, the latest first.
    pub(crate) runs: Vec<RunRow>,
    /// Nodes that live and did not answer: what they run is not counted.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
}

/// A moment as the API writes it.
#[must_use]
pub(crate) fn moment(at: Wall) -> String {
    at.to_string()
}

/// A zone as the API writes it.
#[must_use]
pub(crate) fn zone(declared: &str) -> String {
    if declared.is_empty() { "UTC".to_owned() } else { declared.to_owned() }
}

/// A word as it is written in JSON, without the quotes.
pub(crate) fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
