//! Jobs of Kubernetes that a CronJob made.

use serde_json::Value;

use super::log::{RivalFire, RivalLog, RivalRecord, RivalSource, RivalSubject};
use super::moment_text;
use crate::import::helpers;

/// Marks a Job that a person made of a CronJob.
const MANUAL: &str = "cronjob.kubernetes.io/instantiate";
/// When a Job was due.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Reads manifests of Jobs: a list, or several documents.
///
/// # Errors
/// The text is neither JSON nor YAML, or holds no Job.
pub(super) fn read(text: &str, source: &RivalSource) -> Result<RivalLog, String> {
    // JSON is YAML as well, and its own reader is much faster.
    let documents = match text.trim_start().starts_with('{') {
        true => vec![serde_json::from_str(text).map_err(|e| e.to_string())?],
        false => helpers::yaml(text, "YAML").map_err(|e| e.message)?,
    };
    let mut log = RivalLog::default();
    let mut found = 0_usize;
    for document in documents {
        let items = match document {
            Value::Object(mut map) => match map.remove("items") {
                Some(Value::Array(items)) => items,
                _ => vec![Value::Object(map)],
            },
            _ => Vec::new(),
        };
        for item in items.iter().filter(|item| text_of(item, &["kind"]) == Some("Job")) {
            found += 1;
            let name = text_of(item, &["metadata", "name"]).unwrap_or("without a name");
            log.take(source, &format!("Job {name}"), job(item, source));
        }
    }
    match found {
        0 => Err("it holds no Job: write what `kubectl get jobs -o json` prints".to_owned()),
        _ => Ok(log),
    }
}

fn job(item: &Value, source: &RivalSource) -> Result<RivalRecord, String> {
    let owners = item.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_cron_job = |owner: &&Value| text_of(owner, &["kind"]) == Some("CronJob");
    let owner = owners.and_then(|owners| owners.iter().find(is_cron_job)?.get("name")?.as_str());
    let Some(owner) = owner else { return Ok(RivalRecord::Other("Jobs without a CronJob")) };
    if text_of(item, &["metadata", "annotations", MANUAL]).is_some() {
        return Ok(RivalRecord::Other("Jobs that a person made of a CronJob"));
    }
    let started = [
        &["status", "startTime"][..],
        &["metadata", "annotations", SCHEDULED],
        &["metadata", "creationTimestamp"],
    ];
    let started = started.iter().find_map(|path| text_of(item, path));
    let at = moment_text::read(started.ok_or("it has no startTime")?, &source.zone)?;
    let conditions = item.pointer("/status/conditions").and_then(Value::as_array);
    let is = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.any(|it| text_of(it, &["type"]) == Some(kind) && text_of(it, &["status"]) == Some("True"))
    };
    let outcome = match () {
        () if is("Complete") => "succeeded",
        () if is("Failed") => "failed",
        () => "",
    };
    let name = match text_of(item, &["metadata", "namespace"]) {
        None | Some("default") => owner.to_owned(),
        Some(namespace) => format!("{namespace}/{owner}"),
    };
    let id = text_of(item, &["metadata", "uid"]).map(ToOwned::to_owned);
    let fire = RivalFire { at, outcome: outcome.to_owned(), shard: None, id };
    Ok(RivalRecord::Fire(RivalSubject::Name(name), fire))
}

fn text_of<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(value, |value, key| value.get(key))?.as_str()
}
