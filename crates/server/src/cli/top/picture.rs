//! What `top` shows, as lines.

use evenkeel_client::requests::{AttentionListQuery, JobListQuery, RunningQuery};
use evenkeel_client::types::{AttentionPage, ClusterHealth, JobRow, NodeRow, RunRow, RunningRow, moment};
use evenkeel_core::time::Wall;
use serde::Serialize;

use crate::cli::cluster_status::{coloured, columns};
use crate::client::ApiClient;
use crate::exit::CliError;
use crate::{local_time, output, zones};

/// How many rows of next fires and of what needs a person are asked for.
const NEXT: usize = 10;
const ATTENTION: usize = 10;
/// The cells of a bar.
const BAR: usize = 10;

/// What is shown.
#[derive(Debug, Serialize)]
pub(super) struct TopSnapshot {
    /// When it was asked for.
    #[serde(skip)]
    pub(super) at: Wall,
    health: ClusterHealth,
    nodes: Vec<NodeRow>,
    running: RunningRow,
    next: Vec<JobRow>,
    attention: AttentionPage,
}

/// How it is shown.
#[derive(Debug)]
pub(super) struct PictureFrame {
    /// The columns and rows.
    pub(super) size: (usize, usize),
    /// The moment from which times count.
    pub(super) now: Wall,
    pub(super) has_colour: bool,
    /// The end of the first line.
    pub(super) note: String,
}

impl TopSnapshot {
    /// Asks a node.
    ///
    /// # Errors
    /// The node does not answer, or refuses.
    pub(super) fn fetch(client: &ApiClient) -> Result<Self, CliError> {
        let soonest =
            JobListQuery { sort: Some("next".to_owned()), limit: Some(NEXT), ..JobListQuery::default() };
        let attention = AttentionListQuery { limit: Some(ATTENTION), ..AttentionListQuery::default() };
        Ok(Self {
            health: client.cluster_health()?,
            nodes: client.list_nodes()?.nodes,
            running: client.list_running(&RunningQuery::default())?,
            next: client.list_jobs(&soonest)?.jobs,
            attention: client.list_attention(&attention)?,
            at: zones::now(),
        })
    }
}

/// The lines of the picture: no more than there are rows, and none longer than a row.
pub(super) fn lines(seen: &TopSnapshot, frame: &PictureFrame) -> Vec<String> {
    let (width, height) = frame.size;
    let now = moment(frame.now);
    let running = seen.running.runs.iter().map(|run| run_cells(run, &now)).collect::<Vec<_>>();
    let next = seen.next.iter().filter_map(|job| Some([job.name.clone(), until(job.next.as_deref()?, &now)]));
    let next: Vec<[String; 2]> = next.collect();
    let attention = seen.attention.attention.iter().map(|row| {
        let about = row.job.as_ref().or(row.node.as_ref()).cloned().unwrap_or_default();
        [row.kind.as_str().to_owned(), about, row.text.clone()]
    });
    let attention: Vec<[String; 3]> = attention.collect();
    let waits: u64 = seen.attention.counts.values().sum();
    let sections = [
        (format!("NODES {}", seen.nodes.len()), table(seen.nodes.iter().map(node_cells))),
        (format!("NEEDS A PERSON {waits}"), table(attention)),
        (format!("RUNNING {}", seen.running.running), table(running)),
        ("NEXT".to_owned(), table(next)),
    ];
    // The verdict's colour takes no room, so the first line is cut before it has one.
    let health = &seen.health;
    let about = format!(
        ", {} of {} nodes, {}  {}",
        health.nodes_online,
        health.nodes_expected,
        local_time::local(Some(&now)),
        output::plain(&frame.note)
    );
    let verdict = coloured(health.verdict, frame.has_colour);
    let plain = coloured(health.verdict, false).chars().count() + "evenkeel ".len();
    let mut lines = vec![format!("evenkeel {verdict}{}", cut(&about, width.saturating_sub(plain)))];
    lines.extend(fitting(&sections, height.saturating_sub(1)).iter().map(|line| cut(line, width)));
    lines
}

