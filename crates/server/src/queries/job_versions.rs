//! The versions of a job as one list: of what several histories have, and of what the registry has now.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::{Job, JobChange, JobVersion};
use evenkeel_core::time::Wall;
use serde_json::{Map, Value};

use crate::record_rows;
use evenkeel_client::types::{FieldChange, JobVersionRow};

/// What the registry declares of a job now.
#[derive(Clone, Debug)]
pub(crate) struct PresentVersion {
    /// The version of the entry, which an operator's switch may have raised since the declaration.
    pub(crate) version: u64,
    pub(crate) job: Job,
}

/// A version in the list.
#[derive(Clone, Debug)]
pub(crate) struct ListedVersion {
    pub(crate) record: JobVersion,
    /// The declaration; empty if the job was deleted.
    pub(crate) keys: Map<String, Value>,
    /// Its row.
    pub(crate) row: JobVersionRow,
}

/// The versions that histories have, the latest first and each once. What is declared now is among them, whether or not a
/// history has it: the node that changed it may have died before it wrote that.
pub(crate) fn listed_versions(
    found: Vec<JobVersion>,
    present: Option<&PresentVersion>,
) -> Vec<ListedVersion> {
    let mut versions: BTreeMap<u64, JobVersion> = BTreeMap::new();
    for version in found {
        match versions.get(&version.version) {
            Some(known) if !outranks(&version, known) => {}
            _ => drop(versions.insert(version.version, version)),
        }
    }
    let current = present.map(|present| {
        let below = versions.range(..=present.version).next_back();
        if let Some((version, _)) = below.filter(|(_, record)| declares(record, &present.job)) {
            return *version;
        }
        versions.insert(present.version, unknown(present));
        present.version
    });
    let mut listed: Vec<ListedVersion> = Vec::new();
    for record in versions.into_values() {
        let keys = keys(&record);
        let is_current = current == Some(record.version);
        let before = listed.last_mut();
        // Found where an operator had switched something since, so under another number than it was declared.
        if record.change == JobChange::Found
            && let Some(before) = before
            && before.keys == keys
        {
            before.row.current |= is_current;
            continue;
        }
        let row = record_rows::job_version_row(&record, fields(listed.last(), &record, &keys), is_current);
        listed.push(ListedVersion { record, keys, row });
    }
    listed.reverse();
    listed
}

/// Whether more is known by one record of a version than by another. If a registry was restored from a backup, its numbers
/// were given twice, and the later ones stand.
fn outranks(version: &JobVersion, known: &JobVersion) -> bool {
    match (version.change, known.change) {
        (JobChange::Found, _) => false,
        (_, JobChange::Found) => true,
        _ => version.at > known.at,
    }
}

/// Whether a version says the same as a declaration, also if another version of this program wrote it.
fn declares(record: &JobVersion, job: &Job) -> bool {
    let declared = record.declared.as_deref().and_then(|text| serde_json::from_str::<Job>(text).ok());
    declared.is_some_and(|declared| declared == *job)
}

/// The version that the registry has and no history knows.
fn unknown(present: &PresentVersion) -> JobVersion {
    JobVersion {
        job: present.job.name.clone(),
        version: present.version,
        at: Wall(0),
        node: String::new(),
        asker: None,
        change: JobChange::Found,
        restored: None,
        declared: serde_json::to_string(&present.job).ok(),
    }
}

fn keys(record: &JobVersion) -> Map<String, Value> {
    let declared = record.declared.as_deref().and_then(|text| serde_json::from_str(text).ok());
    declared.unwrap_or_default()
}

/// The keys in which a version differs from the one before; `None` if that is not known.
fn fields(
    before: Option<&ListedVersion>,
    record: &JobVersion,
    keys: &Map<String, Value>,
) -> Option<Vec<String>> {
    match before {
        _ if record.change == JobChange::Created || record.declared.is_none() => Some(Vec::new()),
        Some(before) if before.record.declared.is_none() => Some(Vec::new()),
        None => None,
        Some(before) => {
            let names: BTreeSet<&String> = before.keys.keys().chain(keys.keys()).collect();
            let differ = names.into_iter().filter(|name| before.keys.get(*name) != keys.get(*name));
            Some(differ.cloned().collect())
        }
    }
}

/// The keys whose values differ between two declarations, with both values. Tables are compared key by key.
pub(crate) fn differences(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    compare("", old, new, &mut changes);
    changes
}

