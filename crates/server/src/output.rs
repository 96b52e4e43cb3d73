//! Prints tables for people and JSON for programs.

use std::io::Write;
use std::sync::OnceLock;

use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use evenkeel_core::ids::is_unseen;
use evenkeel_core::job::Placement;
use serde::Serialize;

use crate::escaping::{self, ControlEscaper, visible};
use crate::exit::{CliError, ExitKind};
use crate::local_time::local;
use evenkeel_client::types::{
    AssignmentRow, AuditRow, BalanceRow, CalendarRow, EventRow, ExplanationStep, JobRow, LayoutRow,
    LeaderUnknown, LoadRow, NamespaceRow, NodeRow, ProjectedLoad, RunRow, ServiceRow, SettingsRow,
    ShardRangeRow, word,
};

/// How a verb prints its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people.
    #[default]
    Table,
    /// For programs: stable fields, times as RFC 3339 in UTC.
    Json,
}

/// The output format of this process, also for messages beside an answer and for errors.
static CHOSEN: OnceLock<OutputFormat> = OnceLock::new();

/// Sets the output format of this process; only the first call has an effect.
pub(crate) fn choose(output: OutputFormat) {
    let _ = CHOSEN.set(output);
}

/// The output format of this process.
#[must_use]
pub(crate) fn chosen() -> OutputFormat {
    CHOSEN.get().copied().unwrap_or_default()
}

/// Prints a message beside the answer.
pub(crate) fn print_message(text: &str) {
    match chosen() {
        OutputFormat::Json => eprintln!("{}", serde_json::json!({ "warning": text })),
        OutputFormat::Table => eprintln!("evenkeel: {}", plain(text)),
    }
}

/// A row of a table.
pub(crate) trait TableRow: Serialize {
    /// The heads of the columns.
    const HEADS: &'static [&'static str];
    /// The cells, in the order of the heads.
    fn cells(&self) -> Vec<String>;
}

impl TableRow for JobRow {
    const HEADS: &'static [&'static str] =
        &["name", "schedule", "timezone", "placement", "owner", "next", "paused"];
    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            or_dash(Some(&self.schedule)),
            self.timezone.clone(),
            word(&self.placement),
            owner(self),
            match self.missing.first() {
                _ if self.disabled => "disabled".to_owned(),
                Some(missing) => format!("never: no calendar {missing}"),
                None if self.unschedulable => "no node fits".to_owned(),
                None => local(self.next.as_deref()),
            },
            yes(self.paused),
        ]
    }
}

impl TableRow for CalendarRow {
    const HEADS: &'static [&'static str] = &["name", "lines", "jobs", "changed", "description"];
    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.lines.to_string(),
            self.jobs.to_string(),
            local(Some(&self.since)),
            or_dash(Some(&self.description)),
        ]
    }
}

impl TableRow for NamespaceRow {
    const HEADS: &'static [&'static str] =
        &["name", "jobs", "jobs max", "calendars", "running", "runs max", "description"];
    fn cells(&self) -> Vec<String> {
        let limit = |max: Option<u32>| max.map_or_else(|| "-".to_owned(), |max| max.to_string());
        vec![
            self.name.clone(),
            self.jobs.to_string(),
            limit(self.jobs_max),
            self.calendars.to_string(),
            self.running.to_string(),
            limit(self.runs_max),
            or_dash(Some(&self.description)),
        ]
    }
}

impl TableRow for RunRow {
    const HEADS: &'static [&'static str] =
        &["run", "node", "attempt", "state", "due", "started", "ended", "reason"];
    fn cells(&self) -> Vec<String> {
        vec![
            self.run.clone(),
            or_dash(Some(&self.node)),
            self.attempt.to_string(),
            // A fire that no node has claimed is no run that could be killed.
            if self.state == "waiting" && self.killable == Some(false) { "due" } else { &self.state }
                .to_owned(),
            local(Some(&self.due)),
            local(self.started.as_deref()),
            local(self.ended.as_deref()),
            or_dash(self.reason.as_deref()),
        ]
    }
}

impl TableRow for SettingsRow {
    const HEADS: &'static [&'static str] = &["planner", "beat", "strikes", "handover", "spread", "leader"];
    fn cells(&self) -> Vec<String> {
        vec![
            word(&self.planner),
            self.beat.to_string(),
            self.strikes.to_string(),
            word(&self.handover),
            word(&self.spread),
            match &self.leader_unknown {
                None => or_dash(self.leader.as_deref()),
                Some(LeaderUnknown { last, since }) => format!(
                    "unknown since {}, last known {}",
                    local(since.as_deref()),
                    or_dash(last.as_deref())
                ),
            },
        ]
    }
}

