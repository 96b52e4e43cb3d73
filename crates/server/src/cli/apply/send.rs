//! Sends checked jobs to a node in batches, and prints what became of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::switch_text;
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::CliError;
use crate::files::EncodedJobs;
use crate::output::{self, OutputFormat};
use evenkeel_client::types::SwitchRow;

/// The maximum number of jobs, and of their bytes, in one request: the node writes an entry of its audit log for each, and
/// looks at nothing else while it parses the new ones.
const JOBS_MAX: usize = 2_000;
const BYTES_MAX: usize = 8 << 20;
/// With up to so many jobs each is printed, with more they are counted.
const PRINTED_MAX: usize = 50;

/// The answer to a batch.
#[derive(Deserialize)]
struct BatchAnswer<T> {
    #[serde(default = "Vec::new")]
    jobs: Vec<T>,
    #[serde(default)]
    warnings: Vec<String>,
}

/// What became of a job.
#[derive(Deserialize)]
struct AppliedRow {
    #[serde(default = "unknown")]
    name: String,
    #[serde(default = "unknown")]
    applied: String,
    #[serde(default)]
    switches: Value,
    #[serde(default)]
    ended: Value,
}

fn unknown() -> String {
    "?".to_owned()
}

/// The switches in an answer; none where it has none that this version knows.
fn rows_of(answer: Value) -> Vec<SwitchRow> {
    serde_json::from_value(answer).unwrap_or_default()
}

/// Applies jobs in batches and prints the result of each.
///
/// # Errors
/// A batch is refused; those before it are applied.
pub(in crate::cli) fn apply(jobs: &EncodedJobs, reach: &ConnectArgs) -> Result<(), CliError> {
    let rows = send(jobs, &reach.client()?, reach.output)?;
    if reach.output.is_text() { Ok(()) } else { output::changed(reach.output, &rows) }
}

/// Applies jobs in batches. Prints the result of each for people, or returns them for programs.
///
/// # Errors
/// A batch is refused; those before it are applied.
pub(super) fn send(
    jobs: &EncodedJobs,
    client: &ApiClient,
    format: OutputFormat,
) -> Result<Vec<Value>, CliError> {
    let bodies = jobs.bodies(JOBS_MAX, BYTES_MAX);
    if !format.is_text() {
        let mut answers: Vec<Value> = Vec::new();
        for body in bodies {
            let answer: BatchAnswer<Value> = client.post_json("/jobs/apply", &body)?;
            answers.extend(answer.jobs);
            answer.warnings.iter().for_each(|text| output::print_message(text));
        }
        return Ok(answers);
    }
    let (mut rows, mut switches, mut counts) = (Vec::new(), Vec::new(), BTreeMap::new());
    let (mut progress, mut done) = (output::Progress::new("applying jobs", jobs.len()), 0);
    for body in bodies {
        progress.at(done);
        let answer: BatchAnswer<AppliedRow> = client.post_json("/jobs/apply", &body)?;
        answer.warnings.iter().for_each(|text| output::print_message(text));
        done += answer.jobs.len();
        for AppliedRow { name, applied, switches: left, ended } in answer.jobs {
            switches
                .extend(rows_of(left).iter().map(|switch| format!("{name}: {}", switch_text::left(switch))));
            switches.extend(
                rows_of(ended).iter().map(|switch| format!("{name}: {}", switch_text::ended(switch))),
            );
            if jobs.len() <= PRINTED_MAX {
                rows.push(format!("{applied:9}  {name}"));
            }
            *counts.entry(applied).or_insert(0_usize) += 1;
        }
    }
    drop(progress);
    let counts: Vec<_> = counts.iter().map(|(word, n)| format!("{n} {word}")).collect();
    rows.iter().chain(&switches).chain([&counts.join(", ")]).try_for_each(|line| output::line(line))?;
    Ok(Vec::new())
}
