//! The living nodes as rows.

use evenkeel::{EventFilter, Handle};
use evenkeel_core::load::Part;
use evenkeel_core::rules::claims::quota_of;
use evenkeel_core::view::{MemberState, View};
use evenkeel_core::words::Member;

use super::{points, shards};
use crate::rows::{NodeRow, moment};

/// So many nodes that joined are looked for in history.
const JOINED: u32 = 1_000;

/// The living nodes; two lives of one node are one row.
pub(crate) fn nodes(handle: &Handle) -> Vec<NodeRow> {
    handle.look(|node| {
        let view = node.view();
        let shares = shards::held(view);
        let mut rows: Vec<NodeRow> = Vec::new();
        for (member, state) in view.members() {
            // Of two lives the later one is at work; the earlier one may still hold something.
            let before = rows.pop_if(|row| row.name == member.node.as_str()).map_or(0, |row| row.held);
            let row = row(view, member, state);
            let shards = shares.get(&member.node).copied().unwrap_or(0);
            rows.push(NodeRow { held: row.held + before, shards, ..row });
        }
        rows
    })
}

/// The same with what only history knows of them.
pub(crate) async fn nodes_with_times(handle: &Handle) -> Vec<NodeRow> {
    let filter = EventFilter { kind: Some("joined".to_owned()), limit: JOINED, ..EventFilter::default() };
    // A history that cannot be read tells no times.
    let joined = handle.events(filter).await.unwrap_or_default();
    let mut rows = nodes(handle);
    for row in &mut rows {
        row.joined = joined.iter().find(|event| event.node == row.name).map(|event| moment(event.at));
    }
    rows
}

fn row(view: &View, member: &Member, state: &MemberState) -> NodeRow {
    let load = view.load(member);
    let percent = |part: Part| f64::from(part.hundredths()) / 100.0;
    let offline = view.offline_entry(&member.node).and_then(|known| known.value.as_ref());
    let offline = offline.filter(|_| view.is_offline(member));
    NodeRow {
        name: member.node.to_string(),
        held: view.count(member),
        shards: 0,
        quota: quota_of(view, member, state.info.tolerance),
        alarm: state.info.alarm,
        draining: view.intent(&member.node).is_some(),
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
    }
}
