//! `evenkeel cluster status`: the cluster on one page.

use std::fmt::Write as _;

use evenkeel_client::requests::{AttentionListQuery, ForecastQuery, SummaryQuery};
use evenkeel_client::types::{
    AttentionPage, ClusterHealth, ForecastAnswer, HealthVerdict, NodePage, NodeRow, SettingsRow,
    SummaryCounts, word,
};
use serde::Serialize;

use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::output;

/// How many rows of what needs a person the page has.
const ATTENTION_ROWS: usize = 10;

/// What the page is made of, and what programs get.
#[derive(Debug, Serialize)]
pub(super) struct ClusterStatus {
    verdict: HealthVerdict,
    health: ClusterHealth,
    nodes: NodePage,
    attention: AttentionPage,
    settings: SettingsRow,
    /// The counts of fires of the last day.
    last_day: SummaryCounts,
    /// The fires of the next hour.
    next_hour: ForecastAnswer,
}

impl ClusterStatus {
    /// Asks a node.
    ///
    /// # Errors
    /// The node does not answer, or refuses.
    fn fetch(client: &ApiClient) -> Result<Self, CliError> {
        let health = client.cluster_health()?;
        let forecast = ForecastQuery { hours: Some(1), ..ForecastQuery::default() };
        Ok(Self {
            verdict: health.verdict,
            health,
            nodes: client.list_nodes()?,
            attention: client.list_attention(&AttentionListQuery::default())?,
            settings: client.show_settings()?,
            last_day: client.summarize_fires(&SummaryQuery::default())?.totals,
            next_hour: client.forecast_fires(&forecast)?,
        })
    }

    /// The page for people.
    fn text(&self, has_colour: bool) -> String {
        let mut page = String::new();
        let health = &self.health;
        let verdict = coloured(self.verdict, has_colour);
        let (online, all) = (health.nodes_online, health.nodes_expected);
        line(
            &mut page,
            "cluster",
            &format!("{verdict}, {online} of {all} nodes online, as {} sees it", health.node),
        );
        let losses = match health.tolerated_losses {
            0 => "no node may be lost now".to_owned(),
            1 => "one node may be lost now".to_owned(),
            n => format!("{n} nodes may be lost now"),
        };
        line(&mut page, "engine", &format!("{}; {losses}", health.engine));
        let (planner, beat) = (word(&self.settings.planner), self.settings.beat);
        line(&mut page, "planner", &format!("{planner}, each {beat}, {} strikes", self.settings.strikes));
        let day = &self.last_day;
        let late = match day.late {
            0 => String::new(),
            late => format!(", {late} late"),
        };
        let counts = format!("{} ran, {} failed, {} missed{late}", day.ran, day.failed, day.missed);
        line(&mut page, "last day", &format!("{}: {counts}", counted(day.expected, "fire")));
        let next = &self.next_hour;
        let (fires, jobs) = (counted(next.total, "fire"), counted(next.jobs as u64, "job"));
        line(&mut page, "next hour", &format!("{fires} of {jobs}"));
        for reason in &health.reasons {
            let node = reason.node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
            let (verdict, text) = (coloured(reason.verdict, has_colour), format!("{node}{}", reason.text));
            line(&mut page, "", &format!("{verdict}: {}", output::plain(&text)));
        }
        page.push('\n');
        self.add_nodes(&mut page);
        self.add_attention(&mut page);
        page
    }

    fn add_nodes(&self, page: &mut String) {
        let rows: Vec<[String; 6]> = self.nodes.nodes.iter().map(|node| self.node_cells(node)).collect();
        let heads = ["node", "state", "jobs", "busy", "lateness", "commits"].map(str::to_owned);
        page.push_str(&columns(std::iter::once(&heads).chain(&rows)));
    }

    fn node_cells(&self, node: &NodeRow) -> [String; 6] {
        let health = self.health.nodes.iter().find(|row| row.name == node.name);
        let measured = health.and_then(|row| row.measured.as_ref());
        let times = |times: Option<&evenkeel_client::types::TimeSummary>| {
            times
                .map_or_else(|| "-".to_owned(), |times| format!("{:.0}/{:.0} ms", times.p50_ms, times.p99_ms))
        };
        let busy = measured.map_or(node.busy, |measured| Some(measured.slots_busy));
        [
            output::plain(&node.name),
            health.map_or_else(|| node.state.clone(), |row| row.state.clone()),
            format!("{} of {}", node.held, node.quota),
            busy.map_or_else(|| "-".to_owned(), |busy| format!("{busy} of {}", node.slots)),
            times(measured.and_then(|measured| measured.lateness.as_ref())),
            times(measured.and_then(|measured| measured.commits.as_ref())),
        ]
    }

    fn add_attention(&self, page: &mut String) {
        let rows = &self.attention.attention;
        if rows.is_empty() {
            page.push_str("\nnothing needs a person\n");
            return;
        }
        page.push('\n');
        let all: u64 = self.attention.counts.values().sum();
        let shown = rows.iter().take(ATTENTION_ROWS).map(|row| {
            let about = row.job.as_ref().or(row.node.as_ref()).cloned().unwrap_or_default();
            [row.kind.as_str().to_owned(), output::plain(&about), output::plain(&row.text)]
        });
        let shown: Vec<[String; 3]> = shown.collect();
        page.push_str(&columns(shown.iter()));
        let hidden = usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(shown.len());
        if hidden > 0 {
            let _ =
                writeln!(page, "and {hidden} more: see `evenkeel cluster status -o json`, or the console");
        }
    }
}

fn line(page: &mut String, head: &str, text: &str) {
    let _ = writeln!(page, "{head:<10} {text}");
}

fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Rows whose cells stand below each other.
pub(super) fn columns<'a, const N: usize>(rows: impl Iterator<Item = &'a [String; N]> + Clone) -> String {
    let mut widths = [0; N];
    for row in rows.clone() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A verdict in its colour.
pub(super) fn coloured(verdict: HealthVerdict, has_colour: bool) -> String {
    let word = word(&verdict);
    let colour = match verdict {
        HealthVerdict::Ok => 32,
        HealthVerdict::Degraded => 33,
        HealthVerdict::Failing => 31,
    };
    if has_colour { format!("\x1b[1;{colour}m{word}\x1b[0m") } else { word }
}

/// Shows the page, and fails if the cluster is not well.
///
/// # Errors
/// The node does not answer, or the cluster is degraded or fails.
pub(super) fn run(reach: &ConnectArgs) -> Result<(), CliError> {
    let status = ClusterStatus::fetch(&reach.client()?)?;
    match reach.output.is_text() {
        // Its texts are escaped already, and its colours are not to be.
        true => output::bytes(status.text(output::has_colour()).as_bytes())?,
        false => output::value(reach.output, &status)?,
    }
    status.attention.missing.iter().for_each(|node| {
        output::print_message(&format!("node {node} does not answer: what only it knows is not on the page"));
    });
    match status.verdict {
        HealthVerdict::Ok => Ok(()),
        verdict => Err(CliError::new(ExitKind::Failed, format!("the cluster is {}", word(&verdict)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_a_verdict_has_its_colour() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(rows.iter()), "a    bb  c\naaa  b\n");
        assert_eq!(coloured(HealthVerdict::Ok, false), "ok");
        assert_eq!(coloured(HealthVerdict::Failing, true), "\x1b[1;31mfailing\x1b[0m");
    }
}
