//! Which switches of a job operators set at run time, so that it is not as its file says.

use evenkeel::Handle;
use evenkeel_core::job::{Spec, SwitchOrigin};
use evenkeel_core::view::{JobView, View};
use evenkeel_core::words::JobName;

use crate::rows::{SwitchRow, moment};

/// All of them; none where there is no such job.
pub(crate) fn switches(handle: &Handle, name: &JobName) -> Vec<SwitchRow> {
    handle.look(|node| {
        let view = node.view();
        let job = view.find(name);
        job.and_then(|job| Some(of(view, &job, &job.spec()?))).unwrap_or_default()
    })
}

/// All of them, of this spec of the job.
pub(super) fn of(view: &View, job: &JobView<'_>, spec: &Spec) -> Vec<SwitchRow> {
    let name = &spec.job.name;
    let row = |switch: &str, origin: Option<&SwitchOrigin>, ends: String| SwitchRow {
        switch: switch.to_owned(),
        node: None,
        shards: None,
        since: origin.map(|origin| moment(origin.at)),
        by: origin.map(|origin| origin.by.clone()).filter(|by| !by.is_empty()),
        ends,
    };
    let mut rows = Vec::new();
    if let Some(switch) = &spec.operator.enabled {
        let (word, back) = if spec.job.enabled { ("enabled", "disable") } else { ("disabled", "enable") };
        rows.push(row(word, Some(&switch.origin), format!("evenkeel job {back} {name}")));
    }
    if spec.paused {
        rows.push(row("paused", spec.operator.paused.as_ref(), format!("evenkeel job resume {name}")));
    }
    if !spec.off.is_empty() {
        let ends = format!("evenkeel shard enable {name} {}", spec.off);
        let origin = spec.operator.off.as_ref();
        rows.push(SwitchRow { shards: Some(spec.off.to_string()), ..row("shards_disabled", origin, ends) });
    }
    for (node, switches) in job.switched() {
        let lives = |life: u64| view.members().any(|(m, _)| m.node == *node && m.incarnation == life);
        let set = [
            ("disabled", switches.disabled, format!("evenkeel job enable {name} --node {node}")),
            ("paused", switches.paused, format!("evenkeel job resume {name} --node {node}")),
            ("shutdown", switches.shutdown.is_some_and(lives), "the node is started again".to_owned()),
        ];
        let on_node = set.into_iter().filter(|(_, is_set, _)| *is_set).map(|(word, _, ends)| SwitchRow {
            node: Some(node.to_string()),
            ..row(word, switches.origin.as_ref(), ends)
        });
        rows.extend(on_node);
    }
    rows
}
