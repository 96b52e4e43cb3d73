//! Describes what a transaction changes, without secrets: only times, numbers and switches appear with their values.

use evenkeel_core::ids::{CalendarName, JobName, Namespace, PrincipalName, SecretName};
use evenkeel_core::job::Spec;
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::principal::PrincipalKind;
use evenkeel_core::record::{
    CalendarRecord, ClusterRecord, ClusterSettings, NamespaceRecord, PrincipalRecord, SecretRecord,
    SpecRecord, decode,
};
use evenkeel_core::registry::{Txn, Write};
use evenkeel_core::view::View;
use serde::Serialize;
use serde_json::{Map, Value};

use super::declared_change::DeclaredChange;

/// The fields of a declaration that may be shown with their values. Any other changed field appears by name only: a
/// command, a parameter, an address or a header may hold a secret.
const PUBLIC_FIELDS: &[&str] = &[
    "jobs_max",
    "runs_max",
    "schedule",
    "timezone",
    "dst",
    "start_at",
    "end_at",
    "jitter",
    "exclude_calendars",
    "require_calendars",
    "placement",
    "node_selector",
    "priority",
    "pool",
    "shards",
    "strategy",
    "order",
    "sticky_shards",
    "one_per_host",
    "monitor_execution",
    "max_clock_skew",
    "reshard_timeout",
    "delivery",
    "min_durability",
    "timeout",
    "run_timeout",
    "pause_after_failures",
    "misfire_grace",
    "catch_up",
    "catch_up_window",
    "catch_up_spread",
    "retry",
    "overlap",
    "shadow",
    "enabled",
    "labels",
    "paused",
    "off",
    "beat",
    "strikes",
    "planner",
    "handover",
    "layout",
    "wanted",
    "grants",
    "disabled",
    "sessions",
    "owner",
    "expires",
];
/// The longest value that is shown.
const VALUE_MAX: usize = 80;

/// The changes of one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeSummary {
    pub(super) job: Option<JobName>,
    pub(super) object: String,
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) what: String,
    /// What becomes of a job's declaration.
    pub(super) declared: Option<Box<DeclaredChange>>,
}

/// The changes that this transaction makes to the view; its guards ensure that the view's entries are the current ones.
pub(super) fn of(view: &View, txn: &Txn) -> ChangeSummary {
    let puts = txn.writes.iter().filter_map(|write| match write {
        Write::Put { key, value, .. } => Some((parse(key)?, value)),
        Write::Delete { .. } => None,
    });
    for (key, value) in puts {
        let change = match key {
            ParsedKey::Spec(name) => decode(value).map(|new: SpecRecord| of_job(view, &name, &new)),
            ParsedKey::Calendar(name) => {
                decode(value).map(|new: CalendarRecord| of_calendar(view, &name, &new))
            }
            ParsedKey::Principal(kind, name) => {
                decode(value).map(|new: PrincipalRecord| of_principal(view, kind, &name, &new))
            }
            ParsedKey::Namespace(name) => {
                decode(value).map(|new: NamespaceRecord| of_namespace(view, &name, &new))
            }
            ParsedKey::Secret(name) => decode(value).map(|new: SecretRecord| of_secret(view, &name, &new)),
            ParsedKey::Settings => decode(value).map(|new: ClusterSettings| ChangeSummary {
                what: differences(&plain(&view.settings()), &plain(&new)),
                ..ChangeSummary::default()
            }),
            ParsedKey::Cluster => decode(value).map(|new: ClusterRecord| ChangeSummary {
                what: differences(&plain(&view.cluster().value), &plain(&new)),
                ..ChangeSummary::default()
            }),
            _ => None,
        };
        if let Some(change) = change {
            return change;
        }
    }
    ChangeSummary::default()
}

fn of_job(view: &View, name: &JobName, new: &SpecRecord) -> ChangeSummary {
    let old = view.find(name).and_then(|job| job.spec());
    let what = match (&old, new) {
        // No node writes one without a seal.
        (_, SpecRecord::Deleted { .. } | SpecRecord::Unsealed(_)) => "deleted".to_owned(),
        (None, SpecRecord::Live(_)) => "created".to_owned(),
        (Some(old), SpecRecord::Live(new)) => differences_of(old, new),
    };
    let (before, after) = (old.as_ref().map(|old| old.version), Some(new.version()));
    let declared = DeclaredChange::of(name, old.as_ref(), new);
    let object = format!("job {name}");
    ChangeSummary { job: Some(name.clone()), object, before, after, what, declared }
}

fn of_calendar(view: &View, name: &CalendarName, new: &CalendarRecord) -> ChangeSummary {
    let old = view.calendar(name);
    let what = match (old, new) {
        (_, CalendarRecord::Deleted { .. }) => "deleted".to_owned(),
        (None, CalendarRecord::Live(_)) => "created".to_owned(),
        (Some(old), CalendarRecord::Live(new)) => differences(&plain(&old.calendar), &plain(&new.calendar)),
    };
    let (before, after) = (old.map(|old| old.version), Some(new.version()));
    ChangeSummary { object: format!("calendar {name}"), before, after, what, ..ChangeSummary::default() }
}

