//! The answers of small changes and of lists that have no file of their own.

use evenkeel_core::input::ApplyResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CalendarRow, FireRow, LoadRow, NodeRow, RunRow, TokenRow, UserRow};

/// A change that was made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DoneAnswer {
    /// `true`: a change that was not made has another status.
    pub done: bool,
    /// Whether something changed: `created`, `updated` or `unchanged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub applied: Option<ApplyResult>,
    /// What the caller should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// A calendar, a namespace, a secret or a user that was declared.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeclaredAnswer {
    /// Its name.
    pub name: String,
    /// `created`, `updated` or `unchanged`.
    #[schemars(with = "String")]
    pub applied: ApplyResult,
    /// The version that it has now, of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// What the caller should know, of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// All calendars, or those of one namespace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CalendarPage {
    /// The calendars by name.
    pub calendars: Vec<CalendarRow>,
    /// How many there are in other namespaces, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<usize>,
}

/// The next fires of a job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NextFires {
    /// The job.
    pub job: String,
    /// Its next fires.
    pub next: Vec<String>,
    /// The remarks about each of them, as about a change of the clocks.
    pub notes: Vec<Vec<String>>,
    /// The same moments in the zone that was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<Vec<String>>,
}

/// The jobs that the node that answers claims now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClaimAnswer {
    /// How many it claims.
    pub claims: usize,
    /// How many free jobs it leaves.
    pub left: usize,
    /// Why it leaves them.
    pub reasons: Vec<ClaimReason>,
}

/// Why a node leaves free jobs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClaimReason {
    /// How many jobs.
    pub jobs: usize,
    /// Why.
    pub reason: String,
}

/// A run that was requested.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunAnswer {
    /// The run, or the fire of a sharded job.
    pub run: String,
    /// When it was requested.
    pub asked: String,
    /// `created`, or `unchanged` if it had been requested already.
    #[schemars(with = "String")]
    pub applied: ApplyResult,
    /// Why it does not start now.
    #[serde(default)]
    pub reason: Option<String>,
    /// What the caller should know.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The shards that it has, as `0-15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<String>,
}

/// The nodes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodePage {
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// The nodes that are online.
    pub nodes: Vec<NodeRow>,
    /// How many these are.
    #[serde(default)]
    pub total: usize,
    /// The nodes that left within the last day.
    pub gone: Vec<NodeRow>,
    /// Whether the entry of the node that answers was deleted from outside.
    pub closed: bool,
}

/// The load of a node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoadPage {
    /// A point a minute, the latest first.
    pub load: Vec<LoadRow>,
}

/// A run or a fire with all its attempts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunDetail {
    /// The run or the fire.
    pub run: String,
    /// Its attempts, the first one first.
    pub attempts: Vec<RunRow>,
    /// More about each attempt.
    pub details: Vec<AttemptDetail>,
    /// The parameters of a manual run, with the defaults of the moment at which it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<std::collections::BTreeMap<String, String>>,
    /// The state, of a fire, and of a run without attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why it waits, or why not all shards succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The job, of a fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The moment at which it is due, of a fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The shards in each state, of a fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<std::collections::BTreeMap<String, String>>,
    /// When the first attempt started, of a fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When the last shard ended, of a fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The nodes whose history could not be asked, of a fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<String>>,
}

/// More about an attempt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AttemptDetail {
    /// The run.
    pub run: String,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// Its fencing token; none if it was never attempted.
    pub token: Option<u64>,
    /// The exit code of a command, or the status of a request.
    pub code: Option<i32>,
    /// The bytes of output that were kept.
    pub output: u64,
    /// Who planned it and why there, and of which backfill it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<String>,
}

/// Whether a run has ended.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaitAnswer {
    /// Whether it has.
    pub done: bool,
    /// Its last attempt, or the fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<EndedRow>,
}

/// What has ended.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EndedRow {
    /// A run.
    Run(RunRow),
    /// All shards of a fire.
    Fire(FireRow),
}

/// Output that was deleted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForgetAnswer {
    /// `true`.
    pub done: bool,
    /// How many attempts had output.
    pub removed: usize,
}

/// A program that takes over from the one that answers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UpgradeAnswer {
    /// Its version.
    pub version: String,
    /// Events after this moment say whether it did.
    pub since: String,
}

/// The cluster in the data format of another scheduler.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TreePage {
    /// The entries.
    pub tree: Vec<Value>,
    /// The job after which the next page begins.
    pub after: Option<String>,
}

/// The API tokens.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TokenPage {
    /// The tokens by name, without their secrets.
    pub tokens: Vec<TokenRow>,
}

/// A new secret of an API token.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NewToken {
    /// Its name.
    pub name: String,
    /// The text that callers show; no other answer has it.
    pub token: String,
    /// Until when it is accepted; for ever if none.
    pub expires: Option<String>,
    /// The job that it runs as a webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// What the caller should know.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The users.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UserPage {
    /// The users by name.
    pub users: Vec<UserRow>,
}

/// A link that logs a browser in once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoginLink {
    /// Its path.
    pub path: String,
    /// For how many seconds it is good.
    pub lasts_s: i64,
}

/// A token by which a node joins.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JoinTokenAnswer {
    /// The token.
    pub token: String,
    /// Until when this node accepts it.
    pub until: String,
}

/// What became of each of many jobs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BulkAnswer {
    /// One for each job.
    pub items: Vec<BulkItem>,
    /// To how many it was done.
    pub done: usize,
    /// How many were refused.
    pub failed: usize,
}

/// What became of one of many jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BulkItem {
    /// The job.
    pub job: String,
    /// Whether it was done.
    pub done: bool,
    /// The run that began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// `unchanged` if the run had been requested already, else `created`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub applied: Option<ApplyResult>,
    /// Why the run does not start now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the caller should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The kind of refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it was refused, and the fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
