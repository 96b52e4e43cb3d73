//! GitHub Actions: each job of a workflow with a schedule as a job.

mod steps;

use evenkeel_core::job::{CatchUp, JobFile, Overlap, Work};
use serde_json::Value;

use super::foreign_keys::ForeignKeys;
use super::{ImportNotes, ImportRefusal, ImportSource, Imported, helpers};
use crate::exit::CliError;
use steps::StepDefaults;

/// GitHub's own time limit of a job, in minutes.
const TIMEOUT_MINUTES: u64 = 360;

/// What it means that a key is left out.
const REMARKS: [(&str, &str); 6] = [
    ("runs-on", "give nodes labels, and the job node_selector"),
    ("permissions", "a command has no token of GitHub"),
    ("outputs", "no other job reads them"),
    ("name", "the job is named after the file and its own key"),
    ("run-name", "a run is named by its job and its due time"),
    ("concurrency", "pool = { name = …, limit = 1 } runs the jobs of a group one by one"),
];

/// What the jobs of a workflow share.
struct Workflow {
    schedule: String,
    zone: Option<String>,
    overlap: Overlap,
    defaults: StepDefaults,
    environment: Vec<(String, String)>,
    /// Events that start it besides its schedule.
    others: Vec<String>,
    rest: ForeignKeys,
}

/// Reads a workflow.
///
/// # Errors
/// The text is no YAML, or no workflow with a schedule.
pub(crate) fn read(text: &str, source: &ImportSource) -> Result<Imported, CliError> {
    let mut imported = Imported::default();
    let wrong = |e: &ImportRefusal| CliError::invalid(format!("{}: {}: {}", source.shown, e.field, e.said));
    for document in helpers::yaml(text, &source.shown)? {
        let mut keys = ForeignKeys::of("", document).map_err(|e| wrong(&e))?;
        let mut jobs = keys.table("jobs").map_err(|e| wrong(&e))?;
        let workflow = workflow(keys).map_err(|e| wrong(&e))?;
        for name in jobs.names() {
            let value = jobs.take(&name).unwrap_or_default();
            imported.object(&format!("job {name}"), |notes| job(&name, value, &workflow, source, notes));
        }
    }
    match imported.findings.is_empty() {
        true => Err(CliError::invalid(format!("{}: it holds no job", source.shown))),
        false => Ok(imported),
    }
}

fn workflow(mut keys: ForeignKeys) -> Result<Workflow, ImportRefusal> {
    let no_schedule =
        || ImportRefusal::new("on.schedule", "the workflow has none, so nothing starts it at a time");
    // YAML 1.1 reads `on` as a truth.
    let on = keys.take("on").or_else(|| keys.take("true")).ok_or_else(no_schedule)?;
    let Value::Object(_) = on else { return Err(no_schedule()) };
    let mut on = ForeignKeys::of("on", on)?;
    let (mut rules, mut zones) = (Vec::new(), Vec::new());
    for entry in on.list("schedule")? {
        let mut entry = ForeignKeys::of("on.schedule", entry)?;
        let cron = entry.needed("cron")?;
        let (rule, _) =
            helpers::five_fields(&cron).map_err(|why| ImportRefusal::new("on.schedule.cron", why))?;
        rules.push(rule);
        zones.push(entry.text("timezone")?);
    }
    if rules.is_empty() {
        return Err(no_schedule());
    }
    let zone = zones.first().cloned().flatten();
    if zones.iter().any(|other| *other != zone) {
        return Err(ImportRefusal::new(
            "on.schedule.timezone",
            "a job has one zone: write a workflow for each",
        ));
    }
    let defaults = StepDefaults::take(&mut keys)?;
    let overlap = match keys.take("concurrency") {
        Some(Value::Object(map)) if map.get("cancel-in-progress") == Some(&Value::Bool(true)) => {
            Overlap::Replace
        }
        // One runs, and one waits.
        Some(_) => Overlap::Forbid,
        None => Overlap::Allow,
    };
    let environment = keys.pairs("env")?;
    Ok(Workflow {
        schedule: rules.join("\n"),
        zone,
        overlap,
        defaults,
        environment,
        others: on.names(),
        rest: keys,
    })
}

fn job(
    name: &str,
    value: Value,
    workflow: &Workflow,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    let mut keys = ForeignKeys::of("", value)?;
    for (key, said) in [
        ("needs", "no job waits for another one: write what they do into one script"),
        ("uses", "a workflow of elsewhere cannot be read"),
        ("container", "a command runs on the node itself"),
        ("services", "no container is started beside a command"),
        ("if", "a condition cannot be evaluated here: test it in the command"),
    ] {
        if keys.take(key).is_some() {
            return Err(ImportRefusal::new(key, said));
        }
    }
    if keys.table("strategy")?.take("matrix").is_some() {
        return Err(ImportRefusal::new(
            "strategy.matrix",
            "write a job for each of its values, or shards with shard_parameters",
        ));
    }
    let stem =
        std::path::Path::new(&source.shown).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow");
    let mut file =
        JobFile::new(helpers::name("name", &format!("{stem}-{name}"), notes)?, "", Work::Command(Vec::new()));
    file.description = source.description();
    times(&mut file, workflow, notes)?;
    for (variable, value) in workflow.environment.iter().cloned().chain(keys.pairs("env")?) {
        steps::variable(&mut file, "env", variable, value, notes)?;
    }
    let defaults = StepDefaults::take(&mut keys)?.or(&workflow.defaults);
    steps::take(&mut file, keys.list("steps")?, &defaults, source, notes)?;
    let minutes = keys.count("timeout-minutes")?.unwrap_or(TIMEOUT_MINUTES);
    file.timeout = Some(minutes.saturating_mul(60));
    notes.taken("timeout-minutes", format!("timeout = \"{}\"", helpers::span(minutes.saturating_mul(60))));
    keys.lost(notes, &REMARKS);
    workflow.rest.clone().lost(notes, &REMARKS);
    if !workflow.others.is_empty() {
        notes.lost(
            "on",
            format!("{}: only the schedule starts the job, and evenkeel job run", workflow.others.join(", ")),
        );
    }
    Ok(file)
}

fn times(job: &mut JobFile, workflow: &Workflow, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    job.schedule.clone_from(&workflow.schedule);
    notes.changed(
        "on.schedule",
        format!(
            "schedule = {:?}; a fire starts at its due time, while GitHub delays and drops some",
            job.schedule
        ),
    );
    match &workflow.zone {
        Some(zone) => job.timezone = helpers::zone("on.schedule.timezone", zone, notes)?,
        None => notes.taken("on.schedule", "timezone: UTC"),
    }
    // GitHub makes up for nothing.
    job.catch_up = CatchUp::Skip;
    job.overlap = workflow.overlap;
    match workflow.overlap {
        Overlap::Allow => notes.taken("concurrency", "none: overlap = \"allow\""),
        Overlap::Replace => {
            notes.changed("concurrency", "overlap = \"replace\", of this job alone, not of its group")
        }
        _ => notes.changed("concurrency", "overlap = \"forbid\", of this job alone, not of its group"),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
