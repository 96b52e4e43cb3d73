//! The switches of a job that operators set at run time, by which it differs from its file.

use std::collections::BTreeMap;

use evenkeel::Handle;
use evenkeel_core::ids::JobName;
use evenkeel_core::input::Declaration;
use evenkeel_core::job::{JobFile, Spec, SwitchOrigin};
use evenkeel_core::view::{JobView, View};

use evenkeel_client::types::{SwitchRow, moment};

/// The switches that these declarations end, by job: each declaration changes `enabled`.
pub(crate) fn ended(handle: &Handle, declared: &[Declaration]) -> BTreeMap<JobName, SwitchRow> {
    let ends = |view: &View, job: &JobFile| {
        let spec = view.find(job.name.name()).filter(JobView::is_switched)?.spec()?;
        let is_ended = job.enabled != spec.is_declared_enabled();
        Some((job.name.name().clone(), enabled(&spec).filter(|_| is_ended)?))
    };
    let files = declared.iter().filter_map(|declaration| match declaration {
        Declaration::File(file) => Some(&**file),
        // It says what was declared before.
        Declaration::Same(_) => None,
    });
    handle.with_node(|node| files.filter_map(|job| ends(node.view(), job)).collect())
}

/// The switch of an operator who enabled or disabled a job against its file.
fn enabled(spec: &Spec) -> Option<SwitchRow> {
    let switch = spec.operator.enabled.as_ref()?;
    let (word, back) = if spec.job.enabled { ("enabled", "disable") } else { ("disabled", "enable") };
    Some(row(word, Some(&switch.origin), format!("evenkeel job {back} {}", spec.job.name)))
}

fn row(switch: &str, origin: Option<&SwitchOrigin>, ends: String) -> SwitchRow {
    SwitchRow {
        switch: switch.to_owned(),
        node: None,
        shards: None,
        since: origin.map(|origin| moment(origin.at)),
        by: origin.map(|origin| origin.by.clone()).filter(|by| !by.is_empty()),
        ends,
    }
}

/// All switches of this spec of the job.
pub(super) fn of(view: &View, job: &JobView<'_>, spec: &Spec) -> Vec<SwitchRow> {
    let name = &spec.job.name;
    let mut rows: Vec<SwitchRow> = enabled(spec).into_iter().collect();
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
