//! Schedules: previews, plans, forecasts and calendars.

use evenkeel_core::calendar::CalendarFile;
use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::job::JobFile;
use evenkeel_core::schedule::Dst;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::ForecastStep;

/// The keys of a job that decide when it is due, as a job file has them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewQuery {
    /// The schedule, several rules one a line.
    pub schedule: String,
    /// The time zone in which it is read; UTC if left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timezone: String,
    /// The name of the future job, which decides what `H` and a jitter mean.
    #[schemars(with = "Option<String>")]
    pub name: Option<JobName>,
    /// What clock changes do to it: `skip`, `shift`, `once` or `twice`; each rule's own default if left out.
    #[schemars(with = "Option<String>")]
    pub dst: Option<Dst>,
    /// How far each fire may be moved, as `5m`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jitter: String,
    /// The first moment at which it may be due.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start_at: String,
    /// The moment from which on it is not due any more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub end_at: String,
    /// Calendars with commas between them: it is not due at a moment that one of them holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exclude_calendars: String,
    /// Calendars with commas between them: it is due only at moments that all of them hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub require_calendars: String,
    /// The namespace of calendars that are named alone.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// How many fires.
    pub n: Option<usize>,
    /// The zone in which they are shown as well.
    pub tz: Option<String>,
    /// From this moment on.
    pub from: Option<String>,
}

/// What is planned.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanBody {
    /// The jobs that would be declared, as for `/jobs/apply`.
    #[serde(default)]
    #[schemars(schema_with = "crate::types::declared::jobs")]
    pub jobs: Vec<JobFile>,
    /// The calendars that would be declared before them.
    #[serde(default)]
    #[schemars(schema_with = "crate::types::declared::calendars")]
    pub calendars: Vec<CalendarFile>,
    /// The names of jobs that would be resumed.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub resume: Vec<JobName>,
    /// The names of jobs that would be enabled.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub enable: Vec<JobName>,
    /// The names of jobs that would be deleted after everything else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub delete: Vec<JobName>,
}

/// Which fires are counted, and how.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForecastQuery {
    /// Only jobs of this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
    /// Only jobs whose labels meet all these conditions, as `team=billing|sales,!legacy`.
    pub label: Option<String>,
    /// From this moment on, as `2026-03-01T22:30:00Z`; from the present minute or hour if left out. The first step is the one
    /// that has this moment, with all of its fires.
    pub since: Option<String>,
    /// How many hours, from 1 to 48; 24 if left out.
    pub hours: Option<u32>,
    /// The length of a step: `minute` or `hour`.
    #[serde(default)]
    pub step: ForecastStep,
}

/// Which calendars are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalendarListQuery {
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
}