fn of_principal(
    view: &View,
    kind: PrincipalKind,
    name: &PrincipalName,
    new: &PrincipalRecord,
) -> ChangeSummary {
    let known = view.principal_entry(kind, name).and_then(|entry| entry.value.as_ref());
    let old = known.and_then(|record| Some((record.live()?, record.version())));
    let what = match (old, new.live()) {
        (_, None) => "deleted".to_owned(),
        (None, Some(new)) => {
            let grants = new.grants.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            match &new.trigger {
                Some(job) => format!("created: runs job {job}"),
                None => format!("created: {}", if grants.is_empty() { "no roles" } else { &grants }),
            }
        }
        (Some((old, _)), Some(new)) => differences(&plain(old), &plain(new)),
    };
    let (before, after) = (old.map(|(_, version)| version), Some(new.version()));
    let object = format!("{} {name}", kind.as_str());
    ChangeSummary { object, before, after, what, ..ChangeSummary::default() }
}

/// Only that it changed: the value is sealed.
fn of_secret(view: &View, name: &SecretName, new: &SecretRecord) -> ChangeSummary {
    let old = view.secret(name).map(|old| old.version);
    let what = match (old, new) {
        (_, SecretRecord::Deleted { .. }) => "deleted",
        (None, SecretRecord::Live(_)) => "created",
        (Some(_), SecretRecord::Live(_)) => "set anew",
    };
    let (object, after) = (format!("secret {name}"), Some(new.version()));
    ChangeSummary { object, before: old, after, what: what.to_owned(), ..ChangeSummary::default() }
}

fn of_namespace(view: &View, name: &Namespace, new: &NamespaceRecord) -> ChangeSummary {
    let old = view.namespace(name);
    let what = match (old, new) {
        (_, NamespaceRecord::Deleted { .. }) => "deleted".to_owned(),
        (None, NamespaceRecord::Live(_)) => "created".to_owned(),
        (Some(old), NamespaceRecord::Live(new)) => {
            differences(&plain(&old.namespace), &plain(&new.namespace))
        }
    };
    let (before, after) = (old.map(|old| old.version), Some(new.version()));
    ChangeSummary { object: format!("namespace {name}"), before, after, what, ..ChangeSummary::default() }
}

/// Which fields of a job differ. If a file declares `enabled` as an operator has already switched it, the declaration
/// is what is shown.
fn differences_of(old: &Spec, new: &Spec) -> String {
    if old.job.enabled == new.job.enabled {
        let declared = |spec: &Spec| fields(&Spec { job: spec.declared(), ..spec.clone() });
        return differences(&declared(old), &declared(new));
    }
    differences(&fields(old), &fields(new))
}

/// A declaration and its switches as one map.
fn fields(spec: &Spec) -> Map<String, Value> {
    let mut fields = plain(&spec.job);
    let switches = plain(spec);
    fields.extend(switches.into_iter().filter(|(name, _)| ["paused", "off"].contains(&name.as_str())));
    fields
}

fn plain(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Which fields differ; for fields that can hold no secret, also how.
fn differences(old: &Map<String, Value>, new: &Map<String, Value>) -> String {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differ = names.into_iter().filter(|name| *name != "seq" && old.get(*name) != new.get(*name));
    let said = differ.map(|name| {
        let told =
            |fields: &Map<String, Value>| fields.get(name).map_or_else(|| "unset".into(), Value::to_string);
        match PUBLIC_FIELDS.contains(&name.as_str()) {
            true => format!("{name}: {} → {}", short(&told(old)), short(&told(new))),
            false => format!("{name} changed"),
        }
    });
    said.collect::<Vec<_>>().join("; ")
}

fn short(text: &str) -> String {
    match text.char_indices().nth(VALUE_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::job::{Job, JobFile, SwitchOrigin, SwitchPosition};
    use evenkeel_core::time::Wall;

    use super::*;

    #[test]
    fn a_file_that_declares_what_an_operator_has_switched_changes_what_is_declared() {
        let job =
            JobFile::new("j".parse().unwrap(), "@daily", evenkeel_core::job::Work::Function("f".into()));
        let mut job = Job::parse(job).unwrap();
        let mut switched = Spec::new(job.clone(), 1, Wall(0));
        switched.switch_enabled(SwitchPosition::Off, SwitchOrigin { at: Wall(7), by: "ops".into() });
        assert_eq!(differences_of(&Spec::new(job.clone(), 1, Wall(0)), &switched), "enabled: unset → false");
        job = job.with_enabled(SwitchPosition::Off);
        let (job, operator) = switched.redeclared(&job);
        let declared = Spec { operator, ..Spec::new(job, 2, Wall(0)) };
        assert_eq!(differences_of(&switched, &declared), "enabled: unset → false");
        switched.paused = true;
        assert_eq!(
            differences_of(&declared, &Spec { paused: true, ..declared.clone() }),
            "paused: unset → true"
        );
    }

    /// proves: I52
    #[test]
    fn values_are_told_only_of_fields_that_can_hold_no_secret() {
        let map = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let old = map(r#"{"schedule": "@daily", "environment": {"A": "hunter2"}, "seq": 1}"#);
        let new =
            map(r#"{"schedule": "@hourly", "environment": {"A": "hunter3"}, "enabled": false, "seq": 2}"#);
        let said = differences(&old, &new);
        assert_eq!(said, "enabled: unset → false; environment changed; schedule: \"@daily\" → \"@hourly\"");
        let long = map(&format!("{{\"schedule\": \"{}\"}}", "x".repeat(1_000)));
        assert!(differences(&old, &long).chars().count() < 300);
    }
}
