//! Judges the health of the cluster by the view and by what its nodes measure.

use std::collections::BTreeMap;

use evenkeel::{EventRecord, Handle, NodeHealth};
use evenkeel_core::ids::{NodeName, counted};
use evenkeel_core::time::{Millis, Wall};

use super::capacity::tolerated_losses;
use super::nodes::{departures, nodes};
use crate::record_rows;
use evenkeel_client::types::{
    ClusterHealth, HealthReason, HealthVerdict, NodeHealthRow, NodeMeasures, NodeRow, moment,
};

/// Fires are claimed so long before they are due, in milliseconds: a registry that takes longer makes them late.
const LEAD_MS: f64 = 1_000.0;
/// Fires of which more than half start later than this are late in general, in milliseconds.
const LATENESS_MS: f64 = 1_000.0;
/// A history that has not written so many entries falls behind.
const ENTRIES_MAX: u64 = 10_000;
/// By how much the clocks of two nodes may differ.
const AHEAD_MS_MAX: i64 = 1_000;

/// The answers of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeReports {
    /// What nodes answered, with the moments before and after by the clock of the asking node.
    pub(crate) found: BTreeMap<NodeName, (NodeHealth, (Wall, Wall))>,
    /// Why others did not.
    pub(crate) missing: BTreeMap<NodeName, String>,
    /// The events of nodes that left, of the last day.
    pub(crate) left: Vec<EventRecord>,
}

/// The health of the cluster.
pub(crate) async fn cluster_health(handle: &Handle, reports: &NodeReports) -> ClusterHealth {
    let living = nodes(handle).await;
    let missed = missed_heartbeats(handle);
    let mut rows: Vec<NodeHealthRow> = living.iter().map(|node| row(node, &missed, reports)).collect();
    let online = rows.iter().filter(|row| row.state != "offline").count();
    rows.extend(lost(&living, &reports.left));
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let (tolerance, losses) = handle.with_node(|node| {
        let view = node.view();
        let least = view.members().map(|(_, state)| state.info.tolerance).min().unwrap_or(0);
        (least, tolerated_losses(view))
    });
    let reasons = judge(handle.name(), &rows);
    ClusterHealth {
        verdict: reasons.first().map_or(HealthVerdict::Ok, |reason| reason.verdict),
        reasons,
        node: handle.name().to_string(),
        engine: handle.facts().engine.to_owned(),
        nodes_online: online,
        nodes_expected: rows.len(),
        tolerance,
        tolerated_losses: losses,
        nodes: rows,
    }
}

fn missed_heartbeats(handle: &Handle) -> BTreeMap<String, u32> {
    handle.with_node(|node| {
        let view = node.view();
        view.members().map(|(member, _)| (member.node.to_string(), view.beats_missed(member))).collect()
    })
}

fn row(node: &NodeRow, missed: &BTreeMap<String, u32>, reports: &NodeReports) -> NodeHealthRow {
    let name: Option<NodeName> = node.name.parse().ok();
    let report = name.as_ref().and_then(|name| reports.found.get(name));
    NodeHealthRow {
        name: node.name.clone(),
        state: node.state.clone(),
        unreachable: name.as_ref().and_then(|name| reports.missing.get(name)).cloned(),
        lost_since: None,
        version: node.version.clone(),
        missed_heartbeats: missed.get(&node.name).copied().unwrap_or(0),
        measured: report
            .map(|(health, times)| record_rows::node_measures(health, ahead(health.at, *times).0)),
    }
}

/// By how much a clock that was read between two moments of another one is ahead of it at least.
fn ahead(read: Wall, (before, after): (Wall, Wall)) -> Millis {
    match read {
        read if read > after => read - after,
        read if read < before => read - before,
        _ => Millis::ZERO,
    }
}

/// The nodes that left while they owned jobs and are not back.
fn lost(living: &[NodeRow], left: &[EventRecord]) -> Vec<NodeHealthRow> {
    let gone = departures(left)
        .into_iter()
        .filter(|(name, (_, text))| held(text) > 0 && living.iter().all(|node| node.name != name.as_str()));
    let row = |(name, (since, _)): (NodeName, (Wall, &str))| NodeHealthRow {
        name: name.to_string(),
        state: "lost".to_owned(),
        lost_since: Some(moment(since)),
        ..NodeHealthRow::default()
    };
    gone.map(row).collect()
}