impl TableRow for LayoutRow {
    const HEADS: &'static [&'static str] = &["layout", "applied"];
    fn cells(&self) -> Vec<String> {
        vec![self.layout.to_string(), word(&self.applied)]
    }
}

impl TableRow for ServiceRow {
    const HEADS: &'static [&'static str] = &["node", "address", "score"];
    fn cells(&self) -> Vec<String> {
        vec![self.node.clone(), self.address.clone(), score(self.score)]
    }
}

impl TableRow for LoadRow {
    const HEADS: &'static [&'static str] = &["at", "cpu", "memory", "busy", "score"];
    fn cells(&self) -> Vec<String> {
        vec![
            local(Some(&self.at)),
            percent(self.cpu),
            percent(self.memory),
            format!("{} of {}", self.busy, self.slots),
            format!("{:.2}", self.score),
        ]
    }
}

impl TableRow for NodeRow {
    const HEADS: &'static [&'static str] = &[
        "name", "state", "version", "held", "quota", "shards", "alarm", "busy", "cpu", "memory", "score",
        "as of", "labels", "address",
    ];
    fn cells(&self) -> Vec<String> {
        if let Some(since) = &self.gone_since {
            let since = format!("gone since {}", local(Some(since)));
            let mut cells = vec![self.name.clone(), since];
            cells.resize(Self::HEADS.len() - 1, "-".to_owned());
            cells.push(or_dash(self.left.as_deref()));
            return cells;
        }
        let busy = self.busy.map_or_else(|| "-".to_owned(), |busy| busy.to_string());
        vec![
            self.name.clone(),
            match self.history {
                Some(_) => format!("{}, starts nothing", node_state(self)),
                None => node_state(self),
            },
            or_dash(Some(&self.version)),
            self.held.to_string(),
            self.quota.to_string(),
            self.shards.to_string(),
            self.alarm.to_string(),
            format!("{busy} of {}", self.slots),
            percent(self.cpu),
            percent(self.memory),
            score(self.score),
            local(self.measured.as_deref()),
            or_dash(Some(&self.labels.to_string())),
            or_dash(Some(&self.address)),
        ]
    }
}

impl TableRow for BalanceRow {
    const HEADS: &'static [&'static str] = &["name", "state", "held", "quota", "alarm", "slots", "score"];
    fn cells(&self) -> Vec<String> {
        let node = &self.node;
        vec![
            node.name.clone(),
            self.part.clone(),
            node.held.to_string(),
            node.quota.to_string(),
            node.alarm.to_string(),
            node.slots.to_string(),
            node.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}")),
        ]
    }
}

/// The same for a simulation.
#[derive(Serialize)]
pub(crate) struct SimulatedBalanceRow<'a>(pub(crate) &'a BalanceRow);

impl TableRow for SimulatedBalanceRow<'_> {
    const HEADS: &'static [&'static str] =
        &["name", "state", "held", "then", "quota", "then", "alarm", "slots", "score"];
    fn cells(&self) -> Vec<String> {
        let mut cells = self.0.cells();
        let then = |part: fn(&ProjectedLoad) -> usize| {
            self.0.then.as_ref().map_or_else(|| "-".to_owned(), |then| part(then).to_string())
        };
        cells.insert(4, then(|then| then.quota));
        cells.insert(3, then(|then| then.held));
        cells
    }
}

impl TableRow for EventRow {
    const HEADS: &'static [&'static str] = &["at", "node", "kind", "what"];
    fn cells(&self) -> Vec<String> {
        vec![local(Some(&self.at)), self.node.clone(), self.kind.clone(), self.text.clone()]
    }
}

impl TableRow for AuditRow {
    const HEADS: &'static [&'static str] = &["at", "who", "asked for", "outcome", "what", "node"];
    fn cells(&self) -> Vec<String> {
        vec![
            local(Some(&self.at)),
            self.actor_text(),
            format!("{} {}", self.verb, self.object),
            self.outcome.clone(),
            self.change_text(),
            self.node.clone(),
        ]
    }
}

impl TableRow for ExplanationStep {
    const HEADS: &'static [&'static str] = &["about", "rule", "says"];
    fn cells(&self) -> Vec<String> {
        vec![self.about.clone(), or_dash(self.rule.as_deref()), self.says.clone()]
    }
}

impl TableRow for AssignmentRow {
    const HEADS: &'static [&'static str] = &["node", "shards", "state"];
    fn cells(&self) -> Vec<String> {
        vec![self.node.clone(), or_dash(Some(&self.shards)), self.state.replace('_', " ")]
    }
}

