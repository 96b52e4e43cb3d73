//! The verdict on the cluster, by what nodes measure.

use super::*;
use evenkeel_client::types::{LeaseHealth, TimeSummary};

fn name(name: &str) -> NodeName {
    name.parse().expect("a name")
}

fn well() -> NodeMeasures {
    let lease = LeaseHealth {
        trusted: true,
        age_ms: Some(3_000),
        term_ms: 15_000,
        trusted_ms: Some(9_000),
        failures: 0,
    };
    let mut measured = NodeMeasures { lease, ..NodeMeasures::default() };
    measured.clock.offset_max_ms = 1_000;
    measured
}

fn node(of: &str, measured: Option<NodeMeasures>) -> NodeHealthRow {
    NodeHealthRow { name: of.to_owned(), state: "online".to_owned(), measured, ..NodeHealthRow::default() }
}

fn said(rows: &[NodeHealthRow]) -> Vec<(HealthVerdict, Option<String>, String)> {
    judge(&name("a"), rows).into_iter().map(|reason| (reason.verdict, reason.node, reason.text)).collect()
}

/// The reasons where node `b` measures this.
fn of_change(change: impl FnOnce(&mut NodeMeasures)) -> Vec<(HealthVerdict, Option<String>, String)> {
    let mut measured = well();
    change(&mut measured);
    said(&[node("a", Some(well())), node("b", Some(measured))])
}

#[track_caller]
fn degraded(found: &[(HealthVerdict, Option<String>, String)], text: &str) {
    let [(verdict, of, said)] = found else { panic!("one reason: {found:?}") };
    assert_eq!((*verdict, of.as_deref()), (HealthVerdict::Degraded, Some("b")));
    assert!(said.contains(text), "{said}");
}

#[test]
fn healthy_nodes_give_no_reason() {
    assert_eq!(of_change(|_| {}), []);
    let busy = of_change(|measured| {
        (measured.slots, measured.slots_busy, measured.slots_waiting) = (4, 4, 9);
        measured.lease.failures = 3;
        measured.commits = Some(TimeSummary { samples: 9, p50_ms: 2.0, p99_ms: 900.0, max_ms: 5_000.0 });
        measured.lateness = Some(TimeSummary { samples: 9, p50_ms: 9.0, p99_ms: 60_000.0, max_ms: 99_000.0 });
        (measured.clock.registry_offset_ms, measured.clock.ahead_ms) = (Some(1_000), -1_000);
    });
    assert_eq!(busy, [], "a queue, a slow answer or a fire that was caught up is no fault");
}

#[test]
fn what_a_node_measures_degrades_the_cluster() {
    degraded(&of_change(|it| it.lease.age_ms = Some(7_501)), "renewed its lease 7501ms ago");
    degraded(
        &of_change(|it| it.clock.registry_offset_ms = Some(1_001)),
        "differs from the registry's by 1001ms",
    );
    degraded(&of_change(|it| it.clock.ahead_ms = -1_001), "is 1001ms behind that of the node that answers");
    degraded(&of_change(|it| it.history = Some("the disk is full".to_owned())), "the disk is full");
    degraded(&of_change(|it| it.history_waiting = 10_001), "10001 entries");
    degraded(
        &of_change(|it| it.commits = Some(TimeSummary { p99_ms: 1_001.0, ..TimeSummary::default() })),
        "the registry takes 1001 ms",
    );
    degraded(
        &of_change(|it| it.lateness = Some(TimeSummary { p50_ms: 1_001.0, ..TimeSummary::default() })),
        "started 1001 ms late",
    );
    degraded(&of_change(|it| it.lease.trusted = false), "no member that may act");
}

#[test]
fn a_node_that_is_away_degrades_the_cluster() {
    let with = |row: NodeHealthRow| said(&[node("a", Some(well())), row]);
    let unreachable =
        NodeHealthRow { unreachable: Some("no answer within 2s".to_owned()), ..node("b", None) };
    degraded(&with(unreachable), "does not answer node a: no answer within 2s");
    let offline =
        NodeHealthRow { state: "offline".to_owned(), missed_heartbeats: 5, ..node("b", Some(well())) };
    degraded(&with(offline), "is offline");
    let missed = NodeHealthRow { missed_heartbeats: 1, ..node("b", Some(well())) };
    degraded(&with(missed), "was not reached in 1 beat by some node");
    let lost = NodeHealthRow {
        state: "lost".to_owned(),
        lost_since: Some("2026-01-01T00:00:00.000Z".to_owned()),
        ..node("b", None)
    };
    degraded(&with(lost), "left at 2026-01-01T00:00:00.000Z while it owned jobs");
}

#[test]
fn the_cluster_fails_where_nothing_runs() {
    let mut mine = well();
    mine.lease.trusted = false;
    let found = said(&[node("a", Some(mine)), node("b", Some(well()))]);
    assert_eq!(
        found[0].0,
        HealthVerdict::Failing,
        "the node that answers does not know of the others: {found:?}"
    );
    let drained = NodeHealthRow { state: "drained".to_owned(), ..node("a", Some(well())) };
    let found = said(&[drained]);
    assert_eq!((found[0].0, &found[0].1), (HealthVerdict::Failing, &None));
    let mut full = well();
    full.history = Some("the disk is full".to_owned());
    let found = said(&[node("a", Some(full.clone())), node("b", None)]);
    assert_eq!(
        found.iter().map(|it| it.0).collect::<Vec<_>>(),
        [HealthVerdict::Failing, HealthVerdict::Degraded]
    );
}

#[test]
fn a_node_is_lost_that_left_with_jobs_and_is_not_back() {
    let event = |of: &str, held: usize| {
        let member = format!("{of}@7").parse().expect("a member");
        let text = evenkeel_core::effect::Event::NodeLeft(member, held).to_string();
        EventRecord {
            seq: 0,
            at: Wall(1),
            node: of.to_owned(),
            kind: "node.left".to_owned(),
            job: None,
            text,
        }
    };
    let left = [event("gone", 1), event("clean", 0), event("back", 3)];
    let back = NodeRow { name: "back".to_owned(), ..blank_row() };
    let names: Vec<String> = lost(&[back], &left).into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["gone"]);
}

fn blank_row() -> NodeRow {
    serde_json::from_value(serde_json::json!({
        "name": "", "held": 0, "shards": 0, "quota": 0, "alarm": 0, "draining": false, "score": null, "address": "",
        "cpu": null, "memory": null, "busy": null, "slots": 1, "joined": null, "offline_since": null
    }))
    .expect("a row")
}

#[test]
fn a_clock_is_ahead_by_what_the_way_of_the_answer_does_not_explain() {
    let of = |read| ahead(Wall(read), (Wall(100), Wall(120))).0;
    assert_eq!([of(90), of(100), of(110), of(120), of(125)], [-10, 0, 0, 0, 5]);
}
