//! XXL-JOB: each row of its table `xxl_job_info` as a job.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::job::{CatchUp, JobFile, Overlap, Placement, Program, Work};

use super::foreign_keys::ForeignKeys;
use super::report::ImportFate;
use super::sql_rows::ForeignRow;
use super::{ImportNotes, ImportRefusal, ImportSource, Imported, helpers};
use crate::exit::CliError;
pub(crate) use rows::XxlTables;

/// Gives a script its parameters, as an executor does: the job's parameter, the shard and the number of shards.
const ARGUMENTS: &str = "\"$EVENKEEL_JOB_PARAMETER\" \"$EVENKEEL_SHARD\" \"$EVENKEEL_SHARDS\"";

/// What it means that a column is left out.
const REMARKS: [(&str, &str); 4] = [
    ("child_jobid", "no job starts another one: these jobs are not started after it"),
    ("alarm_email", "notify = { on = [\"failure\"] } and a notifier report failures"),
    ("glue_remark", "versions of jobs keep what was changed"),
    ("executor_route_strategy", "the placement says which node runs a job"),
];

/// Columns that say nothing about what the job does.
const KEPT_BY_SERVER: [&str; 5] =
    ["add_time", "update_time", "glue_updatetime", "trigger_last_time", "trigger_next_time"];

/// The label that names the executor of a job.
const EXECUTOR_LABEL: &str = "executor";

/// Reads a dump of the tables (`mysqldump`), a CSV file with a header, or rows as JSON.
///
/// # Errors
/// The text is none of these, or holds no row of `xxl_job_info`.
pub(crate) fn read(text: &str, source: &ImportSource) -> Result<Imported, CliError> {
    let wrong = |why: String| CliError::invalid(format!("{}: {why}", source.shown));
    convert(&rows::read(text).map_err(wrong)?, source)
}

/// Makes a job of each row of the jobs, wherever it was read.
///
/// # Errors
/// There is no row.
pub(crate) fn convert(tables: &XxlTables, source: &ImportSource) -> Result<Imported, CliError> {
    if tables.jobs.is_empty() {
        return Err(CliError::invalid(format!("{}: it holds no row of {}", source.shown, rows::JOBS)));
    }
    let mut imported = Imported::default();
    if let Some(version) = version(&tables.jobs) {
        let said = format!("XXL-JOB {version}, by its columns");
        imported.about(rows::JOBS, "version", ImportFate::Taken, said);
    }
    for row in &tables.jobs {
        let id = row.get("id").map_or("?", String::as_str);
        let said = description(row).unwrap_or_default();
        imported.object(&format!("job {id} {said}"), |notes| {
            let mut job = job(row, id, source, notes)?;
            executor(&mut job, row, &tables.groups, notes);
            Ok(job)
        });
    }
    Ok(imported)
}

/// The versions that have these columns.
fn version(rows: &[ForeignRow]) -> Option<&'static str> {
    let columns: BTreeSet<&str> = rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    let has = |column| columns.contains(column);
    match (has("job_cron"), has("schedule_type"), has("job_desc")) {
        (true, false, _) => Some("2.1 or 2.2"),
        (_, true, true) => Some("2.3 to 3.4"),
        (_, true, false) if has("name") => Some("3.5 or later"),
        _ => None,
    }
}

/// The description of a job, whose column has another name from version 3.5 on.
fn description(row: &ForeignRow) -> Option<&str> {
    row.get("job_desc").or_else(|| row.get("name")).map(String::as_str).filter(|said| !said.is_empty())
}

/// Labels a job with its executor, if the table of executors was read.
fn executor(job: &mut JobFile, row: &ForeignRow, groups: &[ForeignRow], notes: &mut ImportNotes) {
    let id = row.get("job_group");
    let Some(group) = groups.iter().find(|group| group.get("id") == id && id.is_some()) else { return };
    let app = group.get("app_name").map(String::as_str).unwrap_or_default();
    let title = group.get("title").or_else(|| group.get("name")).map(String::as_str).unwrap_or_default();
    let labels = BTreeMap::from([(EXECUTOR_LABEL.to_owned(), app.to_owned())]);
    match labels.try_into() {
        Ok(labels) => {
            job.labels = labels;
            let said = format!("labels = {{ {EXECUTOR_LABEL} = {app:?} }} for {title:?}");
            notes.changed("job_group", format!("{said}; node_selector says which nodes run the job"));
        }
        Err(_) => {
            notes.lost("job_group", format!("executor {app:?}, {title:?}: no label can have this value"))
        }
    }
}

