//! The tree of SIA-TASK: jobs with their owners, nodes with X, N and M, and nodes that are to give jobs up.

use evenkeel_core::ids::DEFAULT_NAMESPACE;
use serde_json::json;

use super::compat_cluster::{CompatCluster, CompatJobSummary};
use super::tree::{CompatEntry, CompatTree};

/// The source sorts jobs into groups: here they are the namespaces. This one always exists.
const GROUP: &str = DEFAULT_NAMESPACE;

pub(super) fn render(whole: &CompatCluster) -> Vec<CompatEntry> {
    let mut tree = CompatTree::whole();
    jobs(whole, &mut tree);
    tree.persistent("JobRunOnce", "");
    for job in whole.jobs.iter().filter(|job| !job.waiting.is_empty()) {
        tree.persistent(&format!("JobRunOnce/{}", job.job().name.path_part()), "");
    }
    tree.persistent("JobTransfer", "");
    for (job, from) in whole.jobs.iter().filter_map(|job| Some((job, transferred(whole, job)?))) {
        tree.persistent(&format!("JobTransfer/{}", job.job().name.path_part()), from);
    }
    tree.persistent("Offline", "");
    let mut listed: Vec<&str> = whole.drained.iter().map(|node| whole.address(node)).collect();
    listed.sort_unstable();
    for address in listed {
        tree.persistent(&format!("Offline/{address}"), "");
    }
    schedulers(whole, &mut tree);
    tree.entries
}

fn jobs(whole: &CompatCluster, tree: &mut CompatTree) {
    tree.persistent("Job", "");
    tree.persistent(&format!("Job/{GROUP}"), "");
    let mut jobs: Vec<&CompatJobSummary> = whole.jobs.iter().collect();
    // Each group in one piece.
    jobs.sort_by_key(|job| (job.job().name.namespace() != GROUP, job.job().name.namespace()));
    for job in jobs {
        let at = format!("Job/{}/{}", job.job().name.namespace(), job.job().name.local());
        let status = match job.job().enabled && !job.spec.paused {
            false => "stop",
            true if job.runs(whole.now) => "running",
            true => "ready",
        };
        tree.persistent(&at, status);
        for holder in job.holders.iter().filter(|holder| whole.lives(holder)) {
            tree.ephemeral(&format!("{at}/{}", whole.address(&holder.node)), "");
        }
    }
}

/// The owner that is to give a job up and has not yet.
fn transferred<'a>(whole: &'a CompatCluster, job: &'a CompatJobSummary) -> Option<&'a str> {
    let from = job.holders.iter().find(|holder| whole.drained.contains(&holder.node))?;
    Some(whole.address(&from.node))
}

fn schedulers(whole: &CompatCluster, tree: &mut CompatTree) {
    tree.persistent("Scheduler", "");
    let mut nodes: Vec<(&str, String)> = whole
        .nodes
        .iter()
        .map(|node| {
            let (held, quota, alarm) = (node.held, node.quota, node.info.alarm);
            let value = json!({ "MY_JOB_NUM": held, "MAX_JOB_NUM": quota, "ALARM_JOB_NUM": alarm });
            (whole.address(&node.member.node), value.to_string())
        })
        .collect();
    nodes.sort_unstable();
    for (address, value) in nodes {
        tree.ephemeral(&format!("Scheduler/{address}"), value);
    }
}