fn compare(path: &str, old: &Map<String, Value>, new: &Map<String, Value>, changes: &mut Vec<FieldChange>) {
    let none = Map::new();
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let (before, after) = (old.get(name), new.get(name));
        if before == after {
            continue;
        }
        let field = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                compare(&field, before, after, changes);
            }
            (Some(Value::Object(before)), None) => compare(&field, before, &none, changes),
            (None, Some(Value::Object(after))) => compare(&field, &none, after, changes),
            (before, after) => {
                let value = |value: Option<&Value>| value.cloned().unwrap_or(Value::Null);
                changes.push(FieldChange { field, old: value(before), new: value(after) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::audit::{Proof, Requester};
    use evenkeel::{JobFile, Work};
    use serde_json::json;

    use super::*;

    fn job(schedule: &str) -> Job {
        let file = JobFile::new("j".parse().expect("a name"), schedule, Work::Function("f".into()));
        Job::parse(file).expect("a job")
    }

    fn text(schedule: &str) -> Option<String> {
        Some(serde_json::to_string(&job(schedule)).expect("JSON"))
    }

    fn version(version: u64, change: JobChange, schedule: &str) -> JobVersion {
        JobVersion {
            job: "j".parse().expect("a name"),
            version,
            at: Wall(i64::try_from(version).expect("a small number") * 1_000),
            node: "a".into(),
            asker: (change != JobChange::Found).then(|| Requester::new(Proof::Key, "", "ann@h")),
            change,
            restored: None,
            declared: if change == JobChange::Deleted { None } else { text(schedule) },
        }
    }

    fn present(version: u64, schedule: &str) -> PresentVersion {
        PresentVersion { version, job: job(schedule) }
    }

    /// Number, change, changed keys and whether it is the current one.
    fn said(found: Vec<JobVersion>, present: Option<&PresentVersion>) -> Vec<String> {
        let listed = listed_versions(found, present);
        let fields = |row: &JobVersionRow| row.fields.as_ref().map_or("?".into(), |names| names.join("+"));
        let one = |ListedVersion { row, .. }: &ListedVersion| {
            format!("{} {} {}{}", row.version, row.change, fields(row), if row.current { "*" } else { "" })
        };
        listed.iter().map(one).collect()
    }

    use JobChange::{Changed, Created, Deleted, Found, RolledBack};

    #[test]
    fn each_version_is_listed_once_with_what_it_changed() {
        let found = vec![
            version(3, Changed, "@daily"),
            version(2, Changed, "@hourly"),
            version(2, Found, "@hourly"),
            version(1, Created, "@daily"),
        ];
        let list = ["3 changed schedule*", "2 changed schedule", "1 created "];
        assert_eq!(said(found.clone(), Some(&present(3, "@daily"))), list);
        // Other histories come in any order.
        assert_eq!(said(found.into_iter().rev().collect(), Some(&present(3, "@daily"))), list);
    }

    #[test]
    fn what_is_declared_now_is_listed_whether_or_not_a_history_has_it() {
        let known = vec![version(1, Created, "@daily")];
        assert_eq!(
            said(known.clone(), Some(&present(2, "@hourly"))),
            ["2 found schedule*", "1 created "],
            "the node that changed it died"
        );
        assert_eq!(said(known, Some(&present(4, "@daily"))), ["1 created *"], "an operator switched it");
        assert_eq!(said(Vec::new(), Some(&present(7, "@daily"))), ["7 found ?*"]);
        assert!(said(Vec::new(), None).is_empty());
    }

    #[test]
    fn a_version_that_was_found_under_a_later_number_is_not_listed_twice() {
        let found =
            vec![version(5, Changed, "@hourly"), version(4, Found, "@daily"), version(1, Created, "@daily")];
        let list = ["5 changed schedule*", "1 created "];
        assert_eq!(said(found.clone(), Some(&present(5, "@hourly"))), list);
        // The node that has version 1 does not answer.
        let less = found[..2].to_vec();
        assert_eq!(said(less, Some(&present(5, "@hourly"))), ["5 changed schedule*", "4 found ?"]);
    }

    #[test]
    fn a_deleted_job_has_versions_and_none_is_the_current_one() {
        let found =
            vec![version(4, RolledBack, "@daily"), version(2, Deleted, ""), version(1, Created, "@daily")];
        assert_eq!(said(found[1..].to_vec(), None), ["2 deleted ", "1 created "]);
        let list = ["4 rolled_back *", "2 deleted ", "1 created "];
        assert_eq!(said(found, Some(&present(4, "@daily"))), list);
    }

    #[test]
    fn numbers_that_a_restored_registry_gave_again_are_of_the_later_change() {
        let mut again = version(2, Changed, "@weekly");
        again.at = Wall(9_000);
        let found = vec![version(3, Changed, "@monthly"), again, version(2, Changed, "@hourly")];
        let list = ["3 changed schedule", "2 changed ?*"];
        assert_eq!(said(found.clone(), Some(&present(2, "@weekly"))), list);
        // And what the registry has stands against all that histories say.
        let list = ["3 changed schedule", "2 found ?*"];
        assert_eq!(said(found, Some(&present(2, "@yearly"))), list);
    }

    #[test]
    fn tables_are_compared_key_by_key_and_lists_as_a_whole() {
        let map = |value: Value| value.as_object().cloned().expect("a map");
        let old = map(
            json!({"a": 1, "command": ["x", "y"], "retry": {"delay": "1s", "max": 2}, "env": {"A": "b"}}),
        );
        let new = map(json!({"a": 1, "command": ["x", "z"], "retry": {"delay": "2s", "max": 2}, "b": null}));
        let differ: Vec<_> =
            differences(&old, &new).into_iter().map(|it| (it.field, it.old, it.new)).collect();
        let expected = [
            ("command", json!(["x", "y"]), json!(["x", "z"])),
            ("env.A", json!("b"), Value::Null),
            ("retry.delay", json!("1s"), json!("2s")),
        ];
        let b = ("b", Value::Null, Value::Null);
        let expected = [b].into_iter().chain(expected).map(|(name, old, new)| (name.to_owned(), old, new));
        assert_eq!(differ, expected.collect::<Vec<_>>());
    }
}
