//! Kubernetes: each CronJob of manifests as a job.

mod pod;

use evenkeel_core::ids::WrittenName;
use evenkeel_core::job::{CatchUp, Delivery, JobFile, JobLabels, Overlap, Placement, Pool};
use serde_json::Value;
use std::collections::BTreeMap;

use super::foreign_keys::ForeignKeys;
use super::{ImportNotes, ImportRefusal, ImportSource, Imported, helpers};
use crate::exit::CliError;

/// Kubernetes' default number of retries of a failed pod.
const BACKOFF_LIMIT: u64 = 6;
/// The most labels of a job.
const LABELS_MAX: usize = 32;
/// The highest limit of a pool.
const POOL_MAX: u64 = 500;

/// What is left of an object when a server has kept it, and says nothing about the job.
const KEPT_BY_SERVER: [&str; 9] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "ownerReferences",
    "finalizers",
    "deletionTimestamp",
];

/// What it means that a key is left out.
const REMARKS: [(&str, &str); 7] = [
    ("successfulJobsHistoryLimit", "the nodes' settings say how long records are kept"),
    ("failedJobsHistoryLimit", "the nodes' settings say how long records are kept"),
    ("ttlSecondsAfterFinished", "the nodes' settings say how long records are kept"),
    ("podFailurePolicy", "every failure is retried; retry.exit_codes names those that are"),
    ("backoffLimitPerIndex", "retry is of each shard"),
    ("annotations", "jobs have labels and a description"),
    ("labels", "only the labels of the CronJob itself are taken"),
];

/// Reads manifests: one, several, or a List.
///
/// # Errors
/// The text is no YAML, or holds no CronJob.
pub(crate) fn read(text: &str, source: &ImportSource) -> Result<Imported, CliError> {
    let mut imported = Imported::default();
    let mut found = false;
    for document in helpers::yaml(text, &source.shown)? {
        let items = match (kind(&document), document.get("items")) {
            ("List" | "CronJobList", Some(Value::Array(items))) => items.clone(),
            _ => vec![document],
        };
        for item in items {
            let name = item.get("metadata").and_then(|meta| meta.get("name")).and_then(Value::as_str);
            let name = name.unwrap_or("without a name").to_owned();
            match kind(&item) {
                "CronJob" => {
                    found = true;
                    imported.object(&format!("CronJob {name}"), |notes| cron_job(item, source, notes));
                }
                "" => {}
                other => imported.left_out(&format!("{other} {name}"), "only a CronJob becomes a job"),
            }
        }
    }
    match found {
        true => Ok(imported),
        false => Err(CliError::invalid(format!(
            "{}: it holds no CronJob: write one manifest or several, as `kubectl get cronjob -o yaml` prints them",
            source.shown
        ))),
    }
}

fn kind(manifest: &Value) -> &str {
    manifest.get("kind").and_then(Value::as_str).unwrap_or_default()
}

fn cron_job(item: Value, source: &ImportSource, notes: &mut ImportNotes) -> Result<JobFile, ImportRefusal> {
    let mut top = ForeignKeys::of("", item)?;
    top.ignore(&["kind", "status"]);
    if let Some(version) = top.text("apiVersion")?
        && !["batch/v1", "batch/v1beta1"].contains(&version.as_str())
    {
        return Err(ImportRefusal::new("apiVersion", format!("{version} is not known: batch/v1 is")));
    }
    let mut meta = top.table("metadata")?;
    let mut spec = top.table("spec")?;
    let mut template = spec.table("jobTemplate")?;
    let mut batch = template.table("spec")?;
    let mut pods = batch.table("template")?;
    let name = name(&mut meta, notes)?;
    let mut job = pod::job(name, pods.table("spec")?, notes)?;
    job.description = source.description();
    labels(&mut job, &mut meta, notes)?;
    times(&mut job, &mut spec, source, notes)?;
    starts(&mut job, &mut spec, notes)?;
    attempts(&mut job, &mut batch, notes)?;
    shards(&mut job, &mut batch, notes)?;
    let mut metadata = [template.table("metadata")?, pods.table("metadata")?];
    metadata.iter_mut().for_each(|meta| meta.ignore(&KEPT_BY_SERVER));
    for rest in [top, meta, spec, template, batch, pods].into_iter().chain(metadata) {
        rest.lost(notes, &REMARKS);
    }
    Ok(job)
}

