//! Remarks beside the answer to a switch: what it does not do, although its name suggests it.

use evenkeel::Handle;
use evenkeel_core::ids::{JobName, NodeName};
use evenkeel_core::view::{JobView, View};

use super::job_snapshot::{JobSnapshot, job_snapshot, next};
use super::lookup::planner;
use super::names::no_living;
use crate::zones;

/// The effect that a verb suggests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobPromise {
    /// The job fires by schedule.
    Fires,
    /// The job runs when requested.
    Runs,
    /// The job does not run.
    Rests,
}

/// Why a job, or its part on one node, does not do what a successful verb suggests.
pub(crate) fn remarks(handle: &Handle, name: &JobName, node: Option<&NodeName>, verb: &str) -> Vec<String> {
    let promise = match verb {
        "resume" | "enable" => JobPromise::Fires,
        "pause" => JobPromise::Runs,
        _ => JobPromise::Rests,
    };
    let mut remarks = Vec::new();
    let seen = handle.with_node(|own| {
        let job = own.view().find(name)?;
        if let Some(node) = node {
            remarks.extend(on_node(own.view(), &job, node, promise));
        }
        job_snapshot(own.view(), planner(own), job)
    });
    let Some(seen) = seen.filter(|_| promise != JobPromise::Rests) else { return remarks };
    let spec = &seen.spec;
    if !spec.job.enabled {
        remarks.push(format!("job {name} is disabled: enable it with `evenkeel job enable {name}`"));
    }
    if promise == JobPromise::Fires {
        if spec.paused {
            remarks.push(format!("job {name} is paused: resume it with `evenkeel job resume {name}`"));
        }
        if spec.job.schedule.is_none() {
            remarks.push(format!("job {name} has no schedule: it has only manual runs"));
        } else if let Some(missing) = seen.missing.first() {
            remarks.push(format!(
                "job {name} never fires: there is no calendar {missing}, declare it with `evenkeel calendar apply`"
            ));
        } else if never_due(&seen) {
            remarks.push(format!("the schedule of job {name} has no further fire"));
        }
    }
    remarks.extend(super::warnings::is_unschedulable(handle, name));
    remarks
}

/// Whether its schedule has no further fire.
fn never_due(seen: &JobSnapshot) -> bool {
    let spec = &seen.spec;
    let follows = spec.job.schedule_with_calendars(seen.calendars.as_ref()).is_none_or(|s| s.follows_runs());
    spec.job.enabled && !spec.paused && !follows && next(seen, zones::now()).is_none()
}

fn on_node(view: &View, job: &JobView<'_>, node: &NodeName, promise: JobPromise) -> Vec<String> {
    let name = job.name();
    let life = view.members().map(|(member, _)| member).filter(|member| member.node == *node).last();
    let Some(life) = life else {
        let names = view.members().map(|(member, _)| member.node.as_str());
        return vec![format!("{}; this holds for when it comes", no_living(node.as_str(), names))];
    };
    let switches = job.switches(node);
    let mut remarks = Vec::new();
    if promise == JobPromise::Rests {
        return remarks;
    }
    if switches.shutdown == Some(life.incarnation) {
        remarks.push(format!(
            "node {node} was shut down for job {name}: it takes part again when it is started again"
        ));
    }
    if switches.disabled {
        let fix = format!("`evenkeel job enable {name} --node {node}`");
        remarks.push(format!("node {node} is disabled for job {name}: enable it with {fix}"));
    }
    if switches.paused && promise == JobPromise::Fires {
        let fix = format!("`evenkeel job resume {name} --node {node}`");
        remarks.push(format!("node {node} is paused for job {name}: resume it with {fix}"));
    }
    if view.intent(node).is_some() {
        remarks
            .push(format!("node {node} drains: let it take part again with `evenkeel node undrain {node}`"));
    }
    if view.is_cordoned(node) && !job.has_part(life) {
        remarks.push(format!(
            "node {node} is cordoned and gets no shards: end that with `evenkeel node uncordon {node}`"
        ));
    }
    let placed = job.spec().is_some_and(|spec| spec.job.placement.is_sharded());
    if placed && remarks.is_empty() && job.available().iter().all(|member| member.node != *node) {
        remarks.push(format!(
            "node {node} takes no part in job {name}: `evenkeel shard list {name}` shows who does"
        ));
    }
    remarks
}
