//! `evenkeel run show`: a run, or a fire, with its attempts.

use std::collections::BTreeMap;

use evenkeel_core::shards::ShardSet;
use serde::Serialize;

use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::output::{self, TableRow};
use evenkeel_client::types::{RunDetail, RunRow};

/// An attempt, as the table shows it.
#[derive(Serialize)]
struct ShownAttempt<'a> {
    row: &'a RunRow,
    /// The exit code of a command, or the status of a request.
    code: Option<i32>,
}

impl TableRow for ShownAttempt<'_> {
    const HEADS: &'static [&'static str] =
        &["run", "node", "attempt", "state", "exit", "due", "started", "ended", "reason"];
    const WIDE_HEADS: &'static [&'static str] = RunRow::WIDE_HEADS;
    fn cells(&self) -> Vec<String> {
        let mut cells = self.row.cells();
        cells.insert(4, self.code.map_or_else(|| "-".to_owned(), |code| code.to_string()));
        cells
    }
    fn wide_cells(&self) -> Vec<String> {
        self.row.wide_cells()
    }
}

/// Shows a run by its full id.
///
/// # Errors
/// The request failed, or there is no such run.
pub(super) fn show(run: &str, reach: &ConnectArgs) -> Result<(), CliError> {
    let found = reach.client()?.show_run(run)?;
    if !reach.output.is_text() {
        return output::value(reach.output, &found);
    }
    if let Some(parameters) = &found.parameters {
        let pairs = parameters.iter().map(|(name, value)| format!("{name}={value:?}"));
        output::line(&format!("parameters: {}", pairs.collect::<Vec<_>>().join(", ")))?;
    }
    if let Some(sent) = found.details.last().and_then(|detail| detail.sent.as_deref()) {
        output::line(sent)?;
    }
    let reason = found.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    if found.attempts.is_empty() && found.state.as_deref() == Some("waiting") {
        output::line(&format!("it waits{reason}"))?;
        let fix = format!("`evenkeel run kill {run}` takes it back");
        return if run.contains(":ask-") { output::line(&fix) } else { Ok(()) };
    }
    output::list(reach.output, &attempts(&found), "it has not been attempted yet")?;
    output::missing(found.missing.as_deref().unwrap_or_default());
    // A fire has a state as a whole.
    let Some(state) = &found.state else { return Ok(()) };
    // The reason names the shards that did not succeed.
    let others = found.reason.is_none();
    let sum = found.shards.as_ref().and_then(|shards| sum(shards, others));
    let sum = sum.map(|sum| format!(", {sum}")).unwrap_or_default();
    output::line(&format!("\nas a whole {state}{sum}{reason}"))
}

/// The attempts with their exit codes.
fn attempts(found: &RunDetail) -> Vec<ShownAttempt<'_>> {
    let code = |row: &RunRow| {
        let detail = found.details.iter().find(|it| it.run == row.run && it.attempt == row.attempt);
        detail.and_then(|detail| detail.code)
    };
    found.attempts.iter().map(|row| ShownAttempt { row, code: code(row) }).collect()
}

/// How many of a fire's shards succeeded, and with `others` how many are in each other state; `None` for a fire of one run.
fn sum(shards: &BTreeMap<String, String>, others: bool) -> Option<String> {
    let count = |set: &String| set.parse::<ShardSet>().map_or(0, |set| set.len());
    let total: usize = shards.values().map(count).sum();
    if total < 2 {
        return None;
    }
    let others = shards.iter().filter(|(state, _)| others && *state != "succeeded");
    let others = others.map(|(state, set)| format!("; {} {}: {set}", count(set), state.replace('_', " ")));
    let succeeded = shards.get("succeeded").map_or(0, count);
    Some(format!("{succeeded} of {total} shards succeeded{}", others.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_fire_counts_its_shards() {
        let of = |states: &[(&str, &str)]| {
            sum(&states.iter().map(|(state, set)| ((*state).to_owned(), (*set).to_owned())).collect(), true)
        };
        assert_eq!(
            of(&[("failed", "3"), ("succeeded", "0-2,4-13"), ("timed_out", "14-15")]).as_deref(),
            Some("13 of 16 shards succeeded; 1 failed: 3; 2 timed out: 14-15")
        );
        assert_eq!(of(&[("succeeded", "0-1")]).as_deref(), Some("2 of 2 shards succeeded"));
        assert_eq!(of(&[("failed", "0-1")]).as_deref(), Some("0 of 2 shards succeeded; 2 failed: 0-1"));
        assert_eq!(of(&[("succeeded", "0")]), None);
    }
}
