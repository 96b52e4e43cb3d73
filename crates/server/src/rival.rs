//! What another scheduler really did, by its own records: which job it ran, and when. `report --against` compares it with
//! the history.

pub(crate) mod alignment;
mod cron;
mod kubernetes;
mod log;
mod moment_text;
mod rows;

use crate::exit::CliError;
pub(crate) use log::{BadRecord, RivalFire, RivalFormat, RivalLog, RivalSource, RivalSubject};

/// How many characters of a text say in which format it is.
const HEAD: usize = 1 << 16;

/// Reads what another scheduler did.
///
/// # Errors
/// The text is in no known format, or not in the one that `source` names.
pub(crate) fn read(text: &str, source: &RivalSource) -> Result<RivalLog, CliError> {
    let wrong = |why: String| CliError::invalid(format!("{}: {why}", source.shown));
    let text = text.trim_start_matches('\u{feff}');
    let format = source.format.or_else(|| recognized(text)).ok_or_else(|| {
        wrong(
            "its format is not known: give rows with job and time as CSV with a header or as JSON, rows of xxl_job_log or \
             JOB_EXECUTION_LOG, what `kubectl get jobs -o json` or `journalctl -o json` prints, or a log of cron; --against-format says which"
                .to_owned(),
        )
    })?;
    match format {
        RivalFormat::Rows => rows::read(text, &rows::PLAIN, source),
        RivalFormat::XxlJob => rows::read(text, &rows::XXL_JOB, source),
        RivalFormat::ElasticJob => rows::read(text, &rows::ELASTIC_JOB, source),
        RivalFormat::Kubernetes => kubernetes::read(text, source),
        RivalFormat::Cron => Ok(cron::read(text, source)),
    }
    .map_err(wrong)
}

/// The format that a text looks like.
fn recognized(text: &str) -> Option<RivalFormat> {
    let text = text.trim_start();
    let mut end = text.len().min(HEAD);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end)?.to_ascii_lowercase();
    let has = |word: &str| head.contains(word);
    let of_tables = || match () {
        () if has("trigger_time") || has("triggertime") => Some(RivalFormat::XxlJob),
        () if has("sharding_item") || has("shardingitem") => Some(RivalFormat::ElasticJob),
        () => None,
    };
    let first = head.lines().next().unwrap_or_default();
    match () {
        () if head.starts_with(['{', '[']) => match () {
            () if has("__realtime_timestamp") => Some(RivalFormat::Cron),
            () if has("\"apiversion\"") => Some(RivalFormat::Kubernetes),
            () => of_tables().or(Some(RivalFormat::Rows)),
        },
        () if ["apiversion:", "kind:", "items:", "---"].iter().any(|word| head.starts_with(word)) => {
            Some(RivalFormat::Kubernetes)
        }
        () if text.to_ascii_lowercase().contains("insert into") => {
            let is_elastic = text.to_ascii_lowercase().contains("job_execution_log");
            Some(if is_elastic { RivalFormat::ElasticJob } else { RivalFormat::XxlJob })
        }
        () if head.lines().any(cron::is_of_cron) => Some(RivalFormat::Cron),
        () if first.contains(',') => {
            of_tables().or_else(|| rows::is_head(first).then_some(RivalFormat::Rows))
        }
        () => None,
    }
}

#[cfg(test)]
mod tests;