/// The sections with their heads, as many lines of each as fit: each gets its share, and what one does not need the others have.
fn fitting(sections: &[(String, Vec<String>)], height: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (n, (head, rows)) in sections.iter().enumerate() {
        // Each section has an empty line, a head and a row at least.
        let left = height.saturating_sub(lines.len());
        let share = (left / (sections.len() - n)).max(3);
        let later: usize = sections[n + 1..].iter().map(|(_, rows)| rows.len() + 2).sum();
        let room = share.max(left.saturating_sub(later)).min(left).saturating_sub(2);
        if left < 2 {
            break;
        }
        lines.extend([String::new(), head.clone()]);
        if rows.len() <= room {
            lines.extend(rows.iter().cloned());
        } else if let Some(shown) = room.checked_sub(1) {
            lines.extend(rows.iter().take(shown).cloned());
            lines.push(format!("… {} more", rows.len() - shown));
        }
    }
    lines
}

fn table<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> Vec<String> {
    let rows: Vec<[String; N]> = rows.into_iter().map(|row| row.map(|cell| output::plain(&cell))).collect();
    columns(rows.iter()).lines().map(|line| format!("  {line}")).collect()
}

fn cut(line: &str, width: usize) -> String {
    match line.chars().count() > width {
        true => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => line.to_owned(),
    }
}

fn node_cells(node: &NodeRow) -> [String; 6] {
    let percent = |name: &str, part: Option<f64>| {
        part.map_or_else(|| format!("{name} -"), |part| format!("{name} {} {part:3.0}%", bar(part / 100.0)))
    };
    let slots = node.busy.map_or_else(
        || "slots -".to_owned(),
        |busy| format!("slots {} {busy}/{}", bar(f64::from(busy) / f64::from(node.slots.max(1))), node.slots),
    );
    [
        node.name.clone(),
        node.state.clone(),
        percent("cpu", node.cpu),
        percent("memory", node.memory),
        slots,
        format!("{} jobs", node.held),
    ]
}

/// A bar that is full at 1.
fn bar(part: f64) -> String {
    let full = (1..=BAR).filter(|cell| part * BAR as f64 + 0.5 >= *cell as f64).count();
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

fn run_cells(run: &RunRow, now: &str) -> [String; 3] {
    let elapsed = local_time::between(run.started.as_deref(), Some(now));
    [run.run.clone(), run.node.clone(), elapsed.unwrap_or_else(|| "-".to_owned())]
}

/// How long it is until a moment.
fn until(at: &str, now: &str) -> String {
    local_time::between(Some(now), Some(at)).map_or_else(|| at.to_owned(), |left| format!("in {left}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(head: &str, rows: usize) -> (String, Vec<String>) {
        (head.to_owned(), (0..rows).map(|n| format!("{head} {n}")).collect())
    }

    #[test]
    fn sections_share_the_rows_and_say_how_many_lines_are_hidden() {
        let all = [section("a", 2), section("b", 0), section("c", 50), section("d", 3)];
        let lines = fitting(&all, 24);
        assert_eq!(lines.len(), 24, "{lines:?}");
        assert_eq!(lines[..4], ["", "a", "a 0", "a 1"]);
        assert!(lines.contains(&"… 40 more".to_owned()) && lines.ends_with(&["d 2".to_owned()]), "{lines:?}");
        for height in 0..12 {
            assert!(fitting(&all, height).len() <= height.max(1), "{height}");
        }
    }

    #[test]
    fn a_bar_is_as_full_as_its_part() {
        assert_eq!(
            [0.0, 0.04, 0.06, 0.5, 1.0, 7.0].map(|part| bar(part).matches('#').count()),
            [0, 0, 1, 5, 10, 10]
        );
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
