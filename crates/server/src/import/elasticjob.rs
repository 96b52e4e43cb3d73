//! ElasticJob: each job of a Spring file, of the settings of Spring Boot, or of the `config` nodes in ZooKeeper, as texts or
//! where they are.

#[cfg(feature = "zookeeper")]
pub(crate) mod live;
mod texts;
mod work;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

use evenkeel_core::job::{CatchUp, Delivery, JobFile, Placement, Work};
use evenkeel_core::sharding_strategy::ShardingStrategy;

use super::foreign_keys::ForeignKeys;
use super::{ImportNotes, ImportRefusal, ImportSource, Imported, helpers};
use crate::exit::CliError;

/// What it means that a key is left out.
const REMARKS: [(&str, &str); 8] = [
    ("reconcileIntervalMinutes", "what the cluster owns is checked all the time"),
    ("jobExecutorServiceHandlerType", "the slots of a node say how many runs it executes at once"),
    ("jobExecutorThreadPoolSizeProviderType", "the slots of a node say how many runs it executes at once"),
    ("jobListenerTypes", "no listener is called: let the command do what it did"),
    ("jobExtraConfigurations", "the history keeps outcomes, and traces go by OTLP"),
    ("jobErrorHandlerType", "notify and a notifier report failures; a run that fails is recorded as failed"),
    ("overwrite", "applying a file always replaces the declaration"),
    ("props", "properties of handlers have no equivalent"),
];

/// Reads jobs from XML of Spring, from YAML of Spring Boot, or from the texts of `config` nodes, YAML or JSON.
///
/// # Errors
/// The text is none of these, or holds no job.
pub(crate) fn read(text: &str, source: &ImportSource) -> Result<Imported, CliError> {
    let jobs = texts::read(text, &source.shown)?;
    match jobs.is_empty() {
        true => Err(CliError::invalid(format!(
            "{}: it holds no job of ElasticJob: give XML of Spring, YAML with elasticjob.jobs, or the texts of config nodes",
            source.shown
        ))),
        false => Ok(convert(jobs, source)),
    }
}

/// The settings of a job, with ElasticJob's own names for the keys.
pub(crate) type ElasticJobConfig = serde_json::Map<String, serde_json::Value>;

/// Makes a job of each of these settings, wherever they were read.
#[must_use]
pub(crate) fn convert(jobs: Vec<ElasticJobConfig>, source: &ImportSource) -> Imported {
    let mut imported = Imported::default();
    for config in jobs {
        let name =
            config.get("jobName").and_then(serde_json::Value::as_str).unwrap_or("without a name").to_owned();
        imported.object(&format!("job {name}"), |notes| {
            job(ForeignKeys::of("", serde_json::Value::Object(config))?, source, notes)
        });
    }
    imported
}

fn job(
    mut keys: ForeignKeys,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    let name = helpers::name("jobName", &keys.needed("jobName")?, notes)?;
    let mut job = JobFile::new(name, "", Work::Command(Vec::new()));
    job.parameter = keys.text("jobParameter")?.unwrap_or_default();
    if !job.parameter.is_empty() {
        notes.taken("jobParameter", "parameter: EVENKEEL_JOB_PARAMETER");
    }
    work::take(&mut job, &mut keys, source, notes)?;
    let said = keys.text("description")?.filter(|said| !said.is_empty());
    job.description = match said {
        Some(said) => format!("{said}, {}", source.description()),
        None => source.description(),
    };
    times(&mut job, &mut keys, source, notes)?;
    shards(&mut job, &mut keys, notes)?;
    outcomes(&mut job, &mut keys, notes)?;
    if keys.flag("disabled")? == Some(true) {
        job.enabled = false;
        notes.taken("disabled", "enabled = false");
    }
    if keys.flag("overwrite")? == Some(true) {
        notes.lost("overwrite", "applying a file always replaces the declaration");
    }
    let error_handler = keys.text("jobErrorHandlerType")?;
    if let Some(handler) = error_handler.filter(|handler| !handler.is_empty() && handler != "LOG") {
        notes.lost("jobErrorHandlerType", format!("{handler}: notify and a notifier report failures"));
    }
    keys.lost(notes, &REMARKS);
    Ok(job)
}

