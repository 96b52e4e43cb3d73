//! The rows of online and departed nodes.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::{EventFilter, EventRecord, Handle, NodeLoads};
use evenkeel_core::ids::{Member, NodeName};
use evenkeel_core::labels::Labels;
use evenkeel_core::load::Utilization;
use evenkeel_core::placement::claims::quota_of;
use evenkeel_core::time::Wall;
use evenkeel_core::view::{MemberState, View};

use super::lookup::{HistoryFaults, points};
use super::shards;
use evenkeel_client::types::{NodeRow, moment};

/// The maximum number of join events to read.
const JOINED: u32 = 1_000;

/// The online nodes; two incarnations of one node are one row.
pub(crate) async fn nodes(handle: &Handle) -> Vec<NodeRow> {
    let loads = handle.published_loads().await;
    handle.with_node(|node| {
        let view = node.view();
        let shares = shards::held(view);
        let mut rows: Vec<NodeRow> = Vec::new();
        for (member, state) in view.members() {
            // Of two incarnations the later one works; the earlier one may still own something.
            let before = rows.pop_if(|row| row.name == member.node.as_str()).map_or(0, |row| row.held);
            let row = row(view, &loads, (member, state));
            let shards = shares.get(&member.node).copied().unwrap_or(0);
            rows.push(NodeRow { held: row.held + before, shards, ..row });
        }
        rows
    })
}

/// The names of the online nodes.
pub(crate) fn living_names(handle: &Handle) -> BTreeSet<NodeName> {
    handle.with_node(|node| node.view().members().map(|(member, _)| member.node.clone()).collect())
}

/// The online nodes with times from history, and with the faults of histories that take no entries.
pub(crate) async fn nodes_with_times(handle: &Handle, troubles: &HistoryFaults) -> Vec<NodeRow> {
    let filter = EventFilter { kind: Some("joined".to_owned()), limit: JOINED, ..EventFilter::default() };
    // If the history cannot be read, the times are missing.
    let joined = handle.events(filter).await.unwrap_or_default();
    let mut rows = nodes(handle).await;
    for row in &mut rows {
        row.joined = joined.iter().find(|event| event.node == row.name).map(|event| moment(event.at));
        row.history =
            troubles.iter().find(|(name, _)| *name.as_str() == row.name).map(|(_, why)| why.clone());
    }
    rows
}

fn row(view: &View, loads: &NodeLoads, (member, state): (&Member, &MemberState)) -> NodeRow {
    let load = loads.get(member);
    let percent = |part: Utilization| f64::from(part.hundredths()) / 100.0;
    let offline = view.offline_entry(&member.node).and_then(|known| known.value.as_ref());
    let offline = offline.filter(|_| view.is_offline(member));
    let (draining, drained) = (view.intent(&member.node).is_some(), view.may_be_stopped(member));
    let mut row = NodeRow {
        name: member.node.to_string(),
        state: String::new(),
        version: state.info.version.clone(),
        held: view.count(member),
        shards: 0,
        quota: quota_of(view, member, state.info.tolerance),
        alarm: state.info.alarm,
        draining,
        drained,
        cordoned: view.is_cordoned(&member.node),
        score: load.map(points),
        labels: state.info.labels.clone(),
        address: state.info.address.clone(),
        offline: offline.is_some(),
        cpu: load.and_then(|load| load.sample.cpu).map(percent),
        memory: load.and_then(|load| load.sample.memory).map(percent),
        busy: load.map(|load| load.busy),
        slots: state.info.slots,
        joined: None,
        offline_since: offline.map(|record| moment(record.since)),
        measured: load.map(|load| moment(load.at)),
        gone_since: None,
        left: None,
        history: None,
    };
    row.state = state_of(&row).to_owned();
    row
}

/// The most important state of a node, in a word.
fn state_of(row: &NodeRow) -> &'static str {
    match row {
        NodeRow { offline: true, .. } => "offline",
        NodeRow { drained: true, .. } => "drained",
        NodeRow { draining: true, .. } => "draining",
        NodeRow { cordoned: true, .. } => "cordoned",
        _ => "online",
    }
}

