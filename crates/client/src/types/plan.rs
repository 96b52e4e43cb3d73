//! What declarations or switches would change, before they do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SwitchRow;

/// What declarations or switches would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanAnswer {
    /// The declared calendars.
    #[serde(default)]
    pub calendars: Vec<PlannedCalendar>,
    /// The jobs, first those of the request in its order, then those that use a calendar which would change, at last those
    /// that would be deleted.
    pub jobs: Vec<PlanRow>,
    /// What would be refused. If anything is, nothing would be done.
    pub refused: Vec<PlanRefusal>,
    /// The sums.
    pub totals: PlanTotals,
    /// How many jobs use a calendar which would change and are in namespaces that the caller may not see.
    pub elsewhere: usize,
}

/// What would become of a declared calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedCalendar {
    /// Its name.
    pub name: String,
    /// `created`, `updated` or `unchanged`.
    pub becomes: PlanEffect,
    /// The values of its keys that would change, by key.
    pub values: BTreeMap<String, FieldEdit>,
}

/// What would become of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRow {
    /// Its name.
    pub name: String,
    /// What it would become.
    pub becomes: PlanEffect,
    /// The keys of its declaration that would change.
    pub fields: Vec<String>,
    /// Their values, by key.
    pub values: BTreeMap<String, FieldEdit>,
    /// The first fires that would change, at most ten.
    pub changes: Vec<PlannedFire>,
    /// Whether there may be more of them.
    pub more: bool,
    /// The number of unchanged fires, up to `until`.
    pub kept: usize,
    /// The last fire that was compared.
    pub until: Option<String>,
    /// The first fire after the change; none if there is none.
    #[serde(default)]
    pub next: Option<String>,
    /// The IANA time zone of its schedule.
    #[serde(default)]
    pub timezone: String,
    /// The calendars that it uses and that would change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<String>,
    /// What needs a person: no online node matches its node selector, or it never fires again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The operators' switches that the change keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchRow>,
    /// The operators' switches that the change ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<SwitchRow>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// What a job would become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanEffect {
    /// It would be new.
    Created,
    /// Its declaration would change.
    Updated,
    /// Its declaration is the same.
    Unchanged,
    /// It would fire again after a pause.
    Resumed,
    /// It would be enabled again.
    Enabled,
    /// It uses a calendar which would change.
    Calendar,
    /// It would be deleted.
    Deleted,
}

/// The values of a key before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldEdit {
    /// The value now; `null` if the key is not set.
    pub old: Value,
    /// The value then.
    pub new: Value,
}

/// A fire that would be added or dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedFire {
    /// When it is due.
    pub due: String,
    /// `added`, `dropped`, or `repeats` for one that is added and repeats the local time of a past fire in another zone.
    pub fate: String,
    /// The past fire that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

/// Why an object of a plan would be refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRefusal {
    /// `job` or `calendar`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The kind of refusal, as in a problem: `invalid`, `conflict` or `not_found`.
    pub code: String,
    /// What is wrong, and the fix.
    pub detail: String,
}

/// The sums of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanTotals {
    /// The number of jobs that would be created.
    pub created: usize,
    /// The number of jobs whose declarations would change.
    pub updated: usize,
    /// The number of jobs whose declarations are the same.
    pub unchanged: usize,
    /// The number of jobs that would be resumed or enabled.
    pub switched: usize,
    /// The number of other jobs that use a calendar which would change.
    pub calendar: usize,
    /// The number of jobs that would be deleted.
    #[serde(default)]
    pub deleted: usize,
    /// The number of calendars that would be created or changed.
    #[serde(default)]
    pub calendars: usize,
    /// The number of added fires in all `changes`, with those that repeat one.
    pub fires_added: usize,
    /// The number of dropped fires in all `changes`.
    pub fires_dropped: usize,
}

impl PlanAnswer {
    /// Adds a row, also to the sums.
    pub fn push(&mut self, row: PlanRow) {
        let totals = &mut self.totals;
        *match row.becomes {
            PlanEffect::Created => &mut totals.created,
            PlanEffect::Updated => &mut totals.updated,
            PlanEffect::Unchanged => &mut totals.unchanged,
            PlanEffect::Resumed | PlanEffect::Enabled => &mut totals.switched,
            PlanEffect::Calendar => &mut totals.calendar,
            PlanEffect::Deleted => &mut totals.deleted,
        } += 1;
        let dropped = row.changes.iter().filter(|fire| fire.fate == PlannedFire::DROPPED).count();
        totals.fires_dropped += dropped;
        totals.fires_added += row.changes.len() - dropped;
        self.jobs.push(row);
    }

    /// Adds a calendar, also to the sums.
    pub fn push_calendar(&mut self, row: PlannedCalendar) {
        self.totals.calendars += usize::from(row.becomes != PlanEffect::Unchanged);
        self.calendars.push(row);
    }

    /// Whether anything would change.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        let PlanTotals { created, updated, switched, deleted, calendars, .. } = self.totals;
        [created, updated, switched, deleted, calendars] != [0; 5]
    }
}

impl PlannedFire {
    /// The fate of a fire that would be dropped.
    pub const DROPPED: &str = "dropped";
}