fn times(
    job: &mut JobFile,
    keys: &mut ForeignKeys,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let zone = keys.text("timeZone")?.filter(|zone| !zone.is_empty());
    let Some(cron) = keys.text("cron")?.filter(|cron| !cron.trim().is_empty()) else {
        notes.taken("cron", "none: only manual runs");
        keys.ignore(&["misfire"]);
        return Ok(());
    };
    cron.trim().clone_into(&mut job.schedule);
    notes.taken("cron", format!("schedule = {:?}", job.schedule));
    match zone {
        Some(zone) => job.timezone = helpers::zone("timeZone", &zone, notes)?,
        None => helpers::assumed_zone(job, source, "the zone of each instance's process", notes),
    }
    helpers::clock_changes(job, "Quartz moves a time that is skipped by an hour", notes);
    let misfire = keys.flag("misfire")?.unwrap_or(true);
    job.catch_up = if misfire { CatchUp::Latest } else { CatchUp::Skip };
    match misfire {
        true => notes.changed(
            "misfire",
            "catch_up = \"latest\": what came due during a run runs directly after it, and only the shards that missed it",
        ),
        false => notes.taken("misfire", "catch_up = \"skip\""),
    }
    Ok(())
}

fn shards(job: &mut JobFile, keys: &mut ForeignKeys, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    job.placement = Placement::Sharded;
    let total = keys.count("shardingTotalCount")?.unwrap_or(1);
    job.shards = u32::try_from(total).unwrap_or(u32::MAX);
    notes.taken("shardingTotalCount", format!("placement = \"sharded\", shards = {total}"));
    let written = keys.text("shardingItemParameters")?.filter(|text| !text.trim().is_empty());
    if let Some(text) = written {
        job.shard_parameters = parameters(&text)?;
        notes.taken("shardingItemParameters", "shard_parameters: EVENKEEL_PARAMETER");
    }
    let strategy = ["jobShardingStrategyType", "jobShardingStrategyClass"]
        .into_iter()
        .map(|key| keys.text(key))
        .collect::<Result<Vec<_>, _>>()?;
    let strategy = strategy.into_iter().flatten().find(|strategy| !strategy.is_empty());
    if let Some(word) = strategy {
        let known = word.rsplit('.').next().unwrap_or_default();
        let (strategy, key) = match known {
            "AVG_ALLOCATION" | "AverageAllocationJobShardingStrategy" => {
                (ShardingStrategy::Average, "average")
            }
            "ODEVITY" | "OdevitySortByNameJobShardingStrategy" => (ShardingStrategy::OddEven, "odd_even"),
            "ROUND_ROBIN"
            | "RotateServerByNameJobShardingStrategy"
            | "RoundRobinByNameJobShardingStrategy" => (ShardingStrategy::Rotate, "rotate"),
            _ => {
                let said = format!("{word} is not one of ElasticJob's own: average is used");
                notes.lost("jobShardingStrategyType", said);
                (ShardingStrategy::Average, "average")
            }
        };
        job.strategy = strategy;
        notes.taken("jobShardingStrategyType", format!("strategy = {key:?}"));
    }
    if keys.flag("staticSharding")? == Some(true) {
        job.sticky_shards = true;
        notes.taken("staticSharding", "sticky_shards = true");
    }
    Ok(())
}

/// `0=a,1=b` as a list.
fn parameters(text: &str) -> Result<Vec<String>, ImportRefusal> {
    let wrong =
        || ImportRefusal::new("shardingItemParameters", format!("{text:?} is no list such as 0=a,1=b"));
    let mut list = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (item, parameter) = pair.split_once('=').ok_or_else(wrong)?;
        let item: usize = item.trim().parse().map_err(|_| wrong())?;
        if item >= 100_000 {
            return Err(wrong());
        }
        if list.len() <= item {
            list.resize(item + 1, String::new());
        }
        if let Some(place) = list.get_mut(item) {
            parameter.trim().clone_into(place);
        }
    }
    Ok(list)
}

/// What becomes of runs of which nothing is known any more.
fn outcomes(job: &mut JobFile, keys: &mut ForeignKeys, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    let monitored = keys.flag("monitorExecution")?.unwrap_or(true);
    job.monitor_execution = monitored;
    let word = if monitored { "true" } else { "false" };
    notes.taken("monitorExecution", format!("monitor_execution = {word}"));
    let fails_over = keys.flag("failover")?.unwrap_or(false);
    match (fails_over, monitored) {
        (true, true) => {
            job.delivery = Delivery::AtLeastOnce;
            notes.taken("failover", "delivery = \"at_least_once\"");
        }
        (true, false) => {
            notes.lost("failover", "without monitorExecution it has no effect in ElasticJob either")
        }
        (false, _) => notes.taken(
            "failover",
            "delivery = \"at_most_once\": a shard that is lost with its node is recorded as lost",
        ),
    }
    if let Some(seconds) = keys.whole("maxTimeDiffSeconds")?.and_then(|n| u64::try_from(n).ok()) {
        job.max_clock_skew = Some(seconds);
        notes.taken("maxTimeDiffSeconds", format!("max_clock_skew = \"{}\"", helpers::span(seconds)));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