fn job(
    row: &ForeignRow,
    id: &str,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    let values = row.iter().filter(|(_, value)| !value.is_empty());
    let values = values.map(|(key, value)| (key.clone(), serde_json::Value::from(value.as_str()))).collect();
    let mut row = ForeignKeys::of("", serde_json::Value::Object(values))?;
    row.ignore(&KEPT_BY_SERVER);
    row.ignore(&["id", "job_group"]);
    let said = [row.text("job_desc")?, row.text("name")?].into_iter().flatten().next();
    let handler = row.text("executor_handler")?.unwrap_or_default();
    let stem = if handler.is_empty() { "xxl-job".to_owned() } else { handler.clone() };
    // The id keeps names apart, and the same over imports.
    let name = format!("{stem}-{id}");
    let name = helpers::name("executor_handler", &name, notes)?;
    let mut job = JobFile::new(name, "", Work::Command(Vec::new()));
    job.parameter = row.text("executor_param")?.unwrap_or_default();
    if !job.parameter.is_empty() {
        notes.taken("executor_param", "parameter: EVENKEEL_JOB_PARAMETER");
    }
    command(&mut job, &handler, &mut row, source, notes)?;
    job.description = [said, Some(source.description())].into_iter().flatten().collect::<Vec<_>>().join(", ");
    if let Some(author) = row.text("author")? {
        notes.lost("author", format!("{author}: labels = {{ team = … }} says whose a job is"));
    }
    times(&mut job, &mut row, source, notes)?;
    placement(&mut job, &mut row, notes)?;
    attempts(&mut job, &mut row, notes)?;
    if let Some(status) = row.text("trigger_status")?
        && status != "1"
    {
        job.enabled = false;
        notes.changed("trigger_status", "enabled = false: it takes no manual run either until it is enabled");
    }
    row.lost(notes, &REMARKS);
    Ok(job)
}

/// Scripts are taken; what an executor calls in its own process needs a command that calls it.
fn command(
    job: &mut JobFile,
    handler: &str,
    row: &mut ForeignKeys,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let kind = row.text("glue_type")?.unwrap_or_else(|| "BEAN".to_owned());
    let script = row.text("glue_source")?.unwrap_or_default().replace("\r\n", "\n");
    let program = match kind.as_str() {
        "GLUE_SHELL" => {
            let argv = ["/bin/bash".to_owned(), "-c".to_owned(), format!("set -- {ARGUMENTS}\n{script}")];
            job.command = Program::Argv(argv.to_vec());
            notes.taken(
                "glue_source",
                "command: bash, with the parameter, the shard and their number as arguments",
            );
            return Ok(());
        }
        "GLUE_PYTHON" => "python3 -c",
        "GLUE_PYTHON2" => "python2 -c",
        "GLUE_NODEJS" => "node -e",
        "GLUE_POWERSHELL" | "GLUE_PHP" => {
            let said =
                format!("{kind}: write the script into a file of the nodes, and its command into a job");
            return Err(ImportRefusal::new("glue_type", said));
        }
        other => {
            let values = BTreeMap::from([
                ("job", job.name.name().as_str().to_owned()),
                ("class", handler.to_owned()),
                ("parameter", job.parameter.clone()),
            ]);
            let values = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let field = if other == "BEAN" { "executor_handler" } else { "glue_type" };
            job.command = Program::Argv(helpers::templated(source, field, &values, notes)?);
            return Ok(());
        }
    };
    let line = format!("exec {program} \"$0\" {ARGUMENTS}");
    let argv = ["/bin/sh".to_owned(), "-c".to_owned(), line, script];
    job.command = Program::Argv(argv.to_vec());
    notes.taken(
        "glue_source",
        format!("command: {program}, with the parameter, the shard and their number as arguments"),
    );
    Ok(())
}

