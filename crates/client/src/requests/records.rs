//! What nodes record: counts, attention, events, the audit log.

use evenkeel_core::ids::{JobName, Namespace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which fires are counted, and by what.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SummaryQuery {
    /// Only fires that are due from this moment on, rounded down to the hour: RFC 3339, or a span before now, as `7d`; by
    /// default a day before `until`.
    pub since: Option<String>,
    /// Only fires that are due before this moment, rounded up to the hour, written likewise; now by default.
    pub until: Option<String>,
    /// What the rows are about: `hour` (the default), `day` or `job`.
    pub by: Option<String>,
    /// Only of this job, which may be deleted.
    #[schemars(with = "Option<String>")]
    pub job: Option<JobName>,
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// Only jobs whose labels meet all these conditions at present, as `team=billing|sales,!legacy`.
    pub label: Option<String>,
    /// The order of jobs: `name` (the default), or `trouble` for the most failed and missed fires first, and no jobs
    /// without any.
    pub sort: Option<String>,
    /// The most jobs; in the order of names the answer says where the next page begins.
    pub limit: Option<u32>,
    /// Only jobs that follow this name: `after` of the page before.
    #[schemars(with = "Option<String>")]
    pub after: Option<JobName>,
}

/// Which fires are accounted for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportQuery {
    /// Only fires that were due at this moment or later: RFC 3339, or a span before now, as `7h`; by default a day before
    /// `until`.
    pub since: Option<String>,
    /// Only fires that were due before this moment, written likewise; now by default. At most seven days after `since`.
    pub until: Option<String>,
    /// Only of this job.
    #[schemars(with = "Option<String>")]
    pub job: Option<JobName>,
    /// Only of jobs of this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// Only of jobs whose labels meet all these conditions at present, as `team=billing|sales,!legacy`.
    pub label: Option<String>,
    /// Rows for the fires that ran, too.
    #[serde(default)]
    pub all: bool,
    /// The most jobs; the answer says where the next page begins.
    pub limit: Option<usize>,
    /// Only jobs that follow this name: `after` of the page before.
    #[schemars(with = "Option<String>")]
    pub after: Option<JobName>,
}

/// Which rows need a person.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionListQuery {
    /// Only what is in this namespace; rows about nodes are left out.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// Only jobs whose labels meet all these conditions, as `team=billing|sales,!legacy`; rows about nodes are left out.
    pub label: Option<String>,
    /// Only rows of this kind, or of several with commas between them.
    pub kind: Option<String>,
    /// The most rows; `counts` says how many there are.
    pub limit: Option<usize>,
}

/// Which events are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventListQuery {
    /// Only this node.
    pub node: Option<String>,
    /// Only events of this kind.
    pub kind: Option<String>,
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// Only from this moment on: RFC 3339, or a span before now, as `10m`.
    pub since: Option<String>,
    /// The most rows; the answer says where the next page begins.
    pub limit: Option<u32>,
    /// Only what is older: `before` of the page before.
    pub before: Option<String>,
}

/// Which entries of the audit log are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditListQuery {
    /// Only of this job.
    #[schemars(with = "Option<String>")]
    pub job: Option<JobName>,
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// Only this node.
    pub node: Option<String>,
    /// Only of this caller, as `user:ann`.
    pub who: Option<String>,
    /// Only from this moment on: RFC 3339, or a span before now, as `10m`.
    pub since: Option<String>,
    /// Only before this moment, written likewise.
    pub until: Option<String>,
    /// The most rows; the answer says where the next page begins.
    pub limit: Option<u32>,
    /// Only what is older: `before` of the page before.
    pub before: Option<String>,
}

/// What the live stream is about.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LiveQuery {
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// The id of the last event that the caller has, if it cannot set the header `Last-Event-ID`.
    pub last_event_id: Option<String>,
}