/// The name, in the namespace that the manifest has.
fn name(
    meta: &mut ForeignKeys,
    notes: &mut ImportNotes,
) -> Result<evenkeel_core::ids::JobName, ImportRefusal> {
    meta.ignore(&KEPT_BY_SERVER);
    let name = meta.needed("name")?;
    let namespace = meta.text("namespace")?.filter(|namespace| namespace != "default");
    let full = match &namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    };
    if let Some(namespace) = namespace {
        notes.taken(
            "metadata.namespace",
            format!("the job's namespace, which has to exist: evenkeel namespace create {namespace}"),
        );
    }
    full.parse().map_err(|e| ImportRefusal::new("metadata.name", format!("{e}")))
}

fn labels(job: &mut JobFile, meta: &mut ForeignKeys, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    if let Some(Value::Object(mut annotations)) = meta.take("annotations") {
        // A copy of the manifest itself.
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if !annotations.is_empty() {
            notes.lost("metadata.annotations", "jobs have labels and a description");
        }
    }
    let mut taken = BTreeMap::new();
    for (word, value) in meta.pairs("labels")? {
        let one = JobLabels::try_from(BTreeMap::from([(word.clone(), value.clone())]));
        match one {
            Ok(_) if taken.len() < LABELS_MAX => drop(taken.insert(word, value)),
            Ok(_) => notes
                .lost(&format!("metadata.labels.{word}"), format!("a job has at most {LABELS_MAX} labels")),
            Err(why) => notes.lost(&format!("metadata.labels.{word}"), why.to_string()),
        }
    }
    if !taken.is_empty() {
        notes.taken(
            "metadata.labels",
            format!("labels: {}", taken.keys().cloned().collect::<Vec<_>>().join(", ")),
        );
    }
    job.labels =
        JobLabels::try_from(taken).map_err(|e| ImportRefusal::new("metadata.labels", e.to_string()))?;
    Ok(())
}

fn times(
    job: &mut JobFile,
    spec: &mut ForeignKeys,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let line = spec.needed("schedule")?;
    let (schedule, is_changed) =
        helpers::five_fields(&line).map_err(|why| ImportRefusal::new("spec.schedule", why))?;
    match (is_changed, schedule.starts_with("@every")) {
        (_, true) => notes.changed(
            "spec.schedule",
            format!("schedule = {schedule:?}: counted from 1970, not from the run before"),
        ),
        (true, _) => {
            notes.taken("spec.schedule", format!("schedule = {schedule:?}, as our dialect writes it"))
        }
        (false, _) => notes.taken("spec.schedule", format!("schedule = {schedule:?}")),
    }
    job.schedule = schedule;
    match spec.text("timeZone")?.filter(|zone| !zone.is_empty()) {
        Some(zone) => job.timezone = helpers::zone("spec.timeZone", &zone, notes)?,
        None => helpers::assumed_zone(job, source, "the zone of the cluster's controller", notes),
    }
    helpers::clock_changes(
        job,
        "Kubernetes leaves out a time that is skipped and runs one that is shown twice both times, as dst = \"twice\" does",
        notes,
    );
    Ok(())
}