/// How many jobs a node owned when it left, by the text of the event.
fn held(text: &str) -> usize {
    let number = text.split_once("it held ").and_then(|(_, held)| held.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Why the cluster is not well, the worst first. `own` is the node that answers.
fn judge(own: &NodeName, rows: &[NodeHealthRow]) -> Vec<HealthReason> {
    let mut reasons: Vec<HealthReason> = rows.iter().flat_map(|row| of_node(own, row)).collect();
    let works = |row: &&NodeHealthRow| row.state == "online";
    if !rows.iter().any(|row| works(&row)) {
        reasons.push(of_cluster("no node takes jobs: start one, undrain one or uncordon one"));
    }
    let writes = |row: &NodeHealthRow| row.measured.as_ref().is_some_and(|it| it.history.is_none());
    if rows.iter().any(|row| row.measured.is_some()) && !rows.iter().any(writes) {
        reasons
            .push(of_cluster("no node that answers can write its history, so none of them starts anything"));
    }
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
    reasons
}

fn of_cluster(text: &str) -> HealthReason {
    HealthReason { verdict: HealthVerdict::Failing, node: None, text: text.to_owned() }
}

/// Why a node is not well.
fn of_node(own: &NodeName, row: &NodeHealthRow) -> Vec<HealthReason> {
    let name = &row.name;
    let mut found: Vec<(HealthVerdict, String)> = Vec::new();
    let mut degraded = |text: String| found.push((HealthVerdict::Degraded, text));
    if let Some(since) = &row.lost_since {
        degraded(format!(
            "node {name} left at {since} while it owned jobs, and is not back: start it again; a day later it is not expected any more"
        ));
    }
    if row.state == "offline" {
        degraded(format!("node {name} is offline: the other nodes do not reach it; look at its network"));
    } else if row.missed_heartbeats > 0 {
        let beats = counted(row.missed_heartbeats as usize, "beat");
        degraded(format!(
            "node {name} was not reached in {beats} by some node: look at the network between them"
        ));
    }
    if let Some(why) = &row.unreachable {
        degraded(format!("node {name} does not answer node {own}: {why}"));
    }
    if let Some(measured) = &row.measured {
        of_measures(name, measured).into_iter().for_each(&mut degraded);
        if !measured.lease.trusted {
            let age = measured.lease.age_ms.map_or_else(String::new, |age| {
                format!(": the registry confirmed its lease {} ago", Millis(age))
            });
            // A node without a lease does not know of the others' health.
            let verdict = if name == own.as_str() { HealthVerdict::Failing } else { HealthVerdict::Degraded };
            let text = format!(
                "node {name} is no member that may act{age}; look at the registry, and at the node's log"
            );
            found.push((verdict, text));
        }
    }
    let reason = |(verdict, text)| HealthReason { verdict, node: Some(name.clone()), text };
    found.into_iter().map(reason).collect()
}

/// What a node measures that is not as it should be.
fn of_measures(name: &str, measured: &NodeMeasures) -> Vec<String> {
    let mut found = Vec::new();
    let (lease, clock) = (&measured.lease, &measured.clock);
    // A renewal is due after a third of the term.
    if lease.trusted && lease.age_ms.is_some_and(|age| age > lease.term_ms / 2) {
        let (age, term) = (Millis(lease.age_ms.unwrap_or(0)), Millis(lease.term_ms));
        found.push(format!(
            "node {name} renewed its lease {age} ago, of a term of {term}: look at the registry and the way to it"
        ));
    }
    if let Some(by) = clock.registry_offset_ms.filter(|by| *by > clock.offset_max_ms) {
        found.push(format!(
            "the clock of node {name} differs from the registry's by {}, so it claims no fires: let NTP set both",
            Millis(by)
        ));
    }
    if clock.ahead_ms.abs() > AHEAD_MS_MAX {
        let by = Millis(clock.ahead_ms.abs());
        let side = if clock.ahead_ms > 0 { "ahead of" } else { "behind" };
        found.push(format!(
            "the clock of node {name} is {by} {side} that of the node that answers: let NTP set both"
        ));
    }
    if let Some(why) = &measured.history {
        found.push(format!("node {name} starts nothing and refuses changes: {why}"));
    } else if measured.history_waiting > ENTRIES_MAX {
        let entries = measured.history_waiting;
        found.push(format!("the history of node {name} has {entries} entries to write: look at its disk"));
    }
    if let Some(commits) = measured.commits.as_ref().filter(|commits| commits.p99_ms > LEAD_MS) {
        found.push(format!(
            "the registry takes {:.0} ms to answer node {name} (p99), longer than fires are claimed ahead: relieve it, or \
             bring it nearer",
            commits.p99_ms
        ));
    }
    if let Some(late) = measured.lateness.as_ref().filter(|late| late.p50_ms > LATENESS_MS) {
        found.push(format!(
            "half of the latest fires of node {name} started {:.0} ms late or later: give it more slots, or start more nodes",
            late.p50_ms
        ));
    }
    found
}

#[cfg(test)]
mod tests;