/// The departed nodes, by the events of the remaining ones, the latest first; without nodes that are back.
pub(crate) fn gone(handle: &Handle, told: &[EventRecord]) -> Vec<NodeRow> {
    let since = departures(told);
    handle.with_node(|node| {
        let view = node.view();
        let lives = |name: &NodeName| view.members().any(|(member, _)| member.node == *name);
        let gone = since.into_iter().filter(|(name, _)| !lives(name));
        gone.map(|(name, (at, text))| gone_row(&name, at, text, view.left_behind(&name))).collect()
    })
}

/// The latest departure of each node, and its event's text, by the events of the remaining nodes.
pub(super) fn departures(told: &[EventRecord]) -> BTreeMap<NodeName, (Wall, &str)> {
    let mut lives: BTreeMap<Member, (Wall, &str)> = BTreeMap::new();
    for event in told {
        let Ok(node) = event.node.parse::<NodeName>() else { continue };
        // Each incarnation ends once. A node of an earlier version does not name the incarnation.
        let life = event.text.split(' ').next().and_then(|word| word.parse::<Member>().ok());
        let known_life = life.is_some();
        let life = life.unwrap_or(Member { node, incarnation: 0 });
        let (at, text) = (event.at, event.text.as_str());
        let known = lives.entry(life).or_insert((at, text));
        // Each node reports a departure when it notices it; the first report is the most accurate.
        if (at < known.0) == known_life {
            *known = (at, text);
        }
    }
    let mut last: BTreeMap<NodeName, (Wall, &str)> = BTreeMap::new();
    for (life, (at, text)) in lives {
        let known = last.entry(life.node).or_insert((at, text));
        if known.0 < at {
            *known = (at, text);
        }
    }
    last
}

fn gone_row(name: &NodeName, since: Wall, text: &str, waiting: usize) -> NodeRow {
    // The text of its event, without its name.
    let held = text.split_once("; ").map_or(text, |(_, held)| held);
    let now = match waiting {
        0 => "none of them waits for another node".to_owned(),
        n => format!("{n} of its jobs wait for another node"),
    };
    NodeRow {
        name: name.to_string(),
        state: "gone".to_owned(),
        version: String::new(),
        held: waiting,
        shards: 0,
        quota: 0,
        alarm: 0,
        draining: false,
        drained: false,
        cordoned: false,
        offline: false,
        score: None,
        labels: Labels::default(),
        address: String::new(),
        cpu: None,
        memory: None,
        busy: None,
        slots: 0,
        joined: None,
        offline_since: None,
        measured: None,
        gone_since: Some(moment(since)),
        left: Some(format!("{held}; {now}")),
        history: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: i64, text: &str) -> EventRecord {
        let (node, kind) = ("n3".to_owned(), "node.left".to_owned());
        EventRecord { seq: 0, at: Wall(at), node, kind, job: None, text: text.to_owned() }
    }

    #[test]
    fn of_a_node_that_left_more_than_once_the_last_departure_stands_as_the_first_saw_it() {
        let (first, last) = ("n3@7 left; it held 9 jobs", "n3@8 left; it held 2 jobs");
        // Two nodes report each departure, within two minutes, the latest first.
        let told = [event(64, "n3@8 left; it held 1 job"), event(63, last), event(2, first), event(1, first)];
        let name: NodeName = "n3".parse().expect("a name");
        assert_eq!(departures(&told).get(&name), Some(&(Wall(63), last)));
        // Nodes of an earlier version do not name the incarnation that left.
        let told = [event(64, "n3 left; it held 2 jobs"), event(2, "n3 left; it held 9 jobs")];
        assert_eq!(departures(&told).get(&name), Some(&(Wall(64), "n3 left; it held 2 jobs")));
    }

    #[test]
    fn a_node_that_is_gone_says_what_became_of_its_jobs() {
        let name: NodeName = "n3".parse().expect("a name");
        let life: Member = "n3@7".parse().expect("a member");
        let event = evenkeel_core::effect::Event::NodeLeft(life, 3).to_string();
        let row = gone_row(&name, Wall(0), &event, 0);
        assert_eq!(row.left.as_deref(), Some("it held 3 jobs; none of them waits for another node"));
        let row = gone_row(&name, Wall(0), &event, 2);
        assert_eq!(row.left.as_deref(), Some("it held 3 jobs; 2 of its jobs wait for another node"));
        assert_eq!(
            (row.state.as_str(), row.gone_since.as_deref()),
            ("gone", Some("1970-01-01T00:00:00.000Z"))
        );
    }
}