/// What becomes of fires that cannot start in time, and whether there are any.
fn starts(job: &mut JobFile, spec: &mut ForeignKeys, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    let policy = spec.text("concurrencyPolicy")?;
    let (overlap, word) = match policy.as_deref().unwrap_or("Allow") {
        "Allow" => (Overlap::Allow, "allow"),
        "Forbid" => (Overlap::Forbid, "forbid"),
        "Replace" => (Overlap::Replace, "replace"),
        other => {
            let said = format!("{other:?} is not known: Allow, Forbid and Replace are");
            return Err(ImportRefusal::new("spec.concurrencyPolicy", said));
        }
    };
    job.overlap = overlap;
    let field = "spec.concurrencyPolicy";
    match overlap {
        Overlap::Allow => notes.changed(field, "overlap = \"allow\": at most 64 runs at once"),
        _ => notes.taken(field, format!("overlap = {word:?}")),
    }
    let field = "spec.startingDeadlineSeconds";
    match spec.count("startingDeadlineSeconds")? {
        Some(deadline) => {
            job.misfire_grace = Some(deadline);
            // A run does not start later than its deadline.
            job.catch_up = CatchUp::Skip;
            notes.taken(
                field,
                format!("misfire_grace = \"{}\", catch_up = \"skip\"", helpers::span(deadline)),
            );
        }
        None => notes.taken(field, "none: catch_up = \"latest\", so the latest missed fire runs late"),
    }
    if spec.flag("suspend")? == Some(true) {
        job.enabled = false;
        notes.changed(
            "spec.suspend",
            "enabled = false; fires of the time until it is enabled do not run later, and no manual run is taken",
        );
    }
    Ok(())
}

fn attempts(
    job: &mut JobFile,
    batch: &mut ForeignKeys,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let field = "spec.jobTemplate.spec.backoffLimit";
    let limit = batch.count("backoffLimit")?.unwrap_or(BACKOFF_LIMIT);
    job.retry = helpers::retry(limit, "", "6m");
    // A pod that is lost with its node counts as a failure.
    job.delivery = if limit > 0 { Delivery::AtLeastOnce } else { Delivery::AtMostOnce };
    match limit {
        0 => notes.taken(field, "no retry, delivery = \"at_most_once\""),
        1..=helpers::RETRIES_MAX => notes.taken(
            field,
            format!("retry = {{ max_retries = {limit} }}, delivery = \"at_least_once\": a lost run is started again"),
        ),
        _ => notes.changed(field, format!("retry = {{ max_retries = {} }}, the most", helpers::RETRIES_MAX)),
    }
    if let Some(deadline) = batch.count("activeDeadlineSeconds")? {
        job.run_timeout = Some(deadline);
        let said = format!("run_timeout = \"{}\"", helpers::span(deadline));
        notes.taken("spec.jobTemplate.spec.activeDeadlineSeconds", said);
    }
    if job.run_timeout < job.timeout && job.run_timeout.is_some() {
        // The shorter one ends the run in any case.
        job.timeout = job.run_timeout;
    }
    Ok(())
}

/// Several pods of one run are shards.
fn shards(job: &mut JobFile, batch: &mut ForeignKeys, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    let indexed = batch.text("completionMode")?.as_deref() == Some("Indexed");
    let completions = batch.count("completions")?;
    let parallelism = batch.count("parallelism")?.unwrap_or(1);
    let field = "spec.jobTemplate.spec.completions";
    let count = match completions {
        None if parallelism > 1 => {
            return Err(ImportRefusal::new(
                "spec.jobTemplate.spec.parallelism",
                "several pods on one queue of work have no equivalent: set completions, or write a sharded job",
            ));
        }
        None | Some(0 | 1) if !indexed => return Ok(()),
        None => 1,
        Some(count) => count,
    };
    job.placement = Placement::Sharded;
    job.shards = u32::try_from(count).unwrap_or(u32::MAX);
    match indexed {
        true => notes.changed(
            field,
            format!("placement = \"sharded\", shards = {count}: the index is EVENKEEL_SHARD, not JOB_COMPLETION_INDEX"),
        ),
        false => notes.taken(field, format!("placement = \"sharded\", shards = {count}")),
    }
    if job.overlap != Overlap::Forbid {
        job.overlap = Overlap::Forbid;
        notes.changed(
            "spec.concurrencyPolicy",
            "a fire of a sharded job waits for the shards of the one before",
        );
    }
    if parallelism < count {
        let limit = u32::try_from(parallelism.clamp(1, POOL_MAX)).unwrap_or(1);
        let name = job.name.name().local().parse();
        let name = name.map_err(|e| ImportRefusal::new(field, format!("{e}")))?;
        job.pool = Some(Pool { name: WrittenName::full(name), limit });
        notes.taken(
            "spec.jobTemplate.spec.parallelism",
            format!("pool = {{ name = {:?}, limit = {limit} }}", job.name.name().local()),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