fn times(
    job: &mut JobFile,
    row: &mut ForeignKeys,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    // Before version 2.3 there was only a cron line.
    let old = row.text("job_cron")?;
    let kind = row.text("schedule_type")?;
    let conf = row.text("schedule_conf")?;
    let (kind, field, conf) = match (kind, old) {
        (Some(kind), _) => (kind, "schedule_conf", conf.unwrap_or_default()),
        (None, Some(cron)) => ("CRON".to_owned(), "job_cron", cron),
        (None, None) => ("NONE".to_owned(), "schedule_type", String::new()),
    };
    match kind.as_str() {
        "NONE" => notes.taken("schedule_type", "NONE: only manual runs"),
        "CRON" => {
            conf.trim().clone_into(&mut job.schedule);
            notes.taken(field, format!("schedule = {:?}", job.schedule));
            helpers::assumed_zone(job, source, "the zone of the XXL-JOB server", notes);
            helpers::clock_changes(job, "XXL-JOB moves a time that is skipped by an hour", notes);
        }
        "FIX_RATE" => {
            let seconds: u64 = conf.trim().parse().map_err(|_| {
                ImportRefusal::new("schedule_conf", format!("{conf:?} is no number of seconds"))
            })?;
            job.schedule = format!("@every {}", helpers::span(seconds));
            notes.changed(
                field,
                format!("schedule = {:?}: counted from 1970, not from the start before", job.schedule),
            );
        }
        other => return Err(ImportRefusal::new("schedule_type", format!("{other} has no equivalent"))),
    }
    let misfire = row.text("misfire_strategy")?.unwrap_or_else(|| "DO_NOTHING".to_owned());
    job.catch_up = match misfire.as_str() {
        "FIRE_ONCE_NOW" => CatchUp::Latest,
        _ => CatchUp::Skip,
    };
    let word = if job.catch_up == CatchUp::Skip { "skip" } else { "latest" };
    notes.changed(
        "misfire_strategy",
        format!("{misfire}: catch_up = {word:?}; a fire is missed after misfire_grace, a minute, not after 5 seconds"),
    );
    Ok(())
}

/// Which executor runs it is which node runs it.
fn placement(job: &mut JobFile, row: &mut ForeignKeys, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    let route = row.text("executor_route_strategy")?.unwrap_or_default();
    let field = "executor_route_strategy";
    match route.as_str() {
        "SHARDING_BROADCAST" => {
            job.placement = Placement::Broadcast;
            notes.taken(field, "placement = \"broadcast\"");
        }
        "FAILOVER" | "" => notes.taken(field, "one living node owns the job"),
        "FIRST" | "LAST" | "CONSISTENT_HASH" => {
            notes.changed(field, format!("{route}: one node owns the job, which the cluster chooses"));
        }
        _ => {
            job.placement = Placement::Dispatched;
            notes.changed(
                field,
                format!(
                    "{route}: placement = \"dispatched\", so each run is for the node with most free slots"
                ),
            );
        }
    }
    let block = row.text("executor_block_strategy")?.unwrap_or_else(|| "SERIAL_EXECUTION".to_owned());
    let field = "executor_block_strategy";
    let overlap = match block.as_str() {
        "DISCARD_LATER" => Overlap::Skip,
        "COVER_EARLY" => Overlap::Replace,
        _ => Overlap::Forbid,
    };
    if job.placement == Placement::Broadcast {
        notes.changed(
            field,
            format!(
                "{block}: a fire of a broadcast job waits for the run before, and catch_up says which runs"
            ),
        );
        return Ok(());
    }
    job.overlap = overlap;
    match overlap {
        Overlap::Skip => notes.taken(field, "overlap = \"skip\""),
        Overlap::Replace => notes.taken(field, "overlap = \"replace\""),
        _ => notes.changed(
            field,
            format!("{block}: overlap = \"forbid\"; a fire waits for a run up to misfire_grace, and catch_up says which later ones run"),
        ),
    }
    Ok(())
}

fn attempts(job: &mut JobFile, row: &mut ForeignKeys, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    if let Some(seconds) =
        row.whole("executor_timeout")?.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0)
    {
        job.timeout = Some(seconds);
        notes.taken("executor_timeout", format!("timeout = \"{}\"", helpers::span(seconds)));
    }
    let times =
        row.whole("executor_fail_retry_count")?.and_then(|n| u64::try_from(n).ok()).unwrap_or_default();
    job.retry = helpers::retry(times, "1s", "1s");
    if let Some(retry) = &job.retry {
        notes.changed(
            "executor_fail_retry_count",
            format!("retry = {{ max_retries = {}, delay = \"1s\" }}: an attempt follows after up to a second, not at once", retry.max_retries),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