impl TableRow for ShardRangeRow {
    const HEADS: &'static [&'static str] =
        &["shards", "node", "state", "fire", "attempt", "failed over", "parameter", "last began"];
    fn cells(&self) -> Vec<String> {
        let doing = &self.doing;
        let by_hand = doing.fire.as_deref().filter(|fire| fire.starts_with("ask-"));
        vec![
            self.shards.clone(),
            or_dash(doing.node.as_deref()),
            doing.state.clone(),
            by_hand.map_or_else(|| local(doing.due.as_deref()), ToOwned::to_owned),
            doing.attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.to_string()),
            yes(doing.failed_over),
            or_dash(Some(&doing.parameter)),
            local(doing.began.as_deref()),
        ]
    }
}

/// The states of a node, in a word or two each.
fn node_state(node: &NodeRow) -> String {
    let state = match (node.offline, node.draining, node.drained) {
        (true, _, true) => "offline, drained",
        (true, true, _) => "offline, draining",
        (true, ..) => "offline",
        (_, _, true) => "drained, may be stopped",
        (_, true, _) => "draining",
        _ if node.cordoned => return "cordoned".to_owned(),
        _ => "online",
    };
    if node.cordoned { format!("{state}, cordoned") } else { state.to_owned() }
}

fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{part:.0}%"))
}

/// The owner of a job; for a sharded one its leader and the number of nodes; for a dispatched one its planner.
fn owner(job: &JobRow) -> String {
    match (&job.owner, job.placement) {
        // Before the first reshard no node has any shard.
        (Some(leader), Placement::Sharded | Placement::Broadcast) if job.nodes == 0 => {
            format!("{leader} leads")
        }
        (Some(leader), Placement::Sharded | Placement::Broadcast) => format!("{leader} leads {}", job.nodes),
        (Some(planner), Placement::Dispatched) => format!("{planner} plans"),
        (owner, _) => or_dash(owner.as_deref()),
    }
}

/// Prints a node's warnings beside the answer. Returns whether there are any.
pub(crate) fn warn(warnings: &[String]) -> bool {
    warnings.iter().for_each(|text| print_message(text));
    !warnings.is_empty()
}

/// Prints the nodes whose histories are missing in a list.
pub(crate) fn missing(nodes: &[String]) {
    for node in nodes {
        print_message(&format!("node {node} does not answer: what only its history has is not in the list"));
    }
}

/// Prints a list.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn list<R: TableRow>(output: OutputFormat, rows: &[R], empty: &str) -> Result<(), CliError> {
    match output {
        OutputFormat::Json => json(&rows),
        OutputFormat::Table if rows.is_empty() => line(empty),
        OutputFormat::Table => line(&table(rows)),
    }
}

/// A list for people.
#[must_use]
pub(crate) fn table<R: TableRow>(rows: &[R]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(R::HEADS.iter().map(|head| head.to_uppercase()));
    for row in rows {
        table.add_row(row.cells().iter().map(|cell| plain(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Prints a value as JSON.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), CliError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?;
    line(&escaping::json(&text))
}

/// Prints one or more lines; characters that a terminal obeys or hides are escaped.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn line(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    written(writeln!(out, "{}", visible(text)).and_then(|()| out.flush()))
}

/// Prints a stream piece by piece, escaped for the terminal; unchanged if `raw`.
///
/// # Errors
/// The stream fails, or standard output is closed.
pub(crate) fn stream(
    raw: bool,
    come: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), CliError>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    if raw {
        return come(&mut |piece| bytes(piece));
    }
    let mut shown = ControlEscaper::default();
    let come = come(&mut |piece| bytes(shown.take(piece).as_bytes()));
    bytes(shown.end().as_bytes())?;
    come
}

/// Prints bytes as they are.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

fn written(result: std::io::Result<()>) -> Result<(), CliError> {
    result.map_err(|e| match e.kind() {
        // The reader has seen enough, as `head` has: that is no error to print.
        std::io::ErrorKind::BrokenPipe => CliError::new(ExitKind::Failed, ""),
        _ => CliError::new(ExitKind::Failed, format!("cannot write to standard output: {e}")),
    })
}

/// A name or reason may come from anywhere: its characters that a terminal hides or obeys are escaped.
#[must_use]
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

pub(crate) fn or_dash(text: Option<&str>) -> String {
    text.filter(|t| !t.is_empty()).unwrap_or("-").to_owned()
}

fn score(score: Option<f64>) -> String {
    score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"))
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "-" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local_time::in_zone;
    use jiff::tz::TimeZone;

    #[test]
    fn moments_are_shown_in_the_readers_zone_and_nonsense_as_it_is() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(in_zone(Some("2026-03-01T22:30:00.250Z"), &zone), "2026-03-02 00:30:00");
        assert_eq!(in_zone(Some("soon"), &zone), "soon");
        assert_eq!(in_zone(None, &zone), "-");
    }

    #[test]
    fn no_escape_sequence_reaches_a_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\nc"), "a [31mb c");
        assert_eq!(plain("job \u{202e}x\u{200b}y"), "job  x y", "nor what turns or hides the rest");
    }
}
