//! Prints tables for people and JSON for programs.

mod format;
mod progress;
mod sink;
mod tables;
mod values;

use evenkeel_core::job::Placement;
use serde::Serialize;

use crate::escaping::ControlEscaper;
use crate::exit::CliError;
use crate::local_time::{self, cell as local, local as local_moment};
use evenkeel_client::types::{
    AssignmentRow, AuditRow, BalanceRow, CalendarRow, EventRow, ExplanationStep, JobRow, JobRunsRow,
    LayoutRow, LeaderUnknown, LoadRow, NamespaceRow, NodeRow, ProjectedLoad, RunRow, ServiceRow, SettingsRow,
    ShardRangeRow, word,
};
pub(crate) use format::{OutputFormat, choose, chosen};
pub(crate) use progress::{Progress, shown_while};
pub(crate) use sink::{CapturedOutput, bytes, capture, line, plain};
use tables::TableStyle;
pub(crate) use tables::{TableRow, choose_columns, has_colour, table};
pub(crate) use values::{changed, value};

/// Prints a message beside the answer.
pub(crate) fn print_message(text: &str) {
    match chosen().has_json_errors() {
        true => sink::message(&serde_json::json!({ "warning": text }).to_string()),
        false => sink::message(&format!("evenkeel: {}", plain(text))),
    }
}

impl TableRow for JobRow {
    const HEADS: &'static [&'static str] = &[
        "name",
        "schedule",
        "timezone",
        "placement",
        "owner",
        "next",
        "last outcome",
        "running",
        "waiting",
        "paused",
    ];
    const WIDE_HEADS: &'static [&'static str] = &["nodes", "labels"];
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
                None if self.shadow => format!("{} (shadow)", local(self.next.as_deref())),
                None => local(self.next.as_deref()),
            },
            runs(self, |runs| runs.last.as_ref().map(|last| last.state.replace('_', " "))),
            runs(self, |runs| Some(runs.running.to_string())),
            runs(self, |runs| Some(runs.waiting.to_string())),
            yes(self.paused),
        ]
    }
    fn wide_cells(&self) -> Vec<String> {
        let labels = self.labels.iter().map(|(name, value)| format!("{name}={value}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        vec![self.nodes.to_string(), or_dash(Some(&labels))]
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
    const WIDE_HEADS: &'static [&'static str] = &["job", "shard", "took"];
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
    fn wide_cells(&self) -> Vec<String> {
        let took = local_time::between(self.started.as_deref(), self.ended.as_deref());
        vec![self.job.clone(), self.shard.to_string(), or_dash(took.as_deref())]
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
                    local_moment(since.as_deref()),
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
            let since = format!("gone since {}", local_moment(Some(since)));
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
    const WIDE_HEADS: &'static [&'static str] = &["job"];
    fn cells(&self) -> Vec<String> {
        vec![local(Some(&self.at)), self.node.clone(), self.kind.clone(), self.text.clone()]
    }
    fn wide_cells(&self) -> Vec<String> {
        vec![or_dash(self.job.as_deref())]
    }
}

impl TableRow for AuditRow {
    const HEADS: &'static [&'static str] = &["at", "who", "asked for", "outcome", "what", "node"];
    const WIDE_HEADS: &'static [&'static str] = &["from", "before", "after", "id"];
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
    fn wide_cells(&self) -> Vec<String> {
        let version = |version: Option<u64>| version.map_or_else(|| "-".to_owned(), |n| n.to_string());
        vec![self.from.clone(), version(self.before), version(self.after), self.id.clone()]
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

/// What a list says of the runs of a job; a dash where it was not asked for.
fn runs(job: &JobRow, part: fn(&JobRunsRow) -> Option<String>) -> String {
    or_dash(job.runs.as_ref().and_then(part).as_deref())
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
/// `--columns` names an unknown column, or standard output is closed.
pub(crate) fn list<R: TableRow>(output: OutputFormat, rows: &[R], empty: &str) -> Result<(), CliError> {
    if output == OutputFormat::Name {
        return rows.iter().try_for_each(|row| line(&row.row_name()));
    }
    if !output.is_text() {
        return value(output, &rows);
    }
    let text = tables::styled(rows, TableStyle::of_process(output == OutputFormat::Wide))?;
    if rows.is_empty() {
        return line(empty);
    }
    // Its cells are escaped already, and colours are not to be.
    bytes(format!("{text}\n").as_bytes())
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

pub(crate) fn or_dash(text: Option<&str>) -> String {
    text.filter(|t| !t.is_empty()).unwrap_or("-").to_owned()
}

fn score(score: Option<f64>) -> String {
    score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"))
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "-" }.to_owned()
}
