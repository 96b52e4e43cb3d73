//! Jobs: lists, declarations, switches, versions and backfills.

use evenkeel_core::ids::{JobName, Namespace, NodeName, RequestId};
use evenkeel_core::job::{JobFile, RunParameters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which jobs are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobListQuery {
    /// The most rows; the answer says where the next page begins.
    pub limit: Option<usize>,
    /// Only what follows this name: `after` of the page before.
    #[schemars(with = "Option<String>")]
    pub after: Option<JobName>,
    /// Only what contains this text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub find: String,
    /// Only jobs whose labels meet all these conditions, as `team=billing|sales,!legacy`.
    pub label: Option<String>,
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// The order: `name` (the default), or `next` for what is due soonest first, which has one page.
    pub sort: Option<String>,
    /// What else each row has: `runs` for the last outcome, and how many runs execute and wait. It takes the node longer.
    pub with: Option<String>,
}

/// Which fires of a job are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NextFiresQuery {
    /// How many.
    pub n: Option<usize>,
    /// The zone in which they are shown as well.
    pub tz: Option<String>,
    /// From this moment on.
    pub from: Option<String>,
}

/// Jobs that are declared together.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyBody {
    /// The jobs.
    #[schemars(schema_with = "crate::types::declared::jobs")]
    pub jobs: Vec<JobFile>,
}

/// A manual run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunNowBody {
    /// The id of the request, so that it can be repeated without effect.
    #[schemars(with = "Option<String>")]
    pub request: Option<RequestId>,
    /// Only this node.
    #[schemars(with = "Option<String>")]
    pub node: Option<NodeName>,
    /// The values of parameters that the job declares. One that is left out has its default.
    #[serde(default, skip_serializing_if = "RunParameters::is_empty")]
    #[schemars(schema_with = "crate::types::declared::parameters")]
    pub parameters: RunParameters,
}

/// Where a job is run or switched.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimQuery {
    /// The only node that should claim; all nodes by default.
    #[schemars(with = "Option<String>")]
    pub node: Option<NodeName>,
}

/// Which jobs: these, or all that a selector fits.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkBody {
    /// The names of the jobs.
    #[serde(default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub jobs: Option<Vec<JobName>>,
    /// Conditions on labels, as `team=billing|sales,!legacy`, in place of names.
    pub label: Option<String>,
    /// The namespace of the jobs with these labels; without one, the whole cluster's.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// Whether to name the jobs only, and to do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which fires are run, and how.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillBody {
    /// The first moment of the span: RFC 3339, or a span before now, as `7d`.
    pub from: String,
    /// The first moment after the span, written likewise; now if left out.
    pub to: Option<String>,
    /// How many of its runs may execute at once, at least 1; never more than `overlap` of the job allows.
    #[serde(default = "one")]
    pub max_parallel: u32,
    /// Whether to say only which fires would be run.
    #[serde(default)]
    pub dry_run: bool,
    /// An id for the request: a repeated request with the same id has no further effect. Or send `Idempotency-Key`.
    #[schemars(with = "Option<String>")]
    pub request: Option<RequestId>,
    /// The values of parameters that the job declares, for all of its runs.
    #[serde(default, skip_serializing_if = "RunParameters::is_empty")]
    #[schemars(schema_with = "crate::types::declared::parameters")]
    pub parameters: RunParameters,
}

/// Which entry is accepted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptJobBody {
    /// The revision of the entry, as the list has it.
    pub revision: u64,
}

/// Which versions of a job are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobVersionListQuery {
    /// The most rows; the answer says where the next page begins.
    pub limit: Option<usize>,
    /// Only versions before this one: `after` of the page before.
    pub after: Option<u64>,
}

/// How a version of a job is shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobVersionQuery {
    /// The version with which it is compared; the one before it by default.
    pub diff: Option<u64>,
}

/// Which version is declared again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackBody {
    /// The version.
    pub version: u64,
    /// Whether to say only what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// How shards are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardListQuery {
    /// Whether to fold equal shards into one row.
    #[serde(default)]
    pub fold: bool,
}

/// One run at a time.
const fn one() -> u32 {
    1
}

/// From the empty moment, which no node takes, with one run at a time.
impl Default for BackfillBody {
    fn default() -> Self {
        Self {
            from: String::new(),
            to: None,
            max_parallel: one(),
            dry_run: false,
            request: None,
            parameters: RunParameters::default(),
        }
    }
}
